"""Texts to unit vectors, the same whatever stands beside them."""

from __future__ import annotations

import numpy as np
import pytest

from corpus_guard.models import Models
from corpus_guard.models import embedder as module
from corpus_guard.models.embedder import Embedder

TALK = "the pump harbour valve reads a pressure at night before rain while nobody in town turned left again"
WORDS = TALK.split()
TEXTS = [
    "A",
    "Déjà vu: 漢字, עברית, emoji 🚢 and\ttabs.",
    "def read(sensor):\n    return sensor.value * 0.98\n",
    *(" ".join(WORDS[(number * 7 + place) % len(WORDS)] for place in range(3 + 2 * number)) for number in range(30)),
    "word " * 300,
]


@pytest.fixture(scope="module")
def embedder(models: Models) -> Embedder:
    return models.embedder


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * other).sum(axis=1)


def test_vectors_have_length_one_and_their_shape(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)

    assert vectors.shape == (len(TEXTS), embedder.dimensions) == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6


def test_neither_order_nor_company_changes_a_vector(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    backwards = embedder.embed(TEXTS[::-1])[::-1]
    some = range(0, len(TEXTS), 6)
    alone = np.concatenate([embedder.embed([TEXTS[number]]) for number in some])

    assert len(TEXTS) > module.TEXTS_PER_BATCH
    assert cosines(together, backwards).min() >= 0.9995
    assert cosines(together[some], alone).min() >= 0.9995


def test_the_fast_number_format_agrees_with_float32(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}
    for dtype in ("bfloat16", "float32"):
        monkeypatch.setattr(module, "number_format", lambda dtype=dtype: dtype)
        one = Embedder(models.embedder_weights)
        assert one.digest.endswith(f"/{dtype}")
        made[dtype] = one.embed(TEXTS)

    assert cosines(made["bfloat16"], made["float32"]).min() >= 0.9995


def test_likeness_is_of_meaning(embedder: Embedder) -> None:
    question, answer, other = embedder.embed(
        ["How often is the pump serviced?", "The pump is serviced twice a year.", "Bread rises in a warm place."]
    )

    assert question @ answer > 0.5 > 0.2 > question @ other


def test_nothing_and_emptiness(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, 384)
    vectors = embedder.embed(["", " \n", "\u200b"])

    assert vectors.shape == (3, 384)
    assert np.isfinite(vectors).all()


def test_the_digest_names_the_weights(embedder: Embedder, models: Models) -> None:
    assert embedder.digest == f"{models.embedder_weights}/{embedder.dtype}"
    assert str(models.embedder_weights).startswith("all-minilm-l6-v2@sha256:")


def test_each_batch_is_reported_while_it_is_computed(embedder: Embedder) -> None:
    done: list[int] = []
    embedder.on_batch = done.append
    try:
        embedder.embed(["a pump", "a valve"] * module.TEXTS_PER_BATCH)
    finally:
        embedder.on_batch = None

    assert done == [module.TEXTS_PER_BATCH, module.TEXTS_PER_BATCH]
