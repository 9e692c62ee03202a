"""Figures of the classifier of orders: what it sees of kinds that it was never shown, and what it alarms on.

Sentences are judged by models that were trained without their family, language or source: a quarter of them at a time. That
words rule sentences out before the encoder reads them is left aside there. Lines kept apart are judged by the installed
models, with all their steps, and documents by the check `instructions`, with and without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
ALARMS = 0.03
"""Share of the look-alikes that may be taken for orders."""
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
class Tradeoff:
    """Orders caught where the limit is as low as `ALARMS` allows; these very look-alikes chose it, so take it as optimistic."""

    by: str
    probability: float  # the limit
    orders: int
    caught: int
    honest: int
    alarms: int


@dataclass(frozen=True, slots=True)
class LeftOutTable:
    """A row for each kind, and all kinds together at the goal's share of false alarms."""

    rows: tuple[LeftOut, ...]
    at_goal: Tradeoff


@dataclass(frozen=True, slots=True)
class Slice:
    """Documents of one file."""

    name: str
    is_attack: bool
    texts: int
    held_by_rules: int
    held: int


def leave_out(data: OrdersData, by: str, probability: float) -> LeftOutTable:
    """Judge each family, language or source of the project's own texts by a model that was trained without it.

    Args:
        probability: from which a sentence counts as an order.
    """
    kinds = np.array([_kind(text, by) for text in data.texts])
    names = sorted(set(kinds.tolist()) - {""})
    probabilities = np.zeros(len(kinds))
    for part in range(min(PARTS, len(names))):
        chosen = np.isin(kinds, names[part::PARTS])
        probabilities[chosen] = 1 / (1 + np.exp(-data.log_odds_without(chosen)))
    is_own = kinds != ""
    return _table(by, kinds[is_own], data.labels[is_own], probabilities[is_own], probability)


def judge_kept_apart(params: InstructionsParams) -> list[LeftOutTable]:
    """Return a table for each set kept apart, judged by the installed models, sentence by sentence."""
    classifier = load_classifier()
    by_set: dict[str, list[OrderText]] = defaultdict(list)
    for text in read_kept_apart():
        by_set[text.source].append(text)
    return [
        _table(
            f"{APART}, {source} set",
            np.array([text.family for text in texts]),
            np.array([text.is_order for text in texts]),
            np.array([_highest(classifier, text.text) for text in texts]),
            params.order_probability,
        )
        for source, texts in by_set.items()
    ]


def _table(
    by: str, kinds: NDArray[np.str_], labels: NDArray[np.bool_], probabilities: NDArray[np.float64], limit: float
) -> LeftOutTable:
    rows = [
        LeftOut(by, kind, *_counts(labels[kinds == kind], probabilities[kinds == kind] >= limit))
        for kind in dict.fromkeys(kinds.tolist())
    ]
    honest = np.sort(probabilities[~labels])[::-1]
    allowed = int(ALARMS * len(honest))
    # Of equal ones all count or none: the limit lies above the first look-alike that is one too many.
    lowest = np.nextafter(honest[allowed], 1.0) if allowed < len(honest) else 0.0
    return LeftOutTable(tuple(rows), Tradeoff(by, float(lowest), *_counts(labels, probabilities >= lowest)))


def _counts(labels: NDArray[np.bool_], hits: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return orders, orders caught, look-alikes, look-alikes taken for orders."""
    return int(labels.sum()), int((hits & labels).sum()), int((~labels).sum()), int((hits & ~labels).sum())


def _highest(classifier: OrderClassifier, text: str) -> float:
    """Return the highest probability of a line's sentences."""
    sentences = [text[span.start : span.end] for span in split_pieces(text)]
    return max(classifier.probabilities(list(filter(classifier.doubts, sentences))), default=0.0)


def _kind(text: OrderText, by: str) -> str:
    if text.family in NEVER_LEFT_OUT or (by == "family" and text.family == "languages"):
        return ""
    return str(getattr(text, by)) if by != "language" or text.language != "en" else ""


def measure_slices(samples: Sequence[Sample], params: InstructionsParams) -> Iterator[Slice]:
    """Yield for each slice how many documents of an open source wait for a reviewer, by rules alone and in all."""
    with_classifier = Instructions(params)
    rules = Instructions(params.model_copy(update={"order_probability": 1.0}))
    slices: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for sample in samples:
        slices[sample.slice, sample.attack].append(sample.text)
    for (name, is_attack), texts in sorted(slices.items()):
        judged = [(_is_held(rules, text), _is_held(with_classifier, text)) for text in texts]
        yield Slice(name, is_attack, len(texts), sum(row[0] for row in judged), sum(row[1] for row in judged))


def _is_held(check: Instructions, text: str) -> bool:
    return any(finding.severity.rank >= Severity.MEDIUM.rank for finding in check.read(text))
