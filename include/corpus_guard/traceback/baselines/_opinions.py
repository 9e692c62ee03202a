"""What all baselines have in common: a plain yes or no, and nothing to say of a complaint as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.traceback.judges import Conclusion, Label, Opinion
from corpus_guard.traceback.suspects import Complaint, Suspect

MOST_TOGETHER = 20
"""Texts that a model looks at together; more would not fit into a small one."""
LONGEST_ASKED = 2_000  # characters of a question


class Uncalibrated:
    """A judge whose opinions amount to nothing more than they are."""

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[Suspect, Opinion]]) -> Conclusion:
        """Nothing."""
        return Conclusion()


def opinion(poisoned: bool | None, why: str) -> Opinion:
    """Yes, no, or (None) undecided."""
    if poisoned is None:
        return Opinion(Label.UNDECIDED, 0.5, why)
    return Opinion(Label.POISONED, 1.0, why) if poisoned else Opinion(Label.BENIGN, 0.0, why)


def together(new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Suspect]:
    """The new texts and, while there is room, those seen before them, in the order they were found."""
    fresh = {one.chunk_id for one in new}
    known = [one for one in seen if one.chunk_id not in fresh]
    return [*known[: max(0, MOST_TOGETHER - len(new))], *new]
