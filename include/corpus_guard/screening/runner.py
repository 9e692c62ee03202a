"""Every check over every version, in batches, failing closed.

Rules
    * a check that raises is run again on each version alone; a version on which it raises still is *unchecked*, which quarantines
      it; its neighbours keep their findings;
    * a check that does not look at a version leaves a `Skipped` with the reason;
    * what two people muted for a source is found all the same, marked, and does not count; that a check failed, and what parsing
      found, cannot be muted;
    * the second stage sees only versions that the first leaves in doubt: neither quarantined already, nor cleared by
      the cheap test of the second-stage check itself; its results are kept by content.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol, TypeGuard

from corpus_guard.domain import Finding, Judgement, Severity, Skipped, Verdict, Version, digest
from corpus_guard.screening.check import AcrossDocuments, Check, SecondStage
from corpus_guard.screening.policy import UNCHECKED, Policy
from corpus_guard.screening.survey import Survey

log = logging.getLogger(__name__)

NOTHING_TO_SAY = "has nothing to say about such a document"
DECIDED_ALREADY = "the first stage has decided already"

Mutes = Mapping[str, frozenset[str]]
"""Source → codes of findings that mean nothing in it (`corpus_guard.review.muting`)."""

Notes = tuple[list[list[Finding]], list[list[Skipped]]]


class ResultCache(Protocol):
    """Keeps what slow checks found, by content."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Known results."""

    def save(self, results: Mapping[str, Sequence[Finding]]) -> None:
        """Remember."""


class NoCache:
    """Forgets everything."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Nothing is known."""
        return {}

    def save(self, results: Mapping[str, Sequence[Finding]]) -> None:
        """Nothing is kept."""


class Screening:
    """A policy and the checks built for it."""

    def __init__(
        self,
        policy: Policy,
        checks: Sequence[Check],
        cache: ResultCache | None = None,
        mutes: Mutes = MappingProxyType({}),
    ) -> None:
        self.policy = policy
        self.mutes = mutes
        self._checks = checks
        self._cache = cache or NoCache()
        self.digest = policy.digest(check.digest for check in checks)

    def digest_of(self, source: str) -> str:
        """Identity of what decides about a source: the policy's, and what is muted for it."""
        muted = self.mutes.get(source)
        return digest("muted/v1", [self.digest, *sorted(muted)]) if muted else self.digest

    def check(self, name: str) -> Check | None:
        """The check of this name; None where it is switched off."""
        return next((check for check in self._checks if check.name == name), None)

    def uncached(self) -> Screening:
        """The same checks under the same policy, leaving nothing behind."""
        return Screening(self.policy, self._checks, mutes=self.mutes)

    def judge(self, versions: Sequence[Version], survey: Survey | None) -> list[Judgement]:
        """A verdict for every version, in order. `survey` is None when documents are screened one by one."""
        findings = [list(version.problems) for version in versions]
        skipped: list[list[Skipped]] = [[] for _ in versions]
        for check in self._checks:
            if not _is_second_stage(check):
                self._first(check, versions, survey, (findings, skipped))
        for check in self._checks:
            if _is_second_stage(check):
                self._second(check, versions, (findings, skipped))
        return [
            Judgement(
                version_id=version.version_id,
                verdict=self.policy.verdict(version.stamp.trust, found, version.stamp.source),
                shadow_verdict=self.policy.shadow_verdict(version.stamp.trust, found, version.stamp.source),
                risk=self.policy.risk(found),
                policy_digest=self.digest_of(version.stamp.source),
                findings=tuple(sorted(found, key=_worst_first)),
                skipped=tuple(notes),
            )
            for version, found, notes in zip(versions, findings, skipped, strict=True)
        ]

    def _first(self, check: Check, versions: Sequence[Version], survey: Survey | None, notes: Notes) -> None:
        findings, skipped = notes
        chosen = []
        for index, version in enumerate(versions):
            reason = _skips(check, version, survey)
            if reason is None:
                chosen.append(index)
            else:
                skipped[index].append(Skipped(check.name, reason))
        for index, found in zip(chosen, _guarded(check, [versions[i] for i in chosen], survey), strict=True):
            findings[index] += self._heard(versions[index], found)

    def _second(self, check: SecondStage, versions: Sequence[Version], notes: Notes) -> None:
        findings, skipped = notes
        chosen: dict[int, str] = {}
        for index, version in enumerate(versions):
            reason = self._closed(check, version, findings[index])
            if reason is None:
                spans = (f"{chunk.start}-{chunk.end}" for chunk in version.chunks)
                chosen[index] = digest("result/v1", [check.digest, version.text_sha256, *spans])
            else:
                skipped[index].append(Skipped(check.name, reason))
        known = dict(self._cache.load(list(chosen.values())))
        todo = [index for index, key in chosen.items() if key not in known]
        fresh = {}
        for index, found in zip(todo, _guarded(check, [versions[i] for i in todo], None), strict=True):
            known[chosen[index]] = found
            if not any(finding.code.endswith(UNCHECKED) for finding in found):  # a failure is not a result
                fresh[chosen[index]] = found
        self._cache.save(fresh)
        for index, key in chosen.items():
            findings[index] += self._heard(versions[index], known[key])

    def _heard(self, version: Version, found: Sequence[Finding]) -> list[Finding]:
        muted = self.mutes.get(version.stamp.source, frozenset())
        return [replace(one, muted=True) if one.code in muted and is_mutable(one.code) else one for one in found]

    def _closed(self, check: SecondStage, version: Version, found: Sequence[Finding]) -> str | None:
        if self.policy.verdict(version.stamp.trust, found, version.stamp.source) is not Verdict.ACCEPT:
            return DECIDED_ALREADY
        if not _applies(check, version):
            return NOTHING_TO_SAY
        try:
            return check.wants(version, found)
        except Exception:  # so it is looked at; `run` is guarded
            return None


