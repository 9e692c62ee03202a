"""Documents that do not look like the others of their source.

Robust z-scores (Iglewicz and Hoaglin 1993, "How to detect and handle outliers": median and MAD, which a
minority of hostile documents cannot move far) of a few signals, lengths on a logarithmic scale, each in the
direction of trouble: a document may be much shorter than the others, but not much longer.

What it does not do: say that a document is hostile. An outlier is a hint of low severity that adds to others:
in a source of prose one table in six is an outlier. Sources of fewer than `min_documents` documents are not
judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Version
from corpus_guard.screening.check import Params, SurveyCheck
from corpus_guard.screening.survey.signals import LOGARITHMIC, measure_values, scale_value
from corpus_guard.screening.survey.survey import Survey


@dataclass(frozen=True, slots=True)
class _Limit:
    """One signal, and the direction in which its values are trouble."""

    signal: str
    description: str  # for the message
    direction: int  # +1: high values are trouble, -1: low ones
    floor: float
    """Least spread to assume, on the signal's scale: sources are often more uniform than their next document."""


# Floors: set so that on three public corpora (project documentation, security documentation, encyclopedia
# paragraphs, each taken as one source) fewer than 1 document in 200 reaches medium. A ratio's floor of 0.03
# means that eight deviations are at least 24 percentage points.
_LIMITS: Final = (
    _Limit("chars", "length", +1, 0.30),
    _Limit("hidden", "share of hidden text", +1, 0.02),
    _Limit("letters", "share of letters", -1, 0.04),
    _Limit("digits", "share of digits", +1, 0.03),
    _Limit("punctuation", "share of punctuation", +1, 0.02),
    _Limit("markup", "share of markup characters", +1, 0.03),
    _Limit("white_space", "share of white space", +1, 0.03),
    _Limit("upper_case", "share of upper case", +1, 0.04),
    _Limit("non_ascii", "share of characters outside ASCII", +1, 0.10),
    _Limit("control", "share of control and replacement characters", +1, 0.001),
    _Limit("word_length", "mean word length", +1, 0.50),
    _Limit("variety", "variety of words", -1, 0.04),
    _Limit("fragmentation", "tokens a word", +1, 0.10),
    _Limit("longest_line", "longest line", +1, 0.50),
    _Limit("longest_run", "longest run without white space", +1, 0.35),
)


class StatisticsParams(Params):
    """The section ``statistics`` of policy.yaml."""

    min_documents: int = Field(default=30, ge=10)
    """Fewest documents of a source for which statistics mean anything."""
    unusual: float = Field(default=8.0, ge=3.0)
    """Robust deviations from which a signal counts."""
    extreme: float = Field(default=15.0, ge=3.0)
    """Robust deviations from which one signal alone counts as much as several."""
    together: int = Field(default=3, ge=2)
    """Unusual signals that together count as much as an extreme one."""


class Statistics(SurveyCheck[StatisticsParams]):
    """Robust outliers against the documents of the same source."""

    name = "statistics"
    across_documents = True
    params_class = StatisticsParams
    code_version = ("statistics/2",)

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Return the reason why `version` cannot be compared; None: it can."""
        signals = survey.sources.get(version.stamp.source, {})
        count = min((robust.count for robust in signals.values()), default=0)
        if count < self.params.min_documents:
            documents = "1 document" if count == 1 else f"{count} documents"
            return f"the source has {documents} to compare with, {self.params.min_documents} are needed"
        return None

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Yield at most one finding, naming the unusual signals."""
        if not version.text or self.skips(version, survey):
            return
        robust, values = survey.sources[version.stamp.source], measure_values(version)
        unusual = []
        for limit in _LIMITS:
            if limit.signal not in robust:
                continue
            statistics = robust[limit.signal]
            z = limit.direction * statistics.z(scale_value(limit.signal, values[limit.signal]), limit.floor)
            if z >= self.params.unusual:
                usual = math.expm1(statistics.median) if limit.signal in LOGARITHMIC else statistics.median
                unusual.append((z, f"{limit.description} {values[limit.signal]:.4g} (usually about {usual:.4g})"))
        if not unusual:
            return
        unusual.sort(reverse=True)
        worst = unusual[0][0]
        strong = worst >= self.params.extreme or len(unusual) >= self.params.together
        yield self.finding(
            "outlier",
            Severity.LOW if strong else Severity.INFO,
            # 0.2 at the threshold, towards 0.6: an outlier is a reason to look, never a proof.
            0.6 - 0.4 * self.params.unusual / (worst * math.sqrt(len(unusual))),
            f"Unlike the other documents of its source: {'; '.join(text for _, text in unusual[:4])}.",
            tags=("poisoning",),
        )
