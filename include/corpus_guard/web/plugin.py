"""What the file in ``plugins/`` registers: an app that is made by its first request.

Airflow runs its plugin files in every task and every parse of a DAG, where neither the web framework nor the ledger is wanted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

PREFIX = "/corpus-guard"
"""Where Airflow's API server mounts the app."""
ROUTE = "corpus-guard"
"""Airflow shows the page at ``/plugin/<route>``; a page below it at ``/plugin/<route><PREFIX>/<path>``: see `deep_link`."""


def deep_link(path: str = "") -> str:
    """Where Airflow's UI shows a page of the app with its own navigation around it, relative to Airflow's root.

    Args:
        path: of the app, such as ``items/3f9a…`` or ``?run_id=…``; empty: the queue.
    """
    return f"plugin/{ROUTE}{PREFIX}/{path}"


class Lazily:
    """An ASGI app that `make` gives when the first request comes. A `make` that fails serves nothing, and is tried again."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """Keep `make`."""
        self._make = make
        self._lock = threading.Lock()
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on."""
        app = self._app or await asyncio.to_thread(self._made)
        await app(scope, receive, send)

    def _made(self) -> Any:
        with self._lock:
            if self._app is None:
                self._app = self._make()
            return self._app


def airflow_app() -> Any:
    """The app behind Airflow's auth manager, on the deployment that the environment describes."""
    from corpus_guard.guard import Guard
    from corpus_guard.web.airflow_door import airflow_door
    from corpus_guard.web.app import make_app

    return make_app(Guard, airflow_door())
