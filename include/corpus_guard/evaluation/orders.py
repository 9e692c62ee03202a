"""Figures of the classifier of orders: what it sees of kinds that it was never shown, and what it alarms on.

Sentences are judged by models that were trained without their family, language or source: a quarter of them at a time. That
words rule sentences out before the encoder reads them is left aside there. Lines kept apart are judged by the installed
models, with all their steps, and documents by the check `instructions`, with and without them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from corpus_guard.detectors.orders.texts import OrderText, read_kept_apart
from corpus_guard.detectors.orders.training import OrdersData
from corpus_guard.detectors.samples import Sample
from corpus_guard.domain import Severity
from corpus_guard.screening.checks.instructions import Instructions, InstructionsParams
from corpus_guard.screening.orders.classifier import OrderClassifier, load_classifier
from corpus_guard.screening.orders.features import split_pieces

LEFT_OUT = ("family", "language", "source")
APART = "kept apart"
PARTS = 4
"""Parts in which families, languages or sources are left out."""
NEVER_LEFT_OUT = frozenset({"background", "frames"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Sentences of one kind, judged by a model that saw none of the kind."""

    by: str
    kind: str
    orders: int
    caught: int
    honest: int
    alarms: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Documents of one file."""

    name: str
    is_attack: bool
    texts: int
    held_by_rules: int
    held: int


def leave_out(data: OrdersData, by: str, probability: float) -> Iterator[LeftOut]:
    """Yield a row for each family, language or source of the project's own texts.

    Args:
        data: own texts and honest background.
        by: one of `LEFT_OUT`.
        probability: from which a sentence counts as an order.
    """
    limit = math.log(probability / (1 - probability))
    kinds = np.array([_kind(text, by) for text in data.texts])
    names = sorted(set(kinds.tolist()) - {""})
    hits = np.zeros(len(kinds), bool)
    for part in range(min(PARTS, len(names))):
        chosen = np.isin(kinds, names[part::PARTS])
        hits[chosen] = data.log_odds_without(chosen) >= limit
    for name in names:
        chosen = kinds == name
        labels = data.labels & chosen
        yield LeftOut(
            by,
            name,
            int(labels.sum()),
            int((hits & labels).sum()),
            int((chosen & ~labels).sum()),
            int((hits & chosen & ~labels).sum()),
        )


def judge_kept_apart(params: InstructionsParams) -> Iterator[LeftOut]:
    """Yield a row for each family of the sets kept apart, judged by the installed models, sentence by sentence."""
    classifier = load_classifier()
    texts = read_kept_apart()
    hits = {text: _highest(classifier, text.text) >= params.order_probability for text in texts}
    for source, family in dict.fromkeys((text.source, text.family) for text in texts):
        chosen = [text for text in texts if (text.source, text.family) == (source, family)]
        orders = [hits[text] for text in chosen if text.is_order]
        honest = [hits[text] for text in chosen if not text.is_order]
        yield LeftOut(f"{APART}, {source} set", family, len(orders), sum(orders), len(honest), sum(honest))


def _highest(classifier: OrderClassifier, text: str) -> float:
    """Return the highest probability of a line's sentences."""
    sentences = [text[span.start : span.end] for span in split_pieces(text)]
    return max(classifier.probabilities(list(filter(classifier.doubts, sentences))), default=0.0)


def _kind(text: OrderText, by: str) -> str:
    if text.family in NEVER_LEFT_OUT or (by == "family" and text.family == "languages"):
        return ""
    return str(getattr(text, by)) if by != "language" or text.language != "en" else ""


def measure_slices(samples: Sequence[Sample], params: InstructionsParams) -> Iterator[Slice]:
    """Yield for each slice how many documents of an open source wait for a reviewer, by rules alone and in all.

    Args:
        samples: documents.
        params: of the check.
    """
    with_classifier = Instructions(params)
    rules = Instructions(params.model_copy(update={"order_probability": 1.0}))
    slices: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for sample in samples:
        slices[sample.slice, sample.attack].append(sample.text)
    for (name, is_attack), texts in sorted(slices.items()):
        held = [(_is_held(rules, text), _is_held(with_classifier, text)) for text in texts]
        yield Slice(name, is_attack, len(texts), sum(row[0] for row in held), sum(row[1] for row in held))


def _is_held(check: Instructions, text: str) -> bool:
    return any(finding.severity.rank >= Severity.MEDIUM.rank for finding in check.read(text))
