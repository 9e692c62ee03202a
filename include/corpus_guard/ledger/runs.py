"""Runs: pieces of work on the corpus, with their beginning, end and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from corpus_guard.domain import digest
from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger.ledger import Ledger, now
from corpus_guard.ledger.queries import Row, insert_missing
from corpus_guard.ledger.states import RunKind, RunState
from corpus_guard.ledger.tables import events, runs

CONFIGURED_EVENT: Final = "configured"
"""Kind of the event that names the policy under which the next runs work (`corpus_guard.pipeline.configuration`)."""


def begin_run(
    ledger: Ledger, run_id: str, kind: RunKind | str, policy_digest: str, sources: Sequence[str] = ()
) -> None:
    """Record the beginning of a run; a repeated run keeps its first beginning.

    Args:
        sources: names; empty: the run is about no source in particular.
    """
    row = {
        "run_id": run_id,
        "kind": kind,
        "state": RunState.RUNNING,
        "sources": list(sources),
        "policy_digest": policy_digest,
        "started_at": now(),
    }
    with ledger.write() as connection:
        insert_missing(connection, runs, [row])


def end_run(ledger: Ledger, run_id: str, counts: Mapping[str, Any], state: RunState | str = RunState.SEALED) -> None:
    """Record the end of a run, with its counts."""
    values = {"state": state, "finished_at": now(), "counts": dict(counts)}
    with ledger.write() as connection:
        connection.execute(runs.update().where(runs.c.run_id == run_id).values(**values))


def run_counts(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """Return the counts of a run; empty while it works.

    Raises:
        UnknownSubject: no such run.
    """
    return dict(_row(ledger, run_id).counts or {})


def run_folder(run_id: str) -> str:
    """Return the storage folder of a run's working files."""
    # A run id comes from whoever triggers the run; it names no path.
    return f"runs/{digest('run/v1', [run_id])[:16]}"


def run_sources(ledger: Ledger, run_id: str) -> list[str]:
    """Return the names of the sources a run is about.

    Raises:
        UnknownSubject: no such run.
    """
    return list(_row(ledger, run_id).sources)


def logged_configuration(connection: Connection) -> dict[str, str]:
    """Return the configuration that was logged last, by path: the changes of all events, one after the other."""
    statement = sa.select(events.c.body).where(events.c.kind == CONFIGURED_EVENT).order_by(events.c.seq)
    values: dict[str, str] = {}
    for body in connection.scalars(statement):
        for path, (_, after) in body["changes"].items():
            if after is None:
                values.pop(path, None)
            else:
                values[path] = after
    return values


def _row(ledger: Ledger, run_id: str) -> Row:
    with ledger.read() as connection:
        row = connection.execute(sa.select(runs).where(runs.c.run_id == run_id)).first()
    if row is None:
        raise UnknownSubject(f"run {run_id} is not in the ledger")
    return row
