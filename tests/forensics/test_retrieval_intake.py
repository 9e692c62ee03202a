"""What other applications send is read as it is meant, bounded, stored once, and refused where it cannot be read."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import LoggedRetrieval, RetrievalLog
from corpus_guard.corpus.spans import LOGGED_AS
from corpus_guard.errors import HostileInput
from corpus_guard.forensics.retrieval_intake import (
    MAX_SPANS,
    MAX_TEXTS,
    add_otlp_request,
    import_retrievals,
    parse_record,
    read_otlp_json,
)
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import queries, retrievals, retrieved_chunks
from corpus_guard.settings import Settings
from hostile import PAYLOADS
from material import START


def attribute(key: str, value: Any) -> dict[str, Any]:
    """An attribute in OTLP's JSON."""
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    if isinstance(value, float):
        return {"key": key, "value": {"doubleValue": value}}
    entries = [
        {"kvlistValue": {"values": [attribute(name, member) for name, member in entry.items()]}} for entry in value
    ]
    return {"key": key, "value": {"arrayValue": {"values": entries}}}


def span(number: int = 1, at: str = "1772366400000000000", **attributes: Any) -> dict[str, Any]:
    named = [attribute(name.replace("__", "."), value) for name, value in attributes.items()]
    return {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "startTimeUnixNano": at, "attributes": named}


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


GEN_AI = span(
    gen_ai__retrieval__query__text="How deep?",
    gen_ai__retrieval__documents=[{"id": "c1", "score": 0.9}, {"id": "c2", "score": 0.5}],
    gen_ai__conversation__id="talk",
    user__id="ann",
)
OPENINFERENCE = span(
    2,
    input__value="How deep?",
    retrieval__documents__0__document__id="page",
    retrieval__documents__0__document__metadata='{"chunk_id": "c1"}',
    retrieval__documents__0__document__score=0.9,
    retrieval__documents__1__document__id="c2",
    session__id="talk",
)


def log(ledger: Ledger) -> RetrievalLog:
    return RetrievalLog(ledger, days=3_000)


def stored(ledger: Ledger) -> list[tuple[Any, ...]]:
    statement = (
        sa.select(
            queries.c.text,
            retrievals.c.session,
            retrievals.c.user_id,
            retrieved_chunks.c.chunk_id,
            retrieved_chunks.c.score,
        )
        .join(retrievals, retrievals.c.query_id == queries.c.query_id)
        .join(retrieved_chunks, retrieved_chunks.c.retrieval_id == retrievals.c.retrieval_id)
        .order_by(retrievals.c.retrieval_id, retrieved_chunks.c.rank)
    )
    return [tuple(row) for row in ledger.rows(statement)]


@pytest.mark.parametrize(("sent", "user"), [(GEN_AI, "ann"), (OPENINFERENCE, None)])
def test_spans_of_both_conventions_are_read(sqlite_ledger: Ledger, sent: dict[str, Any], user: str | None) -> None:
    counts = add_otlp_request(log(sqlite_ledger), request(sent, span(9, http__method="GET")))

    assert (counts.records, counts.new, counts.passed_over, counts.refused) == (2, 1, 1, 0)
    score = 0.5 if sent is GEN_AI else None
    assert stored(sqlite_ledger) == [("How deep?", "talk", user, "c1", 0.9), ("How deep?", "talk", user, "c2", score)]


def test_documents_may_come_as_json_in_a_string(sqlite_ledger: Ledger) -> None:
    add_otlp_request(log(sqlite_ledger), request(span(gen_ai__retrieval__documents='[{"id": "c1", "score": 0.25}]')))

    assert stored(sqlite_ledger) == [("", "", None, "c1", 0.25)]  # without its question: whom it reached is known


def test_a_span_of_our_own_retriever_is_in_the_log_already(sqlite_ledger: Ledger) -> None:
    own = {"gen_ai.retrieval.documents": '["c1"]', LOGGED_AS: "7"}

    counts = add_otlp_request(log(sqlite_ledger), request(span(**{name.replace(".", "__"): own[name] for name in own})))

    assert (counts.new, counts.passed_over) == (0, 1)
    assert parse_record({"start_time": "2026-03-01T12:00:00Z", "attributes": own}) == [None]


def test_what_is_sent_twice_is_stored_once(sqlite_ledger: Ledger) -> None:
    log_ = log(sqlite_ledger)
    add_otlp_request(log_, request(GEN_AI, GEN_AI))

    again = add_otlp_request(log_, request(GEN_AI, OPENINFERENCE))

    assert (again.new, again.repeated) == (1, 1)
    assert sqlite_ledger.scalar(sa.select(queries.c.count)) == 2


