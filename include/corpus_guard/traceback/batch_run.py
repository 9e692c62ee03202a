"""Batch run of a night: selects the reports to trace, traces them in portions, and checks that none was lost.

Rules
    * open reports come first, the heaviest before the others; then those whose judge failed the last time; then closed
      ones that are traced again (`corpus_guard.traceback.replays`).
      Reports beyond the limit of one night wait for the next, and their number is returned;
    * a portion may be killed and run again: finished traces are read, unfinished ones resume;
    * a report that cannot be traced does not stop the others of its portion, and fails the portion in the
      end; a server that does not answer fails it at once;
    * every selected report has ended exactly once, or the night does not balance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NotRequired, TypedDict

from corpus_guard.batches.tables import in_batches
from corpus_guard.errors import GuardError, Inconsistent, Infrastructure
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import ReportState
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.rag_model import RagModel
from corpus_guard.traceback.replays import choose_replays
from corpus_guard.traceback.reports import find_report, list_reports
from corpus_guard.traceback.trace_run import CorpusAccess, run_trace

MAX_REPORTS = 1_000  # per night
REPORTS_PER_PORTION = 25  # loading the models costs as much as tracing some of them


class TracedReport(TypedDict):
    """Outcome of one report."""

    report_id: str
    trace_id: str
    outcome: str
    used: NotRequired[dict[str, float]]  # of the judge's endpoint, as `Usage` counts; missing if the judge uses none


@dataclass(frozen=True, slots=True)
class SelectedReports:
    """Reports of one night."""

    portions: list[list[str]]  # report ids
    waiting: int  # open reports that wait for another night
    replays: int = 0  # of the selected reports: closed, and traced again


def select_reports(
    ledger: Ledger,
    max_reports: int = MAX_REPORTS,
    portion: int = REPORTS_PER_PORTION,
    *,
    judge: str = "",
    oldest: int = 0,
) -> SelectedReports:
    """Select the reports of a night, in portions.

    Args:
        judge: digest of the judge in use; empty: unknown.
        oldest: closed reports to trace again by age alone.
    """
    open_reports, open_count = list_reports(ledger, state=ReportState.OPEN, limit=max_reports)
    failed_reports, failed_count = list_reports(ledger, state=ReportState.JUDGE_FAILED, limit=max_reports)
    ids = [report.report_id for report in (*open_reports, *failed_reports)][:max_reports]
    replayed = choose_replays(ledger, judge=judge, oldest=oldest, limit=max_reports - len(ids))
    portions = list(in_batches([*ids, *replayed], portion))
    return SelectedReports(portions, open_count + failed_count - len(ids), len(replayed))


def trace_portion(
    access: CorpusAccess, run_id: str, report_ids: Sequence[str], *, judge: Judge, k: int, rag_model: RagModel | None
) -> list[TracedReport]:
    """Trace reports one after the other.

    Args:
        run_id: id of the night; the same night resumes the same traces.
        rag_model: asked before and after; None: nothing is asked again.

    Raises:
        Infrastructure: a server does not answer; running again continues.
        GuardError: the first report that could not be traced, after the others were.
    """
    traced: list[TracedReport] = []
    failures: list[GuardError] = []
    before = endpoint_usage(judge)
    for report_id in report_ids:
        try:
            complaint = find_report(access.ledger, report_id).complaint
            trace = run_trace(
                access, complaint, run_id, judge=judge, k=k, rag_model=rag_model, use_activations_always=True
            )
        except Infrastructure:
            raise
        except GuardError as error:
            failures.append(error)
            continue
        report = TracedReport(report_id=report_id, trace_id=trace.trace_id, outcome=str(trace.outcome))
        if after := endpoint_usage(judge):
            report["used"] = {name: count - before[name] for name, count in after.items()}
            before = after
        traced.append(report)
    if failures:
        raise failures[0]
    return traced


def count_outcomes(portions: Sequence[Sequence[str]], results: Sequence[Sequence[TracedReport]]) -> Counter[str]:
    """Return the number of reports by outcome.

    Raises:
        Inconsistent: a report was selected and has not ended, or has ended twice.
    """
    selected = Counter(report_id for portion in portions for report_id in portion)
    ended = Counter(report["report_id"] for result in results for report in result)
    if selected != ended:
        differing = (selected - ended) + (ended - selected)
        raise Inconsistent(
            f"{selected.total():,} reports were selected and {ended.total():,} ended, {len(differing):,} of "
            "them not exactly once; clear the tasks that trace, and they resume where they stopped"
        )
    return Counter(report["outcome"] for result in results for report in result)


def endpoint_usage(judge: Judge) -> dict[str, float]:
    """Return requests, tokens and seconds of the judge's endpoint so far; empty if it uses none."""
    usage = getattr(judge, "usage", None)
    return asdict(usage) if usage is not None else {}


def total_usage(results: Sequence[Sequence[TracedReport]], *more: Mapping[str, float]) -> dict[str, float]:
    """Return the sum over a night and `more`; empty if no judge used an endpoint.

    The usage of a killed attempt is not included: the attempt that resumed counts its own.
    """
    total: defaultdict[str, float] = defaultdict(int)
    for usage in (*(report.get("used", {}) for result in results for report in result), *more):
        for name, count in usage.items():
            total[name] += count
    return dict(total)
