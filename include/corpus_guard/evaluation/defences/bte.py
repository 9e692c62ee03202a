"""Benign text enhancement (BTE), with poisoned texts removal or without.

The enhancement's vector is the question's own, so it is retrieved first and takes the place of the last of the K
(`corpus_guard.traceback.enhancement`). A model that follows `trigger.system_prompt` is told what that means (`prompted`).
For one that does not, the application does what the prompt asks for where one passage is wrapped: it hands on that one alone, as
`corpus_guard.corpus.retriever.settled` does.
"""

from __future__ import annotations

from corpus_guard.corpus import trigger
from corpus_guard.evaluation.defences.defence import Played, texts_of
from corpus_guard.traceback.asking import Answers
from corpus_guard.traceback.enhancement import benign_text


class BenignText:
    """BTE; with `remove` PTR and BTE."""

    def __init__(self, prompted: Answers | None = None, *, remove: bool = False) -> None:
        """Defend.

        Args:
            prompted: the RAG model under the system prompt; None: the one that is played with follows none.
            remove: what was traced is taken out as well.
        """
        self._prompted = prompted
        self._remove = remove

    def __call__(self, played: Played, answers: Answers) -> str:
        """From the enhancement and what is retrieved after it."""
        own = trigger.wrap(benign_text(played.question, played.correct[0]))
        if self._prompted is None:
            return answers.answer(played.question, [own])
        without = played.traced if self._remove else frozenset()
        others = [trigger.defuse(text)[0] for text in texts_of(played.retrieve(played.k - 1, without))]
        return self._prompted.answer(played.question, [own, *others])
