"""Native JSON Lines: everything an export may hold, one finding or deviation a line.

The first key tells the two kinds apart. Times are ISO 8601 in UTC, scores and risks 0..1, spans code points of the text as parsed
with their end excluded. Lines are ASCII: no terminal is steered by what a document is called. The form is versioned by `v`; keys are
added, never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from corpus_guard.exports.findings import ExportedDeviation, ExportedFinding, ExportItem, dump_json

VERSION = 1


def format_lines(items: Iterable[ExportItem]) -> Iterator[str]:
    """One line an item, without newline, in the order they come."""
    for item in items:
        yield dump_json(_finding(item) if isinstance(item, ExportedFinding) else _deviation(item))


def _finding(item: ExportedFinding) -> dict[str, Any]:
    stamp = {name: value for name, value in item.stamp.as_dict().items() if name not in {"uri", "source", "declared"}}
    return {
        "kind": "finding",
        "v": VERSION,
        "uid": item.uid,
        **item.finding.as_dict(),
        "document": {"doc_id": item.doc_id, "source": item.stamp.source, "uri": item.stamp.uri},
        "version": {
            "version_id": item.version_id,
            "state": item.state,
            "current": item.current,
            "verdict": item.verdict,
            "risk": item.risk,
            "policy_digest": item.policy_digest,
            "judged_at": item.judged_at.isoformat(),
            "run_id": item.run_id,
        },
        "stamp": stamp,
        "decision": item.decision.as_dict() if item.decision else None,
    }


def _deviation(item: ExportedDeviation) -> dict[str, Any]:
    return {
        "kind": "deviation",
        "v": VERSION,
        "uid": item.uid,
        "code": f"integrity.{item.deviation.kind}",
        "severity": item.severity.value,
        "tags": list(item.tags),
        "found_at": item.at.isoformat(),
        "deviation": item.deviation.as_dict(),
    }
