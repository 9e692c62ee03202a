"""Runner of all checks over all versions, in batches, failing closed.

Rules
    * a check that raises is run again on each version alone; a version on which it raises again is
      *unchecked*, which quarantines it; the other versions keep their findings;
    * a check that passes over a version leaves a `Skipped` with the reason;
    * codes that two people muted for a source are still found, marked, and do not count; failures of a check
      and findings of parsing cannot be muted;
    * a check that reads findings runs after the first stage and gets those that count;
    * the second stage sees only versions that the first leaves open: neither quarantined already, nor cleared
      by the cheap test of the second-stage check itself; its results are kept by content.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, TypeGuard

from corpus_guard.domain import Finding, Judgement, Severity, Skipped, Verdict, Version, digest
from corpus_guard.screening.check import AcrossDocuments, Check, ReadsFindings, SecondStage
from corpus_guard.screening.policy import UNCHECKED_SUFFIX, Policy
from corpus_guard.screening.survey.survey import Survey

log = logging.getLogger(__name__)

NOT_APPLICABLE: Final = "the check does not apply to such a document"
DECIDED_ALREADY: Final = "the first stage has decided already"
"""Reason of a `Skipped` that ledgers hold: it must stay as it is."""

EVIDENCE_PREFIX: Final = "seen-"
"""Begins the keys of results that rest on more than a text; a purge erases them all."""
RESULT_KEY_CHARS: Final = 64

MutedCodes: TypeAlias = Mapping[str, frozenset[str]]
"""Source → codes of findings that do not count there (`corpus_guard.review.muting`)."""

_Results: TypeAlias = tuple[list[list[Finding]], list[list[Skipped]]]  # one list a version


class ResultCache(Protocol):
    """Store of the results of slow checks, by content."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Return the known results."""

    def save(self, results_by_key: Mapping[str, Sequence[Finding]], /) -> None:
        """Keep results."""


class NoCache:
    """Cache that keeps nothing."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Return nothing."""
        return {}

    def save(self, results_by_key: Mapping[str, Sequence[Finding]], /) -> None:
        """Keep nothing."""


class Screening:
    """Policy with the checks built for it."""

    def __init__(
        self,
        policy: Policy,
        checks: Sequence[Check],
        cache: ResultCache | None = None,
        mutes: MutedCodes = MappingProxyType({}),
    ) -> None:
        self.policy = policy
        self.mutes = mutes
        self._checks = checks
        self._cache = cache or NoCache()
        self.digest = policy.digest(check.digest for check in checks)

    def digest_of(self, source: str) -> str:
        """Return the identity of the policy and of the codes muted for a source."""
        muted = self.mutes.get(source)
        return digest("muted/v1", [self.digest, *sorted(muted)]) if muted else self.digest

    def check_digests(self) -> dict[str, str]:
        """Return the digest of each check that is switched on, by its name."""
        return {check.name: check.digest for check in self._checks}

    def check(self, name: str) -> Check | None:
        """Return the check of this name; None where it is switched off."""
        return next((check for check in self._checks if check.name == name), None)

    def under(self, policy: Policy) -> Screening:
        """Return the same checks, with the same cache and mutes, under another policy for the same checks."""
        return Screening(policy, self._checks, self._cache, self.mutes)

    def uncached(self) -> Screening:
        """Return the same checks under the same policy, without a cache."""
        return Screening(self.policy, self._checks, mutes=self.mutes)

    def judge(self, versions: Sequence[Version], survey: Survey | None) -> list[Judgement]:
        """Return a judgement of every version, in order.

        Args:
            survey: of the whole run; None when documents are screened one by one.
        """
        findings = [list(version.problems) for version in versions]
        skipped: list[list[Skipped]] = [[] for _ in versions]
        for check in self._checks:
            if not _is_second_stage(check) and not _reads_findings(check):
                self._run_first_stage(check, versions, survey, (findings, skipped))
        for check in self._checks:
            if _reads_findings(check):
                by_version = {
                    version.version_id: self.policy.weighed(own)
                    for version, own in zip(versions, findings, strict=True)
                }
                self._run_first_stage(check.reading(by_version), versions, survey, (findings, skipped))
        for check in self._checks:
            if _is_second_stage(check):
                self._run_second_stage(check, versions, survey, (findings, skipped))
        return [
            Judgement(
                version_id=version.version_id,
                verdict=self.policy.verdict(version.stamp.trust, own, version.stamp.source),
                shadow_verdict=self.policy.shadow_verdict(version.stamp.trust, own, version.stamp.source),
                risk=self.policy.risk(own),
                policy_digest=self.digest_of(version.stamp.source),
                findings=tuple(sorted(own, key=_worst_first)),
                skipped=tuple(reasons),
            )
            for version, own, reasons in zip(versions, findings, skipped, strict=True)
        ]

    def _run_first_stage(
        self, check: Check, versions: Sequence[Version], survey: Survey | None, results: _Results
    ) -> None:
        findings, skipped = results
        chosen = []
        for index, version in enumerate(versions):
            reason = _reason_to_skip(check, version, survey)
            if reason is None:
                chosen.append(index)
            else:
                skipped[index].append(Skipped(check.name, reason))
        new = _run_guarded(check, [versions[index] for index in chosen], survey)
        for index, own in zip(chosen, new, strict=True):
            findings[index] += self._mark_muted(versions[index], own)

    def _run_second_stage(
        self, check: SecondStage, versions: Sequence[Version], survey: Survey | None, results: _Results
    ) -> None:
        findings, skipped = results
        chosen: dict[int, str] = {}
        for index, version in enumerate(versions):
            reason = self._reason_to_pass_over(check, version, findings[index], survey)
            if reason is None:
                chosen[index] = _result_key(check, version, survey)
            else:
                skipped[index].append(Skipped(check.name, reason))
        by_key = dict(self._cache.load(list(chosen.values())))
        todo = [index for index, key in chosen.items() if key not in by_key]
        fresh = {}
        for index, own in zip(todo, _run_guarded(check, [versions[index] for index in todo], survey), strict=True):
            by_key[chosen[index]] = own
            if not any(finding.code.endswith(UNCHECKED_SUFFIX) for finding in own):  # a failure is not a result
                fresh[chosen[index]] = own
        self._cache.save(fresh)
        for index, key in chosen.items():
            findings[index] += self._mark_muted(versions[index], by_key[key])

    def _mark_muted(self, version: Version, findings: Sequence[Finding]) -> list[Finding]:
        muted = self.mutes.get(version.stamp.source, frozenset())
        return [
            replace(finding, muted=True) if finding.code in muted and is_mutable(finding.code) else finding
            for finding in findings
        ]

    def _reason_to_pass_over(
        self, check: SecondStage, version: Version, findings: Sequence[Finding], survey: Survey | None
    ) -> str | None:
        if self.policy.verdict(version.stamp.trust, findings, version.stamp.source) is not Verdict.ACCEPT:
            return DECIDED_ALREADY
        if not _applies(check, version):
            return NOT_APPLICABLE
        try:
            return check.wants(version, findings, survey)
        except Exception:  # then the check runs; `run` is guarded
            return None


