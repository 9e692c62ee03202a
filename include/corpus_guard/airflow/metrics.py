"""Counters and gauges, sent where Airflow's own metrics go (``AIRFLOW__METRICS__STATSD_ON`` or ``…OTEL_ON``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCUMENT_COUNTS = ("quarantined", "rejected", "failed", "accepted", "released", "unchanged", "vanished")
"""In the order of a run's note: what needs a person comes first."""
CHUNK_COUNTS = ("published", "retired", "served")


def count_run(counts: Mapping[str, Any]) -> None:
    """Send the counts of a run. A repeated task counts again.

    ``corpus_guard.documents.accepted``, ``corpus_guard.chunks.published`` and so on are counters, ``corpus_guard.chunks.served`` is a
    gauge.
    """
    from airflow.sdk.observability import stats

    for kind, names in (("documents", DOCUMENT_COUNTS), ("chunks", CHUNK_COUNTS)):
        for name in names:
            if name == "served" and name in counts:
                stats.gauge(f"corpus_guard.{kind}.{name}", counts[name])
            elif counts.get(name):
                stats.incr(f"corpus_guard.{kind}.{name}", counts[name])


def gauge(name: str, value: int) -> None:
    """Set the gauge ``corpus_guard.<name>``."""
    from airflow.sdk.observability import stats

    stats.gauge(f"corpus_guard.{name}", value)
