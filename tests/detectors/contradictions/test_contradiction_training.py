"""What the reader of contradictions is shown, and a short training of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from corpus_guard.detectors.contradictions.honest_texts import choose_documents, read_honest_texts
from corpus_guard.detectors.contradictions.pairs import Pair, PairLabel, load_pairs
from corpus_guard.detectors.contradictions.training import LABELS, UNTITLED, make_examples, train_contradiction_reader
from corpus_guard.detectors.samples import Half
from corpus_guard.models import Models
from corpus_guard.models.contradiction_reader import EXCERPT_CHARS, EXCERPTS, SIEVE, PagePost
from corpus_guard.models.trained_reader import ReaderWeights, TrainedReader
from corpus_guard.models.weights import builtin_embedder, builtin_pair_encoder
from corpus_guard.settings import Settings

LAMPS = "lighthouses"
NORRIN = ("Norrin's tower is 41 metres high.", "Norrin's tower may be climbed in summer.")
SKARN = ("Skarn's tower is 18 metres high.", "Skarn's tower is closed.")
PAIRS = [
    Pair("f", "Norrin", NORRIN, 0, PairLabel.CONTRADICTS, "The little tower is barely as high as a house.", LAMPS),
    Pair("f", "Norrin", NORRIN, 1, PairLabel.OTHER, "The stairs to the tower were painted red.", LAMPS),
    Pair("f", "Skarn", SKARN, 1, PairLabel.SAME, "Nobody is let up the stairs of the tower.", LAMPS),
]


def test_a_post_about_one_thing_says_nothing_of_another_of_its_kind() -> None:
    examples = [example for seed in range(20) for example in make_examples(PAIRS, seed=seed)]

    about_norrin = PAIRS[0].text
    elsewhere = {
        (shown.title, label) for shown, label in examples if about_norrin in shown.post and shown.title == "Skarn"
    }
    assert elsewhere == {("Skarn", LABELS[PairLabel.OTHER])}
    own = {label for shown, label in examples if about_norrin in shown.post and NORRIN[0] in shown.excerpt}
    assert own == {LABELS[PairLabel.CONTRADICTS]}
    without = {label for shown, label in examples if about_norrin in shown.post and shown.excerpt == NORRIN[1]}
    assert without == {LABELS[PairLabel.OTHER]}


def test_a_post_is_shown_beside_its_page_or_a_part_of_it_with_its_sentence() -> None:
    excerpts = {
        example.excerpt
        for seed in range(20)
        for example, label in make_examples(PAIRS, seed=seed)
        if PAIRS[0].text in example.post and label == LABELS[PairLabel.CONTRADICTS]
    }

    assert excerpts == {NORRIN[0], " ".join(NORRIN)}
    assert make_examples(PAIRS, seed=3) == make_examples(PAIRS, seed=3)


def test_the_second_model_is_shown_one_sentence_of_a_page() -> None:
    examples = [example for seed in range(10) for example in make_examples(PAIRS, seed=seed, alone=True)]

    assert {example.excerpt for example, _ in examples} == {*NORRIN, *SKARN}


def test_no_excerpt_is_longer_than_what_is_read() -> None:
    page = tuple(
        f"Sentence {number} of a very long page that tells of a tower and of its stairs." for number in range(30)
    )
    pairs = [Pair("f", "Norrin", page, number, PairLabel.SAME, f"Text {number}.") for number in range(30)]

    for example, label in make_examples(pairs):
        assert len(example.excerpt) <= EXCERPT_CHARS
        number = example.post.removeprefix("Text ").rstrip(".")
        assert (f"Sentence {number} of" in example.excerpt) == (label == LABELS[PairLabel.SAME])


def test_what_surrounds_a_post_is_something_other_of_the_same_page() -> None:
    longer = [
        example.post
        for seed in range(60)
        for example, _ in make_examples(PAIRS, seed=seed)
        if NORRIN[0] in example.excerpt and example.post not in {pair.text for pair in PAIRS}
    ]

    assert longer
    assert {frozenset((PAIRS[0].text, PAIRS[1].text))} == {
        frozenset(part for part in (PAIRS[0].text, PAIRS[1].text) if part in post) for post in longer
    }


def test_honest_and_contradicted_pages_go_without_a_title_as_often() -> None:
    honest = [PagePost("Skarn", SKARN[0], f"Skarn has {number} steps.") for number in range(400)]
    pairs = [replace(PAIRS[0], text=f"The tower has room for {number} guests.", kind="") for number in range(400)]

    examples = make_examples(pairs, honest)

    titles = Counter((label == LABELS[PairLabel.CONTRADICTS], bool(example.title)) for example, label in examples)
    assert titles[True, False] / (titles[True, False] + titles[True, True]) == pytest.approx(UNTITLED, abs=0.07)
    assert titles[False, False] / (titles[False, False] + titles[False, True]) == pytest.approx(UNTITLED, abs=0.07)


def test_passages_of_one_question_are_different_documents_of_one_half(tmp_path: Path) -> None:
    questions = [f"how high is tower {number}" for number in range(20)]
    file = tmp_path / "retrieved.jsonl"
    rows = [{"query": each, "text": f"{each}: {answer} metres."} for each in questions for answer in (41, 43)]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")

    halves = [read_honest_texts(file, half) for half in (Half.TUNING, Half.VALIDATION)]
    posts, pages = choose_documents(halves[0], len(halves[0]) // 2, len(halves[0]), 0)

    first, second = ({text.group for text in texts} for texts in halves)
    assert first | second == set(questions) and not first & second
    assert all(text.title.strip() == text.group for text in posts), "the question stands for the title"
    assert {text.group for text in posts} & {text.group for text in pages}


def test_every_label_and_field_of_the_own_pairs_is_learned() -> None:
    pairs = list(load_pairs())

    examples = make_examples(pairs)

    assert {label for _, label in examples} == set(LABELS.values())
    assert len(examples) > len(pairs)


@pytest.mark.slow
def test_training_learns_and_gives_the_same_weights_again(models: Models, tmp_path: Path) -> None:
    pairs = list(load_pairs())[:120]

    first, second = (train_contradiction_reader(SIEVE, pairs, builtin_embedder(), seed=1) for _ in range(2))

    assert first.unit.tobytes() == second.unit.tobytes()
    assert all(np.array_equal(first.changes[name], second.changes[name]) for name in SIEVE.shapes)
    assert all(first.changes[name].any() for name in SIEVE.shapes)
    first.save(tmp_path / "reader.npz")
    stored = ReaderWeights.load(SIEVE, tmp_path / "reader.npz")
    assert stored.sheet["pairs"] == 120
    pair = PagePost("Norrin", NORRIN[0], PAIRS[0].text)
    exact, rounded = (
        TrainedReader(builtin_embedder, lambda weights=weights: weights).log_odds([pair.prompt(SIEVE)], 0)
        for weights in (first, stored)
    )
    assert abs(exact - rounded).max() < 0.5


def test_progress_is_told(models_home: Path) -> None:
    steps: list[tuple[int, int]] = []

    train_contradiction_reader(
        EXCERPTS,
        PAIRS,
        builtin_pair_encoder(Settings(home=models_home)),
        progress=lambda what, done, total: steps.append((done, total)),
    )

    assert all(later[0] > earlier[0] for earlier, later in pairwise(steps))
    assert steps[0][0] == 0
