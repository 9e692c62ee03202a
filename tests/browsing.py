"""A headless Chromium that notices what must not happen: a script that runs, a request that leaves this machine.

The browser is the distribution's (``apt-get install -y chromium``), driven by Playwright, which downloads nothing.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, Route, ViewportSize, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from postgres import free_port

PATIENCE = 60_000  # milliseconds
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install -y chromium")


@dataclass
class Watched:
    """A page, and what happened on it that must not."""

    page: Page
    host: str
    left: list[str] = field(default_factory=list)
    """Addresses of other hosts that something asked for; none was reached."""
    troubles: list[str] = field(default_factory=list)
    """Dialogs, errors of scripts, and what the content security policy had to stop."""

    def quiet(self) -> None:
        """Nothing ran, nothing left."""
        ran = [frame.url for frame in self.page.frames if frame.evaluate("() => window.hacked !== undefined")]
        assert (ran, self.left, self.troubles) == ([], [], [])


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser process."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def watched(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    height: int = 860,
    theme: Any = "light",
    headers: dict[str, str] | None = None,
) -> Watched:
    """A fresh session that may talk to `address` alone."""
    size = ViewportSize(width=width, height=height)
    context: BrowserContext = browser.new_context(
        viewport=size, color_scheme=theme, locale="en-GB", timezone_id="UTC", extra_http_headers=headers or {}
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    found = Watched(page, urlsplit(address).netloc)

    def gate(route: Route) -> None:
        asked = urlsplit(route.request.url)
        if asked.netloc == found.host or asked.scheme in {"data", "blob", "about"}:
            route.continue_()
        else:
            found.left.append(route.request.url)
            route.abort()

    def console(message: Any) -> None:
        if any(word in message.text for word in ("Content Security Policy", "Refused to", "hacked")):
            found.troubles.append(message.text)

    context.route("**/*", gate)
    page.on("dialog", lambda dialog: (found.troubles.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: found.troubles.append(str(error)))
    page.on("console", console)
    return found


@contextmanager
def mounted(app: ASGIApp) -> Iterator[str]:
    """The address of an app below a prefix, as Airflow mounts it, on a port of its own."""
    port = free_port()
    routes = Starlette(routes=[Mount("/corpus-guard", app)])
    server = uvicorn.Server(uvicorn.Config(routes, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/corpus-guard/"
    server.should_exit = True
    thread.join(10)
