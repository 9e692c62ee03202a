"""The texts that the classifier of orders learns from, and a small training."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from corpus_guard.detectors.orders import layer_training
from corpus_guard.detectors.orders.honest_texts import read_honest
from corpus_guard.detectors.orders.layer_training import train_layers
from corpus_guard.detectors.orders.texts import FOLDER, generate_texts, read_kept_apart, read_texts, texts_digest
from corpus_guard.detectors.orders.training import OrdersData
from corpus_guard.domain import no_progress
from corpus_guard.evaluation.orders import leave_out
from corpus_guard.screening.orders.encoder import STEPS, TRAINED_SHAPES, read_state, with_changes
from corpus_guard.screening.orders.model import load_orders


def test_no_line_stands_under_both_labels_or_twice() -> None:
    lines = {(text.line, text.is_order) for text in read_texts()}
    counts = Counter(line.casefold() for line, _ in lines)
    assert not [line for line, count in counts.items() if count > 1]


def test_nothing_is_trained_on_the_sentences_kept_apart() -> None:
    apart, own = read_kept_apart(), read_texts()
    assert Counter((text.source, text.is_order) for text in apart) == {
        (name, label): number
        for name, number in (("first", 120), ("second", 125), ("third", 200))
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
    assert sheet["texts"] == texts_digest(), "train it again: guard train orders (docs/how-to/detectors.md)"
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


def test_the_trained_layers_tell_orders_apart_as_the_product_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_training, "EPOCHS", 15)  # for so few sentences
    own = [
        text
        for family in ("policy", "manuals")
        for text in [text for text in read_texts() if text.family == family][:30]
    ]
    labels = np.array([text.is_order for text in own])
    trained = train_layers([text.text for text in own], labels, runs=1)
    encoder = with_changes(trained.steps, trained.sizes)
    log_odds = np.array([read_state(encoder, text.text) @ trained.reading + trained.intercept for text in own])
    assert ((log_odds > 0) == labels).mean() > 0.9
    assert {name: tensor.shape for name, tensor in trained.steps.items()} == TRAINED_SHAPES
    assert max(int(np.abs(tensor).max()) for tensor in trained.steps.values()) == STEPS
    untrained = read_state(with_changes({}, {}), own[0].text)
    assert not np.allclose(untrained, read_state(encoder, own[0].text))


FEW = [text for text in read_texts() if text.family in {"policy", "manuals"}][::4]


def test_the_trained_layers_are_the_mean_of_several_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_training, "EPOCHS", 1)
    sentences, labels = [text.text for text in FEW], np.array([text.is_order for text in FEW])
    first, both = (train_layers(sentences, labels, runs=runs) for runs in (1, 2))
    tokens = layer_training._read_tokens(sentences)
    runs = [layer_training._train_once(tokens, labels, 0, run, no_progress) for run in (0, 1)]
    assert np.array_equal(first.reading, runs[0]["weight"][0])
    assert not np.allclose(runs[0]["weight"], runs[1]["weight"], atol=1e-4)
    np.testing.assert_allclose(both.reading, (runs[0]["weight"][0] + runs[1]["weight"][0]) / 2, atol=1e-6)
    name = "encoder.layer.3.output.dense.weight"
    assert not np.array_equal(first.steps[name] * first.sizes[name], both.steps[name] * both.sizes[name])


def test_the_same_texts_seed_and_runs_give_the_same_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(layer_training, "EPOCHS", 1)
    files = [tmp_path / f"{number}.npz" for number in range(3)]
    for file, seed in zip(files, (0, 0, 1), strict=True):
        OrdersData(FEW, seed=seed, runs=2).train().save(file)
    first, again, other = (file.read_bytes() for file in files)
    assert first == again != other


@pytest.mark.slow
def test_a_family_left_out_is_judged_by_a_model_that_never_saw_it(folder: Path) -> None:
    own = [text for text in read_texts() if text.family in {"policy", "passive", "manuals", "recipes"}]
    data = OrdersData([*own, *read_honest([folder], 40)], runs=1)
    rows = {row.kind: row for row in leave_out(data, "family", 0.5)}
    assert set(rows) == {"policy", "passive", "manuals", "recipes"}
    assert rows["passive"].orders and not rows["passive"].honest
    assert rows["recipes"].alarms < rows["recipes"].honest / 2
    seen = data.train()
    caught = [seen.judge(text.text) > 0 for text in own if text.family == "passive"]
    assert sum(caught) > rows["passive"].caught
