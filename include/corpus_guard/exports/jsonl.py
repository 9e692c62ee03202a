"""Native JSON Lines: everything an export may hold, one finding or deviation a line.

The first key is the kind of entry. Times are ISO 8601 in UTC, scores and risks 0..1, spans are code points of
the text as parsed with their end excluded. Lines are ASCII, so no document's name can steer a terminal. `v`
is the version of the format; keys are added, never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from corpus_guard.exports.findings import ExportedDeviation, ExportedFinding, ExportItem, dump_json

VERSION = 1


def format_lines(items: Iterable[ExportItem]) -> Iterator[str]:
    """Yield one line for each item, without line breaks, in the order of the items."""
    for item in items:
        yield dump_json(_finding(item) if isinstance(item, ExportedFinding) else _deviation(item))


def _finding(item: ExportedFinding) -> dict[str, object]:
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


def _deviation(item: ExportedDeviation) -> dict[str, object]:
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
