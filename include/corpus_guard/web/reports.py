"""Reports & traces view: reported wrong answers, the texts they were traced to, and purges."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Final

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.domain import Span
from corpus_guard.errors import require_one_of
from corpus_guard.forensics.cases import Member, MemberKind, cases_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import REPORT_STATES, Label, ReportState
from corpus_guard.ledger.tables import purges
from corpus_guard.ledger.tables import reports as reports_table
from corpus_guard.removal.restoring import WithdrawnDocument, list_withdrawn
from corpus_guard.traceback import records, reports
from corpus_guard.traceback.cleared import cleared_versions
from corpus_guard.traceback.proposals import list_proposals
from corpus_guard.traceback.withdrawal_plan import versions_with_decided_withdrawal
from corpus_guard.web.chunk_texts import load_chunk_texts
from corpus_guard.web.render import render_page
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment
from corpus_guard.web.text_display import display_text

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

MAX_ROWS: Final = 50  # of each list
ANY_STATE: Final = "any"
MAX_JUDGED_TEXTS: Final = 40  # of a trace
MAX_FIELD_BYTES: Final = 8_000  # of a question or an output beside a trace
MAX_ANSWER_BYTES: Final = 4_000


@router.get("/reports")
def list_reports(request: Request, state: Annotated[str, Query(max_length=250)] = "") -> HTMLResponse:
    """Show reports in the order they are traced in, the newest traces, and purges.

    Args:
        request: the request.
        state: only reports in this state; any: all; empty: open ones, or all if none is open.
    """
    ledger = current_deployment(request).ledger
    shown_state = state or ReportState.OPEN.value
    require_one_of("state", shown_state, (ANY_STATE, *REPORT_STATES))
    page, total = _list_reports(ledger, shown_state)
    if not state and not page:
        shown_state = ANY_STATE
        page, total = _list_reports(ledger, shown_state)
    traces = records.list_traces(ledger, limit=MAX_ROWS)
    return render_page(
        request,
        "reports.html",
        reports=page,
        total=total,
        state="" if shown_state == ANY_STATE else shown_state,
        states=REPORT_STATES,
        traces=traces,
        questions=load_questions(ledger, {trace.report_id for trace in traces}),
        withdrawn=list_withdrawn(ledger)[:MAX_ROWS],
        purges=list_purges(ledger),
    )


def _list_reports(ledger: Ledger, state: str) -> tuple[list[reports.Report], int]:
    return reports.list_reports(ledger, state=None if state == ANY_STATE else state, limit=MAX_ROWS)


@router.get("/reports/{report_id}")
def show_report(request: Request, report_id: str) -> HTMLResponse:
    """Show one report with its filings and traces."""
    ledger = current_deployment(request).ledger
    report = reports.find_report(ledger, report_id)
    return render_page(
        request,
        "reports.one.html",
        report=report,
        query=display_text(report.query),
        output=display_text(report.output),
        correct=display_text(report.correct) if report.correct else None,
        filings=reports.list_filings(ledger, report.report_id, MAX_ROWS),
        traces=records.list_traces(ledger, limit=MAX_ROWS, report_id=report.report_id),
        cases=cases_of(ledger, Member(MemberKind.REPORT, report.report_id)),
    )


@router.get("/traces/{trace_id}")
def show_trace(request: Request, trace_id: str) -> HTMLResponse:
    """Show one trace with the texts it judged, poisoned ones first."""
    deployment = current_deployment(request)
    trace = records.find_trace(deployment.ledger, trace_id)
    report = reports.find_report(deployment.ledger, trace.report_id)
    order = (Label.POISONED, Label.UNDECIDED, Label.BENIGN)
    judged = sorted(trace.judged, key=lambda text: order.index(text.label))[:MAX_JUDGED_TEXTS]
    with deployment.ledger.read() as connection:
        refuted = records.find_not_reproduced(connection, [trace.trace_id])
    before, after = (
        display_text(answer, max_bytes=MAX_ANSWER_BYTES) if answer else None
        for answer in (trace.answer_before, trace.answer_after)
    )
    withdrawn = _withdrawn_of(deployment.ledger, trace)
    return render_page(
        request,
        "trace.html",
        trace=trace,
        judged=judged,
        report=report,
        query=display_text(report.query, max_bytes=MAX_FIELD_BYTES),
        output=display_text(report.output, max_bytes=MAX_FIELD_BYTES),
        before=before,
        after=after,
        texts=load_chunk_texts(
            deployment.ledger,
            deployment.storage,
            [text.chunk_id for text in judged],
            {text.chunk_id: Span(text.carrier.start, text.carrier.end) for text in judged if text.carrier},
        ),
        proposals=list_proposals(deployment.ledger, [trace.trace_id]),
        withdrawn=withdrawn,
        decided=_decided_of(deployment.ledger, trace, {document.version_id for document in withdrawn}),
        reproduced=not refuted,
        cases=cases_of(deployment.ledger, Member(MemberKind.TRACE, trace.trace_id)),
    )


@api.get("/reports/{report_id}", summary="A report, and what came of it")
def report_outcome(request: Request, report_id: str) -> dict[str, object]:
    """Return the report, its state, and its traces without their texts, the newest first."""
    ledger = current_deployment(request).ledger
    report = reports.find_report(ledger, report_id)
    traces = records.list_traces(ledger, limit=MAX_ROWS, report_id=report.report_id)
    return {**report.as_dict(), "traces": [trace.as_dict() for trace in traces]}


@api.get("/traces/{trace_id}", summary="A trace with the texts that it judged")
def trace_outcome(request: Request, trace_id: str) -> dict[str, object]:
    """Return the outcome, the answers of the RAG model, and each judged text by its document and hash."""
    return records.find_trace(current_deployment(request).ledger, trace_id).as_dict()


def _withdrawn_of(ledger: Ledger, trace: records.Trace) -> list[WithdrawnDocument]:
    """Return what was withdrawn, of the documents that a trace accuses."""
    accused = {text.version_id for text in trace.accused if text.version_id}
    return list_withdrawn(ledger, version_ids=accused) if accused else []


def _decided_of(ledger: Ledger, trace: records.Trace, withdrawn: Collection[str]) -> dict[str, dict[str, str]]:
    """Return what people decided on the accused documents that are not in `withdrawn`.

    Returns:
        pending (a withdrawal that has not taken effect) and kept → version id → URI.
    """
    accused = {
        text.version_id: text.uri for text in trace.accused if text.version_id and text.version_id not in withdrawn
    }
    with ledger.read() as connection:
        pending = versions_with_decided_withdrawal(connection)
        cleared = {version for report, version in cleared_versions(connection) if report == trace.report_id}
    return {
        name: {version_id: uri for version_id, uri in accused.items() if version_id in version_ids}
        for name, version_ids in (("pending", pending), ("kept", cleared - pending))
    }


def load_questions(ledger: Ledger, report_ids: Iterable[str]) -> dict[str, str]:
    """Return the questions of reports, by report id."""
    table = reports_table
    statement = sa.select(table.c.report_id, table.c.query).where(table.c.report_id.in_(list(report_ids)))
    return {row.report_id: row.query for row in ledger.rows(statement)}


def list_purges(ledger: Ledger) -> list[dict[str, object]]:
    """Return the purges that were carried out, newest first."""
    with ledger.read() as connection:
        rows = connection.execute(sa.select(purges).order_by(purges.c.requested_at.desc()).limit(MAX_ROWS))
        return [dict(row) for row in rows.mappings()]
