"""Health: how often people disagree with each check, how long things wait, whether canaries are caught, and what is muted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.review.health import health, overdue
from corpus_guard.review.muting import mutes
from corpus_guard.web import plots
from corpus_guard.web.answers import ERRORS
from corpus_guard.web.render import page

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

ROWS = 14  # of a plot
Source = Annotated[str, Query(max_length=64, description="Only this source.")]


@router.get("/health")
def shown(request: Request, source: Source = "") -> HTMLResponse:
    """The view."""
    guard = request.app.state.desk.guard()
    found = health(guard.ledger, guard.policy.review, source=source or None)
    by_check, by_code = (
        plots.rates([(one["name"], one["false_alarms"]) for one in found[name][:ROWS]]) for name in ("checks", "codes")
    )
    recall = [
        (f"{one['at'][:16]}: {one['caught']} of {one['planted']}", one["recall"]["share"]) for one in found["canaries"]
    ]
    return page(
        request,
        "health.html",
        health=found,
        overdue=overdue(guard.ledger, guard.policy.review),
        by_check=by_check,
        by_code=by_code,
        days=plots.days(found["days"]),
        recall=plots.line(recall),
        mutes=mutes(guard.ledger)[:50],
        rules=guard.policy.review,
        source=source,
    )


@api.get("/health", summary="False alarms, time to decision, what is overdue, canary recall")
def figures(request: Request, source: Source = "") -> dict[str, Any]:
    """The figures behind the view, with Wilson intervals."""
    guard = request.app.state.desk.guard()
    found: dict[str, Any] = health(guard.ledger, guard.policy.review, source=source or None)
    return {**found, "overdue": overdue(guard.ledger, guard.policy.review)}
