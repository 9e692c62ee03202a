"""Columns by which the queue sorts and groups a waiting version.

They say who stands behind the version, how bad its worst finding is, and which checks reported it.

Rules
    * the principal is the author the document declares, within its source; where it declares none, its
      source's owner. What a document declares is data: it groups documents for a reviewer's eye and decides
      nothing;
    * versions of one declared author with findings of the same checks are one campaign; where none is declared,
      a version is a campaign of its own; near-duplicates join (`corpus_guard.review.campaigns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corpus_guard.domain import Severity, digest

AUTHORS = ("author", "authors", "creator", "publisher", "department", "team", "organization", "company")


@dataclass(frozen=True, slots=True)
class Triage:
    """The columns of a version that the queue sorts and groups by."""

    principal: str  # digest
    severity: str | None  # of the worst finding
    checks: str  # ",a,b,"; empty where there is no finding
    campaign: str

    @classmethod
    def from_findings(cls, stamp: Mapping[str, Any], findings: Iterable[tuple[str, str]]) -> Triage:
        """Return the columns for a stamp's dictionary and (check, severity) of the findings that count."""
        findings = list(findings)
        names = sorted({check for check, _ in findings})
        checks = f",{','.join(names)}," if names else ""
        principal = digest("principal/v1", [stamp["source"], principal_name(stamp)])[:32]
        severities = (severity for _, severity in findings)
        return cls(
            principal=principal,
            severity=max(severities, key=lambda severity: Severity(severity).rank, default=None),
            checks=checks,
            campaign=digest("campaign/v1", [principal, checks if declared_author(stamp) else stamp["uri"]])[:32],
        )


def principal_name(stamp: Mapping[str, Any]) -> str:
    """Return who stands behind a document, as far as it declares it: hostile text."""
    return declared_author(stamp) or str(stamp["owner"])


def declared_author(stamp: Mapping[str, Any]) -> str:
    """Return the author that a document declares: hostile text; empty if it declares none."""
    declared = {str(key).casefold(): str(value) for key, value in (stamp.get("declared") or {}).items()}
    return next((declared[key].strip() for key in AUTHORS if declared.get(key, "").strip()), "")
