"""What a policy would do to each source, told from what was recorded; and the threshold that keeps false alarms rare.

Rules
- A document counts once, by its latest version. Honest is what the policy accepted or a reviewer released; an attack is what
  a reviewer rejected; what still waits is neither, and so is what was refused without asking.
- Findings are taken as recorded. A policy that changes a check's parameters would find others: only judging again tells
  (``guard rescreen --dry-run``). A check that the policy switches off finds nothing.
- A threshold is proposed only where the honest documents suffice to say, with 95 % confidence, that at most the target share of
  such documents will be stopped: 299 for one in a hundred. Small sources are told how many they lack.
- Of all such thresholds it is the lowest risk at the severity in force; the severity is raised only where its findings alone
  are more false alarms than the target allows.

What it does not do: notice that an attack was accepted. An attacker who fills a source with what is accepted makes its
threshold looser: look at what a proposal would let in before taking it over.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict
from corpus_guard.screening.policy import UNCHECKED, Policy, Threshold

DOUBT: Final = 0.05  # chance that a proposal's true rate lies above the target
LEAST_RISK: Final = 0.05  # no proposal below it: one low finding with a low score is no reason to ask a person
NORMAL_95: Final = 1.959964  # two-sided 95 % of a normal distribution


class Outcome(StrEnum):
    """What became of a version."""

    ACCEPTED = "accepted"  # by the policy
    RELEASED = "released"  # by a reviewer: a false alarm
    REJECTED = "rejected"  # by a reviewer: a true alarm
    WAITING = "waiting"  # in quarantine, undecided
    REFUSED = "refused"  # by the policy, without asking


HONEST: Final = (Outcome.ACCEPTED, Outcome.RELEASED)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A document's latest version: what was found in it and what became of it."""

    source: str
    trust: TrustLevel
    findings: tuple[Finding, ...]
    outcome: Outcome
    unseen: bool = False  # a slow check did not look, because the first stage had decided already


