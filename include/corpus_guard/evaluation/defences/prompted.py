"""A chat model under the system prompt of benign text enhancement.

The small language model that comes with the package is no use here: at its size it does not follow the prompt. For such models the
application applies the rules itself (`corpus_guard.corpus.retriever.settled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from corpus_guard.corpus import trigger

if TYPE_CHECKING:
    from corpus_guard.models.chat import ChatEndpoint


class PromptedChat:
    """A model behind a chat endpoint, told `trigger.system_prompt`."""

    name = "chat, prompted"

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self._endpoint = endpoint

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """The answer, at most 2,000 characters; raises JudgeFailed where the endpoint does not answer."""
        from corpus_guard.models.chat import Turn
        from corpus_guard.traceback.asking import LONGEST_ANSWER, rag_prompt

        asked = rag_prompt(question, texts)
        return self._endpoint.ask([Turn("system", trigger.system_prompt()), *asked[1:]]).text[:LONGEST_ANSWER]
