"""Exports of other tools become reports: every row is accounted for, broken ones are named, and nothing is there twice."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_guard.deployment import Deployment
from corpus_guard.errors import HostileInput, Misuse, SourceUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import filings
from corpus_guard.settings import PROJECT, Settings
from corpus_guard.traceback.importers import fields, json_records, mlflow_traces
from corpus_guard.traceback.importers.importing import ImportSummary, import_reports
from corpus_guard.traceback.importers.json_records import line_records, value_records
from corpus_guard.traceback.importers.langfuse import Langfuse
from corpus_guard.traceback.importers.mlflow_traces import MlflowTraces
from corpus_guard.traceback.importers.phoenix import Phoenix
from corpus_guard.traceback.importers.plain import Plain
from corpus_guard.traceback.importers.record import MAX_RAW_LENGTH, MAX_RECORD_BYTES, Mark
from corpus_guard.traceback.reports import list_filings, list_reports
from postgres import free_port

SAMPLE = PROJECT / "include" / "sample_corpus" / "feedback.jsonl"
DAY = "2026-03-0{}T12:00:00Z"
SECRET = "nobody may read this"
WRONG = Mark("reported_wrong")


@pytest.fixture
def guard(tmp_path: Path, sqlite_ledger: Ledger) -> Iterator[Deployment]:
    with Deployment(Settings(home=tmp_path)) as opened:
        yield opened


def a_row(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {"query": f"Question {number}?", "output": "yes", "reported_at": DAY.format(number), **fields}


def write(path: Path, *rows: Any) -> str:
    """JSON lines; what is text already is a line as it is."""
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return str(path)


def run(guard: Deployment, source: str, **options: Any) -> ImportSummary:
    return import_reports(guard.ledger, guard.storage, guard.settings, source, "run-1", **options)


def filed(guard: Deployment) -> list[tuple[str, str, str, str, tuple[str, ...], str | None]]:
    """(query, output, reporter, session, served, correct) of every filing, the oldest first."""
    reports, _ = list_reports(guard.ledger, limit=10_000)
    rows = [(report, one) for report in reports for one in list_filings(guard.ledger, report.report_id, 10_000)]
    rows.sort(key=lambda pair: (pair[1]["reported_at"], pair[0].query))
    return [
        (report.query, report.output, one["reporter"], one["session"], tuple(one["served"]), one["correct"])
        for report, one in rows
    ]


def aside(guard: Deployment, done: ImportSummary) -> list[dict[str, Any]]:
    assert done.aside_file
    return [json.loads(line) for line in guard.storage.read_lines(done.aside_file)]


def counts(done: ImportSummary) -> dict[str, int]:
    return {name: value for name, value in done.as_dict().items() if isinstance(value, int) and value}


class TestRows:
    def test_the_sample_comes_in_whole_and_once(self, guard: Deployment) -> None:
        rows = len(SAMPLE.read_text().splitlines())

        assert counts(run(guard, str(SAMPLE))) == {"rows": rows, "new": rows, "reports": rows}
        assert counts(run(guard, str(SAMPLE))) == {"rows": rows, "known": rows}

    def test_names_that_people_use_mean_the_same(self, guard: Deployment, tmp_path: Path) -> None:
        one = a_row(reporter="mo", session="s", correct="no", served=["c1", "c2"])
        other = {
            "Question": one["query"],
            "wrong answer": "yes",
            "Created-At": 1772366400,
            "User ID": "mo",
            "session_id": "s",
            "Expected": "no",
            "chunk_ids": "c1; c2",
        }
        table = tmp_path / "export.csv"
        with table.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, other)
            writer.writeheader()
            writer.writerow(other)

        assert counts(run(guard, write(tmp_path / "own.jsonl", one)))["new"] == 1
        assert counts(run(guard, write(tmp_path / "other.jsonl", other))) == {"rows": 1, "known": 1}
        assert counts(run(guard, str(table))) == {"rows": 1, "known": 1}
        assert filed(guard) == [("Question 1?", "yes", "mo", "s", ("c1", "c2"), "no")]

    @pytest.mark.parametrize("name", ["rows.csv", "rows.txt", "rows.tsv"])
    def test_a_cell_may_hold_lines_quotes_and_separators(self, guard: Deployment, tmp_path: Path, name: str) -> None:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if name.endswith("tsv") else ",")
        writer.writerows([["query", "output", "reported_at"], ['a "b"\nc, d\te', "y,\nes", DAY.format(1)]])
        (tmp_path / name).write_text(text.getvalue(), newline="")

        run(guard, str(tmp_path / name))

        assert [one[:2] for one in filed(guard)] == [('a "b"\nc, d\te', "y,\nes")]

    def test_every_row_that_cannot_be_taken_is_put_aside_with_line_and_reason(
        self, guard: Deployment, tmp_path: Path
    ) -> None:
        ahead = datetime.now(UTC) + timedelta(days=1)
        source = write(
            tmp_path / "rows.jsonl",
            a_row(1),
            '{"query": "' + SECRET,
            "[1, 2]",
            "",
            a_row(2, query=" "),
            a_row(3, output=""),
            a_row(4, output=None),
            {"output": "yes", "reported_at": DAY.format(1)},
            a_row(5, reported_at="tomorrow"),
            a_row(6, reported_at=None),
            a_row(7, reported_at=ahead.isoformat()),
            a_row(8, query="x" * (MAX_RECORD_BYTES + 1)),
            a_row(9, output={"nothing": ["known"]}),
            a_row(2, output="1", reported_at="2026-03-02"),
        )

        done = run(guard, source)

        assert counts(done) == {"rows": 13, "new": 2, "reports": 2, "aside": 11}
        told = [(one["line"], one["code"]) for one in aside(guard, done)]
        assert told == [
            (2, "report.broken_json"),
            (3, "report.broken_json"),
            (5, "report.empty_query"),
            (6, "report.empty_output"),
            (7, "report.empty_output"),
            (8, "report.no_query"),
            (9, "report.bad_time"),
            (10, "report.no_time"),
            (11, "report.future"),
            (12, "report.too_large"),
            (13, "report.no_output"),
        ]
        first = aside(guard, done)[0]
        assert first["raw"] == '{"query": "' + SECRET
        assert first["source"] == source
        assert all(SECRET not in one["message"] for one in aside(guard, done))
        assert done.aside_file
        assert done.aside_file.startswith("reports/aside/")
        assert run(guard, source).aside_file == done.aside_file

    def test_broken_csv_spoils_no_other_record(self, guard: Deployment, tmp_path: Path) -> None:
        path = tmp_path / "rows.csv"
        good = f"q{{}},yes,{DAY.format(1)}\n"
        content = "query,output,reported_at\n" + good.format(1) + "too,few\n" + good.format(2) + "a,b,c,d\n"
        path.write_bytes(
            content.encode() + b"caf\xe9,yes,2026-03-01\n" + good.format(3).encode() + b'"open,' + b"x" * 9_000
        )

        done = run(guard, str(path))

        assert [one[0] for one in filed(guard)] == ["q1", "q2", "q3"]
        assert counts(done) == {"rows": 7, "new": 3, "reports": 3, "aside": 4}
        told = aside(guard, done)
        assert [(one["line"], one["code"]) for one in told] == [
            (3, "report.row_shape"),
            (5, "report.row_shape"),
            (6, "report.row_shape"),
            (8, "report.broken_csv"),
        ]
        assert [one["raw"] for one in told[:3]] == ["too,few", "a,b,c,d", "caf\ufffd,yes,2026-03-01"]
        assert len(told[3]["raw"]) == MAX_RAW_LENGTH

    @pytest.mark.parametrize(("name", "content"), [("a.csv", ""), ("a.jsonl", "\n\n"), ("a.json", "[]"), ("a", " ")])
    def test_an_empty_export_is_no_mistake(self, guard: Deployment, tmp_path: Path, name: str, content: str) -> None:
        (tmp_path / name).write_text(content)

        assert counts(run(guard, str(tmp_path / name))) == {}

    def test_several_files_and_another_store(self, guard: Deployment, tmp_path: Path) -> None:
        import fsspec

        for number in (1, 2):
            write(tmp_path / f"{number}.jsonl", a_row(number))
        with fsspec.open("memory://exports/three.jsonl", "w") as file:
            file.write(json.dumps(a_row(3)))

        assert counts(run(guard, str(tmp_path / "*.jsonl")))["new"] == 2
        assert counts(run(guard, "memory://exports/three.jsonl"))["new"] == 1
        assert run(guard, str(tmp_path / "*.jsonl")).source == "2 files"

    def test_where_it_came_from_is_kept_and_holds_no_password(self, guard: Deployment, tmp_path: Path) -> None:
        source = write(tmp_path / "rows.jsonl", "", a_row())
        run(guard, source)

        (report,), _ = list_reports(guard.ledger)
        assert list_filings(guard.ledger, report.report_id)[0]["origin"] == f"{source}:2"
        with pytest.raises(SourceUnavailable) as refused:
            run(guard, "ftp://mo:hunter2@127.0.0.1:9/rows.csv")
        assert "hunter2" not in str(refused.value)

    def test_a_storage_that_fails_in_the_middle_is_named_and_what_came_before_stays(
        self, guard: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cut_off(stream: Any) -> Iterator[Any]:
            yield from itertools.islice(line_records(stream), 30)
            raise ConnectionResetError(SECRET)

        source = write(tmp_path / "rows.jsonl", *(a_row(query=f"q{number}") for number in range(40)))
        monkeypatch.setattr("corpus_guard.traceback.importers.importing.FILINGS_PER_TRANSACTION", 10)
        with (
            monkeypatch.context() as patch,
            pytest.raises(SourceUnavailable, match="run again to continue where it stopped") as refused,
        ):
            patch.setattr("corpus_guard.traceback.importers.source.line_records", cut_off)
            run(guard, source)

        assert SECRET not in str(refused.value)
        assert counts(run(guard, source)) == {"rows": 40, "new": 10, "known": 30, "reports": 10}

    def test_a_source_that_is_not_there_is_named(self, guard: Deployment, tmp_path: Path) -> None:
        with pytest.raises(Misuse, match=r"none\.csv: no such file"):
            run(guard, str(tmp_path / "none.csv"))
        with pytest.raises(Misuse, match="this is a folder; give a file"):
            run(guard, str(tmp_path))
        with pytest.raises(Misuse, match="expected one of csv, jsonl, langfuse, phoenix"):
            run(guard, str(SAMPLE), file_format="xlsx")


class TestWindow:
    def test_windows_that_touch_share_nothing_and_lose_nothing(self, guard: Deployment, tmp_path: Path) -> None:
        days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3)]
        edges = [days[0], days[1] - timedelta(microseconds=1), days[1], days[2]]
        rows = [a_row(query=f"q{number}", reported_at=at.isoformat()) for number, at in enumerate(edges)]
        source = write(tmp_path / "rows.jsonl", *rows)

        first = run(guard, source, since=days[0], until=days[1])
        second = run(guard, source, since=days[1], until=days[2])

        assert counts(first) == {"rows": 4, "new": 2, "reports": 2, "outside": 2}
        assert counts(second) == {"rows": 4, "new": 1, "reports": 1, "outside": 3}
        assert counts(run(guard, source)) == {"rows": 4, "new": 1, "known": 3, "reports": 1}

    def test_what_is_put_aside_does_not_depend_on_the_window(self, guard: Deployment, tmp_path: Path) -> None:
        source = write(tmp_path / "rows.jsonl", a_row(1, output=""), a_row(2), a_row(3, query=""))
        first, second = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)

        narrow = run(guard, source, since=first, until=second)

        assert narrow.aside_file == run(guard, source).aside_file
        assert len(aside(guard, narrow)) == 2


class TestBeingKilled:
    def test_an_import_that_was_cut_off_goes_on_where_it_was(
        self, guard: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("corpus_guard.traceback.importers.importing.FILINGS_PER_TRANSACTION", 10)
        source = write(tmp_path / "rows.jsonl", *(a_row(query=f"q{number}") for number in range(35)))

        class Killed(BaseException):
            pass

        def die(what: str, done: int, total: int | None) -> None:
            if done == 27:
                raise Killed

        with pytest.raises(Killed):
            run(guard, source, progress=die)

        assert counts(run(guard, source)) == {"rows": 35, "new": 15, "known": 20, "reports": 15}
        assert len(filed(guard)) == 35

    @pytest.mark.parametrize(
        "line", [json.dumps(a_row(query="x" * 2_000)), "{" + "x" * 2_000], ids=["outside", "aside"]
    )
    def test_memory_does_not_grow_with_the_file(self, guard: Deployment, tmp_path: Path, line: str) -> None:
        path = tmp_path / "rows.jsonl"
        path.write_text((line + "\n") * 20_000)  # 40 MB
        tracemalloc.start()
        try:
            done = run(guard, str(path), since=datetime(2026, 5, 1, tzinfo=UTC))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert done.rows == done.outside + done.aside == 20_000
        assert peak < 12 * 2**20


# --- exports of tools; written here after their documentation ------------------------------------------------------------

LANGFUSE: dict[str, Any] = {
    "id": "trace-1",
    "timestamp": "2026-03-01T12:00:00.123Z",
    "name": "ask",
    "userId": "mo",
    "sessionId": "s-1",
    "release": None,
    "environment": "production",
    "tags": [],
    "bookmarked": False,
    "input": {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "How deep?"}]},
    "output": {"role": "assistant", "content": "40 metres"},
    "metadata": {"chunk_ids": ["c1", "c2"], "expected_output": "12"},
    "reported_wrong": ["true"],
}
EXPECTED = [("How deep?", "40 metres", "mo", "s-1", ("c1", "c2"), "12")]


def langfuse(**changes: Any) -> dict[str, Any]:
    made = {**LANGFUSE, **changes}
    return {name: value for name, value in made.items() if value != "left out"}


def snake_case() -> dict[str, Any]:
    renamed = {"userId": "user_id", "sessionId": "session_id"}
    made = {renamed.get(name, name): value for name, value in LANGFUSE.items() if name != "reported_wrong"}
    score = {"name": "reported_wrong", "value": 1, "timestamp": "2026-03-02 08:00:00.000000"}
    return {**made, "timestamp": "2026-03-01 12:00:00.123000", "scores": [score, {"name": "tone", "value": 1}]}


def one_trace() -> dict[str, Any]:
    retriever = {"type": "RETRIEVER", "output": [{"id": "c1"}, {"page_content": "x", "metadata": {"chunk_id": "c2"}}]}
    return {
        "trace": langfuse(reported_wrong="left out", metadata=json.dumps({"expected_output": "12"})),
        "observations": [{"type": "GENERATION", "output": "40 metres"}, retriever],
        "scores": [{"name": "reported_wrong", "value": None, "stringValue": "True", "authorUserId": None}],
    }


def csv_of(*rows: dict[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    for row in rows:
        writer.writerow({name: json.dumps(one) if isinstance(one, dict | list) else one for name, one in row.items()})
    return text.getvalue()


def lines_of(*rows: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, rows))


class TestLangfuse:
    def test_another_score_may_say_so_and_none_takes_every_row(self, guard: Deployment, tmp_path: Path) -> None:
        rows = [langfuse(id=str(number), input=f"q{number}", **{"user-feedback": [number % 2]}) for number in range(4)]
        source = write(tmp_path / "traces.jsonl", *rows)

        assert counts(run(guard, source, mark=Mark.parse("user-feedback=0"))) == {
            "rows": 4,
            "new": 2,
            "reports": 2,
            "unmarked": 2,
        }
        assert [one[0] for one in filed(guard)] == ["q0", "q2"]
        assert counts(run(guard, source, mark=Mark())) == {"rows": 4, "new": 2, "known": 2, "reports": 2}

    def test_each_score_is_a_filing_of_who_gave_it_when(self) -> None:
        scores = [
            {"name": "reported_wrong", "value": 1, "authorUserId": who, "timestamp": DAY.format(day)}
            for day, who in ((2, "ann"), (3, "bo"))
        ]

        first, second = Langfuse().filings(langfuse(reported_wrong="left out", scores=scores), WRONG)

        assert (first.reporter, second.reporter) == ("ann", "bo")
        assert first.reported_at == datetime(2026, 3, 2, 12, tzinfo=UTC)
        assert first.report_id == second.report_id


PHOENIX: dict[str, Any] = {
    "id": "U3Bhbjox",
    "name": "ask",
    "context": {"trace_id": "t", "span_id": "a"},
    "span_kind": "CHAIN",
    "parent_id": None,
    "start_time": "2026-03-01T12:00:00+00:00",
    "end_time": "2026-03-01T12:00:01+00:00",
    "attributes": {
        "openinference.span.kind": "CHAIN",
        "input.value": json.dumps({"question": "How deep?"}),
        "input.mime_type": "application/json",
        "output.value": "40 metres",
        "session.id": "s-1",
        "user.id": "mo",
        "metadata": json.dumps({"expected_output": "12"}),
        "retrieval.documents.1.document.id": "c2",
        "retrieval.documents.0.document.id": "not this one",
        "retrieval.documents.0.document.metadata": json.dumps({"chunk_id": "c1"}),
    },
}


def phoenix(**attributes: Any) -> dict[str, Any]:
    return {**PHOENIX, "attributes": {**PHOENIX["attributes"], **attributes}}


def annotated(place: str = "annotations.0.annotation", value: Any = "true") -> dict[str, Any]:
    return phoenix(**{f"{place}.name": "reported_wrong", f"{place}.label": value, f"{place}.annotator_kind": "HUMAN"})


def nested() -> dict[str, Any]:
    return {
        **PHOENIX,
        "attributes": {
            "input": {"value": "How deep?"},
            "output": {"value": "40 metres"},
            "session": {"id": "s-1"},
            "user": {"id": "mo"},
            "metadata": {"correct": "12"},
            "retrieval": {"documents": [{"document": {"id": "c1"}}, {"document": {"id": "c2"}}]},
        },
        "annotations": [
            {"name": "tone", "annotator_kind": "LLM", "result": {"score": 1}},
            {"name": "reported_wrong", "annotator_kind": "HUMAN", "result": {"label": None, "score": 1.0}},
        ],
    }


def data_frame() -> dict[str, Any]:
    documents = [{"document.id": "c1"}, {"document.id": "c2"}]
    return {
        "context.span_id": "a",
        "span_kind": "CHAIN",
        "start_time": "2026-03-01 12:00:00+00:00",
        "attributes.input.value": "How deep?",
        "attributes.output.value": "40 metres",
        "attributes.session.id": "s-1",
        "attributes.user.id": "mo",
        "attributes.retrieval.documents": documents,
        "attributes.metadata": {"correct": "12"},
        "annotation_name": "reported_wrong",
        "result.label": "yes",
        "annotator_kind": "HUMAN",
    }


@pytest.mark.parametrize(
    ("tool", "name", "content"),
    [
        ("langfuse", "traces.json", json.dumps([LANGFUSE, langfuse(id="2", reported_wrong=None)], indent=2)),
        ("langfuse", "traces.jsonl", lines_of(langfuse(id="2", reported_wrong=["false"]), LANGFUSE)),
        ("langfuse", "traces.csv", csv_of(LANGFUSE, langfuse(id="2", reported_wrong=[]))),
        ("langfuse", "blob.jsonl", lines_of(snake_case(), langfuse(reported_wrong="left out"))),
        ("langfuse", "trace.json", json.dumps(one_trace(), indent=2) + "\n" + json.dumps(langfuse(reported_wrong=0))),
        ("phoenix", "spans.jsonl", lines_of(annotated(), PHOENIX)),
        (
            "phoenix",
            "of-the-trace.json",
            json.dumps([annotated("trace.annotations.3.annotation"), annotated(value="false")]),
        ),
        ("phoenix", "evaluations.jsonl", lines_of(annotated("evaluations.0.evaluation", 1), PHOENIX)),
        ("phoenix", "nested.json", json.dumps([nested(), PHOENIX])),
        ("phoenix", "data-frame.csv", csv_of(data_frame(), {**data_frame(), "annotation_name": "tone"})),
    ],
)
def test_what_was_marked_as_wrong_in_a_tool_is_a_report(
    guard: Deployment, tmp_path: Path, tool: str, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)

    done = run(guard, str(tmp_path / name))

    assert counts(done) == {"rows": 2, "new": 1, "reports": 1, "unmarked": 1}
    assert done.formats == (tool,)
    assert filed(guard) == EXPECTED


KEYS = [
    "query",
    "output",
    "input",
    "messages",
    "role",
    "content",
    "text",
    "type",
    "reported_at",
    "timestamp",
    "served",
    "id",
    "metadata",
    "chunk_ids",
    "scores",
    "name",
    "value",
    "reported_wrong",
    "trace",
    "observations",
    "attributes",
    "annotations",
    "input.value",
    "output.value",
    "result",
    "annotations.0.annotation.name",
    "retrieval.documents.0.document.id",
    "start_time",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


class TestHostileValues:
    @settings(max_examples=150)
    @given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8))
    def test_whatever_an_export_holds_is_read_or_refused(self, values: dict[str, Any]) -> None:
        for dialect in (Plain(), Langfuse(), Phoenix()):
            for mark in (WRONG, Mark()):
                dialect.knows(values)
                try:
                    found = dialect.filings(values, mark)
                except HostileInput as error:
                    assert error.code.startswith("report.")
                else:
                    assert all(len(one.filing_id) == 32 for one in found)

    def test_an_object_a_thousand_deep_and_a_list_of_a_million_end(self) -> None:
        deep: Any = "How deep?"
        for _ in range(900):
            deep = {"input": deep}
        with pytest.raises(HostileInput):
            Plain().filings({"query": deep, "output": "x", "reported_at": 0}, WRONG)
        started = time.process_time()
        Phoenix().filings({**PHOENIX, "annotations": [{"name": "x"}] * 200_000}, WRONG)
        assert time.process_time() - started < 5

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
            ("2026-03-01T13:00:00+01:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
            ("2026-03-01 12:00:00.000000", datetime(2026, 3, 1, 12, tzinfo=UTC)),
            ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
            (1772366400, datetime(2026, 3, 1, 12, tzinfo=UTC)),
            ("1772366400", datetime(2026, 3, 1, 12, tzinfo=UTC)),
            (1772366400000, datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ],
    )
    def test_times(self, value: Any, expected: datetime) -> None:
        assert fields.parse_time(value) == expected

    @pytest.mark.parametrize("value", ["soon", True, [], float("nan"), 10**30, "0001-01-01T00:00+23:00", "9" * 5_000])
    def test_what_is_no_time_is_refused(self, value: Any) -> None:
        with pytest.raises(HostileInput) as refused:
            fields.parse_time(value)
        assert refused.value.code == "report.bad_time"

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("How deep?", "How deep?"),
            ('"How deep?"', "How deep?"),
            ('{"not": "known"', '{"not": "known"'),
            (
                [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": "b"},
                    {"type": "human", "content": "How deep?"},
                ],
                "How deep?",
            ),
            (
                [{"role": "user", "content": [{"type": "text", "text": "How "}, {"type": "text", "text": "deep?"}]}],
                "How deep?",
            ),
            ({"anything": "How deep?"}, "How deep?"),
            (7, "7"),
            (True, "true"),
        ],
    )
    def test_questions(self, value: Any, expected: str) -> None:
        assert fields.extract_question(value) == expected

    def test_the_answer_of_a_chat_completion(self) -> None:
        assert (
            fields.extract_answer(
                {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}
            )
            == "yes"
        )


class TestJsonValues:
    @settings(max_examples=100)
    @given(
        st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=4), st.integers(1, 40), st.booleans()
    )
    def test_elements_are_found_wherever_the_pieces_end(self, values: list[Any], piece: int, array: bool) -> None:
        text = json.dumps(values, indent=1) if array else "\n".join(json.dumps(one, indent=1) for one in values)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_records, "READ_BYTES", piece)
            found = list(value_records(io.BytesIO(text.encode())))

        assert json.dumps([one.values for one in found]) == json.dumps(values)

    def test_a_broken_element_spoils_no_other_and_lines_are_right(self) -> None:
        text = '\ufeff[\n  {"a": "]},[\\"{"},\n  {broken},\n\n  7, {"b":\n 1}\n]'

        found = [(one.line, one.values) for one in value_records(io.BytesIO(text.encode()))]

        assert found == [(2, {"a": ']},["{'}), (3, None), (5, None), (5, {"b": 1})]

    def test_an_element_that_is_too_large_is_told_and_not_held(self) -> None:
        text = '[{"a": "' + "x" * (MAX_RECORD_BYTES + 1) + '"}, {"b": 1}]'

        first, second = value_records(io.BytesIO(text.encode()))

        assert (first.code, first.raw, second.values) == ("report.too_large", "", {"b": 1})

    def test_lone_surrogates_are_read(self) -> None:
        (record,) = line_records(io.BytesIO(b'{"query": "\\ud800"}'))

        assert record.values == {"query": "\ud800"}


# --- a real MLflow server ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """On loopback, with a database of its own and five traces in two experiments."""
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder / 'mlflow.db'}",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    env = {**os.environ, **quiet, "NO_PROXY": "127.0.0.1"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:  # the client imports mlflow while the server starts
        traced = subprocess.run(
            [sys.executable, "-c", TRACES, url], env=env, capture_output=True, text=True, timeout=180, check=False
        )
        assert traced.returncode == 0, traced.stderr[-2_000:] + (folder / "log").read_text()[-2_000:]
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(10)


TRACES = """
import sys, time
import httpx
import mlflow
from mlflow.entities import AssessmentSource, SpanType

