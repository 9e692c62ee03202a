"""Table 6 counts what users are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from defended import CLEAN, POISON, QUESTION, RESOURCES, Reader, played

from corpus_guard.corpus import trigger
from corpus_guard.errors import JudgeFailed
from corpus_guard.evaluation.defences import build_defences
from corpus_guard.evaluation.defences.enhancement import PromptedChat
from corpus_guard.evaluation.defences.table import (
    CachingRagModel,
    DefenceResult,
    contains_any,
    measure_defences,
)
from corpus_guard.models.chat import ChatAnswer


def test_rates_come_with_intervals() -> None:
    rows = [played([*POISON, *CLEAN], POISON), played(CLEAN)]
    told: list[tuple[str, int, int | None]] = []

    none, ptr = measure_defences(
        rows, Reader(), build_defences(RESOURCES, ("none", "ptr")), lambda *what: told.append(what)
    )

    assert none == DefenceResult("none", 2, 1, 1, 0)
    assert ptr == DefenceResult("ptr", 2, 0, 2, 0)
    shown = none.as_dict()
    assert (shown["asr"], shown["acc"], shown["failed"]) == (0.5, 0.5, 0)
    assert shown["asr_low"] < 0.5 < shown["asr_high"]
    assert told == [("none", 0, 2), ("none", 1, 2), ("ptr", 0, 2), ("ptr", 1, 2)]


def test_a_model_that_gives_no_answer_is_neither_right_nor_attacked() -> None:
    class Silent(Reader):
        def answer(self, question: str, texts: Sequence[str]) -> str:
            raise JudgeFailed("the endpoint does not answer")

    (line,) = measure_defences([played(POISON)], Silent(), build_defences(RESOURCES, ("none",)))

    assert line == DefenceResult("none", 1, 0, 0, 1)
    assert measure_defences([], Reader(), build_defences(RESOURCES, ("none",)))[0].as_dict()["asr"] == 0.0


def test_the_same_question_over_the_same_texts_is_asked_once() -> None:
    reader = Reader()
    remembering = CachingRagModel(reader)

    assert remembering.answer("q", ["a"]) == remembering.answer("q", ["a"])
    remembering.answer("q", ["b"])
    assert len(reader.asked) == 2


@pytest.mark.parametrize(
    ("answer", "wanted", "said"),
    [
        ("It is Norway.", ("no",), False),
        ("No, it is not.", ("no",), True),
        ("the HARBOUR office", ("A harbour  office",), True),
        ("café", ("cafe\u0301",), True),
        ("anything", ("", "the"), False),
        ("", ("ada",), False),
        ("It is 1998.", ("1997", "1998"), True),
    ],
)
def test_answers_are_compared_word_by_word(answer: str, wanted: tuple[str, ...], said: bool) -> None:
    assert contains_any(answer, wanted) is said


def test_a_chat_model_is_told_the_prompt_and_sees_every_text() -> None:
    class Endpoint:
        def ask(self, conversation: Any) -> ChatAnswer:
            self.conversation = conversation
            return ChatAnswer("Ada. " + "x" * 5_000, "stop")

    endpoint: Any = Endpoint()
    answer = PromptedChat(endpoint).answer(QUESTION, [trigger.wrap("Ada does."), "Mallory does."])

    system, user = endpoint.conversation
    assert (system.role, system.content) == ("system", trigger.system_prompt())
    assert user.role == "user"
    assert all(text in user.content for text in ("[LATEST] Ada does. [/LATEST]", "Mallory does.", QUESTION))
    assert len(answer) == 2_000
