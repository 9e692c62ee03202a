"""OpenTelemetry spans of retrievals: ids, scores and counts, never the question or a text.

Attributes follow the semantic conventions for generative AI (``gen_ai.*``, in development) and OpenInference
(``retrieval.documents.*``), so that Phoenix, Langfuse and MLflow show a retrieval as one. Without an
OpenTelemetry SDK in the application a span costs microseconds and goes nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec

from opentelemetry import trace

if TYPE_CHECKING:
    from corpus_guard.corpus.retriever import Retrieval

SPAN_NAME: Final = "retrieval corpus"
LOGGED_AS: Final = "corpus_guard.retrieval_id"
"""The attribute with the id in the retrieval log: a collector that feeds the log knows it has this one already."""

Parameters = ParamSpec("Parameters")


def traced(query: Callable[Parameters, Retrieval]) -> Callable[Parameters, Retrieval]:
    """Decorate a query with a span that says what was served, withheld and filtered."""

    @wraps(query)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Retrieval:
        # An exception is recorded by its type alone: its message may quote the question.
        with trace.get_tracer("corpus_guard").start_as_current_span(
            SPAN_NAME, kind=trace.SpanKind.CLIENT, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                retrieval = query(*args, **kwargs)
            except Exception as error:
                span.set_status(trace.StatusCode.ERROR)
                span.set_attribute("error.type", type(error).__name__)
                raise
            if span.is_recording():
                _describe(span, retrieval)
            return retrieval

    return call


def _describe(span: trace.Span, retrieval: Retrieval) -> None:
    documents = [{"id": chunk.chunk_id, "score": round(chunk.similarity, 6)} for chunk in retrieval.answers]
    span.set_attributes(
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": json.dumps(documents),
            "openinference.span.kind": "RETRIEVER",
            "corpus_guard.status": retrieval.status.value,
            "corpus_guard.checked_by": retrieval.checked_by,
            "corpus_guard.withheld": len(retrieval.withheld),
            "corpus_guard.filtered": len(retrieval.filtered),
        }
    )
    for number, chunk in enumerate(retrieval.answers):
        span.set_attribute(f"retrieval.documents.{number}.document.id", chunk.chunk_id)
        span.set_attribute(f"retrieval.documents.{number}.document.score", round(chunk.similarity, 6))
    if retrieval.retrieval_id is not None:
        span.set_attribute(LOGGED_AS, retrieval.retrieval_id)
