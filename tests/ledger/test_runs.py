"""A run that somebody works on is told from one that was killed, between real processes and on both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import keeper
import pytest
import sqlalchemy as sa

from corpus_guard.errors import AlreadyAtWork
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.row_digests import ROWS_EVENT
from corpus_guard.ledger.runs import at_work, begin_refresh, begin_run, end_run, interrupted_runs, run_state
from corpus_guard.ledger.tables import events, runs


def state(ledger: Ledger, run_id: str) -> str:
    [run] = ledger.rows(sa.select(runs).where(runs.c.run_id == run_id))
    return run_state(ledger, run_id, run.state, run.awaited_until)


def interrupted(ledger: Ledger) -> list[str]:
    return [run.run_id for run in interrupted_runs(ledger)]


@contextmanager
def worker(ledger: Ledger, run_id: str, *sources: str) -> Iterator[Any]:
    """Another process that works on a refresh; killed at the end of the block, if not before."""
    begun = keeper.PROCESSES.Event()
    process = keeper.run(
        keeper.work, ledger.url.render_as_string(hide_password=False), run_id, list(sources or ["pages"]), begun
    )
    try:
        assert begun.wait(60)
        yield process
    finally:
        kill(process)


def kill(process: Any) -> None:
    process.kill()
    process.join()


def test_a_killed_run_is_interrupted_at_once(ledger: Ledger) -> None:
    with worker(ledger, "r1") as process:
        assert (state(ledger, "r1"), interrupted(ledger)) == ("running", [])
        kill(process)
        until(lambda: state(ledger, "r1") == "interrupted")
        assert interrupted(ledger) == ["r1"]


def test_a_run_is_at_work_while_one_of_its_processes_is(ledger: Ledger) -> None:
    with worker(ledger, "r1") as process:
        with at_work(ledger, "r1"):
            kill(process)
            time.sleep(0.2)
            assert state(ledger, "r1") == "running"
        assert state(ledger, "r1") == "interrupted"


def test_the_next_process_is_awaited_for_a_while(ledger: Ledger) -> None:
    begin_run(ledger, "r1", "refresh", "", ["pages"])
    with at_work(ledger, "r1", awaits_next=True):
        assert row_events(ledger) == 1
    assert (state(ledger, "r1"), interrupted(ledger)) == ("running", [])
    assert row_events(ledger) == 1, "each task would add an event"

    for changed_by in (timedelta(seconds=-1), timedelta(days=365)):
        ledger.execute(runs.update().values(awaited_until=now() + changed_by))
        assert state(ledger, "r1") == "interrupted"


def test_a_process_that_failed_awaits_nobody(ledger: Ledger) -> None:
    begin_run(ledger, "r1", "refresh", "", ["pages"])
    with suppress(ZeroDivisionError), at_work(ledger, "r1", awaits_next=True):
        1 / 0  # noqa: B018
    assert state(ledger, "r1") == "interrupted"


def test_an_interrupted_run_is_listed_until_a_later_one_has_done_its_work(ledger: Ledger) -> None:
    for run_id, kind, sources in (
        ("killed", "refresh", ["pages"]),
        ("of another kind", "rescreen", ["pages"]),
        ("of another source", "refresh", ["tickets"]),
    ):
        begin_run(ledger, run_id, kind, "", sources)
        if run_id != "killed":
            end_run(ledger, run_id, {})
    assert interrupted(ledger) == ["killed"]

    begin_run(ledger, "r2", "refresh", "", ["pages", "tickets"])
    assert interrupted(ledger) == ["r2", "killed"]
    end_run(ledger, "r2", {})
    assert (interrupted(ledger), state(ledger, "killed")) == ([], "interrupted")


def test_an_interrupted_run_that_nobody_repeats_is_listed_for_a_week(ledger: Ledger) -> None:
    begin_run(ledger, "killed", "purge", "")
    assert interrupted(ledger) == ["killed"]
    ledger.execute(runs.update().values(started_at=now() - timedelta(days=8)))
    assert interrupted(ledger) == []


def test_a_second_refresh_of_a_source_is_refused_while_the_first_works(ledger: Ledger) -> None:
    with worker(ledger, "r1", "pages", "tickets") as process:
        with pytest.raises(AlreadyAtWork, match=r"run r1 has refreshed pages since .* UTC, and is still at work"):
            begin_refresh(ledger, "r2", "", ["pages", "wiki"])
        begin_refresh(ledger, "r3", "", ["wiki"])
        begin_refresh(ledger, "r1", "", ["pages"])  # the same run, repeated
        kill(process)
        until(lambda: state(ledger, "r1") == "interrupted")
        begin_refresh(ledger, "r2", "", ["pages", "wiki"])

    assert set(ledger.scalars(sa.select(runs.c.run_id))) == {"r1", "r2", "r3"}


def test_of_many_that_begin_at_once_one_begins(ledger: Ledger) -> None:
    start, end = threading.Barrier(6), threading.Barrier(6)

    def begin(number: int) -> bool:
        with at_work(ledger, f"r{number}"):
            start.wait(60)
            try:
                begin_refresh(ledger, f"r{number}", "", ["pages"])
            except AlreadyAtWork:
                return False
            finally:
                end.wait(60)
            return True

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(begin, range(6))) == [False] * 5 + [True]


def test_one_that_waits_begins_when_the_first_is_killed(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    with worker(ledger, "r1") as process, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(begin_refresh, ledger, "r2", "", ["pages"], wait=True)
        until(lambda: "run r1 has refreshed pages since" in caplog.text)
        time.sleep(1.5)
        assert not waiting.done()
        kill(process)
        waiting.result(60)
    assert caplog.text.count("waiting until it ends") == 1


def test_locks_of_runs_leave_no_file_and_are_never_lost(sqlite_ledger: Ledger) -> None:
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            with at_work(sqlite_ledger, "r1"):
                pass

    with ThreadPoolExecutor(2) as pool:
        passing = [pool.submit(come_and_go) for _ in range(2)]
        begin_run(sqlite_ledger, "r1", "refresh", "")
        try:
            for _ in range(200):
                with at_work(sqlite_ledger, "r1"):
                    assert state(sqlite_ledger, "r1") == "running"
        finally:
            stop.set()
        for each in passing:
            each.result(60)
    assert not list(Path(str(sqlite_ledger.url.database)).parent.glob("*.run-*"))


def row_events(ledger: Ledger) -> int:
    with ledger.read() as connection:
        statement = sa.select(sa.func.count()).where(events.c.kind == ROWS_EVENT, events.c.subject == "runs")
        return connection.scalar(statement) or 0


def until(happened: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)
