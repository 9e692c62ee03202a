"""A chat model under the system prompt of benign text enhancement.

The small language model that comes with the package is no use here: at its size it does not follow the prompt. For such models the
application applies the rules itself (`corpus_guard.corpus.retriever.settled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from corpus_guard.corpus import trigger
from corpus_guard.domain import digest

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
        from corpus_guard.traceback.asking import LONGEST_ANSWER

        # Not `_quoting.quoted`: it takes the brackets away that the prompt is about. No text can hold the code of its own lines.
        code = digest("passages/v1", [question, *texts])[:16]
        passages = [f"=== {code} passage {number} ===\n{text}" for number, text in enumerate(texts, 1)]
        asked = "\n".join([*passages, f"=== {code} question ===", question])
        return self._endpoint.ask([Turn("system", trigger.system_prompt()), Turn("user", asked)]).text[:LONGEST_ANSWER]
