"""Does a document look like the others of its source?

Robust z-scores (Iglewicz and Hoaglin 1993, "How to detect and handle outliers": median and MAD, which a minority of
hostile documents cannot move far) of a few signals, lengths on a logarithmic scale, each in the direction in which
trouble lies: a document may be much shorter than the others, but not much longer.

What it does not do: say that a document is hostile. An outlier is a hint of low severity that adds to others: of the tables in a
source of prose one in six is one. It is silent on a source of fewer than `min_documents` documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Version, digest
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.signals import LOGARITHMIC, scaled, values_of
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags

_VERSION: Final = "statistics/2"


@dataclass(frozen=True, slots=True)
class _Side:
    signal: str
    words: str  # for the message
    direction: int  # +1: high values are trouble, -1: low ones
    floor: (
        float  # least spread to assume, on the signal's scale: sources are often more uniform than their next document
    )


# Floors: set so that on three public corpora (project documentation, security documentation, encyclopedia paragraphs,
# each taken as one source) fewer than 1 document in 200 reaches medium. A ratio's floor of 0.03 means that eight
# deviations are at least 24 percentage points.
_SIDES: Final = (
    _Side("chars", "length", +1, 0.30),
    _Side("hidden", "share of hidden text", +1, 0.02),
    _Side("letters", "share of letters", -1, 0.04),
    _Side("digits", "share of digits", +1, 0.03),
    _Side("punctuation", "share of punctuation", +1, 0.02),
    _Side("markup", "share of markup characters", +1, 0.03),
    _Side("white_space", "share of white space", +1, 0.03),
    _Side("upper_case", "share of upper case", +1, 0.04),
    _Side("non_ascii", "share of characters outside ASCII", +1, 0.10),
    _Side("control", "share of control and replacement characters", +1, 0.001),
    _Side("word_length", "mean word length", +1, 0.50),
    _Side("variety", "variety of words", -1, 0.04),
    _Side("fragmentation", "tokens a word", +1, 0.10),
    _Side("longest_line", "longest line", +1, 0.50),
    _Side("longest_run", "longest run without white space", +1, 0.35),
)


class StatisticsParams(Params):
    """The section ``statistics`` of policy.yaml."""

    min_documents: int = Field(default=30, ge=10)
    """Documents a source must have before its statistics mean anything."""
    unusual: float = Field(default=8.0, ge=3.0)
    """Robust deviations from which a signal counts."""
    extreme: float = Field(default=15.0, ge=3.0)
    """Robust deviations from which one signal alone counts as much as several."""
    together: int = Field(default=3, ge=2)
    """Unusual signals that together count as much as an extreme one."""


class Statistics:
    """Robust outliers against the documents of the same source."""

    name: ClassVar[str] = "statistics"
    across_documents: ClassVar[bool] = True
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[StatisticsParams]] = StatisticsParams

    def __init__(self, params: StatisticsParams | None = None) -> None:
        self.params = params or StatisticsParams()

    @property
    def digest(self) -> str:
        """Of the parameters and this code's version."""
        return digest("check/v1", [_VERSION, self.params.model_dump_json()])

    def applies_to(self, version: Version) -> bool:
        """Any text that is not empty."""
        return bool(version.text)

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Why nothing can be said of `version`; None where it can."""
        signals = survey.sources.get(version.stamp.source, {})
        count = min((robust.count for robust in signals.values()), default=0)
        if count < self.params.min_documents:
            return f"the source has {count} documents to compare with, {self.params.min_documents} are needed"
        return None

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """At most one finding a version, naming its unusual signals."""
        for position, version in enumerate(batch):
            if survey is None or not version.text or self.skips(version, survey):
                continue
            finding = self._compare(version, survey)
            if finding:
                yield position, finding

    def _compare(self, version: Version, survey: Survey) -> Finding | None:
        robust, values = survey.sources[version.stamp.source], values_of(version)
        unusual = []
        for side in _SIDES:
            if side.signal not in robust:
                continue
            statistics = robust[side.signal]
            z = side.direction * statistics.z(scaled(side.signal, values[side.signal]), side.floor)
            if z >= self.params.unusual:
                usual = math.expm1(statistics.median) if side.signal in LOGARITHMIC else statistics.median
                unusual.append((z, f"{side.words} {values[side.signal]:.4g} (usually about {usual:.4g})"))
        if not unusual:
            return None
        unusual.sort(reverse=True)
        worst = unusual[0][0]
        strong = worst >= self.params.extreme or len(unusual) >= self.params.together
        return Finding(
            check=self.name,
            code="statistics.outlier",
            severity=Severity.LOW if strong else Severity.INFO,
            # 0.2 at the threshold, towards 0.6: an outlier is a reason to look, never a proof.
            score=0.6 - 0.4 * self.params.unusual / (worst * math.sqrt(len(unusual))),
            message=f"Unlike the other documents of its source: {'; '.join(text for _, text in unusual[:4])}.",
            tags=tags(["poisoning"]),
        )
