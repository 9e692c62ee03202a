"""Versions that break a suite of expectations of your own, in Great Expectations' file format.

Every ``*.yaml`` or ``*.json`` below ``expectations/`` in `CORPUS_GUARD_EXTENSIONS_FOLDER` is a suite, for all
versions or for those of some sources or trust levels. It sees the stamp, what the source declares, the
measures of the text, and the scores of the checks that ran before. A row that fails is a finding
``expectation.<suite>.<rule>``.

What it does not do: see the text. A check of your own does (`guard checks new`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from corpus_guard.domain import Finding, Version
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.suites.frame import build_frame
from corpus_guard.screening.suites.suite import Suite
from corpus_guard.screening.suites.validation import describe_failure, find_failures
from corpus_guard.screening.survey.survey import Survey


class ExpectationParams(Params):
    """The section ``expectation`` of policy.yaml."""


class Expectations(ConfiguredCheck[ExpectationParams]):
    """The suites of a deployment. It runs after the first stage, whose findings it reads."""

    name = "expectation"
    params_class = ExpectationParams
    code_version = ("expectation/1",)
    reads_findings = True

    def __init__(
        self,
        params: ExpectationParams | None = None,
        suites: Sequence[Suite] = (),
        columns: Sequence[str] = (),
        findings: Mapping[str, Sequence[Finding]] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            findings: by version id, of the checks that ran before; only those that count.
        """
        super().__init__(params)
        self.suites, self._columns, self._findings = tuple(suites), tuple(columns), findings

    def resources(self) -> Sequence[str]:
        """Return the digests of the suites."""
        return sorted(suite.digest for suite in self.suites)

    def reading(self, findings: Mapping[str, Sequence[Finding]]) -> Expectations:
        """Return the same check with the findings of the checks that ran before."""
        return Expectations(self.params, self.suites, self._columns, findings)

    def applies_to(self, version: Version) -> bool:
        """Return True if a suite is for the version."""
        return any(suite.applies_to(version.stamp.source, version.stamp.trust) for suite in self.suites)

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Validate each suite over its versions; a suite without a clean answer raises."""
        for suite in self.suites:
            stamps = ((position, version.stamp) for position, version in enumerate(batch))
            places = [position for position, stamp in stamps if suite.applies_to(stamp.source, stamp.trust)]
            if not places:
                continue
            versions = [batch[position] for position in places]
            rows = build_frame(versions, suite.columns(self._columns), self._findings)
            failed = {(it.row, it.expectation.rule): it for it in find_failures(rows, suite.expectations)}
            for (row, rule), failure in sorted(failed.items(), key=lambda item: item[0]):
                code = f"{self.name}.{suite.name}.{rule}"
                yield places[row], describe_failure(self.name, code, failure, rows[row])
