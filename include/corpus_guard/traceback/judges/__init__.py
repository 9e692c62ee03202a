"""Judges: whether a text leads to the output that was reported.

Every text is hostile, to a judge above all. An opinion that cannot be read is *undecided*, never silently benign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from corpus_guard.traceback.suspects import Complaint, Suspect


class Label(StrEnum):
    """What a judge says of one text."""

    POISONED = "poisoned"
    BENIGN = "benign"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge says, and why."""

    label: Label
    score: float  # how likely the text is poisoned, 0..1
    explanation: str  # for people; what a model wrote is cut short and never trusted


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A second look, with everything known that the complaint retrieved."""

    probability: float | None = None  # that the complaint is an attack, 0..1, calibrated; None: this judge cannot say
    acquitted: frozenset[str] = frozenset()  # ids of texts that look poisoned only by themselves


class Judge(Protocol):
    """Judges the texts that one complaint retrieves."""

    @property
    def name(self) -> str:
        """As settings and the command line call it."""

    @property
    def digest(self) -> str:
        """Everything its opinions depend on: model, prompt, thresholds. At most 200 characters."""

    def judge(self, complaint: Complaint, new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Opinion]:
        """An opinion of each new text, in their order.

        Args:
            complaint: what was asked and wrongly answered.
            new: texts not judged yet.
            seen: all that was retrieved for this complaint so far, the new ones included, in the order they were found.

        Raises:
            JudgeFailed: no opinion can be had.
        """

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[Suspect, Opinion]]) -> Conclusion:
        """What all opinions together amount to: may acquit single texts, never accuse further ones."""
