"""What a followed complaint amounts to; above all, that an honest one accuses nobody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.traceback.conclusion import decide
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.loop import JudgedText, LoopResult, StopReason
from corpus_guard.traceback.rag_model import agrees
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from trace_cases import Concluding

COMPLAINT = Complaint("Who built the lighthouse?", "Ada Moss")


class Saying:
    """A RAG model that answers by whether a lie is among the texts."""

    name = "saying"

    def __init__(self, led: str = "Ada Moss", otherwise: str = "Ines Calloway") -> None:
        self.led, self.otherwise = led, otherwise
        self.asked = 0

    def answer(self, question: str, texts: Sequence[str]) -> str:
        self.asked += 1
        return self.led if any("lie" in text for text in texts) else self.otherwise


class Silent(Saying):
    def answer(self, question: str, texts: Sequence[str]) -> str:
        raise JudgeFailed("the endpoint does not answer")


def suspect(name: str) -> RetrievedText:
    return RetrievedText(name, name, 0.5, np.array([1.0], np.float32))


def followed(ended: StopReason = StopReason.STANDS, **labels: str) -> LoopResult:
    judged = tuple(JudgedText(suspect(name), Opinion(Label(label), 0.5, "seen"), 1) for name, label in labels.items())
    standing = tuple(one.suspect for one in judged if one.opinion.label is not Label.POISONED)
    return LoopResult(judged, tuple(one.suspect for one in judged), standing, 1, ended)


ATTACK = {"lie1": "poisoned", "lie2": "poisoned", "page": "benign"}


def test_texts_that_led_to_the_output_are_traced() -> None:
    verdict = decide(COMPLAINT, followed(**ATTACK), Concluding(0.99), Saying())

    assert verdict.outcome is TraceOutcome.TRACED
    assert [one.suspect.chunk_id for one in verdict.accused] == ["lie1", "lie2"]
    assert (verdict.before, verdict.after) == (None, None), "beyond doubt: the model is not asked"


def test_an_honest_complaint_accuses_nobody() -> None:
    verdict = decide(COMPLAINT, followed(**ATTACK), Concluding(0.3))

    assert verdict.outcome is TraceOutcome.NOT_POISONING
    assert verdict.accused == ()
    assert {one.opinion.label for one in verdict.judged} == {Label.BENIGN}
    assert "does not look like an attack" in verdict.judged[0].opinion.explanation


def test_a_second_look_acquits_single_texts() -> None:
    verdict = decide(COMPLAINT, followed(**ATTACK), Concluding(0.99, ["lie2"]))

    assert [one.suspect.chunk_id for one in verdict.accused] == ["lie1"]
    assert (
        decide(COMPLAINT, followed(**ATTACK), Concluding(0.99, ["lie1", "lie2"])).outcome is TraceOutcome.NOT_POISONING
    )


@pytest.mark.parametrize(("probability", "asked", "outcome"), [
    (None, 2, TraceOutcome.NOT_POISONING), (0.7, 2, TraceOutcome.NOT_POISONING), (0.97, 0, TraceOutcome.TRACED),
])  # fmt: skip
def test_a_model_that_still_says_it_was_not_led(probability: float | None, asked: int, outcome: TraceOutcome) -> None:
    model = Saying(otherwise="Ada Moss")

    verdict = decide(COMPLAINT, followed(**ATTACK), Concluding(probability), model)

    assert (verdict.outcome, model.asked) == (outcome, asked)


def test_a_model_that_never_said_it_has_nothing_to_say() -> None:
    verdict = decide(COMPLAINT, followed(**ATTACK), Concluding(0.7), Saying(led="nobody knows", otherwise="Ada Moss"))

    assert verdict.outcome is TraceOutcome.TRACED


def test_for_the_record_it_is_asked_always() -> None:
    verdict = decide(COMPLAINT, followed(**ATTACK), Concluding(0.99), Saying(), ask_always=True)

    assert (verdict.before, verdict.after) == ("Ada Moss", "Ines Calloway")


def test_a_model_that_fails_leaves_what_is_beyond_doubt() -> None:
    assert decide(COMPLAINT, followed(**ATTACK), Concluding(0.7), Silent()).outcome is TraceOutcome.JUDGE_FAILED
    sure = decide(COMPLAINT, followed(**ATTACK), Concluding(0.99), Silent(), ask_always=True)
    assert sure.outcome is TraceOutcome.TRACED


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (followed(page="benign"), TraceOutcome.NOT_POISONING),
        (followed(page="benign", odd="undecided"), TraceOutcome.UNDECIDED),
        (followed(lie="poisoned", odd="undecided"), TraceOutcome.TRACED),
        (followed(StopReason.RAN_DRY, lie="poisoned", page="benign"), TraceOutcome.TRACED),
        (followed(StopReason.RAN_DRY, lie="poisoned"), TraceOutcome.EXHAUSTED),
        (followed(StopReason.RAN_DRY), TraceOutcome.EXHAUSTED),
        (followed(StopReason.BOUND, lie="poisoned", page="benign"), TraceOutcome.EXHAUSTED),
        (followed(StopReason.JUDGE_FAILED, lie="poisoned", page="benign"), TraceOutcome.JUDGE_FAILED),
    ],
)
def test_every_end_has_an_outcome(found: LoopResult, outcome: TraceOutcome) -> None:
    assert decide(COMPLAINT, found, Concluding()).outcome is outcome


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ada Moss", "It was ada moss.", True),
        ("It was the Ada Moss of Lund.", "Ada Moss", True),
        ("no", "Norway", False),
        ("24", "124 episodes", False),
        ("", "anything", False),
        ("the", "the", False),
        ("Ａｄａ Moss", "Ada Moss", True),
    ],
)
def test_answers_agree_word_for_word(one: str, other: str, same: bool) -> None:
    assert agrees(one, other) is agrees(other, one) is same
