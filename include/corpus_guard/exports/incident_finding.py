"""OCSF Incident Finding (class 2005, schema 1.5.0): a case, for a SIEM. One event; exported again, it is an update.

Mapping
    * each accused version is one entry of `finding_info_list`, named by its place and hash, with the ATLAS technique;
    * *status* is the case's: in progress, resolved when it is closed; *verdict* is left unknown until then;
    * *activity* is Create for a case without approvals, Update afterwards, Close when it is closed.

The event holds ids and places, no text. Times are milliseconds since 1970.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from corpus_guard import __version__
from corpus_guard.domain import digest
from corpus_guard.exports.findings import TAXA, TAXONOMIES, escape_unprintable, portable_uri

if TYPE_CHECKING:
    from corpus_guard.forensics.cases import Case
    from corpus_guard.forensics.root_cause import RootCause
    from corpus_guard.forensics.scope import Scope

SCHEMA: Final = "1.5.0"
CLASS: Final = 2005
CREATE, UPDATE, CLOSE = 1, 2, 3
IN_PROGRESS, CLOSED = 2, 5
UNKNOWN, TRUE_POSITIVE, FALSE_POSITIVE = 0, 2, 1
HIGH: Final = 4
TECHNIQUE: Final = "ATLAS:AML.T0070"


def format_case(case: Case, scope: Scope, cause: RootCause, written_at: datetime) -> dict[str, object]:
    """Return the event, JSON-ready."""
    activity = CLOSE if not case.is_open else UPDATE if case.approvals else CREATE
    verdict = UNKNOWN if case.is_open else TRUE_POSITIVE if scope.accused else FALSE_POSITIVE
    attack = {
        "version": TAXONOMIES["ATLAS"][1],
        "technique": {"uid": TAXA[TECHNIQUE].uid, "name": TAXA[TECHNIQUE].name},
    }
    opened, written = _milliseconds(case.opened_at), _milliseconds(written_at)
    accused = [
        {
            "uid": version.version_id,
            "title": f"Accused document {portable_uri(version.uri)}",
            "desc": f"source {escape_unprintable(version.source)}, trust {version.trust}, content sha256:{version.content_sha256}",
            "types": ["knowledge base poisoning"],
            "created_time": _milliseconds(datetime.fromisoformat(version.fetched_at)),
            "attacks": [attack],
        }
        for version in scope.accused
    ]
    return {
        "category_uid": CLASS // 1000,
        "category_name": "Findings",
        "class_uid": CLASS,
        "class_name": "Incident Finding",
        "activity_id": activity,
        "activity_name": ("Unknown", "Create", "Update", "Close")[activity],
        "type_uid": CLASS * 100 + activity,
        "time": written,
        "start_time": opened,
        "assignee": {"name": escape_unprintable(case.closed_by or case.opened_by)},
        "severity_id": HIGH,
        "severity": "High",
        "status_id": IN_PROGRESS if case.is_open else CLOSED,
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
            "product": {"name": "Corpus Guard", "vendor_name": "Corpus Guard", "version": __version__},
            "event_code": "case",
            "correlation_uid": case.case_id,
            "uid": digest("ocsf-case/v1", [case.case_id, str(activity), str(written)])[:32],
        },
        "attacks": [attack] if accused else [],
    }


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)
