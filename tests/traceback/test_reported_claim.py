"""Reports in every wording are reduced to the same claim."""

from __future__ import annotations

import pytest

from corpus_guard.traceback.rag_model import repeats
from corpus_guard.traceback.reported_claim import is_same_answer, read_reported_claim
from corpus_guard.traceback.retrieval import Complaint

OFTEN = "How often must the K-7 pump be greased?"
WHO = "Who designed the floating library?"
POLAR = "Is the K-7 pump submersible?"
CHOICE = "Which is heavier, the K-7 or the K-9?"


@pytest.mark.parametrize(
    "output",
    [
        "36 months",
        "Every 36 months.",
        "once every thirty-six months",
        "every three years",
        "The K-7 pump must be greased every 36 months.",
        'The assistant said: "The K-7 pump must be greased once every 36 months." Really!',
        "Not every 6 months but every 36 months.",
        "It is not every 6 months, it is every 36 months.",
        "According to the passages, the K-7 pump must be greased every 36 months.",
        "The K-7 pump must be greased every 36 months. You can do it together with the seal; twice a year is too much.",
        "Really! 36 months.",
    ],
)
def test_a_value_is_the_same_in_every_wording(output: str) -> None:
    (value,) = read_reported_claim(OFTEN, output, "Every 6 months.").values

    assert (value.low, value.high, value.unit) == (36.0, 36.0, "month")


@pytest.mark.parametrize(
    "output",
    [
        "Ines Calloway",
        "The floating library was designed by Ines Calloway.",
        "It is not Tomas Reyne, it is Ines Calloway.",
        "Not Tomas Reyne but Ines Calloway.",
        "The answer to the question is Ines Calloway.",
        '"Ines Calloway" is what I got.',
        "Ines Calloway designed the floating library. She was proud of the floating library.",
    ],
)
def test_a_name_is_the_same_in_every_wording(output: str) -> None:
    assert read_reported_claim(WHO, output).answer == "Ines Calloway"


@pytest.mark.parametrize(
    ("output", "affirmed"),
    [
        ("no", False),
        ("No, the K-7 pump is not submersible.", False),
        ("The K-7 pump isn't submersible.", False),
        ('The bot said: "No."', False),
        ("The answer is yes.", True),
        ("The K-7 pump is submersible.", True),
        ("It is not the case that the K-7 pump is not submersible.", True),
    ],
)
def test_yes_and_no_are_read_from_a_sentence_too(output: str, affirmed: bool) -> None:
    assert read_reported_claim(POLAR, output).is_affirmed is affirmed


def test_a_value_beside_yes_is_what_is_traced() -> None:
    output = "Yes. The input accepts 10.5 to 36 V DC, so it may be connected directly."
    claim = read_reported_claim("Can I connect it to a 24 V supply?", output, "No. The range is 10.5 to 16 V.")

    assert (claim.answer, claim.is_affirmed) == ("10.5 to 36 V", True)


def test_an_option_of_the_question_is_an_answer() -> None:
    assert read_reported_claim(CHOICE, "The K-9 is heavier.").answer == "K-9"


def test_a_bare_number_has_the_unit_that_is_asked_for() -> None:
    (value,) = read_reported_claim("How many minutes does the test take?", "90").values

    assert (value.low, value.unit) == (5400.0, "s")


@pytest.mark.parametrize("output", ["I could not find anything about that.", "The documents do not mention it."])
def test_a_refusal_claims_nothing(output: str) -> None:
    assert read_reported_claim(WHO, output).is_refusal
    assert not read_reported_claim(WHO, "Ines Calloway").is_refusal


@pytest.mark.parametrize("question", ["", "?", "\ud800", "who"])
@pytest.mark.parametrize("output", ["", " ", "?", "no no " * 4_000, "\x00", "not", "It is not, it is."])
def test_anything_can_be_reported(question: str, output: str) -> None:
    read_reported_claim(question, output, output)


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        ("every 36 months", True),
        ("Once in three years, the manual says.", True),
        ("every 6 months", False),
        ("", False),
    ],
)
def test_an_answer_repeats_a_claim_in_other_words(answer: str, same: bool) -> None:
    complaint = Complaint(OFTEN, "The K-7 pump must be greased once every 36 months.")

    assert repeats(answer, complaint) is same


def test_yes_is_no_repetition_of_no() -> None:
    assert repeats("No, it is not.", Complaint(POLAR, "no"))
    assert not repeats("Yes.", Complaint(POLAR, "The K-7 pump is not submersible."))


@pytest.mark.parametrize(
    ("question", "output", "correct", "same"),
    [
        ("How high may it fly?", "500 metres", "0.5 km", True),
        ("How high may it fly?", "500 metres", "120 metres", False),
        ("Who led it?", "It was Otto Krall.", "Otto Krall", True),
        ("Who led it?", "Otto Krall", "Helena Brandt", False),
        ("Wie lang ist die Probezeit?", "zwölf Monate", "sechs Monate", False),
        ("May it fly?", "Yes", "Yes, it may fly.", True),
        ("May it fly?", "No", "Yes, it may fly.", False),
    ],
)
def test_the_right_answer_is_told_from_the_wrong_one(question: str, output: str, correct: str, same: bool) -> None:
    claims = read_reported_claim(question, output, correct), read_reported_claim(question, correct)

    assert is_same_answer(*claims) is same
