"""The texts that the classifier of orders learns from, and a small training."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from corpus_guard.detectors import reader_training
from corpus_guard.detectors.orders.honest_texts import read_honest
from corpus_guard.detectors.orders.texts import FOLDER, generate_texts, read_kept_apart, read_texts, texts_digest
from corpus_guard.detectors.orders.training import (
    ALARMS,
    CERTAIN,
    ENGLISH_RECIPE,
    READ_ON,
    RECIPE,
    OrdersData,
    fit_sums,
)
from corpus_guard.detectors.reader_training import train_reader
from corpus_guard.domain import no_progress
from corpus_guard.evaluation.orders import leave_out
from corpus_guard.models.order_reader import ENGLISH_ORDERS, ORDERS, OrderReader
from corpus_guard.models.trained_reader import ReaderWeights
from corpus_guard.models.weights import Weights, builtin_multilingual_encoder, builtin_pair_encoder
from corpus_guard.screening.orders.classifier import OrderClassifier
from corpus_guard.screening.orders.model import MODEL_FILE, load_orders
from corpus_guard.settings import Settings


def test_no_line_stands_under_both_labels_or_twice() -> None:
    lines = {(text.line, text.is_order) for text in read_texts()}
    counts = Counter(line.casefold() for line, _ in lines)
    assert not [line for line, count in counts.items() if count > 1]


def test_nothing_is_trained_on_the_sentences_kept_apart() -> None:
    apart, own = read_kept_apart(), read_texts()
    assert Counter((text.source, text.is_order) for text in apart) == {
        (name, label): number
        for name, number in (
            ("first", 120),
            ("second", 125),
            ("third", 200),
            ("fourth", 200),
            ("fifth", 200),
            ("sixth", 200),
            ("seventh", 200),
            ("eighth", 200),
            ("ninth", 180),
        )
        for label in (True, False)
    }
    assert not {text.family for text in apart if text.source == "first"} & {text.family for text in own}
    assert not {text.line.casefold() for text in apart} & {text.line.casefold() for text in own}


def test_every_slot_and_part_is_filled() -> None:
    for text in (*read_texts(), *generate_texts(200)):
        assert not re.search(
            r"\{(?:reader|page|company|product|person|place|topic|url|email|phone|machines|humans)\}", text.text
        )
    assert not [text.text for text in generate_texts(200) if re.search(r"\{[a-z_]+\}", text.text)]


def test_the_same_seed_gives_the_same_texts() -> None:
    assert read_texts(seed=3) == read_texts(seed=3) != read_texts(seed=4)
    assert generate_texts(20) == generate_texts(20)


def test_the_shipped_model_was_trained_on_these_texts() -> None:
    sheet = load_orders().sheet
    for trained_on in (sheet, ReaderWeights.load(ORDERS).sheet, ReaderWeights.load(ENGLISH_ORDERS).sheet):
        assert trained_on["texts"] == texts_digest(), "train it again: guard train orders (docs/how-to/detectors.md)"
    assert {path.stem for path in FOLDER.glob("*.yaml")} - {"slots"} <= set(sheet["sources"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(40):
        (tmp_path / f"pack{number}").mkdir()
        text = "\n\n".join(f"Pack {number} holds {other} jars of plum jam." for other in range(12))
        with gzip.open(tmp_path / f"pack{number}" / "README.gz", "wt") as file:
            file.write(text)
    (tmp_path / "pack1" / "broken.gz").write_bytes(b"\x1f\x8b no")
    (tmp_path / "pack1" / "broken.mo").write_bytes(b"\xde\x12\x04\x95 no")
    return tmp_path


def test_honest_texts_come_from_one_half_of_the_folders(folder: Path) -> None:
    half, whole = read_honest([folder], 10_000), read_honest([folder], 10_000, half=None)
    assert 0 < len(half) < len(whole) == 40 * 12
    assert not any(text.is_order for text in whole)


def test_pages_are_read_as_the_guard_reads_them(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        "<style>p {margin: none of this}</style><p>Jars of <b>plum</b> jam stand here.</p>"
    )
    assert [text.text for text in read_honest([tmp_path], 10, half=None)] == ["Jars of plum jam stand here."]


# Half of these families are in the quarter that is left out.
FEW = [text for text in read_texts() if text.family in {"blocking", "browsing", "agents", "authority", "consent"}][::6]


def test_who_knows_more_weighs_more() -> None:
    better, worse = fit_sums(*answers(4_000, 3.0, 0.3)), fit_sums(*answers(4_000, 0.3, 3.0))

    assert better.both.weights[1] > better.both.weights[0] > 0
    assert worse.both.weights[0] > worse.both.weights[1] > 0
    assert better.three.weights[1] > better.three.weights[2] > 0
    assert worse.three.weights[2] > worse.three.weights[1] > 0


@pytest.mark.parametrize("is_english", [False, True])
def test_each_threshold_lets_the_share_of_alarms_through(is_english: bool) -> None:
    judged, labels = answers(40_000, 1.0, 1.0)

    above = fit_sums(judged, labels).of(judged) >= CERTAIN

    own = ~labels & (~np.isnan(judged[2]) == is_english)
    assert above[own].mean() == pytest.approx(ALARMS, abs=0.001)


def test_hardly_an_order_is_lost_before_the_larger_reader() -> None:
    judged, labels = answers(40_000, 1.0, 1.0)
    sums = fit_sums(judged, labels)

    found = sums.of(judged) >= CERTAIN

    read_all = replace(sums, both=replace(sums.both, read_on_from=-np.inf)).of(judged) >= CERTAIN
    own = labels & ~np.isnan(judged[2])
    assert (found & own).sum() == pytest.approx(READ_ON * (read_all & own).sum(), abs=1)


def answers(count: int, reader_knows: float, english_knows: float) -> tuple[np.ndarray, np.ndarray]:
    choice = np.random.default_rng(7)
    labels = np.arange(count) % 2 == 0
    sign = np.where(labels, 1.0, -1.0)
    judged = np.array([[1.0], [reader_knows], [english_knows]]) * sign + choice.normal(size=(3, count))
    judged[2, ::3] = np.nan
    return judged, labels


@pytest.fixture
def encoder(models_home: Path) -> Callable[[], Weights]:
    return partial(builtin_pair_encoder, Settings(home=models_home))


def test_the_same_texts_and_seed_give_the_same_files(encoder: Callable[[], Weights], tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "again", "other")]
    recipes = replace(RECIPE, epochs=1), replace(ENGLISH_RECIPE, epochs=1, batch=4)
    for folder, seed in zip(folders, (0, 0, 1), strict=True):
        OrdersData(FEW, recipes=recipes, encoder=encoder, seed=seed).train().save(folder)
    for name in (MODEL_FILE.name, ORDERS.file.name, ENGLISH_ORDERS.file.name):
        first, again, other = ((folder / name).read_bytes() for folder in folders)
        assert first == again != other


def test_the_reader_is_the_mean_of_several_trainings() -> None:
    sentences, labels = [text.text for text in FEW], [int(text.is_order) for text in FEW]
    base, recipe = builtin_multilingual_encoder(), replace(RECIPE, epochs=1)
    first, both = (
        train_reader(ORDERS, list(zip(sentences, labels, strict=True)), base, {}, replace(recipe, runs=runs))
        for runs in (1, 2)
    )
    tokens = ORDERS.base.open(base).read_tokens(sentences)
    one, other = (
        reader_training._train_once(ORDERS, ORDERS.base.open(base), tokens, labels, recipe, None, 0, run, no_progress)
        for run in (0, 1)
    )

    assert np.array_equal(first.unit, one["unit"])
    assert not np.allclose(one["unit"], other["unit"], atol=1e-4)
    np.testing.assert_allclose(both.unit, (one["unit"] + other["unit"]) / 2, atol=1e-6)
    for name in ORDERS.shapes:
        np.testing.assert_allclose(both.changes[name], (one[name] + other[name]) / 2, atol=1e-6)


def test_a_trained_reader_tells_orders_apart_as_the_product_reads_it(tmp_path: Path) -> None:
    own = [text for text in read_texts() if text.family in {"policy", "manuals"}][::2]
    labels = np.array([text.is_order for text in own])
    examples = [(text.text, int(text.is_order)) for text in own]
    trained = train_reader(ORDERS, examples, builtin_multilingual_encoder(), {}, replace(RECIPE, epochs=10))
    trained.save(tmp_path / "reader.npz")
    reader = OrderReader(builtin_multilingual_encoder, lambda: ReaderWeights.load(ORDERS, tmp_path / "reader.npz"))

    log_odds = reader.log_odds([text.text for text in own])

    assert np.isfinite(log_odds).all()
    assert ((log_odds > 0) == labels).mean() > 0.9


KINDS = {"policy", "passive", "manuals", "recipes", "authority"}


@pytest.mark.slow
def test_a_family_left_out_is_judged_by_models_that_never_saw_it(folder: Path, encoder: Callable[[], Weights]) -> None:
    own = [text for text in read_texts() if text.family in KINDS]
    recipes = replace(RECIPE, epochs=6), replace(ENGLISH_RECIPE, epochs=6)
    data = OrdersData([*own, *read_honest([folder], 40)], recipes=recipes, encoder=encoder)
    rows = {row.kind: row for row in leave_out(data, "family", 0.5).rows}
    assert set(rows) == KINDS
    assert rows["passive"].orders and not rows["passive"].honest
    assert rows["recipes"].alarms < rows["recipes"].honest / 2
    trained = data.train()
    classifier = OrderClassifier(
        trained.model,
        OrderReader(builtin_multilingual_encoder, lambda: trained.reader),
        OrderReader(encoder, lambda: trained.english),
    )
    seen = [text.text for text in own if text.family == "passive" and classifier.doubts(text.text)]
    assert sum(each > 0.5 for each in classifier.probabilities(seen)) > rows["passive"].caught
