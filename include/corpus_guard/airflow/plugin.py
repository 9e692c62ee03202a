"""The review app that the file in ``plugins/`` registers; it is created by the first request.

Airflow runs plugin files in every task and at every parse of a DAG: nothing here may import the web
framework or open the ledger.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

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
        app = self._app if self._app is not None else await asyncio.to_thread(self._get_app)
        await app(scope, receive, send)

    def _get_app(self) -> ASGIApp:
        with self._lock:
            if self._app is None:
                self._app = self._create()
            return self._app


def airflow_app() -> ASGIApp:
    """Create the review app of the environment's deployment, with Airflow's access control."""
    from corpus_guard.airflow.auth import airflow_access
    from corpus_guard.deployment import Deployment
    from corpus_guard.web.app import make_app

    return make_app(Deployment, airflow_access())
