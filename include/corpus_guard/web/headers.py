"""Security headers of every response, so that a text that slips past all other measures still can do nothing; and the last
answer to an error that nobody foresaw.

No script, style, image, frame or form of another origin; no inline script or style; no content sniffing; no
caching by a browser or a proxy. `frame-ancestors 'self'` lets only Airflow's own page frame ours.
"""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Callable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

CSP: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "object-src 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
NO_STORE: Final = "no-store"
MAX_BODY_BYTES: Final = 1024 * 1024  # bytes of a request


class SecurityHeaders:
    """Middleware that adds the headers to every response, and refuses requests that are too large."""

    def __init__(self, app: ASGIApp, show_error: Callable[[Request, str], Response]) -> None:
        """Wrap `app`.

        Args:
            app: the app.
            show_error: returns the response to an unexpected error, given the reference under which the log has it.
        """
        self._app, self._show_error = app, show_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", NO_STORE)
            await send(message)

        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > MAX_BODY_BYTES:
                raise BodyTooLarge
            return message

        try:
            await self._app(scope, receive_limited, send_with_headers)
        except Exception as error:
            reference = secrets.token_hex(4)
            _log_error(scope, error, reference)
            if started:
                return
            try:
                response = self._show_error(Request(scope), reference)
            except Exception as second:
                _log_error(scope, second, reference)
                response = PlainTextResponse(f"internal error; the API server's log has it, reference {reference}", 500)
            await response(scope, receive, send_with_headers)


def _log_error(scope: Scope, error: Exception, reference: str) -> None:
    """Log the place and the kind of an error only: its message may quote a document's text."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s %s: %s, reference %s\n%s", scope["method"], scope["path"], type(error).__name__, reference, where)


class BodyTooLarge(HTTPException):
    """A request body above the size limit."""

    def __init__(self) -> None:
        super().__init__(413, f"a request body has at most {MAX_BODY_BYTES:,} bytes; nothing was changed")
