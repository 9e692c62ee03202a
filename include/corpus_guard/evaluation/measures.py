"""Counts, rates and curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

BINS = 20  # of a risk histogram, equal parts of 0..1


def wilson(hits: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """The score interval of a proportion (Wilson 1927), 95 % by default; (0, 1) of nothing."""
    if n == 0:
        return 0.0, 1.0
    rate, square = hits / n, z * z
    centre = (rate + square / (2 * n)) / (1 + square / n)
    margin = z / (1 + square / n) * math.sqrt(rate * (1 - rate) / n + square / (4 * n * n))
    # At the ends the formula gives 0 and 1 but for rounding.
    return (0.0 if hits == 0 else centre - margin), (1.0 if hits == n else centre + margin)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scanner said of one text."""

    caught: bool  # held back, whatever for
    risk: float  # 0..1
    codes: tuple[str, ...] = ()  # of the findings behind it


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes of one slice, counted."""

    n: int
    caught: int
    codes: Counter[str] = field(default_factory=Counter)  # of texts that were caught, each code once a text
    risks: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Share caught, 0..1; 0 of nothing."""
        return self.caught / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson, 95 %."""
        return wilson(self.caught, self.n)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        low, high = self.interval
        return {
            "n": self.n,
            "caught": self.caught,
            "rate": round(self.rate, 5),
            "low": round(low, 5),
            "high": round(high, 5),
            "codes": dict(self.codes.most_common()),
            "risk_histogram": histogram(self.risks),
        }


def tally(outcomes: Iterable[Outcome]) -> Tally:
    """Count."""
    outcomes = list(outcomes)
    caught = [outcome for outcome in outcomes if outcome.caught]
    codes = Counter(code for outcome in caught for code in dict.fromkeys(outcome.codes))
    return Tally(len(outcomes), len(caught), codes, tuple(outcome.risk for outcome in outcomes))


def histogram(risks: Sequence[float]) -> list[int]:
    """How many risks lie in each of `BINS` equal parts of 0..1; the last includes 1."""
    counts = [0] * BINS
    for risk in risks:
        counts[min(BINS - 1, max(0, int(risk * BINS)))] += 1
    return counts


@dataclass(frozen=True, slots=True)
class Curve:
    """Receiver operating characteristic of the risk."""

    auc: float
    false_positives: tuple[float, ...]  # rates, rising
    true_positives: tuple[float, ...]


def roc(attacks: Sequence[float], clean: Sequence[float]) -> Curve | None:
    """How well the risk alone separates attacks from clean texts; None where one of them is missing."""
    if not attacks or not clean:
        return None
    from sklearn.metrics import auc, roc_curve

    labels = [1] * len(attacks) + [0] * len(clean)
    false_positives, true_positives, _ = roc_curve(labels, [*attacks, *clean])
    return Curve(
        round(float(auc(false_positives, true_positives)), 5),
        tuple(round(float(rate), 5) for rate in false_positives),
        tuple(round(float(rate), 5) for rate in true_positives),
    )
