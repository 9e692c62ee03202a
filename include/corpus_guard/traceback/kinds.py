"""Names that commands and traces share; nothing here needs a library."""

from __future__ import annotations

from enum import StrEnum


class JudgePrompt(StrEnum):
    """Question that the judge behind an endpoint asks."""

    OWN = "own"  # the text is quoted between lines that it cannot forge
    PAPER = "paper"  # RAGForensics', in our words and without that protection: for comparison only
