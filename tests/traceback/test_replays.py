"""A report that was closed wrongly is found: by age, after another judge, another policy or a large refresh."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from corpus_guard.deployment import Deployment
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import publications, reports, traces
from corpus_guard.traceback.batch_run import select_reports
from corpus_guard.traceback.replays import (
    ReplayOutcome,
    choose_replays,
    compare_replays,
    count_replays,
    reopen_regressed,
)
from material import Shelf
from trace_cases import Contains, poison, report, rows, run, serve, told, truth

DAY = timedelta(days=1)


class Blind(Contains):
    """An older judge, which finds nothing."""

    digest = "blind/v1"

    def __init__(self) -> None:
        super().__init__(says=Label.BENIGN, probability=0.0)


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    serve(lite_shelf, {**poison(2), **truth(6)})
    lite_shelf.ledger.execute(publications.update().values(changed_at=now() - 30 * DAY))
    return Deployment(lite_shelf.settings(tmp_path))


def closed(guard: Deployment, shelf: Shelf, count: int, judge: Contains | None = None) -> list[str]:
    """Ids of reports that were traced, the first the longest ago."""
    ids = []
    for number in range(count):
        complaint = report(shelf, query=f"Question number {number}?")
        run(guard, complaint, judge or Contains(), f"old-{number}")
        ids.append(complaint.report_id)
        ended = {"finished_at": now() - (count - number) * DAY, "started_at": now() - (count - number) * DAY}
        guard.ledger.execute(traces.update().where(traces.c.run_id == f"old-{number}").values(ended))
    return ids


def test_the_oldest_come_first_and_no_more_than_asked_for(lite_shelf: Shelf, guard: Deployment) -> None:
    ids = closed(guard, lite_shelf, 4)
    still_open = report(lite_shelf, query="An open one?").report_id

    assert choose_replays(guard.ledger, judge="contains/v1", oldest=2, limit=100) == ids[:2]
    assert choose_replays(guard.ledger, judge="contains/v1", oldest=4, limit=3) == ids[:3]
    assert choose_replays(guard.ledger, judge="", oldest=0, limit=100) == []
    selected = select_reports(guard.ledger, judge="contains/v1", oldest=1)
    assert (selected.portions, selected.replays, selected.waiting) == ([[still_open, ids[0]]], 1, 0)


def test_after_another_judge_all_come_that_it_has_not_seen(lite_shelf: Shelf, guard: Deployment) -> None:
    ids = closed(guard, lite_shelf, 3)

    assert choose_replays(guard.ledger, judge="contains/v2", oldest=0, limit=100) == ids


def test_after_a_change_of_the_policy_all_come_that_are_older(lite_shelf: Shelf, guard: Deployment) -> None:
    ids = closed(guard, lite_shelf, 2)
    with guard.ledger.write() as connection:
        append_event(connection, "configured", "x", "r", changes={"reviewers.ada": [None, "1"]})
    assert choose_replays(guard.ledger, judge="contains/v1", oldest=0, limit=100) == []
    with guard.ledger.write() as connection:
        append_event(connection, "configured", "y", "r", changes={"policy.accept_below": ["0.1", "0.2"]})

    assert choose_replays(guard.ledger, judge="contains/v1", oldest=0, limit=100) == ids


def test_after_a_large_refresh_all_come_that_are_older(lite_shelf: Shelf, guard: Deployment) -> None:
    ids = closed(guard, lite_shelf, 2)
    assert choose_replays(guard.ledger, judge="contains/v1", oldest=0, limit=100) == []
    serve(lite_shelf, {"new.md": "The tide gauge was painted (near 100)."}, minute=5)

    assert choose_replays(guard.ledger, judge="contains/v1", oldest=0, limit=100) == ids


def test_what_an_older_judge_closed_wrongly_is_opened_again_once(lite_shelf: Shelf, guard: Deployment) -> None:
    (wrong,) = closed(guard, lite_shelf, 1, Blind())
    assert [row.state for row in rows(lite_shelf, reports)] == ["not_poisoning"]
    assert choose_replays(guard.ledger, judge="contains/v1", oldest=0, limit=100) == [wrong]
    complaint = report(lite_shelf, query="Question number 0?")
    again = run(guard, complaint, Contains(), "night-1")

    replays = compare_replays(guard.ledger, "night-1")
    assert [(replay.report_id, replay.outcome) for replay in replays] == [(wrong, ReplayOutcome.REGRESSED)]
    assert reopen_regressed(guard.ledger, "night-1", replays) == [wrong]
    assert reopen_regressed(guard.ledger, "night-1", replays) == []
    assert [row.state for row in rows(lite_shelf, reports)] == ["open"]
    (event,) = told(lite_shelf, "report_reopened")
    assert (event.body["before"], event.body["after"], event.body["trace_id"]) == (
        "not_poisoning", "traced", again.trace_id,
    )  # fmt: skip

    run(guard, complaint, Contains(), "night-2")
    second = compare_replays(guard.ledger, "night-2")
    assert [replay.outcome for replay in second] == [ReplayOutcome.STILL_WRONG]
    assert reopen_regressed(guard.ledger, "night-2", second) == []
    run(guard, complaint, Blind(), "night-3")
    counted = count_replays(compare_replays(guard.ledger, "night-3"))
    assert counted == {"fixed": 1, "regressed": 0, "still_wrong": 0, "still_right": 0}
    assert compare_replays(guard.ledger, "old-0") == [], "a first trace is compared with nothing"
