"""Training a reader of orders further, with honest texts some of whose sentences it takes for orders.

Words, the other reader and the sums stay as they are. So that little is forgotten, the package's own sentences are shown again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from corpus_guard.detectors.orders.texts import OrderText
from corpus_guard.detectors.orders.training import ENGLISH_RECIPE, NOT_OWN, RECIPE, TrainedOrders
from corpus_guard.detectors.reader_training import Recipe, train_reader
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.models.order_reader import ENGLISH_ORDERS, ORDERS, EnglishOrderReader, OrderReader, shorten
from corpus_guard.models.weights import builtin_multilingual_encoder
from corpus_guard.screening.orders.classifier import installed_pair_encoder

LIKELY: Final = 5_500
"""Honest sentences that the reader takes for orders most."""
OTHERS: Final = 2_500
"""Others that words leave to the reader, by chance."""
ENGLISH: Final = 10_000
"""Own English sentences, by chance; the reader of all languages is shown every one in another language, too."""
FURTHER: Final = replace(RECIPE, epochs=1, learning_rate=3e-4, unit_learning_rate=9e-4)
ENGLISH_FURTHER: Final = replace(ENGLISH_RECIPE, epochs=1, learning_rate=3e-4, unit_learning_rate=9e-4)


def adapt_reader(
    start: TrainedOrders,
    texts: Sequence[OrderText],
    *,
    english: bool = False,
    share: float = 1.0,
    recipe: Recipe | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> TrainedOrders:
    """Return a classifier one of whose readers has learned more.

    Args:
        texts: the package's own sentences, and honest ones of other texts.
        english: the larger reader learns, from English sentences; otherwise that of all languages.
        share: of the new weights in the mean of both.

    Raises:
        Misuse: words rule out all honest sentences, or none is English, so that the reader is never asked about one.
    """
    kind, weights = (ENGLISH_ORDERS, start.english) if english else (ORDERS, start.reader)
    base = installed_pair_encoder() if english else builtin_multilingual_encoder()
    reader = (EnglishOrderReader if english else OrderReader)(lambda: base, lambda: weights)
    own = [text for text in texts if text.family not in NOT_OWN and (text.language == "en" or not english)]
    choice = random.Random(f"{seed} adapt")  # noqa: S311 - no secret
    examples = [
        *((shorten(text), 0) for text in _choose_honest(start, texts, reader, choice, progress)),
        *((shorten(text.text), int(text.is_order)) for text in _choose_own(own, choice)),
    ]
    choice.shuffle(examples)
    orders = sum(label for _, label in examples)
    sheet = {**weights.sheet, "orders": orders, "honest": len(examples) - orders, "started_from": dict(weights.sheet)}
    how = recipe or (ENGLISH_FURTHER if english else FURTHER)
    trained = train_reader(kind, examples, base, sheet, how, start=weights, seed=seed, progress=progress)
    changed = trained if share == 1 else weights.moved_towards(trained, share)
    return replace(start, english=changed) if english else replace(start, reader=changed)


def _choose_honest(
    start: TrainedOrders, texts: Sequence[OrderText], reader: OrderReader, choice: random.Random, progress: Progress
) -> list[str]:
    """Return the honest sentences to learn from: those that the reader takes for orders most, and others."""
    doubtful = [text.text for text in texts if text.family == "background" and start.model.judge(text.text) > -math.inf]
    progress("reading the honest sentences", 0, 1)
    log_odds = reader.log_odds(doubtful) if doubtful else np.empty(0, np.float32)
    by_likelihood = [doubtful[row] for row in np.argsort(-log_odds, kind="stable") if not np.isnan(log_odds[row])]
    if not by_likelihood:
        raise Misuse(
            "--honest: words alone rule out all of these sentences, or the reader knows the language of none; "
            "expected texts that are held back"
        )
    likely, rest = by_likelihood[:LIKELY], by_likelihood[LIKELY:]
    return [*likely, *choice.sample(rest, min(OTHERS, len(rest)))]


def _choose_own(own: Sequence[OrderText], choice: random.Random) -> list[OrderText]:
    """Return the package's own sentences to show again: those in other languages than English, and some in English."""
    english = [text for text in own if text.language == "en"]
    return [text for text in own if text.language != "en"] + choice.sample(english, min(ENGLISH, len(english)))
