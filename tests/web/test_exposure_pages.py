"""The pages Exposure and Watch, and the route that takes spans: what they show, and what they refuse."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from reviewing import Reviewing

from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.forensics.watch.alerts import watch_retrievals
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import retrievals
from corpus_guard.web import telemetry

HOSTILE = "<script>hacked()</script>\u202e{{ 7 * 7 }}"
SPANS: dict[str, Any] = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "0a" * 16,
                            "spanId": "0b" * 8,
                            "startTimeUnixNano": str(int(now().timestamp() - 60) * 10**9),
                            "attributes": [
                                {"key": "gen_ai.retrieval.documents", "value": {"stringValue": '["c1"]'}},
                                {"key": "session.id", "value": {"stringValue": "talk"}},
                            ],
                        }
                    ]
                }
            ]
        }
    ]
}
TRACES = "/api/v1/otlp/v1/traces"


@pytest.fixture
def chunk(reviewing: Reviewing) -> str:
    """A served chunk that a hostile question retrieved, and a foreign one."""
    chunk_id = reviewing.serve(text="The pump is read each morning.").chunks[0].chunk_id
    served = (LoggedChunk(chunk_id), LoggedChunk(HOSTILE))
    RetrievalLog(reviewing.ledger, days=30).add(
        [
            LoggedRetrieval(
                HOSTILE, served, at=now() - timedelta(hours=1), session=HOSTILE, user_id=HOSTILE, answer=HOSTILE
            ),
            LoggedRetrieval("", served, at=now() - timedelta(hours=1), session="quiet"),
        ]
    )
    return chunk_id


def test_the_page_shows_whom_a_chunk_reached_and_what_is_not_known(reviewing: Reviewing, chunk: str) -> None:
    with reviewing.client("viewer") as viewer:
        page = viewer.get("/exposure", params={"subject": chunk})
        figures = viewer.get("/api/v1/exposure", params={"subject": chunk, "kind": "chunk"}).json()

    assert page.status_code == 200
    assert "<script>hacked" not in page.text
    assert "2 sessions" in page.text
    assert "not known: no application said what it showed" in page.text
    assert figures["retrieved"]["retrievals"] == 2
    assert figures["shown"] is None


def test_a_text_that_nobody_retrieved_has_a_page_too(reviewing: Reviewing) -> None:
    quiet = reviewing.serve("quiet.md", "The valve is read each evening.")
    heard = reviewing.serve("heard.md", "The pump is read each morning.")
    with reviewing.client("viewer") as viewer:
        before = viewer.get("/exposure", params={"subject": quiet.doc_id, "kind": "document"})
        RetrievalLog(reviewing.ledger, days=30).add([LoggedRetrieval("?", (LoggedChunk(heard.chunks[0].chunk_id),))])
        after = viewer.get("/exposure", params={"subject": quiet.doc_id, "kind": "document"})

    assert (before.status_code, after.status_code) == (200, 200)
    assert "the retrieval log is empty" in before.text
    assert "<b>0 times</b>" in after.text and "Retrievals a day" not in after.text


def test_what_a_list_leaves_out_is_counted(reviewing: Reviewing, chunk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reviewing.serve("other.md", "The valve is read each evening.")
    with reviewing.client("viewer") as viewer:
        whole = viewer.get("/exposure", params={"subject": chunk}).text
        monkeypatch.setattr("corpus_guard.web.exposure.MAX_ROWS", 1)
        cut = viewer.get("/exposure", params={"subject": chunk}).text

    assert " more: " not in whole
    assert cut.count('1 more: <span class="mono">guard exposure NAME --limit 2</span>') == 2, "questions and sessions"


def test_an_unknown_subject_is_not_found(reviewing: Reviewing, chunk: str) -> None:
    with reviewing.client("viewer") as viewer:
        assert viewer.get("/exposure", params={"subject": "nothing"}).status_code == 404
        assert viewer.get("/exposure").status_code == 422


def test_alerts_are_shown_and_name_their_exposure(reviewing: Reviewing, chunk: str) -> None:
    with reviewing.client("viewer") as viewer:
        empty = viewer.get("/watch").text
        assert "No alerts" in empty and "Turned answers are not seen" in empty
        watch_retrievals(reviewing.ledger, now(), "watch-1")
        page = viewer.get("/watch").text
        listed = viewer.get("/api/v1/watch").json()["alerts"]

    assert [alert["detector"] for alert in listed] == ["foreign"]
    assert "never published by the ledger" in page
    assert "<script>hacked" not in page
    assert "exposure?subject=" in page


@pytest.mark.parametrize(
    ("kept", "says", "does_not"),
    [("on", "Alerts", "not seen"), ("off", "The retrieval log is switched off", "Turned answers")],
)
def test_the_watch_says_what_the_log_does_not_keep(reviewing: Reviewing, kept: str, says: str, does_not: str) -> None:
    reviewing.settings = reviewing.settings.model_copy(update={"retrieval_log": kept})
    with reviewing.client("viewer") as viewer:
        page = viewer.get("/watch").text

    assert says in page and does_not not in page


def test_spans_are_taken_from_whoever_may_decide(reviewing: Reviewing) -> None:
    with reviewing.client("viewer") as viewer, reviewing.client("ada") as ada:
        assert viewer.post(TRACES, json=SPANS).status_code == 403
        assert ada.post(TRACES, content=json.dumps(SPANS), headers={"Content-Type": "text/plain"}).status_code == 415
        assert logged(reviewing) == 0
        assert (ada.post(TRACES, json=SPANS).json(), ada.post(TRACES, json=SPANS).json()) == ({}, {})

    assert logged(reviewing) == 1


def test_the_same_spans_in_protobuf_and_gzip_are_the_same_retrieval(reviewing: Reviewing) -> None:
    message = ParseDict(SPANS, ExportTraceServiceRequest())
    for span in message.resource_spans[0].scope_spans[0].spans:  # JSON has ids in hex, which ParseDict takes for base64
        sent = SPANS["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        span.trace_id, span.span_id = bytes.fromhex(sent["traceId"]), bytes.fromhex(sent["spanId"])
    body = message.SerializeToString()
    protobuf = {"Content-Type": "application/x-protobuf"}
    packed = {"Content-Encoding": "gzip"}
    with reviewing.client("ada") as ada:
        assert ada.post(TRACES, json=SPANS).json() == {}
        answer = ada.post(TRACES, content=body, headers=protobuf)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
        assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
        assert ada.post(TRACES, content=gzip.compress(body), headers={**protobuf, **packed}).status_code == 200
        assert logged(reviewing) == 1
        message.resource_spans[0].scope_spans[0].spans[0].start_time_unix_nano = 10**18
        old = ada.post(TRACES, content=message.SerializeToString(), headers=protobuf)
        assert ExportTraceServiceResponse.FromString(old.content).partial_success.rejected_spans == 1
        json_type = {"Content-Type": "application/json", **packed}
        assert ada.post(TRACES, content=gzip.compress(json.dumps(SPANS).encode()), headers=json_type).json() == {}
        for broken in (body, gzip.compress(body)[:-9], gzip.compress(b" " * (telemetry.MAX_BODY_BYTES + 1))):
            assert ada.post(TRACES, content=broken, headers={**protobuf, **packed}).status_code == 400
        assert ada.post(TRACES, content=b"\xff" * 9, headers=protobuf).status_code == 400
        assert ada.post(TRACES, content=body, headers={**protobuf, "Content-Encoding": "br"}).status_code == 415
    assert logged(reviewing) == 1


def test_what_cannot_be_read_is_told_as_otlp_tells_it(reviewing: Reviewing, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: dict[str, Any] = json.loads(json.dumps(SPANS))
    old: dict[str, Any] = json.loads(json.dumps(SPANS))
    old["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["startTimeUnixNano"] = "1500000000000000000"
    broken["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["startTimeUnixNano"] = "soon"
    with reviewing.client("ada") as ada:
        partial = ada.post(TRACES, json=broken).json()["partialSuccess"]
        assert partial["rejectedSpans"] == "1"
        assert "startTimeUnixNano" in partial["errorMessage"]
        assert "RETRIEVAL_DAYS" in ada.post(TRACES, json=old).json()["partialSuccess"]["errorMessage"]
        assert ada.post(TRACES, json=[]).status_code == 400
        monkeypatch.setattr(telemetry, "MAX_BODY_BYTES", 100)
        assert ada.post(TRACES, json=SPANS).status_code == 413
    assert logged(reviewing) == 0


def logged(reviewing: Reviewing) -> int:
    return reviewing.ledger.scalar(sa.select(sa.func.count()).select_from(retrievals)) or 0
