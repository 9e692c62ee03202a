"""The witness over HTTP: one way to write, loopback unless told otherwise.

Rules
    * a request is read up to its limit in bytes and in seconds, and no further;
    * what the witness decides happens in a thread, one transaction a request: any number of submitters queue at the store;
    * a witness that cannot trust its own memory answers 500 and cosigns nothing.
"""

from __future__ import annotations

import asyncio
import logging

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from corpus_guard.errors import Inconsistent
from corpus_guard.proof.witness import REQUEST_BYTES, Witness

log = logging.getLogger(__name__)

READ_SECONDS = 10  # a request is 300 bytes, of a proof 3 kB


def app(witness: Witness) -> Starlette:
    """The application: ``POST /add-checkpoint`` (C2SP tlog-witness), ``GET /vkey``."""

    async def add_checkpoint(request: Request) -> Response:
        body = bytearray()
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > REQUEST_BYTES:
                        return PlainTextResponse(f"a request has at most {REQUEST_BYTES} bytes\n", 413)
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse(f"a request is sent within {READ_SECONDS} seconds\n", 408)
        try:
            answer = await run_in_threadpool(witness.add_checkpoint, bytes(body))
        except Inconsistent as error:
            log.error("WITNESS STOPS: %s", error)  # noqa: TRY400 - the message says all; a traceback would hide it
            return PlainTextResponse("this witness lost part of its memory and cosigns nothing\n", 500)
        # As bytes with a header of our own: starlette adds a charset to text types, and the specification names the whole value.
        return Response(answer.body.encode(), answer.status, {"Content-Type": answer.media_type})

    async def vkey(_request: Request) -> Response:
        return PlainTextResponse(f"{witness.verifier.encode()}\n")

    return Starlette(routes=[Route("/add-checkpoint", add_checkpoint, methods=["POST"]), Route("/vkey", vkey)])


def serve(witness: Witness, host: str, port: int) -> None:
    """Answer until a signal ends the process."""
    uvicorn.run(app(witness), host=host, port=port, log_level="warning", server_header=False)
