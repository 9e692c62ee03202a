"""`guard report` as people type it, on a real ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from corpus_guard import errors
from corpus_guard.cli import report as _cli_report
from corpus_guard.cli.options import login_name
from corpus_guard.ledger import Ledger
from corpus_guard.settings import PROJECT
from corpus_guard.traceback.records import begin_trace

Run = Callable[..., Result]

SAMPLE = str(PROJECT / "include" / "sample_corpus" / "feedback.jsonl")
HOSTILE = "How [bold]deep[/bold]\u202e is \x1b[31mthe\x1b[0m quay <script>alert(1)</script> {{ x }}?"


@pytest.fixture
def run(tmp_path: Path, sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path))
    return lambda *words: CliRunner().invoke(_cli_report.app, list(words))


def add(run: Run, *more: str, query: str = "How deep is the quay?", output: str = "40 metres") -> dict[str, object]:
    done = run("add", "--query", query, "--output", output, "--at", "2026-03-01T12:00Z", "--json", *more)
    assert done.exit_code == 0, done.output
    made: dict[str, object] = json.loads(done.stdout)
    return made


def test_a_report_is_filed_listed_and_shown(run: Run, sqlite_ledger: Ledger) -> None:
    made = add(
        run, "--correct", "12 metres", "--reporter", "mo", "--session", "s-1", "--served", "c1", "--served", "c2"
    )
    name = str(made["report_id"])
    assert (made["new_report"], made["new_filing"], made["state"], made["filings"]) == (True, True, "open", 1)

    assert run("list").stdout.startswith("1 report\n")
    assert run("list", "--state", "open").stdout.startswith("1 open report\n")
    assert run("list", "--state", "judge_failed").stdout.startswith("0 judge failed reports\n")
    listed = json.loads(run("list", "--state", "open", "--json").stdout)
    assert (listed["total"], listed["reports"][0]["report_id"]) == (1, name)
    shown = json.loads(run("show", name[:6], "--json").stdout)
    assert (shown["correct"], shown["weight"]) == ("12 metres", 1.0)
    (filed,) = shown["filed"]
    assert (filed["reporter"], filed["session"], filed["served"]) == ("mo", "s-1", ["c1", "c2"])
    assert filed["reported_at"] == "2026-03-01T12:00:00+00:00"
    assert f"guard trace {name[:8]}" in run("show", name).stdout
    trace = begin_trace(sqlite_ledger, name, "night", "judge", 5, None).trace_id
    assert [one["trace_id"] for one in json.loads(run("show", name, "--json").stdout)["traces"]] == [trace]
    assert f"running: guard trace show {trace[:8]}" in run("show", name).stdout
    for words in (("list",), ("show", name)):
        text = run(*words).stdout
        assert "How deep is the quay?" in text
        assert "40 metres" in text


def test_filing_again_says_so(run: Run) -> None:
    add(run)
    words = ("add", "-q", "how deep is the quay", "-o", "40 METRES.", "--at", "2026-03-01T12:00:00Z")

    assert "was already filed" in run(*words).stdout
    assert "filed again" in run(*words, "--session", "other").stdout
    said = run("add", "-q", "Another?", "-o", "yes").stdout
    assert said.startswith("reported: ")
    assert "filed 1 time\n" in said
    assert "guard trace" in said


def test_who_reports_is_the_login_unless_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody else")
    name = str(add(run)["report_id"])

    assert json.loads(run("show", name, "--json").stdout)["filed"][0]["reporter"] == login_name()


@pytest.mark.parametrize(
    "words",
    [
        ("add", "--query", "", "--output", "yes"),
        ("add", "--query", "How?", "--output", " "),
        ("add", "--query", "How?", "--output", "yes", "--at", "2999-01-01"),
        ("add", "--query", "How?", "--output", "yes", "--at", "soon"),
        ("import", SAMPLE, "--format", "xlsx"),
        ("import", SAMPLE, "--since", "soon"),
        ("import", SAMPLE, "--since", "2025-11-06", "--until", "2025-11-01"),
        ("import", SAMPLE, "--mark", "=1"),
        ("import", SAMPLE, "--map", "question=frage"),
        ("import", SAMPLE, "--map", "query="),
        ("list", "--state", "lost"),
        ("show", "abc"),
        ("show", "abcdef"),
    ],
)
def test_misuse_is_refused_before_anything_is_kept(run: Run, words: tuple[str, ...]) -> None:
    refused = run(*words)

    assert isinstance(refused.exception, errors.Misuse)
    assert json.loads(run("list", "--json").stdout) == {"total": 0, "reports": []}


def test_hostile_text_reaches_no_terminal(run: Run) -> None:
    name = str(
        add(run, "--reporter", HOSTILE, "--correct", f"not {HOSTILE}", query=HOSTILE, output=HOSTILE)["report_id"]
    )

    for words in (("list",), ("show", name)):
        text = run(*words).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[bold]deep[/bold]" in text
        assert "U+202E" in text
    as_json = run("show", name, "--json").stdout
    assert "\u202e" not in as_json
    assert json.loads(as_json)["query"] == HOSTILE


def test_an_import_says_what_became_of_every_row(run: Run, tmp_path: Path) -> None:
    rows = len(Path(SAMPLE).read_text().splitlines())

    first, again = (json.loads(run("import", SAMPLE, "--json").stdout) for _ in range(2))

    assert (first["rows"], first["new"], first["reports"], first["aside"]) == (rows, rows, rows, 0)
    assert (again["new"], again["known"], again["aside_file"]) == (0, rows, None)
    narrow = json.loads(run("import", SAMPLE, "--since", "2025-11-01", "--until", "2025-11-06", "--json").stdout)
    assert narrow["known"] + narrow["outside"] == rows
    assert 0 < narrow["known"] < rows


def test_a_table_with_other_names_is_imported_by_a_map(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fragen.csv"
    path.write_text("Frage,Antwort,Am\nHow deep?,1200 metres,2026-03-01\n")

    refused = run("import", str(path))
    done = run(
        "import", str(path), "--map", "query=Frage", "--map", "output=antwort", "--map", "reported_at=am", "--json"
    )

    assert "put aside: 1 row, report.no_query: " in refused.stdout
    assert json.loads(done.stdout)["new"] == 1
    (report,) = json.loads(run("list", "--json").stdout)["reports"]
    assert (report["query"], report["output"]) == ("How deep?", "1200 metres")


def test_rows_put_aside_are_told_and_strict_makes_them_a_failure(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"query": "a", "output": "b", "reported_at": "2026-03-01"}\n{broken\n')

    said = run("import", str(path))

    assert said.exit_code == 0
    assert "put aside" in said.stdout
    strict = run("import", str(path), "--strict", "--json")
    assert strict.exit_code == 1
    where = Path(json.loads(strict.stdout)["aside_file"])
    assert where.parent == tmp_path / "storage" / "reports" / "aside"
    assert json.loads(where.read_text())["line"] == 2
    assert where.name in said.stdout.replace("\n", "")
    assert run("import", SAMPLE, "--strict").exit_code == 0


def test_an_export_without_the_mark_says_how_to_name_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    trace = {"id": "1", "timestamp": "2026-03-01", "userId": "mo", "sessionId": "s", "input": "How?", "output": "yes"}
    path.write_text(json.dumps([{**trace, "user-feedback": [0]}]))

    assert "--mark NAME=VALUE" in run("import", str(path)).stdout
    done = json.loads(run("import", str(path), "--mark", "user-feedback=0", "--json").stdout)
    assert (done["new"], done["formats"]) == (1, ["langfuse"])