def is_mutable(code: str) -> bool:
    """Whether a finding of this code may be muted: not that a check failed, not what parsing found."""
    return not code.endswith(UNCHECKED) and not code.startswith("parsing.")


def _skips(check: Check, version: Version, survey: Survey | None) -> str | None:
    """Why the first stage need not show `version` to `check`."""
    if not _applies(check, version):
        return NOTHING_TO_SAY
    if not _compares(check):
        return None
    if survey is None or survey.alone:
        return "documents were screened one by one"
    try:
        return check.skips(version, survey)
    except Exception:  # so it is looked at; `run` is guarded
        return None


def _compares(check: Check) -> TypeGuard[AcrossDocuments]:
    return check.across_documents


def _applies(check: Check, version: Version) -> bool:
    try:
        return check.applies_to(version)
    except Exception:  # so it is looked at; `run` is guarded
        return True


def _guarded(check: Check, versions: Sequence[Version], survey: Survey | None) -> list[list[Finding]]:
    if not versions:
        return []
    try:
        found: list[list[Finding]] = [[] for _ in versions]
        for index, finding in check.run(versions, survey):
            found[index].append(finding)
        return found
    except Exception as error:
        # The exception's text may quote the document: only its type is told.
        if len(versions) == 1:
            log.warning("check %s failed on version %s: %s", check.name, versions[0].version_id, type(error).__name__)
            return [[_unchecked(check, error)]]
    return [_guarded(check, [version], survey)[0] for version in versions]


def _unchecked(check: Check, error: Exception) -> Finding:
    return Finding(
        check=check.name,
        code=check.name + UNCHECKED,
        severity=Severity.HIGH,
        score=0.5,
        message=f"the check failed with {type(error).__name__}, so nothing is known; not checked is not clean",
    )


def _is_second_stage(check: Check) -> TypeGuard[SecondStage]:
    return check.second_stage


def _worst_first(finding: Finding) -> tuple[int, float, str, int]:
    return -finding.severity.rank, -finding.score, finding.code, finding.span.start if finding.span else -1