deadline = time.monotonic() + 120
while True:
    try:
        if httpx.get(f"{sys.argv[1]}/health", timeout=2).is_success:
            break
    except httpx.HTTPError:
        pass
    assert time.monotonic() < deadline, "no server"
    time.sleep(0.2)

mlflow.set_tracking_uri(sys.argv[1])
who = lambda name: AssessmentSource(source_type="HUMAN", source_id=name)

def ask(question, answer, **more):
    with mlflow.start_span("ask", span_type=SpanType.CHAIN) as root:
        root.set_inputs({"question": question, **more})
        with mlflow.start_span("search", span_type=SpanType.RETRIEVER) as found:
            found.set_outputs([{"page_content": "x", "metadata": {"chunk_id": "c1"}}, {"page_content": "y", "id": "c2"}])
        mlflow.update_current_trace(metadata={"mlflow.trace.session": "s-1"})
        root.set_outputs(answer)
    mlflow.flush_trace_async_logging()
    return root.trace_id

mlflow.set_experiment("rag")
first = ask("How deep?", "40 metres")
mlflow.log_feedback(trace_id=first, name="reported_wrong", value=True, source=who("mo"))
mlflow.log_feedback(trace_id=first, name="reported_wrong", value=True, source=who("ann"))
mlflow.log_feedback(trace_id=first, name="reported_wrong", value=False, source=who("bo"))
mlflow.log_expectation(trace_id=first, name="expected_response", value="12", source=who("mo"))
second = ask("Who opens?", "nobody", language="en")
mlflow.log_feedback(trace_id=second, name="reported_wrong", value=True, source=who("mo"))
mlflow.log_feedback(trace_id=ask("Fine?", "yes"), name="reported_wrong", value=False, source=who("mo"))
mlflow.log_feedback(trace_id=ask("", "yes"), name="reported_wrong", value=True, source=who("mo"))
mlflow.set_experiment("another")
mlflow.log_feedback(trace_id=ask("Elsewhere?", "yes"), name="reported_wrong", value=True, source=who("mo"))
"""


class TestMlflow:
    @pytest.fixture(autouse=True)
    def _tracking(self, mlflow_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server)
        monkeypatch.setattr(mlflow_traces, "TRACES_PER_PAGE", 1)

    def test_assessments_become_reports_with_what_was_served(self, guard: Deployment) -> None:
        done = run(guard, "mlflow:rag")

        assert counts(done) == {"rows": 4, "new": 3, "reports": 2, "aside": 1}
        deep = ("How deep?", "40 metres", "mo", "s-1", ("c1", "c2"), "12")
        assert filed(guard) == [
            deep,
            (*deep[:2], "ann", *deep[3:]),
            ("Who opens?", "nobody", "mo", "s-1", ("c1", "c2"), None),
        ]
        (put_aside,) = aside(guard, done)
        assert (put_aside["code"], put_aside["source"]) == ("report.empty_query", "mlflow:rag")
        assert counts(run(guard, "mlflow:rag")) == {"rows": 4, "known": 3, "aside": 1}

    def test_the_window_is_of_the_assessments(self, guard: Deployment) -> None:
        assert guard.ledger.scalar(sa.select(sa.func.count()).select_from(filings)) == 0
        tomorrow = datetime.now(UTC) + timedelta(days=1)

        assert counts(run(guard, "mlflow:rag", since=tomorrow)) == {"rows": 4, "aside": 1, "outside": 3}
        assert counts(run(guard, "mlflow:rag", until=tomorrow))["new"] == 3

    def test_another_mark_is_asked_for(self, guard: Deployment) -> None:
        assert counts(run(guard, "mlflow:rag", mark=Mark.parse("reported_wrong=false"))) == {
            "rows": 2,
            "new": 2,
            "reports": 2,
        }
        assert counts(run(guard, "mlflow:rag", mark=Mark.parse("thumbs=down"))) == {}

    def test_an_experiment_that_is_not_there_and_a_mark_that_would_be_a_query(self, guard: Deployment) -> None:
        with pytest.raises(Misuse, match="mlflow:none: there is no such experiment"):
            run(guard, "mlflow:none")
        with pytest.raises(Misuse, match="NAME=VALUE"):
            run(guard, "mlflow:rag", mark=Mark("x", "' OR name = '"))
        assert not MlflowTraces().knows({"feedback": []})


def test_a_dead_mlflow_is_told_without_its_password(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mo:hunter2@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    with pytest.raises(SourceUnavailable, match=r"MLflow at http://\*\*\*@127\.0\.0\.1:9") as refused:
        run(guard, "mlflow:rag")

    assert "hunter2" not in str(refused.value)
