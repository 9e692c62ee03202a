"""Replays: closed reports that a night traces again, and what became of them.

Rules
    * each night the closed reports whose last trace is the oldest are traced again, as many as the settings say;
    * every closed report is traced again whose last trace had another judge, or ended before a change of the policy or
      before a large refresh;
    * a replay is compared with the report's trace before it: *fixed* (it accused or was unsure, and no longer does),
      *regressed* (it found nothing, and now accuses or is unsure), *still wrong*, *still right*;
    * a report that regressed is opened again, once for each trace that says so, and the log tells it;
    * what people cleared of a report is not accused of it by a replay (`corpus_guard.traceback.cleared`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.runs import CONFIGURED_EVENT
from corpus_guard.ledger.states import PublicationState, ReportState, TraceOutcome
from corpus_guard.ledger.tables import events, publications, reports, traces
from corpus_guard.traceback.reports import close_report

LARGE_REFRESH_SHARE: Final = 0.1  # of what is served; so many newer chunks make every older trace doubtful
CLOSED_STATES: Final = (ReportState.TRACED, ReportState.NOT_POISONING, ReportState.EXHAUSTED, ReportState.UNDECIDED)
REOPENED_EVENT: Final = "report_reopened"


class ReplayOutcome(StrEnum):
    """Comparison of a trace with the trace of the same report before it."""

    FIXED = "fixed"
    REGRESSED = "regressed"
    STILL_WRONG = "still_wrong"
    STILL_RIGHT = "still_right"


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace of a report that was traced before."""

    report_id: str
    trace_id: str
    before: TraceOutcome
    after: TraceOutcome

    @property
    def outcome(self) -> ReplayOutcome:
        """Outcome of the comparison; everything but *not poisoning* counts as wrong."""
        was_right, is_right = (outcome is TraceOutcome.NOT_POISONING for outcome in (self.before, self.after))
        if was_right:
            return ReplayOutcome.STILL_RIGHT if is_right else ReplayOutcome.REGRESSED
        return ReplayOutcome.FIXED if is_right else ReplayOutcome.STILL_WRONG


def choose_replays(ledger: Ledger, *, judge: str, oldest: int, limit: int) -> list[str]:
    """Return the closed reports to trace again: first those that a change made doubtful, then the oldest.

    Args:
        judge: digest of the judge in use; empty: unknown, no report counts as traced by another.
        oldest: how many to trace again by age alone.
    """
    with ledger.read() as connection:
        closed = _closed_reports(connection)
        changed_at = max(
            filter(None, (_last_change_of_policy(connection), _last_large_refresh(connection))), default=None
        )
    doubtful = [
        row.report_id
        for row in closed
        if (judge and row.judge != judge) or (changed_at is not None and row.ended < changed_at)
    ]
    doubtful_ids = set(doubtful)
    by_age = [row.report_id for row in closed if row.report_id not in doubtful_ids][:oldest]
    return [*doubtful, *by_age][: max(limit, 0)]


def compare_replays(ledger: Ledger, run_id: str) -> list[Replay]:
    """Return the reports of a run that were traced before, by report id; unfinished and failed traces are left out."""
    ended = (traces.c.outcome.is_not(None), traces.c.outcome != TraceOutcome.JUDGE_FAILED, traces.c.as_of.is_(None))
    statement = sa.select(traces.c.report_id, traces.c.trace_id, traces.c.run_id, traces.c.outcome).where(*ended)
    of_run = sa.select(traces.c.report_id).where(traces.c.run_id == run_id)
    statement = statement.where(traces.c.report_id.in_(of_run)).order_by(traces.c.finished_at, traces.c.trace_id)
    before: dict[str, Row] = {}
    replays: dict[str, Replay] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            earlier = before.get(row.report_id)
            if row.run_id != run_id:
                before[row.report_id] = row
            elif earlier is not None:
                replays[row.report_id] = Replay(
                    row.report_id, row.trace_id, TraceOutcome(earlier.outcome), TraceOutcome(row.outcome)
                )
    return [replays[report_id] for report_id in sorted(replays)]


def count_replays(replays: list[Replay]) -> dict[str, int]:
    """Return the number of replays by outcome; every outcome is listed."""
    counted = Counter(replay.outcome for replay in replays)
    return {outcome.value: counted[outcome] for outcome in ReplayOutcome}


def reopen_regressed(ledger: Ledger, run_id: str, replays: list[Replay]) -> list[str]:
    """Open the reports again that regressed, and log it. Return their ids; a repeated call reopens none."""
    logged = sa.select(events.c.body).where(events.c.kind == REOPENED_EVENT, events.c.run_id == run_id)
    reopened = []
    with ledger.write() as connection:
        logged_ids = {body["trace_id"] for body in connection.scalars(logged)}
        for replay in replays:
            if replay.outcome is not ReplayOutcome.REGRESSED or replay.trace_id in logged_ids:
                continue
            close_report(connection, replay.report_id, ReportState.OPEN)
            append_event(
                connection,
                REOPENED_EVENT,
                replay.report_id,
                run_id,
                trace_id=replay.trace_id,
                before=replay.before.value,
                after=replay.after.value,
            )
            reopened.append(replay.report_id)
    return reopened


def _closed_reports(connection: sa.Connection) -> list[Row]:
    """Return id, judge and end of the last trace of each closed report, the oldest first."""
    newest = sa.func.row_number().over(
        partition_by=traces.c.report_id, order_by=(traces.c.finished_at.desc(), traces.c.trace_id)
    )
    last = (
        sa.select(traces.c.report_id, traces.c.judge, traces.c.finished_at.label("ended"), newest.label("nth"))
        .where(traces.c.finished_at.is_not(None), traces.c.as_of.is_(None))
        .subquery()
    )
    statement = (
        sa.select(last.c.report_id, last.c.judge, last.c.ended)
        .join(reports, reports.c.report_id == last.c.report_id)
        .where(last.c.nth == 1, reports.c.state.in_(CLOSED_STATES))
        .order_by(last.c.ended, last.c.report_id)
    )
    return list(connection.execute(statement))


def _last_change_of_policy(connection: sa.Connection) -> datetime | None:
    statement = sa.select(events.c.at, events.c.body).where(events.c.kind == CONFIGURED_EVENT)
    for row in connection.execute(statement.order_by(events.c.seq.desc())):
        if any(path.partition(".")[0] == "policy" for path in row.body["changes"]):
            changed_at: datetime = row.at
            return changed_at
    return None


def _last_large_refresh(connection: sa.Connection) -> datetime | None:
    """Return when the newest tenth of what is served was complete; a trace before it saw another corpus."""
    published = publications.c.state == PublicationState.PUBLISHED
    served = connection.scalar(sa.select(sa.func.count()).where(published)) or 0
    nth = max(1, round(LARGE_REFRESH_SHARE * served)) - 1
    newest = sa.select(publications.c.changed_at).where(published).order_by(publications.c.changed_at.desc())
    return connection.scalar(newest.offset(nth).limit(1))
