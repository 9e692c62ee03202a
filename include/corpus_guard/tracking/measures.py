"""Counts, rates with intervals, and curves of a screening evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from corpus_guard.screening.calibration import wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BINS = 20  # of a risk histogram, equal parts of 0..1


def area_under_curve(
    scores: Sequence[float] | NDArray[np.float64], positive: Sequence[bool] | NDArray[np.bool_]
) -> float:
    """Return how often a positive scores above a negative, ties counted half.

    The result is NaN unless both classes are present.
    """
    if len(set(map(bool, positive))) < 2:
        return float("nan")
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive, scores))


@dataclass(frozen=True, slots=True)
class CountedShare:
    """Share as two counts."""

    hits: int
    n: int

    @property
    def rate(self) -> float:
        """Return the share, 0..1; 0 for no cases."""
        return self.hits / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % Wilson interval."""
        return wilson_interval(self.hits, self.n)

    @property
    def percent(self) -> str:
        """Return a text like ``98.0 [96.1, 99.0]``, in per cent; empty for no cases."""
        low, high = self.interval
        return f"{100 * self.rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]" if self.n else ""

    def as_dict(self, digits: int = 5) -> dict[str, float]:
        """Return counts, rate and interval for JSON."""
        shares = zip(("rate", "low", "high"), (self.rate, *self.interval), strict=True)
        return {"hits": self.hits, "n": self.n, **{name: round(share, digits) for name, share in shares}}


@dataclass(frozen=True, slots=True)
class ScreeningOutcome:
    """A screener's answer about one text."""

    caught: bool  # held back, for whatever reason
    risk: float  # 0..1
    codes: tuple[str, ...] = ()  # of the findings behind it


@dataclass(frozen=True, slots=True)
class Tally:
    """Counted outcomes of one slice."""

    n: int
    caught: int
    codes: Counter[str] = field(default_factory=Counter)  # of texts that were caught, each code once per text
    risks: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Return the share caught, 0..1; 0 for no texts."""
        return self.caught / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % Wilson interval of the rate."""
        return wilson_interval(self.caught, self.n)

    def as_dict(self) -> dict[str, object]:
        """Return the tally in a form that JSON can hold."""
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


def tally_outcomes(outcomes: Iterable[ScreeningOutcome]) -> Tally:
    """Count outcomes."""
    outcomes = list(outcomes)
    caught = [outcome for outcome in outcomes if outcome.caught]
    codes = Counter(code for outcome in caught for code in dict.fromkeys(outcome.codes))
    return Tally(len(outcomes), len(caught), codes, tuple(outcome.risk for outcome in outcomes))


def histogram(risks: Sequence[float]) -> list[int]:
    """Count the risks in each of `BINS` equal parts of 0..1; the last part includes 1."""
    counts = [0] * BINS
    for risk in risks:
        counts[min(BINS - 1, max(0, int(risk * BINS)))] += 1
    return counts


@dataclass(frozen=True, slots=True)
class RocCurve:
    """Receiver operating characteristic of the risk."""

    auc: float
    false_positives: tuple[float, ...]  # rates, rising
    true_positives: tuple[float, ...]


def risk_curve(attacks: Sequence[float], clean: Sequence[float]) -> RocCurve | None:
    """Return how well the risk alone separates attacks from clean texts; None if either is missing."""
    if not attacks or not clean:
        return None
    from sklearn.metrics import auc, roc_curve

    labels = [1] * len(attacks) + [0] * len(clean)
    false_positives, true_positives, _ = roc_curve(labels, [*attacks, *clean])
    return RocCurve(
        round(float(auc(false_positives, true_positives)), 5),
        tuple(round(float(rate), 5) for rate in false_positives),
        tuple(round(float(rate), 5) for rate in true_positives),
    )
