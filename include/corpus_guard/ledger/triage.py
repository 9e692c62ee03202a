"""What a version is sorted and grouped by while it waits: who stands behind it, how bad its worst finding is, which checks saw it.

Rules
    * the principal is the author the document declares, within its source; where it declares none, its source's owner. What a
      document declares is data: it groups documents for a reviewer's eye and decides nothing;
    * what arrived under one principal and was seen by the same checks is one campaign, until near-duplicates say otherwise
      (`corpus_guard.review.campaigns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corpus_guard.domain import Severity, digest

AUTHORS = ("author", "authors", "creator", "publisher", "department", "team", "organization", "company")


@dataclass(frozen=True, slots=True)
class Triage:
    """The columns of a version that the queue goes by."""

    principal: str  # digest
    severity: str | None  # of the worst finding
    checks: str  # ",a,b,"; empty where none found anything
    campaign: str

    @classmethod
    def of(cls, stamp: Mapping[str, Any], found: Iterable[tuple[str, str]]) -> Triage:
        """From a stamp's dictionary and (check, severity) of the findings that count."""
        found = list(found)
        names = sorted({check for check, _ in found})
        checks = f",{','.join(names)}," if names else ""
        principal = digest("principal/v1", [stamp["source"], principal_name(stamp)])[:32]
        return cls(
            principal=principal,
            severity=max((severity for _, severity in found), key=lambda one: Severity(one).rank, default=None),
            checks=checks,
            campaign=digest("campaign/v1", [principal, checks])[:32],
        )


def principal_name(stamp: Mapping[str, Any]) -> str:
    """Who stands behind a document, as far as it says: hostile text."""
    declared = {str(key).casefold(): str(value) for key, value in (stamp.get("declared") or {}).items()}
    return next((declared[key].strip() for key in AUTHORS if declared.get(key, "").strip()), stamp["owner"])
