"""No defence: the K nearest texts as they are."""

from __future__ import annotations

from corpus_guard.evaluation.defences.defence import Played, texts_of
from corpus_guard.traceback.asking import Answers


class NoDefence:
    """What is defended against."""

    def __call__(self, played: Played, answers: Answers) -> str:
        """From whatever is retrieved."""
        return answers.answer(played.question, texts_of(played.retrieve(played.k)))
