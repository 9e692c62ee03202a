"""Health view: false alarms of each check, time to decision, canary recall, and muted rules."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.ledger.runs import interrupted_runs
from corpus_guard.pipeline.configuration import recent_loosenings
from corpus_guard.review.health import FalseAlarmRate, find_overdue, measure_health
from corpus_guard.review.muting import list_mutes
from corpus_guard.web import plots
from corpus_guard.web.render import render_page
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

MAX_PLOT_ROWS: Final = 14
MAX_MUTES: Final = 50
MAX_RUNS: Final = 5
Source = Annotated[str, Query(max_length=64, description="Only this source.")]


@router.get("/health")
def health(request: Request, source: Source = "") -> HTMLResponse:
    """Show the health of the review."""
    deployment = current_deployment(request)
    rules = deployment.policy.review
    figures = measure_health(deployment.ledger, rules, source=source or None)
    recall = [
        (f"{run['at'][:16].replace('T', ' ')} UTC: {run['caught']} of {run['planted']} caught", run["recall"]["share"])
        for run in figures["canaries"]
    ]
    return render_page(
        request,
        "health.html",
        health=figures,
        overdue=find_overdue(deployment.ledger, rules),
        interrupted=interrupted_runs(deployment.ledger)[:MAX_RUNS],
        loosened=recent_loosenings(deployment.ledger),
        by_check=_plot_rates(figures["checks"]),
        by_code=_plot_rates(figures["codes"]),
        days=plots.day_plot(figures["days"]),
        recall=plots.line_plot(recall),
        mutes=list_mutes(deployment.ledger)[:MAX_MUTES],
        rules=rules,
        source=source,
    )


@api.get("/health", summary="False alarms, time to decision, overdue items, canary recall, interrupted runs")
def health_figures(request: Request, source: Source = "") -> dict[str, object]:
    """Return the figures of the health view, with Wilson intervals."""
    deployment = current_deployment(request)
    rules = deployment.policy.review
    figures = measure_health(deployment.ledger, rules, source=source or None)
    interrupted = [run.run_id for run in interrupted_runs(deployment.ledger)]
    return {**figures, "overdue": find_overdue(deployment.ledger, rules), "interrupted": interrupted}


def _plot_rates(rates: list[FalseAlarmRate]) -> plots.RatePlot:
    return plots.rate_plot([(rate["name"], rate["false_alarms"]) for rate in rates[:MAX_PLOT_ROWS]])
