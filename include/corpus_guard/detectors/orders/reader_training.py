"""Training of the reader of orders: labelled sentences in, ``screening/learned/order_reader.npz`` out.

It is trained twice: without a quarter of the families, and with all. The first training, and one of the encoder without the
same quarter, show how the log-odds of both are best added for sentences of kinds that neither has seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.orders.texts import texts_digest
from corpus_guard.detectors.orders.training import ALARMS, CERTAIN, READ, OrdersData
from corpus_guard.detectors.reader_training import train_reader
from corpus_guard.domain import Progress, no_progress
from corpus_guard.models.order_reader import ORDERS, OrderReader, make_prompt
from corpus_guard.models.trained_reader import ReaderWeights
from corpus_guard.models.weights import Weights
from corpus_guard.screening.orders.classifier import SUM, WeightedSum

EPOCHS: Final = 2


def train_order_reader(
    data: OrdersData, language_model: Weights, *, seed: int = 0, progress: Progress = no_progress
) -> ReaderWeights:
    """Train the reader. The same sentences and seed give the same weights on the same kind of processor.

    Args:
        data: labelled sentences.
        language_model: the built-in one, converted.
        seed: of weights and order.
        progress: told after each batch.
    """
    first = _train(data, ~data.quarter, language_model, seed, progress)
    judged = np.flatnonzero(np.isfinite(data.quarter_log_odds))
    sentences = [data.texts[row].text for row in judged]
    reader = OrderReader(lambda: language_model, lambda: first).log_odds(sentences).astype(np.float64)
    weighted = fit_sum(data.quarter_log_odds[judged], reader, data.labels[judged])
    weights = _train(data, np.ones(len(data.texts), bool), language_model, seed, progress)
    return replace(weights, sheet={**weights.sheet, SUM: weighted.to_record(), "left_out": len(judged)})


def fit_sum(encoder: NDArray[np.float64], reader: NDArray[np.float64], labels: NDArray[np.bool_]) -> WeightedSum:
    """Return how the log-odds of both are added, so that `ALARMS` of the honest sentences lie above `CERTAIN`.

    Args:
        encoder: log-odds of words and encoder, as they count at `CERTAIN`.
        reader: log-odds of the language model.
        labels: True for orders; of kinds that neither was trained with.
    """
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1.0).fit(np.stack([encoder, reader], 1), labels)
    own, other = (float(weight) for weight in fitted.coef_[0])
    both = own * encoder + other * reader
    added = float(CERTAIN - np.quantile(both[~labels], 1 - ALARMS))
    caught = encoder[labels & (both + added >= CERTAIN)]
    return WeightedSum(own, other, added, float(np.quantile(caught, 1 - READ)))


def _train(
    data: OrdersData, rows: NDArray[np.bool_], language_model: Weights, seed: int, progress: Progress
) -> ReaderWeights:
    chosen = np.flatnonzero(rows & data.read_by_encoder)
    order = np.random.default_rng(seed).permutation(chosen)
    examples = [(make_prompt(data.texts[row].text), int(data.labels[row])) for row in order]
    orders = int(data.labels[order].sum())
    sheet = {"texts": texts_digest(), "orders": orders, "honest": len(order) - orders, "epochs": EPOCHS}
    return train_reader(ORDERS, examples, language_model, sheet, epochs=EPOCHS, seed=seed, progress=progress)
