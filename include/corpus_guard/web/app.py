"""The FastAPI app of the review: pages, REST API, static files, all behind one door.

Rules
    * the app itself depends on `Door.see`: every route that is ever added asks who comes in;
    * whatever is not GET lies in `changes.router` and depends on `Door.decide`, the same origin and the pace besides;
    * FastAPI's own /docs and /openapi.json, which ignore an app's dependencies, are off; `api` serves the description behind the door;
    * an error says what the library said and nothing of a request; it is HTML for a browser that asks for HTML, JSON for everybody else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from corpus_guard import __version__
from corpus_guard.errors import GuardError, Infrastructure, Misuse, NotAllowed, SettingsError, Stale, UnknownSubject
from corpus_guard.guard import Guard
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.web import api, changes, corpus, exports, health, history, item, queue, reports
from corpus_guard.web.answers import SafeJSON
from corpus_guard.web.desk import Desk
from corpus_guard.web.door import Door, Pace, SameOrigin, paced
from corpus_guard.web.headers import Sealed
from corpus_guard.web.render import HERE, STATIC, page

log = logging.getLogger(__name__)

API = "/api/v1"
STATUS: dict[type[GuardError], int] = {
    UnknownSubject: 404,
    Stale: 409,
    NotAllowed: 403,
    SettingsError: 503,
    Misuse: 400,
    Infrastructure: 503,
}
"""What an error of the library is over HTTP; the first that fits. Anything else is 500."""


def make_app(open_guard: Callable[[], Guard], door: Door, pace: Pace | None = None) -> FastAPI:
    """The app.

    Args:
        open_guard: gives the deployment; called again when its policy changes.
        door: who may come in.
        pace: how often a person may decide.
    """
    seeing, deciding = Depends(door.see), Depends(door.decide)

    def known(request: Request, reviewer: Reviewer = seeing) -> None:
        request.state.reviewer = reviewer

    def entitled(request: Request, reviewer: Reviewer = deciding) -> None:
        paced(request, reviewer)
        request.state.reviewer = reviewer

    app = FastAPI(
        title="Corpus Guard review",
        version=__version__,
        description=api.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=SafeJSON,
        dependencies=[Depends(known)],
        redirect_slashes=False,
    )
    app.state.desk, app.state.door, app.state.pace = Desk(open_guard), door, pace or Pace()
    for views in (queue, item, history, corpus, reports, health):
        app.include_router(views.router, include_in_schema=False)
    app.include_router(static, include_in_schema=False)
    app.include_router(api.router, prefix=API)
    for reading in (history.api, health.api, exports.router):
        app.include_router(reading, prefix=API)
    app.include_router(changes.router, prefix=API, dependencies=[SameOrigin, Depends(entitled)])
    app.add_exception_handler(GuardError, _of_the_library)
    app.add_exception_handler(StarletteHTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_middleware(Sealed)
    return app


static = APIRouter()


@static.get("/static/{name}")
def static_file(name: str) -> FileResponse:
    """One of the files the pages load; its address changes with its content, so a browser may keep it."""
    if name not in STATIC:
        raise HTTPException(404, "no such file")
    return FileResponse(
        HERE / "static" / name, media_type=STATIC[name], headers={"Cache-Control": "private, max-age=86400"}
    )


def _of_the_library(request: Request, error: Exception) -> Response:
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    if status >= 500:
        log.error("%s: %s", type(error).__name__, error)
    return _answer(request, status, str(error))


def _of_http(request: Request, error: Any) -> Response:
    return _answer(request, error.status_code, str(error.detail), dict(error.headers or {}))


def _of_validation(request: Request, error: Any) -> Response:
    # Pydantic's own message quotes the input.
    told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
    return _answer(request, 422, told)


def _answer(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    wants: Any = request.headers.get("accept", "")
    inside = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if "text/html" in wants and not inside.startswith(API):
        shown = page(request, "error.html", status, status=status, detail=detail)
        shown.headers.update(headers or {})
        return shown
    return SafeJSON({"detail": detail}, status, headers)
