"""Task function of `feedback_import`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from corpus_guard.airflow.context import current_run_id
from corpus_guard.airflow.run_notes import write_note
from corpus_guard.domain import plural
from corpus_guard.errors import GuardError

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol as DagRun

log = logging.getLogger(__name__)

_ROWS: Final = {"known": "known already", "aside": "put aside (the log says why)", "unmarked": "not marked as wrong"}
LATE_WRITES = timedelta(days=3)  # a scheduled run looks back this far: exporting systems write late


def import_feedback(since: str | None = None) -> dict[str, int]:
    """Import the reports of the run's data interval from every source. A run that a person starts imports all.

    Args:
        since: first day, as in 2026-03-01, for a run that a person starts; none: from the beginning.

    Returns:
        Counts of rows: new, known, put aside, …

    Raises:
        GuardError: a source could not be read; the others were imported.
    """
    from airflow.sdk import get_current_context

    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.importers.importing import import_reports
    from corpus_guard.traceback.importers.record import Mark

    context = get_current_context()
    start, end = _interval(context["dag_run"], since)
    counts: Counter[str] = Counter()
    failures: list[GuardError] = []
    with Deployment() as deployment:
        mark = Mark.parse(deployment.settings.feedback_mark)
        for source in deployment.settings.feedback_sources:
            try:
                result = import_reports(
                    deployment.ledger,
                    deployment.storage,
                    deployment.settings,
                    source,
                    current_run_id(),
                    since=start,
                    until=end,
                    mark=mark,
                ).as_dict()
            except GuardError as error:
                log.warning("%s; continuing with the other sources", error)
                failures.append(error)
                continue
            log.info("%s", result)
            counts.update({name: value for name, value in result.items() if isinstance(value, int)})
    summary = summarize_import(counts, start, end)
    write_note(summary if counts else "No feedback source is set: set CORPUS_GUARD_FEEDBACK")
    if failures:
        raise failures[0]
    return dict(counts)


def summarize_import(counts: Mapping[str, int], start: datetime | None, end: datetime | None) -> str:
    """Return what became of the rows, in one sentence, without what is zero; and what to do about rows of other days."""
    parts = [plural(counts.get("new", 0), "new report")]
    parts += [f"{counts[name]:,} {words}" for name, words in _ROWS.items() if counts.get(name)]
    if counts.get("outside"):
        days = " ".join(f"{word} {when:%Y-%m-%d}" for word, when in (("from", start), ("until", end)) if when)
        parts.append(
            f"{counts['outside']:,} outside the days of this run ({days}; trigger the DAG by hand to import all)"
        )
    return ", ".join(parts)


def _interval(run: DagRun, since: str | None) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last moment to import; none: no limit.

    The web page fills in a logical date when a person starts a run: it says when, not which reports they want.
    """
    if run.run_type == "manual":
        return (datetime.fromisoformat(since).replace(tzinfo=UTC) if since else None), None
    start = run.data_interval_start
    if start and run.run_type == "scheduled":
        start -= LATE_WRITES
    return start, run.data_interval_end
