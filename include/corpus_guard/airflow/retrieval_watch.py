"""Task functions of `retrieval_watch`: look at the retrieval log, and notify people of new alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from corpus_guard.airflow.context import current_run_id
from corpus_guard.airflow.metrics import gauge
from corpus_guard.airflow.notifications import notify, review_pages
from corpus_guard.airflow.run_notes import write_note
from corpus_guard.domain import plural


def watch_interval() -> dict[str, int]:
    """Look at the weeks before the end of the run's data interval. Returns how many new alerts each detector raised."""
    from airflow.sdk import get_current_context

    from corpus_guard.deployment import Deployment
    from corpus_guard.forensics.watch.alerts import watch_retrievals

    until = get_current_context()["dag_run"].data_interval_end or datetime.now(UTC)
    with Deployment() as deployment:
        result = watch_retrievals(deployment.ledger, until, current_run_id())
    counts = Counter(alert.detector for alert in result.alerts)
    gauge("retrieval_watch.alerts", len(result.alerts))
    named = ", ".join(f"{count:,} {detector}" for detector, count in counts.most_common())
    write_note("; ".join([f"New alerts: {named}" if named else "No new alert", *result.limits]))
    return dict(counts)


def notify_alerts(counts: Mapping[str, int]) -> int:
    """Notify people of new alerts, by detector, without names. Returns how many alerts.

    Raises:
        Infrastructure: a message could not be sent; the task is tried again.
    """
    number = sum(counts.values())
    if number:
        named = ", ".join(f"{count:,} {detector}" for detector, count in counts.items())
        sentence = f"{plural(number, 'new alert')} of the retrieval watch: {named}"
        notify(sentence, f"{sentence}. `guard watch` lists them.", watch_link())
    return number


def watch_link() -> str:
    """Return the address of the page Watch in Airflow's UI."""
    return review_pages("watch")
