"""Reports & traces: wrong answers that were told of, the texts they were traced to, and what was purged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.batches.tables import versions_from_table
from corpus_guard.deployment import Deployment
from corpus_guard.errors import GuardError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import REPORT_STATES, Label
from corpus_guard.ledger.tables import purges, versions
from corpus_guard.ledger.tables import reports as table
from corpus_guard.traceback import records, reports
from corpus_guard.traceback.records import JudgedTextRow
from corpus_guard.web.render import render_page
from corpus_guard.web.text_display import DisplayText, display_text

router = APIRouter()

AT_ONCE = 50
TEXTS = 40  # judged texts of a trace that are shown whole
TEXT_BYTES = 1_600  # of each
ALL_BYTES = 90_000  # of all texts of a trace


@router.get("/reports")
def listed(request: Request, state: Annotated[str, Query(max_length=14)] = "") -> HTMLResponse:
    """Reports in the order they are traced in, the newest traces, and purges."""
    guard = request.app.state.desk.guard()
    wanted = state if state in REPORT_STATES else ""
    found, total = reports.list_reports(guard.ledger, state=wanted or (None if state else "open"), limit=AT_ONCE)
    if not state:  # what is open, or everything where nothing is
        wanted = "open" if found else ""
        if not found:
            found, total = reports.list_reports(guard.ledger, limit=AT_ONCE)
    traces = records.list_traces(guard.ledger, limit=AT_ONCE)
    return render_page(
        request,
        "reports.html",
        reports=found,
        total=total,
        state=wanted,
        states=REPORT_STATES,
        traces=traces,
        questions=questions_of(guard.ledger, {trace.report_id for trace in traces}),
        purges=purges_of(guard.ledger),
    )


@router.get("/reports/{report_id}")
def one_report(request: Request, report_id: str) -> HTMLResponse:
    """One report with who filed it and its traces."""
    guard = request.app.state.desk.guard()
    found = reports.find_report(guard.ledger, report_id)
    return render_page(
        request,
        "reports.one.html",
        report=found,
        query=display_text(found.query),
        output=display_text(found.output),
        correct=display_text(found.correct) if found.correct else None,
        filings=reports.list_filings(guard.ledger, found.report_id, AT_ONCE),
        traces=records.list_traces(guard.ledger, limit=AT_ONCE, report_id=found.report_id),
    )


@router.get("/traces/{trace_id}")
def one_trace(request: Request, trace_id: str) -> HTMLResponse:
    """One trace with the texts it judged."""
    guard = request.app.state.desk.guard()
    found = records.find_trace(guard.ledger, trace_id)
    report = reports.find_report(guard.ledger, found.report_id)
    lines = sorted(found.judged, key=lambda line: line.label is not Label.POISONED)[:TEXTS]  # the accused first
    return render_page(
        request,
        "trace.html",
        trace=found,
        lines=lines,
        report=report,
        query=display_text(report.query, most=8_000),
        output=display_text(report.output, most=8_000),
        before=display_text(found.answer_before, most=4_000) if found.answer_before else None,
        after=display_text(found.answer_after, most=4_000) if found.answer_after else None,
        texts=texts_of(guard, lines),
    )


def texts_of(guard: Deployment, lines: Iterable[JudgedTextRow]) -> dict[str, DisplayText]:
    """Chunk → its text, of those that the ledger vouches for and whose batch is still there."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line.version_id:
            wanted[line.version_id].add(line.chunk_id)
    statement = sa.select(versions.c.version_id, versions.c.batch).where(versions.c.version_id.in_(list(wanted)))
    with guard.ledger.read() as connection:
        batches: dict[str, list[str]] = defaultdict(list)
        for row in connection.execute(statement):
            batches[row.batch].append(row.version_id)
    found: dict[str, DisplayText] = {}
    left = ALL_BYTES
    for batch, ids in batches.items():
        try:
            table = guard.storage.read_table(batch, filters=[("version_id", "in", ids)])
        except GuardError:  # purged meanwhile: the trace keeps its hash
            continue
        for version in versions_from_table(table):
            for chunk in version.chunks:
                if chunk.chunk_id in wanted[version.version_id] and left > 0:
                    found[chunk.chunk_id] = display_text(chunk.text, most=min(TEXT_BYTES, left))
                    left -= min(TEXT_BYTES, len(chunk.text))
    return found


def questions_of(ledger: Ledger, ids: Iterable[str]) -> dict[str, str]:
    """Report → its question."""
    statement = sa.select(table.c.report_id, table.c.query).where(table.c.report_id.in_(list(ids)))
    with ledger.read() as connection:
        return {row.report_id: row.query for row in connection.execute(statement)}


def purges_of(ledger: Ledger) -> list[dict[str, Any]]:
    """Who asked for what to be erased, the newest first."""
    with ledger.read() as connection:
        rows = connection.execute(sa.select(purges).order_by(purges.c.requested_at.desc()).limit(AT_ONCE))
        return [dict(row) for row in rows.mappings()]
