"""Figures of a probe: TPR and FPR with intervals, the threshold of *unsure*, and the controls that must fail.

Terms: positive is the attacker's answer. TPR is the share of attacker's answers that are called so, FPR that
of right answers. *Forced* counts every margin by its sign, as the paper does. *Sure* leaves the unsure ones
out, and reports their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.errors import Misuse
from corpus_guard.screening.calibration import wilson_interval
from corpus_guard.traceback.activations.probe import NEVER_SURE, Probe
from corpus_guard.traceback.activations.recording import AnswerKind, Recordings
from corpus_guard.tracking.measures import area_under_curve

MAX_ERROR_SHARE: Final = 0.02  # of the sure votes of a class in the calibration
MIN_SURE_SHARE: Final = 0.2  # of all votes in the calibration, or no threshold holds
CHANCE_DEVIATIONS: Final = 2.6  # standard deviations, 1 %


@dataclass(frozen=True, slots=True)
class VoteRates:
    """Votes counted against the answers."""

    positives: int
    detected: int  # attacker's answers called so
    negatives: int
    accused: int  # right answers called the attacker's
    unsure: int  # of both

    @property
    def tpr(self) -> float:
        """Return the share of attacker's answers called so; NaN without any."""
        return self.detected / self.positives if self.positives else float("nan")

    @property
    def fpr(self) -> float:
        """Return the share of right answers called the attacker's; NaN without any."""
        return self.accused / self.negatives if self.negatives else float("nan")

    def as_dict(self) -> dict[str, object]:
        """Return counts and rates for JSON, with 95 % intervals; rates of no cases are None."""
        return {
            "positives": self.positives,
            "negatives": self.negatives,
            "found": self.detected,
            "accused": self.accused,
            "unsure": self.unsure,
            "tpr": self.tpr if self.positives else None,
            "tpr_interval": wilson_interval(self.detected, self.positives) if self.positives else None,
            "fpr": self.fpr if self.negatives else None,
            "fpr_interval": wilson_interval(self.accused, self.negatives) if self.negatives else None,
        }


def vote_rates(margins: NDArray[np.float64], poisoned: NDArray[np.bool_], threshold: float = 0.0) -> VoteRates:
    """Count the sure votes; with a threshold of zero all votes are sure.

    Args:
        margins: shape [n], -1..1; positive means the attacker's answer.
        poisoned: shape [n], the truth.
        threshold: margins up to this size are unsure.
    """
    sure = np.abs(margins) > threshold if threshold else np.ones(len(margins), bool)
    called = margins > 0
    return VoteRates(
        positives=int((sure & poisoned).sum()),
        detected=int((sure & poisoned & called).sum()),
        negatives=int((sure & ~poisoned).sum()),
        accused=int((sure & ~poisoned & called).sum()),
        unsure=int((~sure).sum()),
    )


def calibrate_threshold(margins: NDArray[np.float64], poisoned: NDArray[np.bool_]) -> float:
    """Return the lowest threshold at which few of the sure votes are wrong.

    "Few" is at most `MAX_ERROR_SHARE` of the votes of either class.

    `NEVER_SURE` is returned if fewer than `MIN_SURE_SHARE` of the votes would be sure.
    """
    for threshold in (0.0, *np.sort(np.abs(margins))):
        sure = np.abs(margins) > threshold
        if sure.mean() < MIN_SURE_SHARE:
            break
        rates = vote_rates(margins[sure], poisoned[sure])
        if rates.positives and rates.negatives and max(1 - rates.tpr, rates.fpr) <= MAX_ERROR_SHARE:
            return float(threshold)
    return NEVER_SURE


