"""Health: how often people disagree with each check, how long things wait, whether canaries are caught, and what is muted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.review.health import measure_health, find_overdue
from corpus_guard.review.muting import list_mutes
from corpus_guard.web import plots
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.render import render_page

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

ROWS = 14  # of a plot
Source = Annotated[str, Query(max_length=64, description="Only this source.")]


@router.get("/health")
def shown(request: Request, source: Source = "") -> HTMLResponse:
    """The view."""
    guard = request.app.state.desk.guard()
    found = measure_health(guard.ledger, guard.policy.review, source=source or None)
    by_check, by_code = (
        plots.rate_plot([(one["name"], one["false_alarms"]) for one in found[name][:ROWS]]) for name in ("checks", "codes")
    )
    recall = [
        (f"{one['at'][:16]}: {one['caught']} of {one['planted']}", one["recall"]["share"]) for one in found["canaries"]
    ]
    return render_page(
        request,
        "health.html",
        health=found,
        overdue=find_overdue(guard.ledger, guard.policy.review),
        by_check=by_check,
        by_code=by_code,
        days=plots.day_plot(found["days"]),
        recall=plots.line_plot(recall),
        mutes=list_mutes(guard.ledger)[:50],
        rules=guard.policy.review,
        source=source,
    )


@api.get("/health", summary="False alarms, time to decision, what is overdue, canary recall")
def figures(request: Request, source: Source = "") -> dict[str, Any]:
    """The figures behind the view, with Wilson intervals."""
    guard = request.app.state.desk.guard()
    found: dict[str, Any] = measure_health(guard.ledger, guard.policy.review, source=source or None)
    return {**found, "overdue": find_overdue(guard.ledger, guard.policy.review)}
