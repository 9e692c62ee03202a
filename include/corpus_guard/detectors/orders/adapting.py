"""Training the first reader of orders further, with honest texts some of whose sentences it takes for orders.

Words, the larger reader and the sums stay as they are. So that little is forgotten, the package's own sentences are shown again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from corpus_guard.detectors.orders.texts import OrderText
from corpus_guard.detectors.orders.training import NOT_OWN, RECIPE, TrainedOrders
from corpus_guard.detectors.reader_training import Recipe, train_reader
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.models.order_reader import ORDERS, OrderReader, shorten
from corpus_guard.models.weights import builtin_multilingual_encoder

LIKELY: Final = 5_500
"""Honest sentences that the reader takes for orders most."""
OTHERS: Final = 2_500
"""Others that words leave to the reader, by chance."""
ENGLISH: Final = 10_000
"""Own English sentences, by chance; those in other languages are all shown."""
FURTHER: Final = replace(RECIPE, epochs=1, learning_rate=3e-4, unit_learning_rate=9e-4)


def adapt_reader(
    start: TrainedOrders,
    texts: Sequence[OrderText],
    *,
    share: float = 1.0,
    recipe: Recipe = FURTHER,
    seed: int = 0,
    progress: Progress = no_progress,
) -> TrainedOrders:
    """Return a classifier whose first reader has learned more.

    Args:
        start: the classifier.
        texts: the package's own sentences, and honest ones of other texts.
        share: of the new weights in the mean of both.
        recipe: how it is trained.
        seed: of the choice by chance, and of the order.
        progress: told while it is trained.

    Raises:
        Misuse: words rule out all honest sentences, so that the reader is never asked about one.
    """
    examples = _choose_examples(start, texts, random.Random(f"{seed} adapt"), progress)  # noqa: S311 - no secret
    orders = sum(label for _, label in examples)
    sheet = {
        **start.reader.sheet,
        "orders": orders,
        "honest": len(examples) - orders,
        "started_from": dict(start.reader.sheet),
    }
    base = builtin_multilingual_encoder()
    trained = train_reader(ORDERS, examples, base, sheet, recipe, start=start.reader, seed=seed, progress=progress)
    return replace(start, reader=trained if share == 1 else start.reader.moved_towards(trained, share))


def _choose_examples(
    start: TrainedOrders, texts: Sequence[OrderText], choice: random.Random, progress: Progress
) -> list[tuple[str, int]]:
    """Return the sentences to learn from, in the order in which they are shown, with 1 for an order and 0 for an honest one."""
    doubtful = [text.text for text in texts if text.family == "background" and start.model.judge(text.text) > -math.inf]
    if not doubtful:
        raise Misuse("--honest: words alone rule out all of these sentences; expected texts that are held back")
    progress("reading the honest sentences", 0, 1)
    log_odds = OrderReader(builtin_multilingual_encoder, lambda: start.reader).log_odds(doubtful)
    by_likelihood = [doubtful[row] for row in np.argsort(-log_odds, kind="stable")]
    likely, rest = by_likelihood[:LIKELY], by_likelihood[LIKELY:]
    honest = [*likely, *choice.sample(rest, min(OTHERS, len(rest)))]
    own = [text for text in texts if text.family not in NOT_OWN]
    english = [text for text in own if text.language == "en"]
    again = [text for text in own if text.language != "en"] + choice.sample(english, min(ENGLISH, len(english)))
    examples = [(shorten(text), 0) for text in honest] + [(shorten(text.text), int(text.is_order)) for text in again]
    choice.shuffle(examples)
    return examples
