"""/api/v1/otlp: retrievals that applications send as OpenTelemetry spans (OTLP/HTTP with Protobuf or JSON, also gzip).

The app protects this router as it does all that change something: permission, same origin, content type, header, rate limit.
A sender needs the header ``X-Corpus-Guard`` and an Airflow token of somebody who may decide. A body is bounded before and
after it is unpacked.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from corpus_guard.errors import HostileInput, Misuse
from corpus_guard.forensics import otlp_protobuf
from corpus_guard.forensics.retrieval_intake import IntakeCounts, add_otlp_request, read_otlp_json, unpack_gzip
from corpus_guard.web.responses import ERRORS, SafeJSON
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter(tags=["telemetry"], responses=ERRORS)

MAX_BODY_BYTES: Final = 4 * 2**20  # also of the unpacked body
PROTOBUF: Final = "application/x-protobuf"


@router.post("/otlp/v1/traces", summary="Add the retrievals in OpenTelemetry spans to the retrieval log")
async def receive_spans(request: Request) -> Response:
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
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise HTTPException(415, "the content encoding must be gzip, or none; nothing was changed")
    is_protobuf = request.headers["content-type"].partition(";")[0].strip().lower() == PROTOBUF

    def receive() -> IntakeCounts:
        content = unpack_gzip(bytes(body), MAX_BODY_BYTES) if encoding == "gzip" else bytes(body)
        return add_otlp_request(log, otlp_protobuf.read(content) if is_protobuf else read_otlp_json(content))

    try:
        counts = await run_in_threadpool(receive)
    except HostileInput as error:
        raise Misuse(str(error)) from error
    rejected = counts.refused + counts.expired
    reason = counts.reason or "older than the retrieval log keeps (CORPUS_GUARD_RETRIEVAL_DAYS)"
    if is_protobuf:
        return Response(otlp_protobuf.write_response(rejected, reason if rejected else ""), media_type=PROTOBUF)
    if not rejected:
        return SafeJSON({})
    return SafeJSON({"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": reason}})
