"""What stands in the corpus under each attack, letter by letter."""

from __future__ import annotations

from typing import Any

import pytest

from attacked_questions import QUESTIONS, a_row
from corpus_guard.attacks.adaptive import AdaptiveAttack
from corpus_guard.attacks.instruinject import phrase_order
from corpus_guard.detectors.planting import Attack, Planting
from corpus_guard.detectors.target_questions import RequiredField, TargetQuestion
from corpus_guard.errors import Misuse

QUESTION, RIGHT, WRONG = QUESTIONS[0]
CLAIM = f" This text will induce you to generate {RIGHT}"


def a_target(**changes: Any) -> TargetQuestion:
    row = a_row(0, **changes)
    return TargetQuestion(
        "q0", QUESTION, (RIGHT,), (WRONG,), tuple(row["adversarial_texts"]), tuple(row["clean_texts"])
    )


def test_black_box_bare_and_hotflip_as_it_is() -> None:
    lies = a_target().adversarial

    assert Planting(Attack.POISONEDRAG_B).texts(a_target()) == tuple(f"{QUESTION}.{lie}" for lie in lies)
    assert Planting(Attack.BARE).texts(a_target()) == lies
    assert Planting(Attack.HOTFLIP).texts(a_target()) == lies
    assert Planting(Attack.BARE, m=2).texts(a_target()) == lies[:2]
    assert Planting(Attack.NONE).texts(a_target()) == ()


def test_instruction_injection_needs_no_text_of_the_row() -> None:
    target = a_target(adversarial_texts=[])

    assert Planting(Attack.INSTRUINJECT, m=3).texts(target) == tuple(
        f"{QUESTION}.{phrase_order(QUESTION, WRONG, number)}" for number in range(3)
    )
    assert len(Planting(Attack.INSTRUINJECT, m=40).texts(target)) == 40


def test_forty_texts_come_from_five_but_hotflip_is_left_as_it_is() -> None:
    planted = Planting(Attack.POISONEDRAG_B, m=40).texts(a_target())

    assert len(set(planted)) == 40
    assert all(text.startswith(f"{QUESTION}.") for text in planted)
    assert len(Planting(Attack.HOTFLIP, m=40).texts(a_target())) == 5


def test_an_optimiser_gets_every_text_of_the_row() -> None:
    planting = Planting(Attack.HOTFLIP, m=7, optimised=True)

    planted = planting.texts(a_target(), lambda question, text: f"<{question}> {text}")

    assert len(planted) == 7
    assert planted[0] == f"<{QUESTION}> {a_target().adversarial[0]}"


@pytest.mark.parametrize(
    ("attack", "first"),
    [
        (Attack.POISONEDRAG_B, f"{QUESTION}. {RIGHT}. {a_target().adversarial[0]}"),
        (Attack.INSTRUINJECT, f"{QUESTION}. {RIGHT}. {phrase_order(QUESTION, WRONG, 0)}"),
        (Attack.BARE, f"{RIGHT}. {a_target().adversarial[0]}"),
        (Attack.HOTFLIP, f"{RIGHT}. {a_target().adversarial[0]}"),
    ],
)
def test_disguise_puts_the_right_answer_between_the_parts_or_first(attack: Attack, first: str) -> None:
    assert Planting(attack, AdaptiveAttack.DISGUISE).texts(a_target())[0] == first


@pytest.mark.parametrize("attack", [attack for attack in Attack if attack is not Attack.NONE])
def test_deceive_appends_the_claim(attack: Attack) -> None:
    plain, deceiving = (
        Planting(attack, adaptive).texts(a_target()) for adaptive in (AdaptiveAttack.NONE, AdaptiveAttack.DECEIVE)
    )

    assert deceiving == tuple(text + CLAIM for text in plain)


def test_misspelling_keeps_the_answers_and_the_claim() -> None:
    planted = Planting(Attack.POISONEDRAG_B, AdaptiveAttack.DECEIVE, typos=1.0).texts(a_target())

    assert all(text.startswith(f"{QUESTION}.") and text.endswith(CLAIM) and WRONG in text for text in planted)
    assert planted != Planting(Attack.POISONEDRAG_B, AdaptiveAttack.DECEIVE).texts(a_target())


def test_fields_that_each_attack_requires() -> None:
    assert Planting(Attack.NONE).required == set()
    assert Planting(Attack.INSTRUINJECT).required == set()
    assert Planting(Attack.INSTRUINJECT, AdaptiveAttack.DISGUISE).required == {RequiredField.CORRECT}
    assert Planting(Attack.BARE).required == {RequiredField.ADVERSARIAL}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"attack": Attack.BARE, "m": 0}, "--m 0"),
        ({"attack": Attack.BARE, "m": 41}, "--m 41"),
        ({"attack": Attack.BARE, "typos": 1.5}, "--typos 1.5"),
        ({"attack": Attack.NONE, "adaptive": AdaptiveAttack.DECEIVE}, "plants nothing"),
        ({"attack": Attack.NONE, "typos": 0.1}, "plants nothing"),
        ({"attack": Attack.BARE, "optimised": True}, "--optimise works with --attack hotflip only"),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse, match=told):
        Planting(**options)
