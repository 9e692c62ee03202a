"""OCSF 1.5.0 for a SIEM: findings as events, one a line, and a case as one event.

Detection Finding (class 2004, profile `security_control`), a finding or a deviation
    * *disposition* is the action of the guard: allowed, quarantined, approved (released by a person),
      blocked;
    * *status* is the action of people: new, in progress (decided, not in effect yet), suppressed (released),
      resolved (rejected), archived (nobody decided, and the version was replaced or vanished);
    * *activity* is Close where a person's decision is in effect or nobody can decide any more, else Create;
      `time` is the time of that;
    * MITRE ATLAS techniques go to `attacks`, OWASP risks to `finding_info.tags`;
    * the document is the one resource; the evidence holds the place in its text, never the text.

Incident Finding (class 2005), a case with ids and places and no text; exported again, it is an update
    * each accused version is one entry of `finding_info_list`, named by its place and hash, with the ATLAS technique;
    * *status* is the case's: in progress, resolved when it is closed; *verdict* is left unknown until then;
    * *activity* is Create for a case without approvals, Update afterwards, Close when it is closed.

`finding_info.uid` identifies the finding, `metadata.uid` this event about it. Another export repeats both, so
a receiver can drop duplicates. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from corpus_guard import __version__
from corpus_guard.domain import Severity, digest
from corpus_guard.exports.findings import (
    CHECK_MEANINGS,
    POISONING,
    TAXA,
    TAXONOMIES,
    ExportedDeviation,
    ExportedFinding,
    ExportItem,
    dump_json,
    escape_unprintable,
    portable_uri,
)
from corpus_guard.ledger.states import ReviewAction, VersionState

if TYPE_CHECKING:
    from corpus_guard.forensics.cases import Case
    from corpus_guard.forensics.root_cause import RootCause
    from corpus_guard.forensics.scope import Scope

SCHEMA: Final = "1.5.0"
CLASS: Final = 2004
INCIDENT_CLASS: Final = 2005
CREATE, UPDATE, CLOSE = 1, 2, 3
NEW, IN_PROGRESS, SUPPRESSED, RESOLVED, ARCHIVED = 1, 2, 3, 4, 5
INCIDENT_CLOSED: Final = 5
UNKNOWN, FALSE_POSITIVE, TRUE_POSITIVE = 0, 1, 2
PRODUCT: Final = {"name": "Corpus Guard", "vendor_name": "Corpus Guard", "version": __version__}

SEVERITY: Final = MappingProxyType(
    {Severity.INFO: 1, Severity.LOW: 2, Severity.MEDIUM: 3, Severity.HIGH: 4, Severity.CRITICAL: 5}
)
_SEVERITY_NAME: Final = ("Unknown", "Informational", "Low", "Medium", "High", "Critical")
_STATUS_NAME: Final = ("Unknown", "New", "In Progress", "Suppressed", "Resolved", "Archived")
_ACTION: Final = MappingProxyType(  # state → (action, disposition)
    {
        VersionState.ACCEPTED: (1, 1),
        VersionState.QUARANTINED: (2, 3),
        VersionState.RELEASED: (1, 8),
        VersionState.REJECTED: (2, 2),
    }
)
_DETECTED: Final = (3, 15)  # observed, detected: a verification changes nothing
_OTHER, _SHA256 = 99, 3


def format_lines(items: Iterable[ExportItem]) -> Iterator[str]:
    """Yield one event per line, without line breaks, in the order of the items."""
    for item in items:
        yield dump_json(format_event(item))


def format_event(item: ExportItem) -> dict[str, object]:
    """Return one OCSF event, JSON-ready."""
    return _finding(item) if isinstance(item, ExportedFinding) else _deviation(item)


def format_case(case: Case, scope: Scope, cause: RootCause, written_at: datetime) -> dict[str, object]:
    """Return the event, JSON-ready."""
    activity = CLOSE if not case.is_open else UPDATE if case.approvals else CREATE
    verdict = UNKNOWN if case.is_open else TRUE_POSITIVE if scope.accused else FALSE_POSITIVE
    opened, written = _milliseconds(case.opened_at), _milliseconds(written_at)
    accused = [
        {
            "uid": version.version_id,
            "title": f"Accused document {portable_uri(version.uri)}",
            "desc": f"source {escape_unprintable(version.source)}, trust {version.trust}, content sha256:{version.content_sha256}",
            "types": ["knowledge base poisoning"],
            "created_time": _milliseconds(datetime.fromisoformat(version.fetched_at)),
            "attacks": _attacks((POISONING,)),
        }
        for version in scope.accused
    ]
    return {
        "category_uid": INCIDENT_CLASS // 1000,
        "category_name": "Findings",
        "class_uid": INCIDENT_CLASS,
        "class_name": "Incident Finding",
        "activity_id": activity,
        "activity_name": ("Unknown", "Create", "Update", "Close")[activity],
        "type_uid": INCIDENT_CLASS * 100 + activity,
        "time": written,
        "start_time": opened,
        "assignee": {"name": escape_unprintable(case.closed_by or case.opened_by)},
        "severity_id": SEVERITY[Severity.HIGH],
        "severity": "High",
        "status_id": IN_PROGRESS if case.is_open else INCIDENT_CLOSED,
        "status": "In Progress" if case.is_open else "Closed",
        "verdict_id": verdict,
        "desc": escape_unprintable(case.title),
        "message": escape_unprintable(" ".join(cause.sentences)),
        "comment": escape_unprintable(case.conclusion or case.reason),
        "count": max(len(accused), 1),
        "finding_info_list": accused
        or [{"uid": case.case_id, "title": escape_unprintable(case.title), "created_time": opened}],
        "metadata": {
            "version": SCHEMA,
            "product": PRODUCT,
            "event_code": "case",
            "correlation_uid": case.case_id,
            "uid": digest("ocsf-case/v1", [case.case_id, str(activity), str(written)])[:32],
        },
        "attacks": _attacks((POISONING,)) if accused else [],
    }


def _finding(item: ExportedFinding) -> dict[str, object]:
    finding, stamp, decision = item.finding, item.stamp, item.decision
    status = _status(item)
    closed = status in {SUPPRESSED, RESOLVED, ARCHIVED}
    when = decision.decided_at if closed and decision else item.judged_at
    return {
        **_event(
            item.uid,
            when,
            CLOSE if closed else CREATE,
            status,
            finding.severity,
            finding.code,
            finding.message,
            item.judged_at,
            finding.tags,
            _ACTION[VersionState(item.state)],
        ),
        "is_alert": item.state == VersionState.QUARANTINED and status == NEW,
        "confidence_score": round(finding.score * 100),
        "risk_score": round(item.risk * 100),
        "policy": {"uid": item.policy_digest, "desc": f"verdict: {item.verdict}"},
        "resources": [
            {
                "uid": item.doc_id,
                "name": stamp.uri,
                "type": "document",
                "namespace": stamp.source,
                "version": item.version_id,
                "labels": [f"trust:{stamp.trust}", f"owner:{stamp.owner}"],
            }
        ],
        "evidences": [
            {
                "uid": item.version_id,
                "data": {
                    "check": finding.check,
                    "score": finding.score,
                    "span": [finding.span.start, finding.span.end] if finding.span else None,
                    "fetched_at": stamp.fetched_at.isoformat(),
                },
                "file": {
                    "name": stamp.uri.rpartition("/")[2],
                    "path": stamp.uri,
                    "type_id": _OTHER,
                    "type": "Document",
                    "size": stamp.size,
                    "mime_type": stamp.media_type,
                    "hashes": [{"algorithm_id": _SHA256, "algorithm": "SHA-256", "value": stamp.content_sha256}],
                },
            }
        ],
    }


def _deviation(item: ExportedDeviation) -> dict[str, object]:
    deviation = item.deviation
    resource = {"uid": deviation.subject, "type": "corpus record", "namespace": deviation.collection}
    return {
        **_event(
            item.uid,
            item.at,
            CREATE,
            NEW,
            item.severity,
            f"integrity.{deviation.kind}",
            deviation.message,
            item.at,
            item.tags,
            _DETECTED,
        ),
        "is_alert": True,
        "resources": [{name: value for name, value in resource.items() if value}],
        "evidences": [
            {"data": {"expected": deviation.expected, "found": deviation.actual, "doc_id": deviation.doc_id}}
        ],
    }


def _event(
    uid: str,
    when: datetime,
    activity: int,
    status: int,
    severity: Severity,
    code: str,
    message: str,
    created: datetime,
    tags: tuple[str, ...],
    action: tuple[int, int],  # action, disposition
) -> dict[str, object]:
    check, _, detail = code.partition(".")
    attacks = _attacks(tags)
    owasp = _owasp(tags)
    return {
        "category_uid": CLASS // 1000,
        "category_name": "Findings",
        "class_uid": CLASS,
        "class_name": "Detection Finding",
        "activity_id": activity,
        "type_uid": CLASS * 100 + activity,
        "time": _milliseconds(when),
        "severity_id": SEVERITY[severity],
        "severity": _SEVERITY_NAME[SEVERITY[severity]],
        "status_id": status,
        "status": _STATUS_NAME[status],
        "action_id": action[0],
        "disposition_id": action[1],
        "message": message,
        "metadata": {
            "version": SCHEMA,
            "profiles": ["security_control"],
            "product": PRODUCT,
            "event_code": code,
            "uid": digest("ocsf/v1", [uid, str(activity), str(_milliseconds(when))])[:32],
        },
        "finding_info": {
            "uid": uid,
            "title": f"{check}: {detail.replace('_', ' ').replace('.', ', ')}",
            "desc": CHECK_MEANINGS.get(check, message),
            "types": [check],
            "analytic": {"uid": code, "name": check, "type_id": _OTHER, "type": "Check"},
            "created_time": _milliseconds(created),
            # The class wants them here, the profile at the top: receivers look in either place.
            **({"attacks": attacks} if attacks else {}),
            **({"tags": owasp} if owasp else {}),
        },
        **({"attacks": attacks} if attacks else {}),
    }


def _status(item: ExportedFinding) -> int:
    if item.decision is None:
        return NEW if item.current else ARCHIVED
    if not item.decision.applied:
        return IN_PROGRESS
    return SUPPRESSED if item.decision.verdict == ReviewAction.RELEASE else RESOLVED


def _attacks(tags: tuple[str, ...]) -> list[dict[str, object]]:
    edition = TAXONOMIES["ATLAS"][1]
    attacks: list[dict[str, object]] = []
    for taxon in (TAXA[tag] for tag in tags if tag in TAXA and TAXA[tag].taxonomy == "ATLAS"):
        parent, _, child = taxon.uid.removeprefix("AML.").partition(".")
        name, _, part = taxon.name.partition(": ")
        attack: dict[str, object] = {"version": edition, "technique": {"uid": f"AML.{parent}", "name": name}}
        if child:
            attack["sub_technique"] = {"uid": taxon.uid, "name": part}
        attacks.append(attack)
    return attacks


def _owasp(tags: tuple[str, ...]) -> list[dict[str, object]]:
    by_edition: dict[str, list[str]] = {}
    for taxon in (TAXA[tag] for tag in tags if tag in TAXA and TAXA[tag].taxonomy != "ATLAS"):
        by_edition.setdefault(TAXONOMIES[taxon.taxonomy][0], []).append(taxon.uid)
    return [{"name": name, "values": uids} for name, uids in by_edition.items()]


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)
