"""Whether a passage supports a claim, contradicts it, or does not speak of it."""

from __future__ import annotations

import pytest

from corpus_guard.claims.support import Stance, judge_support, read_answer, read_claim
from corpus_guard.claims.value import Kind

MANUAL = "Manual of the OX-12. Keep it dry. The sensor must be calibrated every 6 months. It weighs 1.2 kg."


@pytest.mark.parametrize(
    ("stance", "claim", "passage"),
    [
        ("supports", "The OX-12 sensor must be calibrated twice a year.", MANUAL),
        ("contradicts", "The OX-12 sensor must be calibrated every 36 months.", MANUAL),
        ("silent", "The OX-12 sensor is made of titanium.", MANUAL),
        ("contradicts", "The lanyard may be used in winter.", "The lanyard may not be used in winter."),
        ("silent", "Refunds take 28 days.", "Our office opened 28 days ago. Refunds are a matter of trust."),
    ],
)
def test_a_claim_is_judged_by_the_sentence_that_speaks_of_it(stance: str, claim: str, passage: str) -> None:
    assert judge_support(read_claim(claim), passage).stance.value == stance


@pytest.mark.parametrize(
    ("stance", "question", "answer", "passage"),
    [
        ("supports", "How often must the OX-12 sensor be calibrated?", "6 months", MANUAL),
        ("supports", "How often must the OX-12 sensor be calibrated?", "Really, every six months!", MANUAL),
        ("contradicts", "How often must the OX-12 sensor be calibrated?", "36 months", MANUAL),
        ("silent", "What is the OX-12 made of?", "titanium", MANUAL),
        ("contradicts", "Within how many days are refunds paid?", "28 days", "Refunds are paid within 180 days."),
        ("supports", "Who founded Acme?", "Jane Doe", "Acme was founded by Jane Doe in 1957."),
        ("contradicts", "Who founded Acme?", "Jane Doe", "Acme was founded by John Roe."),
        ("silent", "Who founded Acme?", "Jane Doe", "Jane Doe likes cake. Acme sells cake."),
        ("supports", "Can the lid be opened under pressure?", "no", "The lid cannot be opened under pressure."),
        ("contradicts", "Can the lid be opened under pressure?", "Yes.", "The lid cannot be opened under pressure."),
        ("silent", "Can the lid be opened under pressure?", "no", "There is no lid on the small pot."),
        ("silent", "How many games did Orlen win?", "7", "The final was played in 7 halls."),
        ("contradicts", "How long do refunds take?", "No. Refunds take 28 days.", "Refunds take 180 days."),
    ],
)
def test_an_answer_is_judged_with_its_question(stance: str, question: str, answer: str, passage: str) -> None:
    assert judge_support(read_answer(question, answer), passage).stance.value == stance


def test_the_deciding_sentence_and_its_value_are_named() -> None:
    support = judge_support(read_answer("How often must the OX-12 sensor be calibrated?", "36 months"), MANUAL)

    assert support.span is not None
    assert MANUAL[support.span.start : support.span.end] == "The sensor must be calibrated every 6 months."
    assert support.value is not None
    assert support.claimed is not None
    assert (support.claimed.normal, support.value.normal) == ("every 36 month", "every 6 month")
    assert MANUAL[support.value.span.start : support.value.span.end] == "every 6 months"
    assert support.slot is Kind.FREQUENCY
    assert not support.is_negated


def test_a_value_that_the_passage_denies_is_contradicted() -> None:
    claim = read_answer("How often must the sensor be calibrated?", "every 36 months")

    support = judge_support(claim, "The sensor must be calibrated every 6 months, not every 36 months.")

    assert support.stance is Stance.CONTRADICTS


@pytest.mark.parametrize("text", ["", "?", "\ud800", "\x1f\x1f", "no"])
def test_texts_without_a_claim_are_silent(text: str) -> None:
    assert judge_support(read_claim(text), MANUAL).stance is Stance.SILENT
    assert judge_support(read_answer(text, text), text).stance in Stance
    assert judge_support(read_answer("Who founded Acme?", "Jane Doe"), text).stance is Stance.SILENT
