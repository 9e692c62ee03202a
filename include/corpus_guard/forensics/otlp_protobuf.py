"""OTLP's Protobuf encoding, as the JSON encoding says it: ids in hex, 64-bit numbers as text.

The messages come from ``opentelemetry-proto``, which Airflow brings; without it such a request is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_guard.errors import HostileInput, Misuse

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


def read(body: bytes) -> dict[str, object]:
    """Return an ``ExportTraceServiceRequest`` in the form of its JSON; only what a retrieval is read from.

    Raises:
        HostileInput: the bytes are no such message.
        Misuse: the package that reads it is not installed.
    """
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise Misuse(
            "Protobuf is read with the package opentelemetry-proto, which is not installed; send JSON"
        ) from None
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise HostileInput("retrieval.broken", "the body is no Protobuf ExportTraceServiceRequest") from None
    scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]
    return {"resourceSpans": [{"scopeSpans": [{"spans": [_span(span) for span in scope.spans]} for scope in scopes]}]}


def write_response(rejected: int, message: str) -> bytes:
    """Return an ``ExportTraceServiceResponse``: how many spans were refused, and why."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = message
    body: bytes = response.SerializeToString()
    return body


def _span(span: Span) -> dict[str, object]:
    from google.protobuf.json_format import MessageToDict

    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "attributes": [MessageToDict(attribute) for attribute in span.attributes],
    }
