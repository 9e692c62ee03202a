"""Traces whose questions are asked again, after what answered them was withdrawn, restored or purged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corpus_guard import errors
from corpus_guard.deployment import Deployment


def newest_traces(deployment: Deployment, report_ids: Iterable[str]) -> list[str]:
    """Return the newest trace of each report that has one."""
    from corpus_guard.traceback.records import list_traces

    newest = (list_traces(deployment.ledger, report_id=report_id, limit=1) for report_id in sorted(report_ids))
    return [trace.trace_id for traces in newest for trace in traces]


def traces_to_ask(deployment: Deployment, names: Sequence[str]) -> list[str]:
    """Return the newest trace of each of these reports.

    Raises:
        Misuse: a report was never traced: its record has no place for an answer.
    """
    from corpus_guard.traceback.reports import find_report

    trace_ids = []
    for name in names:
        report_id = find_report(deployment.ledger, name).report_id
        traced = newest_traces(deployment, [report_id])
        if not traced:
            raise errors.Misuse(
                f"--ask {name[:64]}: this report was never traced; run `guard trace {report_id[:8]}` first"
            )
        trace_ids += traced
    return trace_ids
