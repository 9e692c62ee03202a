"""The review app that the file in ``plugins/`` registers; it is created by the first request.

Airflow runs plugin files in every task and at every parse of a DAG: nothing here may import the web
framework or open the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

PREFIX = "/corpus-guard"
"""Path at which Airflow's API server mounts the app."""
ROUTE = "corpus-guard"
"""Airflow shows the app at ``/plugin/<route>``, and its pages at ``/plugin/<route><PREFIX>/<path>``: see `deep_link`."""


def deep_link(path: str = "") -> str:
    """Return the path of a page of the app inside Airflow's UI, relative to Airflow's root.

    Args:
        path: in the app, such as ``items/3f9a…`` or ``?run_id=…``; empty: the queue.
    """
    return f"plugin/{ROUTE}{PREFIX}/{path}"


class LazyApp:
    """An ASGI app that is created by its first request.

    If creating it fails, nothing is served and the next request tries again.
    """

    def __init__(self, create: Callable[[], ASGIApp]) -> None:
        """Store the factory."""
        self._create = create
        self._lock = threading.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the app."""
        _explain_outages(scope)
        app = self._app if self._app is not None else await asyncio.to_thread(self._get_app)
        await app(scope, receive, send)

    def _get_app(self) -> ASGIApp:
        with self._lock:
            if self._app is None:
                self._app = self._create()
            return self._app


class OutagePage:
    """ASGI middleware that answers 503 with a plain page when a database does not answer a request for our pages."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or connection."""
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:
            path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
            if started or not path.startswith(f"{PREFIX}/") or not _is_outage(error):
                raise
            # The driver's message may name the user of the database.
            log.error("%s: Airflow's database does not answer (%s)", path, type(error).__name__)  # noqa: TRY400
            headers = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store", "retry-after": "30"}
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": 503, "headers": encoded})
            await send({"type": "http.response.body", "body": _OUTAGE.encode()})


_OUTAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Database not available</title>
<h1>Airflow's database does not answer</h1>
<p>Airflow could not check who you are, so the review pages show nothing. No decision was recorded by this request.</p>
<p>Start the database that <code>[database] sql_alchemy_conn</code> of Airflow's configuration names (<code>airflow db check</code>
tells whether it answers), then load this page again.</p>
</html>
"""


def _explain_outages(scope: Scope) -> None:
    """Put `OutagePage` around Airflow's own middleware, once.

    Airflow 3.3.2 looks up the cookie's token in its database before any plugin sees the request, and a plugin's middleware is placed
    further in: without this an outage is a bare "Internal Server Error".
    """
    outermost = getattr(scope.get("app"), "middleware_stack", None)  # starlette's ServerErrorMiddleware
    inner = getattr(outermost, "app", None)
    if outermost is not None and inner is not None and not isinstance(inner, OutagePage):
        outermost.app = OutagePage(inner)


def _is_outage(error: Exception) -> bool:
    from sqlalchemy import exc

    return isinstance(error, exc.InterfaceError | exc.OperationalError | exc.TimeoutError | ConnectionError)


def airflow_app() -> ASGIApp:
    """Create the review app of the environment's deployment, with Airflow's access control."""
    from corpus_guard.airflow.auth import airflow_access
    from corpus_guard.deployment import Deployment
    from corpus_guard.web.app import make_app

    return make_app(Deployment, airflow_access())
