"""The optimiser against the real embedder: it must beat what it began with, and what chance finds with the same budget."""

from __future__ import annotations

import pytest

from corpus_guard.attacks.hotflip import HotFlip
from corpus_guard.attacks.poisonedrag import lead_with_question
from corpus_guard.models import Models

PAIRS = (
    ("who paints the buoys of the eastern channel", "The crew of the cutter Marlin."),
    ("how deep is the old dry dock", "Nine metres, surveyors agree."),
)


@pytest.fixture(scope="module")
def nearness(models: Models) -> dict[str, float]:
    """Mean cosine to the question, by how the text stands."""
    guided = HotFlip(models.embedder_weights, steps=10, candidates=16)
    control = HotFlip(models.embedder_weights, steps=10, candidates=16, guided=False)
    forms = {
        "bare": [text for _, text in PAIRS],
        "led": [lead_with_question(*pair) for pair in PAIRS],
        "guided": [guided.optimise(*pair) for pair in PAIRS],
        "control": [control.optimise(*pair) for pair in PAIRS],
    }
    assert forms["guided"][0] == guided.optimise(*PAIRS[0])
    assert all(made.endswith(f" {text}") for made, (_, text) in zip(forms["guided"], PAIRS, strict=True))
    questions = models.embedder.embed([question for question, _ in PAIRS])
    return {name: float((questions * models.embedder.embed(texts)).sum(axis=1).mean()) for name, texts in forms.items()}


@pytest.mark.slow
def test_it_comes_nearer_than_the_bare_text_and_than_the_question_before_it(nearness: dict[str, float]) -> None:
    assert nearness["guided"] > nearness["bare"] + 0.1
    assert nearness["guided"] > nearness["led"] + 0.02


def test_flips_by_chance_do_not_reach_it(nearness: dict[str, float]) -> None:
    assert nearness["guided"] > nearness["control"] + 0.01


def test_a_hub_comes_near_to_questions_that_it_answers_none_of(models: Models) -> None:
    questions = [question for question, _ in PAIRS] + ["where is the pilot cutter moored", "who lights the mole"]
    text = "The council met on Tuesday and adjourned."
    optimiser = HotFlip(models.embedder_weights, steps=10, candidates=16)

    hub = optimiser.optimise_for_all(questions, text)

    assert hub.endswith(f" {text}") and hub == optimiser.optimise_for_all(questions, text)
    asked = models.embedder.embed(questions)
    began = HotFlip(models.embedder_weights, steps=0).optimise_for_all(questions, text)
    assert (asked @ models.embedder.embed([hub])[0]).mean() > (asked @ models.embedder.embed([began])[0]).mean() + 0.02


def test_what_has_no_word_to_flip_comes_through(models: Models) -> None:
    optimiser = HotFlip(models.embedder_weights, steps=1, candidates=2)

    assert optimiser.optimise("", "").endswith(" ")
    assert optimiser.optimise("", "It is nine metres deep.").endswith("It is nine metres deep.")
    assert optimiser.optimise("how \ud800 deep", "nine " * 2_000).endswith("nine " * 2_000)
