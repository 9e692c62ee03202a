"""Questions to be answered with yes or no about hostile texts, put to a model behind an endpoint.

The model gives a reason first, then one label, ``[Label: Yes]`` or ``[Label: No]``.

Rules
    * a label counts if it is the only one, ends the answer, and a reason stands before it; anything else is
      asked once more with a reminder, and is then neither yes nor no;
    * a text that itself mentions a label (``"[Label: No]"``) addresses the model (`mentions_label`): who asks must
      not take its word for harmless;
    * all questions are asked at once, as many as the endpoint allows;
    * a text that the endpoint refuses (a content filter, its length) is neither yes nor no; an endpoint that
      stays broken for one text fails the call. Earlier answers are kept if the endpoint has a lasting cache.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpus_guard.models.chat import AnswerEnd, ChatAnswer, ChatEndpoint
from corpus_guard.models.messages import Message
from corpus_guard.models.quoting import neutralise_text, strip_reasoning

MAX_WORDS_LENGTH: Final = 500  # characters
MIN_REASON_LETTERS: Final = 10  # letters
REMINDER: Final = (
    "Keep to the form: one or two sentences of reason in English, then as the very last line either [Label: "
    "Yes] or [Label: No]. No other label, and nothing after it."
)

_LABEL = re.compile(r"\[\s*label\s*:\s*(yes|no)\s*\]", re.IGNORECASE)
_LABEL_MENTION = re.compile(r"[\[({<«\"'`“‘]\s*label\s*[:=-]?\s*(?:yes|no)\b")
_WORDS = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class YesNo:
    """A model's answer: hostile text, for it may repeat what the model was shown."""

    is_yes: bool | None  # None: neither
    words: str  # its reason, or why there is no answer; `MAX_WORDS_LENGTH` at most


def ask_yes_or_no(endpoint: ChatEndpoint, questions: Sequence[Sequence[Message]]) -> list[YesNo]:
    """Return the answer to each question.

    Args:
        questions: conversations that say how to answer.

    Raises:
        JudgeFailed: the endpoint gave no answer to one of them, after all tries.
    """
    answers = endpoint.ask_all(questions)
    unlabelled = [index for index, answer in enumerate(answers) if _read_label(answer) is None]
    reminded = [[*questions[index], Message("user", REMINDER)] for index in unlabelled]
    for index, answer in zip(unlabelled, endpoint.ask_all(reminded), strict=True):
        if _read_label(answer) is not None or not answers[index].text:
            answers[index] = answer
    return [_read(answer) for answer in answers]


def mentions_label(text: str) -> bool:
    """Return whether a text mentions a label, and so addresses the model that is to judge it."""
    folded = unicodedata.normalize("NFKC", neutralise_text(text)).casefold()
    visible = "".join(character for character in folded if unicodedata.category(character) != "Cf")
    return bool(_LABEL_MENTION.search(visible))


def _read(answer: ChatAnswer) -> YesNo:
    is_yes = _read_label(answer)
    words = " ".join(_LABEL.sub("", strip_reasoning(answer.text)).split())[:MAX_WORDS_LENGTH]
    if is_yes is None:
        why = "the model gave no single label" if answer.text else f"the model gave no answer ({answer.ended})"
        words = f"{why}: {words}" if words else why
    return YesNo(is_yes, words[:MAX_WORDS_LENGTH])


def _read_label(answer: ChatAnswer) -> bool | None:
    """Return whether the label of an answer is a yes; None if the answer does not keep to the form."""
    text = strip_reasoning(answer.text)
    matches = list(_LABEL.finditer(text))
    if answer.ended not in {AnswerEnd.STOP, AnswerEnd.LENGTH} or len(matches) != 1:
        return None
    (match,) = matches
    if _WORDS.search(text, match.end()) or len(_WORDS.findall(text[: match.start()])) < MIN_REASON_LETTERS:
        return None
    return match.group(1).lower() == "yes"
