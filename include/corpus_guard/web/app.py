"""The FastAPI app of the review: pages, REST API, static files.

Rules
    * the app itself depends on `AccessControl.authorize_view`, so every route that is ever added requires a
      signed-in person;
    * every route other than GET is in `changes`, `case_changes` or `telemetry` and also depends on
      `AccessControl.authorize_decision`, the same origin and the rate limit;
    * FastAPI's own /docs and /openapi.json, which ignore an app's dependencies, are off; `api` serves the
      description instead;
    * an error page shows the library's message and nothing of the request: HTML for a browser that asks for
      HTML, JSON otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, cast

import sqlalchemy as sa
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from corpus_guard import __version__
from corpus_guard.deployment import Deployment
from corpus_guard.errors import GuardError, Infrastructure, Misuse, NotAllowed, SettingsError, Stale, UnknownSubject
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.web import (
    api,
    case_changes,
    cases,
    changes,
    corpus,
    expectations,
    exposure,
    health,
    history,
    incidents,
    item,
    queue,
    reports,
    search,
    telemetry,
)
from corpus_guard.web.access import AccessControl, RateLimit, SameOrigin, SameOriginOfSpans, enforce_rate_limit
from corpus_guard.web.headers import SecurityHeaders
from corpus_guard.web.render import STATIC, render_page, static_file_path
from corpus_guard.web.responses import SafeJSON
from corpus_guard.web.shared_deployment import SharedDeployment

log = logging.getLogger(__name__)

API: Final = "/api/v1"
STATUS_CODES: Final[Mapping[type[GuardError], int]] = {
    UnknownSubject: 404,
    Stale: 409,
    NotAllowed: 403,
    SettingsError: 503,
    Misuse: 400,
    Infrastructure: 503,
}
"""HTTP status codes of the library's errors; the first match counts. All other errors are 500."""


def make_app(
    open_deployment: Callable[[], Deployment], access: AccessControl, rate_limit: RateLimit | None = None
) -> FastAPI:
    """Create the app.

    Args:
        open_deployment: opens the deployment; called again when its policy changes.
        access: decides who may see and who may decide.
        rate_limit: how often a person may decide; None: the default.
    """
    viewer, decider = Depends(access.authorize_view), Depends(access.authorize_decision)

    def authorize_view(request: Request, reviewer: Reviewer = viewer) -> None:
        request.state.reviewer = reviewer

    def authorize_decision(request: Request, reviewer: Reviewer = decider) -> None:
        enforce_rate_limit(request, reviewer)
        request.state.reviewer = reviewer

    app = FastAPI(
        title="Corpus Guard review",
        version=__version__,
        description=api.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=SafeJSON,
        dependencies=[Depends(authorize_view)],
        redirect_slashes=False,
    )
    app.state.shared_deployment = SharedDeployment(open_deployment)
    app.state.access, app.state.rate_limit = access, rate_limit or RateLimit()
    for view in (queue, item, history, corpus, search, incidents, expectations, cases, reports, exposure, health):
        app.include_router(view.router, include_in_schema=False)
    app.include_router(static, include_in_schema=False)
    app.include_router(api.router, prefix=API)
    for read_router in (history.api, health.api, queue.files, exposure.api, reports.api):
        app.include_router(read_router, prefix=API)
    for changing_router, same_origin in (
        (changes.router, SameOrigin),
        (case_changes.router, SameOrigin),
        (telemetry.router, SameOriginOfSpans),
    ):
        app.include_router(changing_router, prefix=API, dependencies=[same_origin, Depends(authorize_decision)])
    app.add_exception_handler(GuardError, _handle_guard_error)
    for outage in (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError):
        app.add_exception_handler(outage, _handle_outage)
    app.add_exception_handler(StarletteHTTPException, _handle_http_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_middleware(SecurityHeaders, show_error=_show_unexpected_error)
    return app


static = APIRouter()


@static.get("/static/{name}")
def static_file(name: str) -> FileResponse:
    """Return a static file. Its address changes with its content, so browsers may cache it."""
    if name not in STATIC:
        raise HTTPException(404, "no such file")
    return FileResponse(
        static_file_path(name), media_type=STATIC[name], headers={"Cache-Control": "private, max-age=86400"}
    )


def _handle_guard_error(request: Request, error: Exception) -> Response:
    status = next((status for kind, status in STATUS_CODES.items() if isinstance(error, kind)), 500)
    if status >= 500:
        log.error("%s: %s", type(error).__name__, error)
    return _error_response(request, status, str(error))


def _handle_outage(request: Request, error: Exception) -> Response:
    # The ledger names its own failures: this database is the one that access control asks.
    log.error("%s: the database of access control does not answer", type(error).__name__)
    detail = (
        f"the database that knows who you are does not answer ({type(error).__name__}); nothing was changed. Start it "
        "(Airflow's [database] sql_alchemy_conn names it), then load this page again"
    )
    return _error_response(request, 503, detail)


def _handle_http_error(request: Request, error: Exception) -> Response:
    http_error = cast("StarletteHTTPException", error)
    detail = "there is no page at this address" if http_error.detail == "Not Found" else str(http_error.detail)
    return _error_response(request, http_error.status_code, detail, http_error.headers)


def _handle_validation_error(request: Request, error: Exception) -> Response:
    # Pydantic's own message quotes the input.
    problems = cast("RequestValidationError", error).errors()[:5]
    detail = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
    return _error_response(request, 422, detail)


def _show_unexpected_error(request: Request, reference: str) -> Response:
    if request.method == "GET":
        what_next = "Load this page again. If it fails again, tell whoever runs Airflow"
    else:
        what_next = "Load the page again to see if the change was made, and tell whoever runs Airflow"
    detail = (
        f"The review pages failed; your request was valid. {what_next}: the API server's log has reference {reference}."
    )
    return _error_response(request, 500, detail)


def _error_response(request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    accept = str(request.headers.get("accept", ""))
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if "text/html" in accept and not path.startswith(API):
        # Whether this person may decide is another question to a database, which may be the one that failed.
        permissions = {"may_decide": False, "failed": True} if status >= 500 else {}
        find_sign_in = request.app.state.access.sign_in if status == 401 else None
        sign_in = find_sign_in(request) if find_sign_in else ""
        page = render_page(request, "error.html", status, status=status, detail=detail, sign_in=sign_in, **permissions)
        page.headers.update(headers or {})
        return page
    return SafeJSON({"detail": detail}, status, headers)
