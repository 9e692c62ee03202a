"""Case views: what is worked on, how it came in, whom it reached, and what to do; and the map of the corpus."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from corpus_guard.errors import Misuse, require_one_of
from corpus_guard.forensics import pictures
from corpus_guard.forensics.cases import find_case, list_cases
from corpus_guard.forensics.map import CorpusMap, corpus_map, policy_thresholds, risk_histogram
from corpus_guard.forensics.plan import plan_case
from corpus_guard.forensics.retrieved import case_exposure, retrieval_lines
from corpus_guard.forensics.root_cause import root_cause
from corpus_guard.forensics.scope import scope_of
from corpus_guard.forensics.timeline import case_timeline
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()

MAX_LINES: Final = 400  # of a timeline; the case file has all
MAP_POINTS: Final = 2_000


@router.get("/cases")
def show_cases(request: Request) -> HTMLResponse:
    """List the cases, newest first."""
    return render_page(request, "cases.html", cases=list_cases(current_deployment(request).ledger))


@router.get("/cases/{case_id}")
def show_case(request: Request, case_id: str) -> HTMLResponse:
    """Show one case with its plan; a person who may decide can approve steps."""
    deployment = current_deployment(request)
    ledger, policy = deployment.ledger, deployment.policy
    case = find_case(ledger, case_id)
    scope = scope_of(ledger, case)
    exposure = case_exposure(ledger, scope, key=deployment.question_key)
    timeline = case_timeline(ledger, case, scope, retrieval_lines(exposure))
    return render_page(
        request,
        "case.html",
        case=case,
        scope=scope,
        cause=root_cause(ledger, policy, scope),
        exposure=exposure,
        steps=plan_case(ledger, policy, case, scope),
        timeline=timeline[:MAX_LINES],
        lines=len(timeline),
        picture=Markup(pictures.timeline_svg(timeline)),  # noqa: S704 - every name in it is escaped
    )


@router.get("/map")
def show_map(
    request: Request,
    by: Annotated[str, Query(max_length=250)] = "state",
    case: Annotated[str, Query(max_length=32)] = "",
) -> HTMLResponse:
    """Show the corpus in a plane, and the documents by risk."""
    deployment = current_deployment(request)
    ledger = deployment.ledger
    require_one_of("by", by, pictures.COLORINGS)
    shown = find_case(ledger, case) if case else None
    accused = scope_of(ledger, shown).versions if shown else ()
    drawn: CorpusMap | None = None
    problem = ""
    try:
        drawn = corpus_map(ledger, deployment.storage, deployment.settings.map_cache, accused, MAP_POINTS)
    except Misuse as error:
        problem = str(error)
    histogram = risk_histogram(ledger, policy_thresholds(deployment.policy))
    return render_page(
        request,
        "map.html",
        drawn=drawn,
        problem=problem,
        case=shown,
        by=by,
        colorings=list(pictures.COLORINGS),
        picture=Markup(pictures.map_svg(drawn, by)) if drawn else "",  # noqa: S704 - every name in it is escaped
        legend=pictures.map_legend(drawn, by) if drawn else [],
        histogram=Markup(pictures.histogram_svg(histogram)),  # noqa: S704
    )
