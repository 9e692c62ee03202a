"""Spans of the guarded retriever: what a collector gets, and that it gets no text."""

from __future__ import annotations

import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from corpus_guard.corpus import spans
from corpus_guard.corpus.filterrag.filters import RetrievalFilter
from corpus_guard.corpus.retrieval_log import RetrievalLog
from corpus_guard.corpus.retriever import GuardedRetriever
from corpus_guard.errors import FilterFailed
from material import Shelf, TextHashes, a_version

SECRET = "Zanzibarquartz"


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans.trace, "get_tracer", provider.get_tracer)  # the global provider can be set only once
    return exporter


@pytest.fixture
def served(lite_shelf: Shelf) -> Shelf:
    lite_shelf.serve(a_version("open", [f"{SECRET} one", f"{SECRET} two"]))
    return lite_shelf


def test_a_span_names_what_was_served_and_holds_no_text(served: Shelf, exported: InMemorySpanExporter) -> None:
    retriever = GuardedRetriever(served.ledger, served.store, TextHashes(), log=RetrievalLog(served.ledger, 30))  # type: ignore[arg-type]
    retrieval = retriever.query(f"{SECRET} one", k=2, session=SECRET)
    (span,) = exported.get_finished_spans()
    assert span.attributes is not None
    attributes = dict(span.attributes)

    assert (span.name, span.kind) == ("retrieval corpus", trace.SpanKind.CLIENT)
    assert [(it["id"], it["score"]) for it in json.loads(str(attributes["gen_ai.retrieval.documents"]))] == [
        (chunk.chunk_id, round(chunk.similarity, 6)) for chunk in retrieval.answers
    ]
    assert attributes["retrieval.documents.1.document.id"] == retrieval.answers[1].chunk_id
    assert attributes["gen_ai.operation.name"] == "retrieval"
    assert attributes["openinference.span.kind"] == "RETRIEVER"
    assert attributes["corpus_guard.status"] == "served"
    assert attributes[spans.LOGGED_AS] == retrieval.retrieval_id
    assert SECRET not in span.to_json()


def test_a_failure_is_an_error_by_its_type_alone(served: Shelf, exported: InMemorySpanExporter) -> None:
    class Broken(RetrievalFilter):
        name, digest = "broken", ""

        def judge(self, question: str, texts: object) -> object:  # type: ignore[override]
            raise ValueError(question)

    retriever = GuardedRetriever(served.ledger, served.store, TextHashes(), Broken())  # type: ignore[arg-type]
    with pytest.raises(FilterFailed):
        retriever.query(SECRET)
    (span,) = exported.get_finished_spans()

    assert span.status.status_code is trace.StatusCode.ERROR
    assert dict(span.attributes or {}) == {"error.type": "FilterFailed"}
    assert SECRET not in span.to_json()
