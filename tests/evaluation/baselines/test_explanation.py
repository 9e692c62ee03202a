"""The texts that the RAG model names are poisoned, if it answers what was reported."""

from __future__ import annotations

import pytest

from baselines.talking import COMPLAINT, LIE, PAGE, TRUTH, Talker, a_suspect, labels
from corpus_guard.evaluation.baselines.explanation import ExpGen
from corpus_guard.evaluation.baselines.interface import MAX_SHOWN_TEXTS
from corpus_guard.ledger.states import Label
from corpus_guard.traceback.retrieval import Complaint

SHOWN = [a_suspect(LIE), a_suspect(TRUTH), a_suspect(PAGE)]
P, B, U = Label.POISONED, Label.BENIGN, Label.UNDECIDED


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Answer: Ben Ray\nPassages: 1", [P, B, B]),
        ("Answer: Ben Ray.\nPassages: 1, 3 and 2", [P, P, P]),
        ("According to passage 1, it is Ben Ray.", [P, B, B]),
        ("Ben Ray (passages 1 and 3)", [P, B, P]),
        ("Answer: Ada Moss\nPassages: 2", [B, B, B]),
        ("Answer: Ben Ray\nPassages: none", [B, B, B]),
        ("Answer: Ben Ray\nPassages: 0, 4, 17, 1111", [B, B, B]),
        ("Ben Ray " + "passages " * 5_000, [B, B, B]),
        ("", [U, U, U]),
    ],
)
def test_what_is_named_for_the_reported_answer(reply: str, expected: list[Label]) -> None:
    talker = Talker(reply)

    assert labels(ExpGen(talker).judge(COMPLAINT, SHOWN, SHOWN)) == expected

    ((texts, request),) = talker.requests
    assert texts == [LIE, TRUTH, PAGE]
    assert COMPLAINT.query in request


def test_new_texts_are_shown_with_those_before_and_counted_on() -> None:
    talker = Talker("Answer: Ben Ray\nPassages: 1, 3")

    assert labels(ExpGen(talker).judge(COMPLAINT, SHOWN[1:], SHOWN)) == [B, P]
    assert talker.requests[0][0] == [LIE, TRUTH, PAGE]


def test_a_flood_is_cut_to_what_a_small_model_can_read() -> None:
    talker = Talker("Answer: Ben Ray\nPassages: 20")
    before = [a_suspect(f"{PAGE} {number}") for number in range(100)]
    new = SHOWN[:1]

    assert labels(ExpGen(talker).judge(Complaint("q" * 10**6, "Ben Ray"), new, [*before, *new])) == [P]
    ((texts, request),) = talker.requests
    assert len(texts) == MAX_SHOWN_TEXTS
    assert texts[-1] == LIE
    assert len(request) < 3_000


def test_name_and_digest() -> None:
    assert ExpGen(Talker()).name == "expgen"
    assert ExpGen(Talker()).digest.startswith("expgen/")
    assert ExpGen(Talker()).conclude(COMPLAINT, []).probability is None
