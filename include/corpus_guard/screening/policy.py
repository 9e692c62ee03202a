"""From findings to a verdict.

Rules
    * a finding whose check or code is listed under ``shadow`` is recorded and weighs nothing, not even when it says that
      the shadowed check failed: a check on trial must not be able to stop a source;
    * a finding that two people muted for its source is kept, marked, and weighs nothing (`corpus_guard.review.muting`);
    * a version is rejected when a finding's code is listed under ``reject``, or says that the content was purged;
    * else it is quarantined when a check could not look at it (a code that ends in ``.unchecked``), whatever the source;
    * else it is quarantined when its worst finding, or its risk, reaches the threshold of its source, if the source has one
      of its own under ``sources``, or else of the source's trust level;
    * else it is accepted.

A source's own threshold may be stricter or looser than its trust level's. It is part of the digest and shown by
``guard status``, as is what two people muted: nothing but the policy file and they can loosen a verdict.

Risk joins independent hints: ``1 - Π (1 - weight · score)`` over the strongest finding of each code, so that many small
signs add up and the same sign seen twice does not. The weights are fixed by severity and printed in the policy file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict, canonical_json, digest
from corpus_guard.screening.blocked import BLOCKED
from corpus_guard.settings import load_yaml

UNCHECKED = ".unchecked"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Threshold(_Section):
    """When a version waits for a person."""

    severity: Severity
    """At or above it."""
    risk: float = Field(ge=0, le=1)
    """At or above it."""


class Retirement(_Section):
    """What happens to a document that vanished from its source."""

    grace_hours: float = Field(ge=0)
    """It is served this long after it was first missed."""
    max_share: float = Field(ge=0, le=1)
    """When more than this share of a source vanishes at once, nothing is retired: an empty listing is rather a fault."""


class ReviewRules(_Section):
    """How people decide about what waits. It gives no verdict, so it is no part of the policy's digest; each decision names its own."""

    two_person_severity: Severity | None = Severity.CRITICAL
    """A release needs two people when its worst finding is at or above it. Empty: severity never asks for a second."""
    two_person_trusts: frozenset[TrustLevel] = frozenset({TrustLevel.TRUSTED})
    """A release into the collection of these trust levels needs two people."""
    deadline_hours: float = Field(default=24, gt=0)
    """What nobody decided for this long is told to whoever the notifications go to."""
    expire_days: float = Field(default=30, gt=0)
    """What nobody decided for this long is marked and escalated. It stays in quarantine."""

    @property
    def digest(self) -> str:
        """Identity of these values."""
        values = self.model_dump(mode="json", exclude={"review"}) | {
            "two_person_trusts": sorted(self.two_person_trusts)
        }
        return digest("review/v1", [canonical_json(values).decode()])

    def needs_two(self, trust: TrustLevel, severity: Severity | None) -> bool:
        """Whether a release needs a second person."""
        limit = self.two_person_severity
        return trust in self.two_person_trusts or (
            limit is not None and severity is not None and severity.rank >= limit.rank
        )


class Policy(_Section):
    """policy.yaml, validated."""

    name: str
    quarantine: Mapping[TrustLevel, Threshold]
    reject: frozenset[str]
    weights: Mapping[Severity, Annotated[float, Field(ge=0, le=1)]]
    retire: Retirement
    checks: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, Threshold] = {}
    """A source's own threshold, by its name in sources.yaml."""
    shadow: frozenset[str] = frozenset()
    """Checks (``perplexity``) and codes (``instructions.override``) on trial. What parsing finds cannot be shadowed."""
    review: ReviewRules = ReviewRules()
    """How people decide."""

    @model_validator(mode="after")
    def _complete(self) -> Policy:
        for name, keys, known in (("quarantine", self.quarantine, TrustLevel), ("weights", self.weights, Severity)):
            missing = [str(key) for key in known if key not in keys]
            if missing:
                raise ValueError(f"{name}: missing {', '.join(missing)}")
        both = sorted(code for code in self.reject if {code, code.partition(".")[0]} & self.shadow)
        if both:
            raise ValueError(f"{both[0]} is under reject and under shadow; keep one")
        return self

    def digest(self, checks: Iterable[str]) -> str:
        """Identity of what decides: this file's values and the digests of the checks built from them."""
        # A set has another order in every process.
        values = self.model_dump(mode="json", exclude={"review"}) | {
            "reject": sorted(self.reject),
            "shadow": sorted(self.shadow),
        }
        return digest("policy/v1", [canonical_json(values).decode(), *sorted(checks)])

    def threshold(self, trust: TrustLevel, source: str = "") -> Threshold:
        """The source's own, or its trust level's."""
        return self.sources.get(source, self.quarantine[trust])

    @property
    def without_shadow(self) -> Policy:
        """The same policy with every finding weighed: what would be if the shadowed were enforced."""
        return self.model_copy(update={"shadow": frozenset()})

    def weighed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those that are neither shadowed nor muted."""
        return [
            finding for finding in findings if not finding.muted and not {finding.check, finding.code} & self.shadow
        ]

    def risk(self, findings: Iterable[Finding]) -> float:
        """0 (nothing seen) to 1, of those that are weighed."""
        strongest: dict[str, float] = {}
        for finding in self.weighed(findings):
            # A score that is no number is a check's fault, and counts in full.
            score = 1.0 if math.isnan(finding.score) else min(max(finding.score, 0.0), 1.0)
            weight = self.weights[finding.severity] * score
            strongest[finding.code] = max(strongest.get(finding.code, 0.0), weight)
        return round(1.0 - math.prod(1.0 - weight for weight in strongest.values()), 4)

    def verdict(self, trust: TrustLevel, findings: Iterable[Finding], source: str = "") -> Verdict:
        """Apply the rules above."""
        findings = self.weighed(findings)
        if any(finding.code == BLOCKED or finding.code in self.reject for finding in findings):
            return Verdict.REJECT
        if any(finding.code.endswith(UNCHECKED) for finding in findings):
            return Verdict.QUARANTINE
        threshold = self.threshold(trust, source)
        worst = max((finding.severity.rank for finding in findings), default=-1)
        if worst >= threshold.severity.rank or self.risk(findings) >= threshold.risk:
            return Verdict.QUARANTINE
        return Verdict.ACCEPT

    def shadow_verdict(self, trust: TrustLevel, findings: Iterable[Finding], source: str = "") -> Verdict | None:
        """What the verdict would have been if nothing were shadowed; None where it would have been the same."""
        findings = list(findings)
        if not self.shadow:
            return None
        full = self.without_shadow.verdict(trust, findings, source)
        return None if full is self.verdict(trust, findings, source) else full


def load_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        SettingsError: the file or a key is wrong.
    """
    return load_yaml(path, Policy)
