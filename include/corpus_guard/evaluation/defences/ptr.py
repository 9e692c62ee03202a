"""Poisoned texts removal (PTR): what a traceback accused is taken out, and others move up."""

from __future__ import annotations

from corpus_guard.evaluation.defences.defence import Played, texts_of
from corpus_guard.traceback.asking import Answers


class Removal:
    """PTR."""

    def __call__(self, played: Played, answers: Answers) -> str:
        """From the K nearest of what is left."""
        return answers.answer(played.question, texts_of(played.retrieve(played.k, played.traced)))
