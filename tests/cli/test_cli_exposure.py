"""`guard exposure`, `guard watch`, `guard retrievals` and `guard evaluate watch` as people type them, on a real ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from corpus_guard import errors
from corpus_guard.cli import main as _cli
from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from forensics_material import write_corpus
from material import START

Run = Callable[..., Result]
YESTERDAY = (now() - timedelta(days=1)).isoformat()
HOSTILE = "How [bold]deep[/bold]\u202e is \x1b[31mthe\x1b[0m quay?"


@pytest.fixture
def run(tmp_path: Path, sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path))
    write_corpus(sqlite_ledger)
    return lambda *words: CliRunner().invoke(_cli.app, list(words))


def log(ledger: Ledger, *records: LoggedRetrieval) -> None:
    RetrievalLog(ledger, days=3_000).add(records)


def test_exposure_is_shown_as_data_and_what_is_not_known_is_said(run: Run, sqlite_ledger: Ledger) -> None:
    assert "not known: the retrieval log is empty" in run("exposure", "a1").stdout
    log(sqlite_ledger, LoggedRetrieval(HOSTILE, (LoggedChunk("a1"),), at=START, session="talk"))

    done = run("exposure", "wiki/pumps.md")

    assert done.exit_code == 0
    assert "1 time: 1 question, 1 session, users not known" in done.stdout
    assert "not known: no application said what it showed" in done.stdout
    assert "\x1b[31m" not in done.stdout
    assert "\u202e" not in done.stdout
    figures = json.loads(run("exposure", "wiki/pumps.md", "--json").stdout)
    assert (figures["retrieved"]["retrievals"], figures["shown"]) == (1, None)
    assert {sibling["doc_id"] for sibling in figures["same_road"]["siblings"]} == set()


def test_an_unknown_subject_is_misuse(run: Run) -> None:
    done = run("exposure", "nothing")

    assert isinstance(done.exception, errors.UnknownSubject)


def test_the_watch_exits_with_1_on_a_new_alert_and_lists_it(run: Run, sqlite_ledger: Ledger) -> None:
    assert "No alerts yet" in run("watch").stdout
    empty = run("watch", "--run")
    assert (empty.exit_code, "nothing was watched" in empty.stdout) == (0, True)
    log(sqlite_ledger, LoggedRetrieval("Q?", (LoggedChunk(HOSTILE),), at=now() - timedelta(hours=1), session="talk"))

    first, second = run("watch", "--run"), run("watch", "--run", "--json")

    assert (first.exit_code, second.exit_code) == (1, 0)
    assert "never published by the ledger" in first.stdout
    assert "\u202e" not in first.stdout
    listed = json.loads(second.stdout)
    assert (listed["new"], [alert["detector"] for alert in listed["alerts"]]) == (0, ["foreign"])


def test_the_watch_looks_back_from_a_time_in_the_past(run: Run, sqlite_ledger: Ledger) -> None:
    log(sqlite_ledger, LoggedRetrieval("Q?", (LoggedChunk(HOSTILE),), at=now(), session="talk"))

    assert "the retrieval log of these weeks is empty" in run("watch", "--run", "--until", "2020-01-01").stdout
    for words, expected in (
        (("--until", "2020-01-01"), "expected --run with it"),
        (("--run", "--until", "2999-01-01"), "expected a time in the past"),
    ):
        refused = run("watch", *words).exception
        assert isinstance(refused, errors.Misuse)
        assert expected in str(refused)


def test_retrievals_are_imported_once(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    good = {"query": "Q?", "served": ["a1"], "at": YESTERDAY, "session": "s"}
    lines = [good, {**good, "at": "x"}, {**good, "at": "2020-01-01T12:00:00Z"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    first, second = run("retrievals", "import", str(file)), run("retrievals", "import", str(file), "--json")

    assert (first.exit_code, second.exit_code) == (1, 1)
    assert (
        "3 records: 1 new, 0 repeated, 0 without retrieved texts, 1 older than the log keeps, 1 refused" in first.stdout
    )
    assert json.loads(second.stdout)["repeated"] == 1


def test_with_the_log_off_nothing_is_imported(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS_GUARD_RETRIEVAL_LOG", "off")

    done = run("retrievals", "import", str(tmp_path / "log.jsonl"))

    assert isinstance(done.exception, errors.Misuse)


def test_hashed_questions_are_imported_without_their_text(
    run: Run, sqlite_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS_GUARD_RETRIEVAL_LOG", "hashed")
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"query": "Secret?", "served": ["a1"], "at": YESTERDAY, "answer": "Secret."}))

    assert run("retrievals", "import", str(file)).exit_code == 0

    shown = run("exposure", "a1").stdout
    assert "Secret" not in shown
    assert "hash " in shown
    assert b"Secret" not in (tmp_path / "ledger.sqlite").read_bytes()


def test_the_watch_is_measured_by_one_command(run: Run) -> None:
    words = ("--seed", "1", "--documents", "500", "--retrievals", "10000", "--planted", "2", "--json")

    [line] = json.loads(run("evaluate", "watch", *words).stdout)

    assert (line["seed"], line["planted"]["hub"], line["honest"]) == (1, 1, 500)
    assert line["false_alarm_rate"] <= 0.002
