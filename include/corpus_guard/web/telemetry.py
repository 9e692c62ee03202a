"""/api/v1/otlp: retrievals that applications send as OpenTelemetry spans (OTLP/HTTP with JSON).

The app protects this router as it does all that change something: permission, same origin, JSON, header, rate limit. A
sender needs the header ``X-Corpus-Guard`` and an Airflow token of somebody who may decide. Protobuf is not read: let a
collector send JSON (``encoding: json``).
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from corpus_guard.errors import HostileInput, Misuse
from corpus_guard.forensics.retrieval_intake import add_otlp_request, read_otlp_json
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter(tags=["telemetry"], responses=ERRORS)

MAX_BODY_BYTES: Final = 4 * 2**20


@router.post("/otlp/v1/traces", summary="Add the retrievals in OpenTelemetry spans to the retrieval log")
async def receive_spans(request: Request) -> dict[str, object]:
    """Read `gen_ai.retrieval.*` and OpenInference's `retrieval.documents.*`; other spans are passed over.

    Spans that cannot be read, or are older than the log keeps, are counted in `partialSuccess`. Sending a span again adds nothing.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body has more than {MAX_BODY_BYTES:,} bytes; send fewer spans at a time")
    log = current_deployment(request).retrieval_log
    if log is None:
        raise Misuse("CORPUS_GUARD_RETRIEVAL_LOG=off: nothing is logged")
    try:
        counts = await run_in_threadpool(lambda: add_otlp_request(log, read_otlp_json(bytes(body))))
    except HostileInput as error:
        raise Misuse(str(error)) from error
    rejected = counts.refused + counts.expired
    if not rejected:
        return {}
    reason = counts.reason or "older than the retrieval log keeps (CORPUS_GUARD_RETRIEVAL_DAYS)"
    return {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": reason}}