@dataclass(frozen=True, slots=True)
class Share:
    """A count with its Wilson interval (95 %)."""

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson 1927: 0 to 1 where there is nothing to count."""
        return wilson(self.count, self.of)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        low, high = self.interval
        share = round(self.count / self.of, 6) if self.of else None
        return {"count": self.count, "of": self.of, "share": share, "low": round(low, 6), "high": round(high, 6)}


@dataclass(frozen=True, slots=True)
class Alarm:
    """One check or one code in one source. A shadowed one is told as if nothing were shadowed."""

    name: str
    shadowed: bool
    found: int  # documents
    stopped: Share  # of the source's documents: found in, and stopped
    alone: int  # stopped, and accepted without it
    released: int  # of those it was found in, what reviewers released
    rejected: int  # … and rejected

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "shadowed": self.shadowed,
            "found": self.found,
            "stopped": self.stopped.as_dict(),
            "alone": self.alone,
            "released": self.released,
            "rejected": self.rejected,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A threshold for a source, or why there is none."""

    threshold: Threshold | None
    false_alarms: int  # honest documents it would have stopped
    reason: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a policy would do to a source."""

    source: str
    trust: TrustLevel
    documents: int
    threshold: Threshold  # in force
    outcomes: Mapping[Outcome, int]
    stopped: Share  # of the documents: quarantined or rejected
    stopped_without_shadow: Share  # the same if nothing were shadowed
    false_alarms: Share  # of the honest: stopped
    attacks_stopped: Share  # of what reviewers rejected: stopped
    unseen: int  # accepted now, though a slow check never looked at them
    checks: tuple[Alarm, ...]
    codes: tuple[Alarm, ...]
    proposal: Proposal

    @property
    def released(self) -> Share:
        """Of what reviewers decided: released."""
        return Share(self.outcomes[Outcome.RELEASED], self.outcomes[Outcome.RELEASED] + self.outcomes[Outcome.REJECTED])

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        proposed = self.proposal.threshold
        return {
            "source": self.source,
            "trust": self.trust.value,
            "documents": self.documents,
            "threshold": self.threshold.model_dump(mode="json"),
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "stopped": self.stopped.as_dict(),
            "stopped_without_shadow": self.stopped_without_shadow.as_dict(),
            "false_alarms": self.false_alarms.as_dict(),
            "attacks_stopped": self.attacks_stopped.as_dict(),
            "released": self.released.as_dict(),
            "unseen": self.unseen,
            "checks": [alarm.as_dict() for alarm in self.checks],
            "codes": [alarm.as_dict() for alarm in self.codes],
            "proposal": {
                "threshold": proposed.model_dump(mode="json") if proposed else None,
                "false_alarms": self.proposal.false_alarms,
                "reason": self.proposal.reason,
            },
        }


def forecast(policy: Policy, recorded: Iterable[Recorded], target: float) -> list[Forecast]:
    """What `policy` would do to each source, and the threshold that keeps false alarms under `target`.

    Args:
        policy: any; its checks' parameters do not count, see the rules.
        recorded: versions, streamed; two numbers are kept of each honest one.
        target: share of honest documents that may be stopped, 0..1 without the ends.

    Returns:
        One forecast a source, by name.
    """
    off = frozenset(name for name, section in policy.checks.items() if section.get("enabled") is False)
    sources: dict[str, _Tally] = {}
    for one in recorded:
        if one.source not in sources:
            sources[one.source] = _Tally(policy, one.source, one.trust)
        sources[one.source].add(one, [finding for finding in one.findings if finding.check not in off])
    return [sources[name].forecast(target) for name in sorted(sources)]


def wilson(count: int, of: int, z: float = NORMAL_95) -> tuple[float, float]:
    """Wilson's score interval of a share; (0, 1) where `of` is 0. (Wilson 1927, JASA 22.)"""
    if not of:
        return 0.0, 1.0
    share, spread = count / of, z * z / of
    middle = share + spread / 2
    half = z * math.sqrt((share * (1 - share) + spread / 4) / of)
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def allowed_alarms(documents: int, target: float) -> int | None:
    """How many of `documents` honest ones may be stopped so that the true rate is at most `target` with 95 % confidence.

    The largest k whose Clopper-Pearson upper bound is at most the target: P(X <= k) <= DOUBT for X binomial. It also bounds
    the k-th largest value taken as a threshold (Wilks 1941). None: too few documents even for k = 0.
    """
    log_target, log_rest = math.log(target), math.log1p(-target)
    limit = math.log(DOUBT)
    term = total = documents * log_rest  # log P(X = 0)
    if total > limit:
        return None
    for count in range(documents):
        term += math.log(documents - count) - math.log(count + 1) + log_target - log_rest
        total = max(total, term) + math.log1p(math.exp(-abs(total - term)))
        if total > limit:
            return count
    return documents


def documents_needed(target: float) -> int:
    """Honest documents, none of them stopped, from which a threshold can be proposed."""
    return math.ceil(math.log(DOUBT) / math.log1p(-target))