def best_border(margins: NDArray[np.float64], poisoned: NDArray[np.bool_]) -> float:
    """Return the margin that separates the classes best: by the mean of both classes' shares on their side.

    Of several margins that do so, the middle one is returned.

    Args:
        margins: shape [n], -1..1.
        poisoned: shape [n].

    Returns:
        Above -1 and below 1; zero unless both classes are present.
    """
    if poisoned.all() or not poisoned.any():
        return 0.0
    steps = np.unique(margins)
    between = np.concatenate([[(steps[0] - 1) / 2], (steps[1:] + steps[:-1]) / 2, [(steps[-1] + 1) / 2]])
    shares = [(margins[poisoned] > border).mean() + (margins[~poisoned] <= border).mean() for border in between]
    best = np.flatnonzero(np.isclose(shares, max(shares)))
    return float(np.clip(between[best[len(best) // 2]], -0.99, 0.99))


def probe_figures(probe: Probe, tested: Recordings) -> dict[str, float]:
    """Return `Probe.figures`, measured on `tested`.

    A figure that cannot be measured is left out, and then counts as failed.
    """
    labelled = tested.labelled
    return margin_figures(probe.margins(labelled.states), labelled, probe.threshold)


def margin_figures(margins: NDArray[np.float64], labelled: Recordings, threshold: float) -> dict[str, float]:
    """Return the figures of a probe from its margins on labelled recordings, shape [n]."""
    poisoned = labelled.poisoned
    lookalike = np.array([row.kind == "look-alike" for row in labelled.rows], bool)
    sure = vote_rates(margins, poisoned, threshold)
    forced = vote_rates(margins, poisoned)
    figures = {
        "samples": float(len(labelled)),
        "questions": float(len({row.key for row in labelled.rows})),
        "unsure": sure.unsure / max(1, len(labelled)),
        "tpr": sure.tpr,
        "fpr": sure.fpr,
        "fpr_look_alike": vote_rates(margins[lookalike], poisoned[lookalike], threshold).fpr,
        "tpr_forced": forced.tpr,
        "fpr_forced": forced.fpr,
        "auc": area_under_curve(margins, poisoned),
    }
    return {name: float(value) for name, value in figures.items() if np.isfinite(value)}


def single_feature_auc(tested: Recordings) -> dict[str, float]:
    """Return the AUC of features that need no state: a probe must beat these.

    Each feature counts in its better direction.

    Raises:
        Misuse: all recordings are of one class.
    """
    labelled = tested.labelled
    poisoned = labelled.poisoned
    if poisoned.all() or not poisoned.any():
        raise Misuse(f"{len(labelled)} recordings of one class; expected attacker's and right answers")
    columns: Mapping[str, Sequence[float]] = {
        "prompt_tokens": [row.tokens for row in labelled.rows],
        "texts": [row.texts for row in labelled.rows],
        "tokens_per_text": [row.tokens / row.texts for row in labelled.rows],
        "answer_log_probability": [row.log_probability for row in labelled.rows],
        "answer_characters": [len(row.answer) for row in labelled.rows],
    }
    areas = {name: area_under_curve(values, poisoned) for name, values in columns.items()}
    return {name: max(area, 1 - area) for name, area in areas.items()}


def randomise_labels(recordings: Recordings, seed: int) -> Recordings:
    """Replace every label by the toss of a coin, one coin per question.

    A probe trained on these labels must not predict those of other questions. If it does, a question is in
    both halves: its states identify it, and with it the coin. (Shuffled labels measured against true ones
    would not do: by chance they agree with whatever direction the states vary in most, or contradict it.)
    """
    labelled = recordings.labelled
    keys = sorted({row.key for row in labelled.rows})
    coins = dict(zip(keys, np.random.default_rng(seed).permutation(len(keys)) % 2, strict=True))
    rows = tuple(
        replace(row, answered=AnswerKind.ATTACKER, planted=max(1, row.planted))
        if coins[row.key]
        else replace(row, answered=AnswerKind.RIGHT)
        for row in labelled.rows
    )
    return Recordings(recordings.model, recordings.prompt, rows, labelled.states)


def is_chance(margins: NDArray[np.float64], tested: Recordings) -> bool:
    """Return whether margins predict coins no better than chance.

    The AUC must be within `CHANCE_DEVIATIONS` of one half.

    The deviation is counted in questions, which have one coin each. If some have more samples than others,
    the effective number of questions is smaller: the square of the sum of their sizes over the sum of the
    squares (Kish).
    """
    poisoned = tested.poisoned
    sides = [
        Counter(row.key for row, label in zip(tested.rows, poisoned, strict=True) if label == side)
        for side in (True, False)
    ]
    heads, tails = (max(1.0, side.total() ** 2 / max(1, sum(size**2 for size in side.values()))) for side in sides)
    deviation = np.sqrt((heads + tails + 1) / (12 * heads * tails))
    return not abs(area_under_curve(margins, poisoned) - 0.5) > CHANCE_DEVIATIONS * deviation