def _result_key(check: SecondStage, version: Version, survey: Survey | None) -> str:
    """Return the key under which the findings of a check are kept.

    Those that rest on the text alone can be found again from it, when it is purged; the others are marked.
    """
    spans = [(chunk.start, chunk.end) for chunk in version.chunks]
    if evidence := check.evidence(version, survey):
        rests_on = _text_and_spans(check.digest, version.text_sha256, spans)
        return f"{EVIDENCE_PREFIX}{digest('result/v2', [*rests_on, '', *evidence])}"[:RESULT_KEY_CHARS]
    return text_result_key(check.digest, version.text_sha256, spans)


def text_result_key(check_digest: str, text_sha256: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the key of findings that rest on a text alone, cut into chunks with these starts and ends."""
    return digest("result/v1", _text_and_spans(check_digest, text_sha256, spans))


def _text_and_spans(check_digest: str, text_sha256: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [check_digest, text_sha256, *(f"{start}-{end}" for start, end in spans)]


def is_mutable(code: str) -> bool:
    """Return True if findings of this code may be muted: not failures of a check, not findings of parsing."""
    return not code.endswith(UNCHECKED_SUFFIX) and not code.startswith("parsing.")


def _reason_to_skip(check: Check, version: Version, survey: Survey | None) -> str | None:
    """Return the reason why the first stage need not run `check` on `version`."""
    if not _applies(check, version):
        return NOT_APPLICABLE
    if not _is_across_documents(check):
        return None
    if survey is None or survey.alone:
        return "documents were screened one by one"
    try:
        return check.skips(version, survey)
    except Exception:  # then the check runs; `run` is guarded
        return None


def _is_across_documents(check: Check) -> TypeGuard[AcrossDocuments]:
    return check.across_documents


def _applies(check: Check, version: Version) -> bool:
    try:
        return check.applies_to(version)
    except Exception:  # then the check runs; `run` is guarded
        return True


def _run_guarded(check: Check, versions: Sequence[Version], survey: Survey | None) -> list[list[Finding]]:
    """Return the findings of `check` for each version; where the check failed, a finding that says so."""
    if not versions:
        return []
    try:
        findings: list[list[Finding]] = [[] for _ in versions]
        for index, finding in check.run(versions, survey):
            findings[index].append(finding)
        return findings
    except Exception as error:
        # The exception's text may quote the document: only its type is reported.
        if len(versions) == 1:
            log.warning("check %s failed on version %s: %s", check.name, versions[0].version_id, type(error).__name__)
            return [[_unchecked(check, error)]]
    return [_run_guarded(check, [version], survey)[0] for version in versions]


def _unchecked(check: Check, error: Exception) -> Finding:
    return Finding(
        check=check.name,
        code=check.name + UNCHECKED_SUFFIX,
        severity=Severity.HIGH,
        score=0.5,
        message=f"The check failed with {type(error).__name__}: not checked is not clean",
    )


def _is_second_stage(check: Check) -> TypeGuard[SecondStage]:
    return check.second_stage


def _reads_findings(check: Check) -> TypeGuard[ReadsFindings]:
    return bool(getattr(check, "reads_findings", False))


def _worst_first(finding: Finding) -> tuple[int, float, str, int]:
    return -finding.severity.rank, -finding.score, finding.code, finding.span.start if finding.span else -1
