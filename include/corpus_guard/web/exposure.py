"""Exposure and watch views: whom a text has reached, and documents that are retrieved as no honest one is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.forensics.exposure import find_subject, log_begins, measure_exposure
from corpus_guard.forensics.kinds import SubjectKind
from corpus_guard.forensics.road import find_road_siblings
from corpus_guard.forensics.watch.alerts import list_alerts
from corpus_guard.web import plots
from corpus_guard.web.render import render_page
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

MAX_ROWS: Final = 25  # of each list
MAX_ALERTS: Final = 100
PLOTTED_DAYS: Final = 90

Subject = Annotated[
    str, Query(min_length=1, max_length=2_000, description="A chunk, document, trace, source, run, principal or purge.")
]
Kind = Annotated[SubjectKind | None, Query(description="What the subject is; default: the first that fits.")]


@router.get("/exposure")
def show_exposure(request: Request, subject: Subject, kind: Kind = None) -> HTMLResponse:
    """Show whom the texts of a subject have reached."""
    deployment = current_deployment(request)
    ledger = deployment.ledger
    exposure_subject = find_subject(ledger, subject, kind)
    measured = measure_exposure(ledger, exposure_subject, listed=MAX_ROWS, key=deployment.question_key)
    return render_page(
        request,
        "exposure.html",
        subject=exposure_subject,
        exposure=measured,
        days=plots.count_plot(measured.days, PLOTTED_DAYS),
        same_road=find_road_siblings(ledger, exposure_subject, listed=MAX_ROWS),
    )


@router.get("/watch")
def show_watch(request: Request) -> HTMLResponse:
    """Show the alerts of the retrieval watch, the newest first."""
    deployment = current_deployment(request)
    with deployment.ledger.read() as connection:
        log_from = log_begins(connection)
    return render_page(
        request,
        "watch.html",
        alerts=list_alerts(deployment.ledger, limit=MAX_ALERTS),
        log_from=log_from,
        log_kept=deployment.settings.retrieval_log,
    )


@api.get("/exposure", summary="Whom the texts of a subject have reached")
def exposure(request: Request, subject: Subject, kind: Kind = None) -> dict[str, object]:
    """Return counts and lists from the retrieval log. A count that nobody recorded is null, never zero."""
    deployment = current_deployment(request)
    ledger = deployment.ledger
    exposure_subject = find_subject(ledger, subject, kind)
    measured = measure_exposure(ledger, exposure_subject, listed=MAX_ROWS, key=deployment.question_key)
    same_road = asdict(find_road_siblings(ledger, exposure_subject, listed=MAX_ROWS))
    return {**measured.as_dict(), "same_road": same_road}


@api.get("/watch", summary="Alerts of the retrieval watch")
def alerts(request: Request) -> dict[str, object]:
    """Return alerts, the newest first."""
    return {"alerts": [alert.as_dict() for alert in list_alerts(current_deployment(request).ledger, limit=MAX_ALERTS)]}
