"""Policy that turns findings into a verdict.

Rules
    * a finding whose check or code is listed under ``shadow`` is recorded and does not count, not even when
      it says that the shadowed check failed: a check on trial must not be able to stop a source;
    * a finding that two people muted for its source is kept, marked, and does not count
      (`corpus_guard.review.muting`);
    * a version is rejected when a finding's code is listed under ``reject``, or says that the content was
      purged;
    * otherwise it is quarantined when a check failed on it (a code that ends in ``.unchecked``), whatever the
      source;
    * otherwise it is quarantined when its worst finding, or its risk, reaches the threshold of its source:
      the source's own under ``sources``, or that of its trust level;
    * otherwise it is accepted.

A source's own threshold may be stricter or looser than that of its trust level. It is part of the digest and
shown by ``guard status``, and so are muted codes: only the policy file and two people together can loosen a
verdict.

Risk combines independent hints: ``1 - Π (1 - weight · score)`` over the strongest finding of each code, so
that many small signs add up and the same sign seen twice does not. The weights are fixed by severity and
printed in the policy file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict, canonical_json, digest
from corpus_guard.screening.blocked import BLOCKED
from corpus_guard.settings import load_yaml

UNCHECKED_SUFFIX: Final = ".unchecked"
"""End of the code of a finding that says that a check failed."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Threshold(_Section):
    """Limit from which a version waits for a person."""

    severity: Severity
    """Severity of the worst finding from which it waits."""
    risk: float = Field(ge=0, le=1)
    """Risk from which it waits, 0..1."""


class Retirement(_Section):
    """Rules for documents that vanished from their source."""

    grace_hours: float = Field(ge=0)
    """Hours that a document is served after it was first missed."""
    max_share: float = Field(ge=0, le=1)
    """Largest share of a source that may vanish at once. Of more, nothing is retired: an empty listing is
    probably a fault."""


class ReviewRules(_Section):
    """Rules for decisions about quarantined versions.

    They give no verdict, so they are no part of the policy's digest; each decision records a digest of its
    own.
    """

    two_person_severity: Severity | None = Severity.CRITICAL
    """Severity of the worst finding from which a release needs two people. Empty: severity never asks for a
    second person."""
    two_person_trusts: frozenset[TrustLevel] = frozenset({TrustLevel.TRUSTED})
    """Trust levels into whose collections a release needs two people."""
    deadline_hours: float = Field(default=24, gt=0)
    """Hours after which the notifications name undecided versions."""
    expire_days: float = Field(default=30, gt=0)
    """Days after which undecided versions are marked and escalated. They stay in quarantine."""

    @property
    def digest(self) -> str:
        """Return the identity of these values."""
        values = self.model_dump(mode="json", exclude={"review"}) | {
            "two_person_trusts": sorted(self.two_person_trusts)
        }
        return digest("review/v1", [canonical_json(values).decode()])

    def needs_two(self, trust: TrustLevel, severity: Severity | None) -> bool:
        """Return True if a release needs a second person."""
        limit = self.two_person_severity
        return trust in self.two_person_trusts or (
            limit is not None and severity is not None and severity.rank >= limit.rank
        )


class Policy(_Section):
    """Contents of policy.yaml, validated."""

    name: str
    quarantine: Mapping[TrustLevel, Threshold]
    reject: frozenset[str]
    weights: Mapping[Severity, Annotated[float, Field(ge=0, le=1)]]
    retire: Retirement
    checks: Mapping[str, Mapping[str, object]]
    sources: Mapping[str, Threshold] = {}
    """Thresholds of single sources, by their name in sources.yaml."""
    shadow: frozenset[str] = frozenset()
    """Checks (``perplexity``) and codes (``instructions.override``) on trial. Findings of parsing cannot be
    shadowed."""
    review: ReviewRules = ReviewRules()
    """Rules for decisions of people."""

    @model_validator(mode="after")
    def _complete(self) -> Policy:
        missing_trusts = [trust.value for trust in TrustLevel if trust not in self.quarantine]
        missing_severities = [severity.value for severity in Severity if severity not in self.weights]
        for name, missing in (("quarantine", missing_trusts), ("weights", missing_severities)):
            if missing:
                raise ValueError(f"{name}: missing {', '.join(missing)}")
        both = sorted(code for code in self.reject if {code, code.partition(".")[0]} & self.shadow)
        if both:
            raise ValueError(f"{both[0]} is under reject and under shadow; keep one of the two")
        return self

    def digest(self, checks: Iterable[str]) -> str:
        """Return the identity of the values of this file and of its checks."""
        # A set has another order in every process.
        values = self.model_dump(mode="json", exclude={"review"}) | {
            "reject": sorted(self.reject),
            "shadow": sorted(self.shadow),
        }
        return digest("policy/v1", [canonical_json(values).decode(), *sorted(checks)])

    def threshold(self, trust: TrustLevel, source: str = "") -> Threshold:
        """Return the threshold of a source, or that of its trust level."""
        return self.sources.get(source, self.quarantine[trust])

    @property
    def without_shadow(self) -> Policy:
        """Return the policy with shadowed checks and codes enforced."""
        return self.model_copy(update={"shadow": frozenset()})

    def weighed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that are neither shadowed nor muted."""
        return [
            finding for finding in findings if not finding.muted and not {finding.check, finding.code} & self.shadow
        ]

    def risk(self, findings: Iterable[Finding]) -> float:
        """Return the risk of the findings that count, from 0 (none) to 1."""
        strongest: dict[str, float] = {}
        for finding in self.weighed(findings):
            # A score that is not a number is a fault of the check, and counts in full.
            score = 1.0 if math.isnan(finding.score) else min(max(finding.score, 0.0), 1.0)
            weight = self.weights[finding.severity] * score
            strongest[finding.code] = max(strongest.get(finding.code, 0.0), weight)
        return round(1.0 - math.prod(1.0 - weight for weight in strongest.values()), 4)

    def verdict(self, trust: TrustLevel, findings: Iterable[Finding], source: str = "") -> Verdict:
        """Apply the rules of this module."""
        findings = self.weighed(findings)
        if any(finding.code == BLOCKED or finding.code in self.reject for finding in findings):
            return Verdict.REJECT
        if any(finding.code.endswith(UNCHECKED_SUFFIX) for finding in findings):
            return Verdict.QUARANTINE
        threshold = self.threshold(trust, source)
        worst = max((finding.severity.rank for finding in findings), default=-1)
        if worst >= threshold.severity.rank or self.risk(findings) >= threshold.risk:
            return Verdict.QUARANTINE
        return Verdict.ACCEPT

    def shadow_verdict(self, trust: TrustLevel, findings: Iterable[Finding], source: str = "") -> Verdict | None:
        """Return the verdict with nothing shadowed; None where it is the same."""
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
