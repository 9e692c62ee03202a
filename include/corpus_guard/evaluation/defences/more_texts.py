"""Knowledge expansion (KE): more texts are retrieved, so that honest ones outnumber the planted.

Source: "PoisonedRAG" (Zou and others, USENIX Security 2025), as the traceback paper compares with it (appendix 8.4).
"""

from __future__ import annotations

from corpus_guard.evaluation.defences.defence import Played, texts_of
from corpus_guard.traceback.asking import Answers


class MoreTexts:
    """KE-x."""

    def __init__(self, count: int) -> None:
        """Retrieve `count` texts."""
        self._count = count

    def __call__(self, played: Played, answers: Answers) -> str:
        """From all of them."""
        return answers.answer(played.question, texts_of(played.retrieve(self._count)))
