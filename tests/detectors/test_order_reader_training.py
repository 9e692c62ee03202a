"""How the answers of encoder and language model are added, and a short training of the reader of orders."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corpus_guard.detectors.orders import reader_training
from corpus_guard.detectors.orders.reader_training import fit_sum, train_order_reader
from corpus_guard.detectors.orders.texts import read_texts
from corpus_guard.detectors.orders.training import ALARMS, CERTAIN, OrdersData
from corpus_guard.models import Models
from corpus_guard.models.order_reader import OrderReader
from corpus_guard.screening.orders.classifier import WeightedSum


def answers(count: int, reader_knows: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    choice = np.random.default_rng(7)
    labels = np.arange(count) % 2 == 0
    sign = np.where(labels, 1.0, -1.0)
    encoder = sign + choice.normal(size=count)
    reader = reader_knows * sign + choice.normal(size=count)
    return encoder, reader, labels


def test_who_knows_more_weighs_more() -> None:
    better, worse = fit_sum(*answers(4_000, 3.0)), fit_sum(*answers(4_000, 0.3))

    assert better.reader > better.encoder > 0
    assert worse.encoder > worse.reader > 0


def test_the_threshold_lets_the_share_of_alarms_through() -> None:
    encoder, reader, labels = answers(20_000, 1.0)

    weighted = fit_sum(encoder, reader, labels)

    both = np.array([weighted.of(own, other) for own, other in zip(encoder, reader, strict=True)])
    assert (both[~labels] >= CERTAIN).mean() == pytest.approx(ALARMS, abs=0.001)
    caught = encoder[labels & (both >= CERTAIN)]
    assert (caught >= weighted.asks_at).mean() == pytest.approx(0.98, abs=0.005)


@pytest.mark.slow
def test_a_short_training_learns_and_gives_the_same_weights_again(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_training, "EPOCHS", 8)
    texts = [text for text in read_texts() if text.language == "en"][::100]
    weights = models.language_model_weights

    first, second = (train_order_reader(OrdersData(texts, runs=1), weights, seed=1) for _ in range(2))

    assert first.unit.tobytes() == second.unit.tobytes()
    assert WeightedSum.from_sheet(first.sheet) == WeightedSum.from_sheet(second.sheet)
    reader = OrderReader(lambda: weights, lambda: first)
    scores = reader.log_odds([text.text for text in texts])
    labels = np.array([text.is_order for text in texts])
    assert (scores[labels][:, None] > scores[~labels]).mean() > 0.9
    assert all(map(math.isfinite, scores))
