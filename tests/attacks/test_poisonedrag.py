"""What PoisonedRAG's black-box attack plants, and how few texts become many."""

from __future__ import annotations

import pytest

from corpus_guard.attacks.poisonedrag import lead_with_question, make_different_texts

TEXTS = (
    "The old ferry to the island was built in 1871. It is known for its green lamp, and many people came to see it.",
    "The harbour master received only a small wage. However, the office was located on the famous western pier.",
)


def test_the_question_leads_with_a_full_stop_and_nothing_else() -> None:
    assert (
        lead_with_question("when was the ferry built", "It was built in 1871.")
        == "when was the ferry built.It was built in 1871."
    )


def test_of_many_texts_the_first_are_taken_as_they_are() -> None:
    assert make_different_texts(TEXTS, 1, "s") == [TEXTS[0]]
    assert make_different_texts([TEXTS[0], TEXTS[0], TEXTS[1]], 2, "s") == list(TEXTS)


@pytest.mark.parametrize("wanted", [5, 40])
def test_too_few_are_rewritten_until_there_are_enough_and_all_differ(wanted: int) -> None:
    made = make_different_texts(TEXTS, wanted, "s")

    assert made[:2] == list(TEXTS)
    assert len(set(made)) == wanted
    assert made == make_different_texts(TEXTS, wanted, "s")
    assert made[:2] == make_different_texts(TEXTS, wanted, "other")[:2]
    assert made != make_different_texts(TEXTS, wanted, "other")


def test_a_text_that_cannot_be_rewritten_so_often_ends_with_fewer() -> None:
    made = make_different_texts(["Nine"], 40, "s")

    assert made[0] == "Nine"
    assert 1 <= len(made) == len(set(made)) <= 40
    assert all(text.strip() for text in made)
