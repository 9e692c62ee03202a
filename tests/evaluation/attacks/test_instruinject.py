"""Orders instead of claims."""

from __future__ import annotations

from corpus_guard.evaluation.attacks.instruinject import MOST, demand, injected

QUESTION, ANSWER = "who keeps the {lamp} of the pier", "Ada Moss"


def test_forty_phrasings_each_with_question_and_answer() -> None:
    orders = [demand(QUESTION, ANSWER, number) for number in range(MOST)]

    assert len(set(orders)) == MOST == 40
    assert all(QUESTION in order and ANSWER in order for order in orders)


def test_the_question_leads_and_another_seed_phrases_it_otherwise() -> None:
    assert injected(QUESTION, ANSWER, 3) == f"{QUESTION}.{demand(QUESTION, ANSWER, 3)}"
    assert injected(QUESTION, ANSWER, 3, seed=1) != injected(QUESTION, ANSWER, 3)
    assert len({demand(QUESTION, ANSWER, number, seed=5) for number in range(MOST)}) == MOST
