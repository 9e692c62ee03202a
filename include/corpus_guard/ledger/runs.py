"""Runs: pieces of work on the corpus, with their beginning, end and counts.

Rules
    * whoever works on a run holds a lock with its name (`at_work`), which the operating system or the database
      frees when its holder dies: a run without an end is at work exactly while somebody holds it;
    * several processes may do a run, one after the other, as the tasks of Airflow do. Each says that a next one
      is awaited for `NEXT_PROCESS`; after that, a run that nobody works on is interrupted;
    * of two refreshes of the same source only one works at a time. It is the lock that counts: a refresh that
      was killed keeps nobody waiting.

Not done here: starting an interrupted run again. Nothing tells one that hangs from one that works.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from corpus_guard.domain import digest
from corpus_guard.errors import AlreadyAtWork, UnknownSubject
from corpus_guard.ledger.ledger import Ledger, now
from corpus_guard.ledger.queries import Row, insert_missing
from corpus_guard.ledger.states import RunKind, RunState
from corpus_guard.ledger.tables import events, runs

CONFIGURED_EVENT: Final = "configured"
"""Kind of the event that names the policy under which the next runs work (`corpus_guard.pipeline.configuration`)."""
INTERRUPTED: Final = "interrupted"
"""State of a run that the ledger calls running, and that nobody works on."""
TIME_NAMED: Final = timedelta(days=7)
"""An interrupted run is named this long: maybe nobody will ever repeat it."""
NEXT_PROCESS: Final = timedelta(minutes=15)
POLL_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


@contextlib.contextmanager
def at_work(ledger: Ledger, run_id: str, *, awaits_next: bool = False) -> Iterator[None]:
    """Hold the run while the block works on it.

    Args:
        awaits_next: another process goes on with the run when the block has done its part.
    """
    with ledger.shared(_lock_name(run_id)):
        yield
        if awaits_next:
            ledger.execute(runs.update().where(runs.c.run_id == run_id).values(awaited_until=now() + NEXT_PROCESS))


def run_state(ledger: Ledger, run_id: str, state: str, awaited_until: datetime | None) -> str:
    """Return the state of a run, or `INTERRUPTED` for one that nobody works on."""
    # A time further on than any process writes was changed by hand: no event holds this column's digest.
    if state != RunState.RUNNING or (awaited_until and now() < awaited_until <= now() + NEXT_PROCESS):
        return state
    return state if ledger.is_held(_lock_name(run_id)) else INTERRUPTED


def interrupted_runs(ledger: Ledger) -> list[Row]:
    """Return the interrupted runs of a week whose work no later run of their kind has done, the newest first."""
    columns = runs.c["run_id", "kind", "state", "sources", "started_at", "finished_at", "awaited_until"]
    recent = sa.select(*columns).where(runs.c.started_at > now() - TIME_NAMED).order_by(runs.c.started_at.desc())
    newest = ledger.rows(recent)
    return [
        run
        for position, run in enumerate(newest)
        if run.state == RunState.RUNNING
        and not any(
            later.kind == run.kind and later.finished_at and set(run.sources) <= set(later.sources)
            for later in newest[:position]
        )
        and run_state(ledger, run.run_id, run.state, run.awaited_until) == INTERRUPTED
    ]


def begin_refresh(
    ledger: Ledger, run_id: str, policy_digest: str, sources: Sequence[str], *, wait: bool = False
) -> None:
    """Record the beginning of a refresh, unless another one is at work on one of its sources.

    Args:
        wait: begin when the other one has ended, or was killed.

    Raises:
        AlreadyAtWork: another refresh is at work; nothing was recorded.
    """
    waits_for = ""
    while True:
        with without_new_intake(ledger):  # between looking and beginning nobody else begins
            other = _refresh_at_work(ledger, run_id, sources)
            if other is None:
                begin_run(ledger, run_id, RunKind.REFRESH, policy_digest, sources)
                return
        shared = sorted(set(other.sources) & set(sources))
        text = f"run {other.run_id} has refreshed {', '.join(shared)} since {other.started_at:%Y-%m-%d %H:%M} UTC"
        if not wait:
            raise AlreadyAtWork(f"{text}, and is still at work; nothing was done. Wait for it, or add --wait")
        if waits_for != other.run_id:
            log.warning("%s: waiting until it ends", text)
            waits_for = other.run_id
        time.sleep(POLL_SECONDS)


def refreshes_at_work(ledger: Ledger) -> list[Row]:
    """Return the refreshes that somebody works on, or that await their next process; the newest first."""
    is_open = sa.and_(runs.c.kind == RunKind.REFRESH, runs.c.state == RunState.RUNNING)
    rows = ledger.rows(sa.select(runs).where(is_open).order_by(runs.c.started_at.desc()))
    return [run for run in rows if run_state(ledger, run.run_id, run.state, run.awaited_until) == RunState.RUNNING]


@contextlib.contextmanager
def without_new_intake(ledger: Ledger) -> Iterator[None]:
    """Let no refresh begin, and no enhancement be stored, while the block runs; what has begun goes on."""
    with ledger.exclusive("refresh"):
        yield


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
    ledger.execute(runs.update().where(runs.c.run_id == run_id).values(**values))


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


def _refresh_at_work(ledger: Ledger, run_id: str, sources: Sequence[str]) -> Row | None:
    """Return another refresh that somebody works on, of one of these sources."""
    statement = (
        sa.select(runs)
        .where(runs.c.kind == RunKind.REFRESH, runs.c.state == RunState.RUNNING, runs.c.run_id != run_id)
        .order_by(runs.c.started_at.desc())
    )
    others = ledger.rows(statement)
    overlapping = (run for run in others if not set(sources).isdisjoint(run.sources))
    return next((run for run in overlapping if ledger.is_held(_lock_name(run.run_id))), None)


def _lock_name(run_id: str) -> str:
    return f"run-{run_folder(run_id).rpartition('/')[2]}"


def _row(ledger: Ledger, run_id: str) -> Row:
    row = ledger.first(sa.select(runs).where(runs.c.run_id == run_id))
    if row is None:
        raise UnknownSubject(f"run {run_id} is not in the ledger")
    return row
