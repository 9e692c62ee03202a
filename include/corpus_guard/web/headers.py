"""What every answer of the pages carries, so that a text which slips past everything else still can do nothing.

No script, style, picture, frame or form of another origin; no inline script or style; nothing is guessed from bytes; nothing is kept
by a browser or a proxy. `frame-ancestors 'self'` lets Airflow's own page hold ours, and nobody else's.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
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
LARGEST_BODY: Final = 1024 * 1024  # bytes of a request


class Sealed:
    """Adds the headers to every answer, errors included, and refuses requests that are too large."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with headers on the way back."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websocket lives here
            await send({"type": "websocket.close", "code": 1008})
            return

        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", NO_STORE)
            await send(message)

        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > LARGEST_BODY:
                raise TooLarge
            return message

        try:
            await self._app(scope, limited, sealed)
        except Exception as error:
            # Where it happened and its kind: an error that nobody meant may quote a text in its message.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s %s: %s\n%s", scope["method"], scope["path"], type(error).__name__, where)  # noqa: TRY400
            if not begun:
                await _end(sealed, 500, b"the page failed; the API server's log says where")


async def _end(send: Send, status: int, body: bytes = b"") -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class TooLarge(HTTPException):
    """A request's body is larger than any of ours."""

    def __init__(self) -> None:
        super().__init__(413, f"a body has at most {LARGEST_BODY:,} bytes; nothing was changed")
