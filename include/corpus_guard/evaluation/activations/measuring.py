"""What a probe's word is worth: TPR and FPR with intervals, the threshold of *unsure*, and the controls that must fail.

Words: positive is the attacker's answer. TPR is the share of attacker's answers that are said to be, FPR that of right answers; *forced*
counts every margin by its sign, as the paper does; *sure* leaves the unsure out, and says how many that are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.errors import Misuse
from corpus_guard.traceback.activations.probe import UNSURE, Probe
from corpus_guard.traceback.activations.recording import Answered, Recordings

ERRS: Final = 0.02  # share of the calibration's sure votes that may be wrong
SURE: Final = 0.2  # share of them that must be sure, or no threshold holds


@dataclass(frozen=True, slots=True)
class Rates:
    """How votes compare with what was answered."""

    positives: int
    found: int  # attacker's answers called so
    negatives: int
    accused: int  # right answers called attacker's
    unsure: int  # of both

    @property
    def tpr(self) -> float:
        """Of attacker's answers."""
        return self.found / self.positives if self.positives else float("nan")

    @property
    def fpr(self) -> float:
        """Of right answers."""
        return self.accused / self.negatives if self.negatives else float("nan")

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, with 95 % intervals."""
        return {
            "positives": self.positives,
            "negatives": self.negatives,
            "found": self.found,
            "accused": self.accused,
            "unsure": self.unsure,
            "tpr": self.tpr if self.positives else None,
            "tpr_interval": interval(self.found, self.positives),
            "fpr": self.fpr if self.negatives else None,
            "fpr_interval": interval(self.accused, self.negatives),
        }


def rates(margins: NDArray[np.float64], poisoned: NDArray[np.bool_], threshold: float = 0.0) -> Rates:
    """Rates of the votes that are sure; with a threshold of zero of all."""
    sure = np.abs(margins) > threshold if threshold else np.ones(len(margins), bool)
    called = margins > 0
    return Rates(
        positives=int((sure & poisoned).sum()),
        found=int((sure & poisoned & called).sum()),
        negatives=int((sure & ~poisoned).sum()),
        accused=int((sure & ~poisoned & called).sum()),
        unsure=int((~sure).sum()),
    )


def interval(hits: int, of: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share; none of nothing."""
    if not of:
        return None
    z = 1.96
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * float(np.sqrt(share * (1 - share) / of + z * z / (4 * of * of))) / (1 + z * z / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def calibrated(margins: NDArray[np.float64], poisoned: NDArray[np.bool_]) -> float:
    """The least threshold over which no more than `ERRS` of the votes of either class are wrong; `UNSURE` where too few are sure then."""
    for threshold in (0.0, *np.sort(np.abs(margins))):
        sure = np.abs(margins) > threshold
        if sure.mean() < SURE:
            break
        found = rates(margins[sure], poisoned[sure])
        if found.positives and found.negatives and 1 - found.tpr <= ERRS and found.fpr <= ERRS:
            return float(threshold)
    return UNSURE


def border(margins: NDArray[np.float64], poisoned: NDArray[np.bool_]) -> float:
    """The margin that tells the classes apart best: by the mean of both classes' shares on their side, and amid the margins that do so.

    Args:
        margins: [n], -1..1.
        poisoned: [n].

    Returns:
        Over -1 and under 1; zero without both classes.
    """
    if poisoned.all() or not poisoned.any():
        return 0.0
    steps = np.unique(margins)
    between = np.concatenate([[(steps[0] - 1) / 2], (steps[1:] + steps[:-1]) / 2, [(steps[-1] + 1) / 2]])
    shares = [(margins[poisoned] > one).mean() + (margins[~poisoned] <= one).mean() for one in between]
    best = np.flatnonzero(np.isclose(shares, max(shares)))
    return float(np.clip(between[best[len(best) // 2]], -0.99, 0.99))


def figures_of(probe: Probe, tested: Recordings) -> dict[str, float]:
    """What `Probe.figures` holds, measured on `tested`; what cannot be measured is left out, and then counts as failed."""
    labelled = tested.labelled
    return figures(probe.margins(labelled.states), labelled, probe.threshold)


def figures(margins: NDArray[np.float64], labelled: Recordings, threshold: float) -> dict[str, float]:
    """The same of margins, [n], that labelled recordings were given."""
    poisoned = labelled.poisoned
    styled = np.array([row.kind == "look-alike" for row in labelled.rows], bool)
    sure = rates(margins, poisoned, threshold)
    alike = rates(margins[styled], poisoned[styled], threshold)
    forced = rates(margins, poisoned)
    found = {
        "samples": float(len(labelled)),
        "questions": float(len({row.key for row in labelled.rows})),
        "unsure": sure.unsure / max(1, len(labelled)),
        "tpr": sure.tpr,
        "fpr": sure.fpr,
        "fpr_look_alike": alike.fpr,
        "tpr_forced": forced.tpr,
        "fpr_forced": forced.fpr,
        "auc": auc(margins, poisoned),
    }
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def auc(scores: NDArray[np.float64], poisoned: NDArray[np.bool_]) -> float:
    """How often a positive scores over a negative, ties half; NaN without both."""
    if poisoned.all() or not poisoned.any():
        return float("nan")
    over = scores[poisoned][:, None] - scores[~poisoned][None]
    return float((over > 0).mean() + 0.5 * (over == 0).mean())


def single_features(tested: Recordings) -> dict[str, float]:
    """AUC of what can be had without any state, whichever way it points: a probe must do better than these.

    Raises:
        Misuse: there is one class only.
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
    found = {name: auc(np.array(values, np.float64), poisoned) for name, values in columns.items()}
    return {name: max(value, 1 - value) for name, value in found.items()}


def random_labels(given: Recordings, seed: int) -> Recordings:
    """The recordings with a coin in place of the label, one coin a question, in every half.

    What a probe learns from them must be worth nothing on other questions. Where it is, a question stands in both halves: its states tell
    which it is, and with it the coin. (Shuffled labels measured against true ones would not do: by chance they agree with whatever
    direction the states vary in most, or contradict it.)
    """
    labelled = given.labelled
    keys = sorted({row.key for row in labelled.rows})
    coins = dict(zip(keys, np.random.default_rng(seed).permutation(len(keys)) % 2, strict=True))
    rows = tuple(
        replace(row, answered=Answered.ATTACKER, planted=max(1, row.planted))
        if coins[row.key]
        else replace(row, answered=Answered.RIGHT)
        for row in labelled.rows
    )
    return Recordings(given.model, given.prompt, rows, labelled.states)


def scores_by_chance(margins: NDArray[np.float64], tested: Recordings) -> bool:
    """Whether margins tell coins no better than chance does: the AUC is within 2.6 deviations (1 %) of one half.

    Counted in questions, which have one coin each. Where some have more samples than others they count for more, and so fewer of them
    count: the effective number is the square of the sum of their sizes over the sum of the squares (Kish).
    """
    poisoned = tested.poisoned
    sides = [
        Counter(row.key for row, label in zip(tested.rows, poisoned, strict=True) if label == side)
        for side in (True, False)
    ]
    heads, tails = (max(1.0, side.total() ** 2 / max(1, sum(size**2 for size in side.values()))) for side in sides)
    deviation = np.sqrt((heads + tails + 1) / (12 * heads * tails))
    return not abs(auc(margins, poisoned) - 0.5) > 2.6 * deviation
