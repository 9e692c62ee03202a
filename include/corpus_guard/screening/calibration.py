"""Forecast of a policy's effect on each source, from recorded findings, and the threshold that keeps false
alarms rare.

Rules
- A document counts once, by its latest version. It is honest if the policy accepted it or a reviewer released
  it, and an attack if a reviewer rejected it; documents that still wait, or were refused without asking, are
  neither.
- Findings count as recorded. A policy that changes a check's parameters would have other findings: only
  judging again shows them (``guard rescreen --dry-run``). A check that the policy switches off has none.
- A threshold is proposed only where the honest documents suffice to say, with 95 % confidence, that it stops
  at most the target share of such documents: 299 for one in a hundred. For smaller sources the proposal says
  how many are missing.
- Of all such thresholds it is the lowest risk at the severity in force; the severity is raised only where its
  findings alone are more false alarms than the target allows.

What it does not do: notice that an attack was accepted. An attacker who fills a source with accepted
documents makes its threshold looser: look at the documents that a proposal would let in before adopting it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from corpus_guard.domain import Finding, JsonRecord, Severity, TrustLevel, Verdict
from corpus_guard.screening.policy import UNCHECKED_SUFFIX, Policy, Threshold

MAX_ERROR_CHANCE: Final = 0.05  # chance that a proposal's true rate lies above the target
MIN_RISK: Final = 0.05  # no proposal below it: one low finding with a low score is no reason to ask a person


class VersionOutcome(StrEnum):
    """Outcome of a version, by policy and reviewers."""

    ACCEPTED = "accepted"  # by the policy
    RELEASED = "released"  # by a reviewer: a false alarm
    REJECTED = "rejected"  # by a reviewer: a true alarm
    WAITING = "waiting"  # in quarantine, undecided
    REFUSED = "refused"  # by the policy, without asking


HONEST: Final = (VersionOutcome.ACCEPTED, VersionOutcome.RELEASED)


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """A document's latest version, with its findings and its outcome."""

    source: str
    trust: TrustLevel
    findings: tuple[Finding, ...]
    outcome: VersionOutcome
    unseen: bool = False  # a slow check did not run, because the first stage had decided already


@dataclass(frozen=True, slots=True)
class Proportion:
    """A share with its 95 % interval."""

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return Wilson's score interval (1927, JASA 22), 0 to 1 where there is nothing to count."""
        return wilson_interval(self.count, self.of)

    def as_dict(self) -> dict[str, int | float | None]:
        """Return a JSON-ready form."""
        low, high = self.interval
        share = round(self.count / self.of, 6) if self.of else None
        return {"count": self.count, "of": self.of, "share": share, "low": round(low, 6), "high": round(high, 6)}


@dataclass(frozen=True, slots=True)
class Alarm:
    """Counts for one check or one code in one source. A shadowed one is counted as if nothing were shadowed."""

    name: str
    shadowed: bool
    documents: int  # documents with such a finding
    stopped: Proportion  # of the source's documents: with such a finding, and stopped
    alone: int  # stopped, and accepted without these findings
    released: int  # documents with such a finding that reviewers released
    rejected: int  # … and rejected

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "name": self.name,
            "shadowed": self.shadowed,
            "found": self.documents,
            "stopped": self.stopped.as_dict(),
            "alone": self.alone,
            "released": self.released,
            "rejected": self.rejected,
        }


@dataclass(frozen=True, slots=True)
class Proposal(JsonRecord):
    """A threshold for a source, or the reason why there is none."""

    threshold: Threshold | None
    false_alarms: int  # honest documents it would have stopped
    reason: str

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        threshold = self.threshold.model_dump(mode="json") if self.threshold else None
        return {**JsonRecord.as_dict(self), "threshold": threshold}


