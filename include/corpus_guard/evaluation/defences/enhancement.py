"""Benign text enhancement (BTE), with or without the removal of poisoned texts.

The enhancement's vector is the question's own, so it is retrieved first and takes the place of the last of
the K texts (`corpus_guard.traceback.enhancement`). A model that follows `trigger.system_prompt` is told what
that means (`PromptedChat`). The small language model that comes with the package does not follow the prompt.
For such models the application applies the prompt's rule itself: where a passage is wrapped, it passes on that
passage alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.corpus import trigger
from corpus_guard.domain import digest
from corpus_guard.evaluation.defences.interface import AttackedQuestion, texts_of
from corpus_guard.models.chat import ChatEndpoint
from corpus_guard.models.messages import Message
from corpus_guard.traceback.enhancement import compose_benign_text
from corpus_guard.traceback.rag_model import MAX_ANSWER_LENGTH, RagModel


def enhance(prompted: RagModel | None, attacked: AttackedQuestion, rag_model: RagModel, *, remove: bool = False) -> str:
    """Answer from the enhancement and the texts retrieved after it (BTE), of which `remove` takes the traced ones (PTR and BTE).

    Args:
        prompted: the RAG model under the system prompt; None: the RAG model does not follow prompts.
    """
    benign = trigger.wrap(compose_benign_text(attacked.question, attacked.correct[0]))
    if prompted is None:
        return rag_model.answer(attacked.question, [benign])
    without = attacked.traced if remove else frozenset()
    others = [trigger.defuse(text)[0] for text in texts_of(attacked.retrieve(attacked.k - 1, without))]
    return prompted.answer(attacked.question, [benign, *others])


class PromptedChat:
    """Model behind a chat endpoint, under `trigger.system_prompt`."""

    name = "chat, prompted"

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self._endpoint = endpoint

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """Return the answer, cut to `MAX_ANSWER_LENGTH`.

        Raises:
            JudgeFailed: the endpoint does not answer.
        """
        # Not `quoted`: it removes the brackets that the prompt is about. No text can contain its own code.
        code = digest("passages/v1", [question, *texts])[:16]
        passages = [f"=== {code} passage {number} ===\n{text}" for number, text in enumerate(texts, 1)]
        prompt = "\n".join([*passages, f"=== {code} question ===", question])
        turns = [Message("system", trigger.system_prompt()), Message("user", prompt)]
        return self._endpoint.ask(turns).text[:MAX_ANSWER_LENGTH]
