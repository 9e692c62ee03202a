"""HTTP server of a witness; it listens on loopback by default.

Rules
    * a request is read up to its limit in bytes and in seconds, and no further;
    * the witness decides in a thread, one transaction a request: simultaneous requests queue at its database;
    * a witness that cannot trust its own memory answers 500 and cosigns nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from corpus_guard.errors import Inconsistent
from corpus_guard.proof.log.witness import MAX_REQUEST_BYTES, Witness

log = logging.getLogger(__name__)

READ_SECONDS: Final = 10  # a request has 300 bytes, with a proof 3 kB


def create_app(witness: Witness) -> Starlette:
    """Return the application: ``POST /add-checkpoint`` (C2SP tlog-witness), ``GET /vkey``."""

    async def add_checkpoint(request: Request) -> Response:
        body = bytearray()
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > MAX_REQUEST_BYTES:
                        return PlainTextResponse(f"a request has at most {MAX_REQUEST_BYTES} bytes\n", 413)
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse(f"a request must be sent within {READ_SECONDS} seconds\n", 408)
        try:
            response = await run_in_threadpool(witness.add_checkpoint, bytes(body))
        except Inconsistent as error:
            log.error("WITNESS STOPS: %s", error)  # noqa: TRY400 - the message says all; a traceback would hide it
            return PlainTextResponse("this witness lost part of its memory and cosigns nothing\n", 500)
        # As bytes with our own header: starlette adds a charset to text types, and the specification gives
        # the whole value.
        return Response(response.body.encode(), response.status, {"Content-Type": response.media_type})

    async def vkey(_request: Request) -> Response:
        return PlainTextResponse(f"{witness.verifier.encode()}\n")

    return Starlette(routes=[Route("/add-checkpoint", add_checkpoint, methods=["POST"]), Route("/vkey", vkey)])


def serve(witness: Witness, host: str, port: int) -> None:
    """Serve until a signal ends the process."""
    uvicorn.run(create_app(witness), host=host, port=port, log_level="warning", server_header=False)