@dataclass(frozen=True, slots=True)
class Forecast(JsonRecord):
    """Effect of a policy on one source."""

    source: str
    trust: TrustLevel
    documents: int
    threshold: Threshold  # in force
    outcomes: Mapping[VersionOutcome, int]
    stopped: Proportion  # of the documents: quarantined or rejected
    stopped_without_shadow: Proportion  # the same if nothing were shadowed
    false_alarms: Proportion  # of the honest: stopped
    attacks_stopped: Proportion  # of the documents that reviewers rejected: stopped
    unseen: int  # accepted, though a slow check never looked at them
    checks: tuple[Alarm, ...]
    codes: tuple[Alarm, ...]
    proposal: Proposal

    @property
    def released(self) -> Proportion:
        """Return the share of released documents among those that reviewers decided on."""
        return Proportion(
            self.outcomes[VersionOutcome.RELEASED],
            self.outcomes[VersionOutcome.RELEASED] + self.outcomes[VersionOutcome.REJECTED],
        )

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        outcomes = {outcome.value: self.outcomes[outcome] for outcome in VersionOutcome}
        threshold = self.threshold.model_dump(mode="json")
        released = self.released.as_dict()
        return {**JsonRecord.as_dict(self), "threshold": threshold, "outcomes": outcomes, "released": released}


def forecast_sources(policy: Policy, documents: Iterable[JudgedDocument], target: float) -> list[Forecast]:
    """Forecast the effect of `policy` on each source, and propose thresholds; sorted by name of the source.

    Args:
        policy: any policy; the parameters of its checks do not count, see the rules.
        documents: judged documents, streamed; two numbers are kept of each honest one.
        target: share of honest documents that may be stopped, above 0 and below 1.
    """
    off = frozenset(name for name, section in policy.checks.items() if section.get("enabled") is False)
    sources: dict[str, _Tally] = {}
    for document in documents:
        if document.source not in sources:
            sources[document.source] = _Tally(policy, document.source, document.trust)
        sources[document.source].add(document, [finding for finding in document.findings if finding.check not in off])
    return [sources[name].forecast(target) for name in sorted(sources)]


