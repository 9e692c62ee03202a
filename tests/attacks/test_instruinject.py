"""Orders instead of claims."""

from __future__ import annotations

from corpus_guard.attacks.instruinject import PHRASINGS, phrase_order

QUESTION, ANSWER = "who keeps the {lamp} of the pier", "Ada Moss"


def test_forty_phrasings_each_with_question_and_answer() -> None:
    orders = [phrase_order(QUESTION, ANSWER, number) for number in range(PHRASINGS)]

    assert len(set(orders)) == PHRASINGS == 40
    assert all(QUESTION in order and ANSWER in order for order in orders)


def test_another_seed_gives_another_phrasing() -> None:
    assert phrase_order(QUESTION, ANSWER, 3, seed=1) != phrase_order(QUESTION, ANSWER, 3)
    assert len({phrase_order(QUESTION, ANSWER, number, seed=5) for number in range(PHRASINGS)}) == PHRASINGS