def propose(now: Threshold, honest: Sequence[tuple[int, float]], waiting: int, target: float) -> Proposal:
    """The lowest risk that keeps false alarms under `target`, see the rules.

    Args:
        now: the threshold in force.
        honest: (rank of the worst finding, risk) of each; rank above critical: stopped whatever the threshold.
        waiting: documents that nobody has decided on.
        target: share of honest documents that may be stopped.
    """
    allowed = allowed_alarms(len(honest), target)
    if allowed is None:
        return Proposal(None, 0, f"too few documents: {len(honest):,}, need {documents_needed(target):,}")
    if waiting > allowed:
        return Proposal(None, 0, f"{waiting:,} wait undecided, at most {allowed:,} may: decide on them first")
    for severity in Severity:
        if severity.rank < now.severity.rank:
            continue
        always = sum(worst >= severity.rank for worst, _ in honest)
        if always > allowed:
            continue
        risks = sorted((risk for worst, risk in honest if worst < severity.rank), reverse=True)
        # Strictly above the highest risk that must pass, in hundredths, as a person would write it.
        spare = allowed - always
        passing = risks[spare] if spare < len(risks) else 0.0
        hundredths = max(math.floor(round(passing * 100, 6)) + 1, round(LEAST_RISK * 100))
        if hundredths <= 100:
            threshold = Threshold(severity=severity, risk=hundredths / 100)
            stopped = always + sum(risk >= threshold.risk for risk in risks)
            return Proposal(threshold, stopped, f"{stopped:,} of {len(honest):,} honest stopped, {allowed:,} allowed")
    return Proposal(None, 0, f"more than {allowed:,} of {len(honest):,} honest documents are stopped at any threshold")


@dataclass(slots=True)
class _Tally:
    """One source, counted document by document."""

    policy: Policy
    source: str
    trust: TrustLevel
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    stopped: Counter[Outcome] = field(default_factory=Counter)
    without_shadow: int = 0
    unseen: int = 0
    honest: list[tuple[int, float]] = field(default_factory=list)
    # (kind, name) → found, stopped, alone, released, rejected
    alarms: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def add(self, one: Recorded, findings: Sequence[Finding]) -> None:
        self.trust = one.trust
        self.outcomes[one.outcome] += 1
        accepted = self._accepts(self.policy, findings)
        if not accepted:
            self.stopped[one.outcome] += 1
        elif one.unseen:
            self.unseen += 1
        self.without_shadow += not self._accepts(self.policy.without_shadow, findings)
        if one.outcome in HONEST:
            self.honest.append(self._strength(findings))
        for kind, name in {("check", f.check) for f in findings} | {("code", f.code) for f in findings}:
            self._count(kind, name, one.outcome, findings)

    def _count(self, kind: str, name: str, outcome: Outcome, findings: Sequence[Finding]) -> None:
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
        whatever = any(finding.code in self.policy.reject or finding.code.endswith(UNCHECKED) for finding in weighed)
        worst = max((finding.severity.rank for finding in weighed), default=-1)
        return len(Severity) if whatever else worst, self.policy.risk(weighed)

    def _shadowed(self, kind: str, name: str) -> bool:
        return bool({name, name.partition(".")[0]} & self.policy.shadow)

    def forecast(self, target: float) -> Forecast:
        documents = sum(self.outcomes.values())
        now = self.policy.threshold(self.trust, self.source)
        return Forecast(
            source=self.source,
            trust=self.trust,
            documents=documents,
            threshold=now,
            outcomes=self.outcomes,
            stopped=Share(sum(self.stopped.values()), documents),
            stopped_without_shadow=Share(self.without_shadow, documents),
            false_alarms=Share(sum(self.stopped[outcome] for outcome in HONEST), len(self.honest)),
            attacks_stopped=Share(self.stopped[Outcome.REJECTED], self.outcomes[Outcome.REJECTED]),
            unseen=self.unseen,
            checks=self._alarms("check", documents),
            codes=self._alarms("code", documents),
            proposal=propose(now, self.honest, self.outcomes[Outcome.WAITING], target),
        )

    def _alarms(self, kind: str, documents: int) -> tuple[Alarm, ...]:
        rows = [
            Alarm(
                name=name,
                shadowed=self._shadowed(kind, name),
                found=counted["found"],
                stopped=Share(counted["stopped"], documents),
                alone=counted["alone"],
                released=counted[Outcome.RELEASED],
                rejected=counted[Outcome.REJECTED],
            )
            for (of, name), counted in self.alarms.items()
            if of == kind
        ]
        return tuple(sorted(rows, key=lambda row: (-row.stopped.count, -row.found, row.name)))