def wilson_interval(count: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % score interval of a share (1927, JASA 22); (0, 1) where `of` is 0."""
    from scipy.stats import binomtest  # takes half a second to import

    if not of:
        return 0.0, 1.0
    interval = binomtest(count, of).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def allowed_alarms(documents: int, target: float) -> int | None:
    """Return how many honest documents may be stopped for a true rate of at most `target`, 95 % sure.

    It is the largest k whose Clopper-Pearson upper bound is at most the target: P(X <= k) <= 0.05 for a
    binomial X. The k-th largest value, taken as a threshold, has the same bound (Wilks 1941). None: too few
    documents even for k = 0.
    """
    from scipy.stats import binom  # takes half a second to import

    count = int(binom.ppf(MAX_ERROR_CHANCE, documents, target))
    if binom.cdf(count, documents, target) > MAX_ERROR_CHANCE:
        count -= 1
    return count if count >= 0 else None


def documents_needed(target: float) -> int:
    """Return the honest documents, none of them stopped, from which a threshold can be proposed."""
    return math.ceil(math.log(MAX_ERROR_CHANCE) / math.log1p(-target))


def propose_threshold(current: Threshold, honest: Sequence[tuple[int, float]], waiting: int, target: float) -> Proposal:
    """Propose the lowest risk that keeps false alarms under `target`, see the rules.

    Args:
        honest: (rank of the worst finding, risk) of each; rank above critical: stopped by any threshold.
    """
    allowed = allowed_alarms(len(honest), target)
    if allowed is None:
        return Proposal(None, 0, f"too few documents: {len(honest):,}, {documents_needed(target):,} are needed")
    if waiting > allowed:
        return Proposal(None, 0, f"{waiting:,} undecided, at most {allowed:,} allowed: decide on them first")
    for severity in Severity:
        if severity.rank < current.severity.rank:
            continue
        always = sum(worst >= severity.rank for worst, _ in honest)
        if always > allowed:
            continue
        risks = sorted((risk for worst, risk in honest if worst < severity.rank), reverse=True)
        # Strictly above the highest risk that must pass, in hundredths, as a person would write it.
        spare = allowed - always
        passing = risks[spare] if spare < len(risks) else 0.0
        hundredths = max(math.floor(round(passing * 100, 6)) + 1, round(MIN_RISK * 100))
        if hundredths <= 100:
            threshold = Threshold(severity=severity, risk=hundredths / 100)
            stopped = always + sum(risk >= threshold.risk for risk in risks)
            return Proposal(threshold, stopped, f"{stopped:,} of {len(honest):,} honest stopped, {allowed:,} allowed")
    return Proposal(None, 0, f"any threshold stops more than {allowed:,} of {len(honest):,} honest documents")


@dataclass(slots=True)
class _Tally:
    """Counts of one source, document by document."""

    policy: Policy
    source: str
    trust: TrustLevel
    outcomes: Counter[VersionOutcome] = field(default_factory=Counter)
    stopped: Counter[VersionOutcome] = field(default_factory=Counter)
    without_shadow: int = 0
    unseen: int = 0
    honest: list[tuple[int, float]] = field(default_factory=list)
    # (kind, name) → found, stopped, alone, released, rejected
    alarms: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def add(self, document: JudgedDocument, findings: Sequence[Finding]) -> None:
        """Count a document, with the findings of enabled checks."""
        self.trust = document.trust
        self.outcomes[document.outcome] += 1
        accepted = self._accepts(self.policy, findings)
        if not accepted:
            self.stopped[document.outcome] += 1
        elif document.unseen:
            self.unseen += 1
        self.without_shadow += not self._accepts(self.policy.without_shadow, findings)
        if document.outcome in HONEST:
            self.honest.append(self._strength(findings))
        for kind, name in {("check", f.check) for f in findings} | {("code", f.code) for f in findings}:
            self._count(kind, name, document.outcome, findings)

    def _count(self, kind: str, name: str, outcome: VersionOutcome, findings: Sequence[Finding]) -> None:
        policy = self.policy.without_shadow if self._shadowed(kind, name) else self.policy
        others = [finding for finding in findings if getattr(finding, kind) != name]
        counted = self.alarms.setdefault((kind, name), Counter())
        counted["found"] += 1
        counted[outcome.value] += 1
        if not self._accepts(policy, findings):
            counted["stopped"] += 1
            counted["alone"] += self._accepts(policy, others)

    def _accepts(self, policy: Policy, findings: Sequence[Finding]) -> bool:
        return policy.verdict(self.trust, findings, self.source) is Verdict.ACCEPT

    def _strength(self, findings: Sequence[Finding]) -> tuple[int, float]:
        weighed = self.policy.weighed(findings)
        certain = any(
            finding.code in self.policy.reject or finding.code.endswith(UNCHECKED_SUFFIX) for finding in weighed
        )
        worst = max((finding.severity.rank for finding in weighed), default=-1)
        return len(Severity) if certain else worst, self.policy.risk(weighed)

    def _shadowed(self, kind: str, name: str) -> bool:
        return bool({name, name.partition(".")[0]} & self.policy.shadow)

    def forecast(self, target: float) -> Forecast:
        """Return the forecast for the documents counted so far."""
        documents = sum(self.outcomes.values())
        current = self.policy.threshold(self.trust, self.source)
        return Forecast(
            source=self.source,
            trust=self.trust,
            documents=documents,
            threshold=current,
            outcomes=self.outcomes,
            stopped=Proportion(sum(self.stopped.values()), documents),
            stopped_without_shadow=Proportion(self.without_shadow, documents),
            false_alarms=Proportion(sum(self.stopped[outcome] for outcome in HONEST), len(self.honest)),
            attacks_stopped=Proportion(self.stopped[VersionOutcome.REJECTED], self.outcomes[VersionOutcome.REJECTED]),
            unseen=self.unseen,
            checks=self._alarms("check", documents),
            codes=self._alarms("code", documents),
            proposal=propose_threshold(current, self.honest, self.outcomes[VersionOutcome.WAITING], target),
        )

    def _alarms(self, kind: str, documents: int) -> tuple[Alarm, ...]:
        rows = [
            Alarm(
                name=name,
                shadowed=self._shadowed(kind, name),
                documents=counted["found"],
                stopped=Proportion(counted["stopped"], documents),
                alone=counted["alone"],
                released=counted[VersionOutcome.RELEASED],
                rejected=counted[VersionOutcome.REJECTED],
            )
            for (alarm_kind, name), counted in self.alarms.items()
            if alarm_kind == kind
        ]
        return tuple(sorted(rows, key=lambda row: (-row.stopped.count, -row.documents, row.name)))
