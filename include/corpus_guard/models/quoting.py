"""Hostile text inside prompts, quoted between two lines that it cannot forge.

The lines carry a code from a hash of everything that is quoted. No quoted part can contain it, and the same
material makes the same prompt, by which answers are cached.

What it does not do: make a model obey. A model may still follow what it was told is data; readers of its
answer must expect that.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.domain import digest

MAX_QUOTED_LENGTH = 12_000  # characters shown of one text; a chunk has at most about 8,000
_HEAD_LENGTH = 8_000  # of those, from the beginning
_BRACKETS = str.maketrans("[]", "()")  # labels are read in square brackets: no quoted text may contain any


def quote_texts(parts: Sequence[tuple[str, str]]) -> str:
    """Return named texts, each between its lines.

    Args:
        parts: pairs of a name, in our words, and a text.
    """
    code = digest("quoted/v1", [text for _, text in parts])[:16]
    return "\n\n".join(f"=== {code} {name} ===\n{neutralise_text(text)}\n=== {code} end ===" for name, text in parts)


def neutralise_text(text: str) -> str:
    """Return a text as a model is shown it: without square brackets, a long text without its middle.

    Both ends are kept, because misleading words may stand at either.
    """
    if len(text) > MAX_QUOTED_LENGTH:
        omitted = len(text) - MAX_QUOTED_LENGTH
        text = f"{text[:_HEAD_LENGTH]}\n({omitted} characters left out)\n{text[_HEAD_LENGTH - MAX_QUOTED_LENGTH :]}"
    return text.translate(_BRACKETS)


def strip_reasoning(reply: str) -> str:
    """Return a model's reply without its ``<think>`` part; empty if the model did not finish thinking."""
    reasoning, closed, rest = reply.rpartition("</think>")
    if closed:
        return rest.strip()
    return "" if "<think>" in reasoning or "<think>" in rest else rest.strip()