def test_an_id_with_another_content_overwrites_nothing(sqlite_ledger: Ledger) -> None:
    add_otlp_request(log(sqlite_ledger), request(GEN_AI))
    forged = span(gen_ai__retrieval__documents='["c9"]')

    assert add_otlp_request(log(sqlite_ledger), request(forged)).new == 1
    assert [row[3] for row in stored(sqlite_ledger)] == ["c1", "c2", "c9"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (span(gen_ai__retrieval__documents="no list"), None),
        (span(gen_ai__retrieval__documents='{"a": 1}'), "no list of ids"),
        (span(gen_ai__retrieval__documents='[{"name": "x"}]'), "has no id"),
        (span(at="soon", gen_ai__retrieval__documents='["c"]'), "startTimeUnixNano"),
        (span(at="1" * 30, gen_ai__retrieval__documents='["c"]'), "startTimeUnixNano"),
        (
            span(at=f"{int((now() + timedelta(days=1)).timestamp())}000000000", gen_ai__retrieval__documents='["c"]'),
            "clock",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_rest_is_stored(
    sqlite_ledger: Ledger, sent: dict[str, Any], reason: str | None
) -> None:
    counts = add_otlp_request(log(sqlite_ledger), request(sent, OPENINFERENCE))

    assert counts.refused == (reason is not None)
    assert (reason or "") in counts.reason
    assert counts.new == 2 - counts.refused


@pytest.mark.parametrize("body", ["[]", "{}", "null", "5", '{"resourceSpans": {}}', "[" * 100_000, "\ud800"])
def test_a_body_that_is_no_request_is_refused(sqlite_ledger: Ledger, body: str) -> None:
    with pytest.raises(HostileInput, match="ExportTraceServiceRequest"):
        add_otlp_request(log(sqlite_ledger), read_otlp_json(body.encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize("scope", [5, [5], [{"spans": 5}], [{"spans": ["x", None]}], None])
def test_misshapen_requests_hold_no_spans(sqlite_ledger: Ledger, scope: Any) -> None:
    counts = add_otlp_request(log(sqlite_ledger), {"resourceSpans": [{"scopeSpans": scope}, 7]})

    assert counts.records == 0


def test_requests_and_lists_are_bounded(sqlite_ledger: Ledger) -> None:
    with pytest.raises(HostileInput, match="in one request"):
        add_otlp_request(log(sqlite_ledger), request(*[{}] * (MAX_SPANS + 1)))

    long = json.dumps([f"c{number}" for number in range(MAX_TEXTS + 50)])
    add_otlp_request(log(sqlite_ledger), request(span(gen_ai__retrieval__documents=long)))
    assert len(stored(sqlite_ledger)) == MAX_TEXTS


def test_hostile_text_is_stored_as_data(sqlite_ledger: Ledger) -> None:
    sent = [
        span(
            number,
            input__value=text,
            session__id=text,
            user__id=text,
            gen_ai__retrieval__documents=json.dumps([f"x{text}"]),
        )
        for number, text in enumerate(PAYLOADS)
    ]

    counts = add_otlp_request(log(sqlite_ledger), request(*sent))

    assert counts.new == len(sent)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {
                "query": "Q?",
                "served": ["a", "b"],
                "at": "2026-03-01T12:00:00Z",
                "session": "s",
                "shown": ["b"],
                "answer": "A",
            },
            ("Q?", "s", None, "A", [("a", None, False), ("b", None, True)]),
        ),
        (
            {
                "question": "Q?",
                "served": [{"chunk_id": "a", "score": 1, "shown": True}],
                "at": 1772366400,
                "user_id": "u",
            },
            ("Q?", "", "u", None, [("a", 1.0, True)]),
        ),
        (
            {
                "type": "RETRIEVER",
                "traceId": "t",
                "id": "o",
                "startTime": "2026-03-01T12:00:00Z",
                "input": {"query": "Q?"},
                "output": [{"id": "a", "score": "nan"}, {"metadata": {"chunk_id": "b"}, "id": "page"}],
            },
            ("Q?", "", None, None, [("a", None, None), ("b", None, None)]),
        ),
        (
            {
                "span_kind": "RETRIEVER",
                "start_time": "2026-03-01T12:00:00+00:00",
                "context": {"span_id": "1"},
                "attributes": {
                    "input": {"value": "Q?"},
                    "retrieval": {"documents": [{"document": {"id": "a", "score": 0.5}}]},
                    "session": {"id": "s"},
                },
            },
            ("Q?", "s", None, None, [("a", 0.5, None)]),
        ),
    ],
    ids=["plain", "plain with objects", "langfuse", "phoenix"],
)
def test_records_of_exports_are_read(values: dict[str, Any], expected: tuple[Any, ...]) -> None:
    [parsed] = parse_record(values)

    assert isinstance(parsed, LoggedRetrieval)
    texts = [(chunk.chunk_id, chunk.score, chunk.shown) for chunk in parsed.served]
    assert (parsed.query, parsed.session, parsed.user_id, parsed.answer, texts) == expected
    assert parsed.at == START.replace(month=3, day=1)


def test_a_langfuse_trace_gives_its_session_to_its_retrievers() -> None:
    retriever = {"type": "RETRIEVER", "id": "o", "startTime": "2026-03-01T12:00:00Z", "input": "Q?", "output": ["a"]}
    trace = {"id": "t", "sessionId": "s", "userId": "u", "observations": [retriever, {"type": "GENERATION"}, 5]}

    found = parse_record(trace)

    assert [entry and (entry.session, entry.user_id) for entry in found] == [("s", "u"), None]


def test_a_file_is_imported_once_and_broken_lines_are_counted(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "retrievals.jsonl"
    good = {"query": "Q?", "served": ["a"], "at": "2026-03-01T12:00:00Z"}
    lines = [json.dumps(good), "{broken", json.dumps({**good, "at": "yesterday"}), json.dumps({"message": "started"})]
    file.write_text("\n".join(lines))
    settings = Settings(home=tmp_path)

    first = import_retrievals(log(sqlite_ledger), settings, str(file))
    second = import_retrievals(log(sqlite_ledger), settings, str(file))

    assert (first.records, first.new, first.refused, first.passed_over) == (4, 1, 2, 1)
    assert (second.new, second.repeated) == (0, 1)
