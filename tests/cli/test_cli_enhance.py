"""`guard enhance` as people and scripts meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from corpus_guard.cli import enhance as _cli_enhance
from corpus_guard.corpus.trigger import system_prompt
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.traceback import reports
from corpus_guard.traceback.filings import Filing
from deploying import Workspace

QUERY = "who opens the boat house?"
HOSTILE = "who [red]opens[/red]\u202e it?"
Run = Callable[..., Result]


@pytest.fixture
def run(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process."""
    deployment.enter(monkeypatch)
    return lambda *arguments: CliRunner().invoke(_cli_enhance.app, arguments, catch_exceptions=False)


def told(run: Run, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_enable_list_withdraw(run: Run, deployment: Workspace) -> None:
    made = told(
        run, "enable", "--query", QUERY, "--answer", "the warden", "--reason", "asked", "--by", "ada", "--days", "30"
    )
    (one,) = made["enhancements"]
    listed = run("list")

    assert made["published"] == 1
    assert one["text"] == "Question: who opens the boat house? Answer: the warden."
    assert (one["state"], one["served"], one["created_by"]) == ("active", True, "ada")
    ends = datetime.fromisoformat(one["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < ends < timedelta(days=31)
    assert "1 enhancement\n" in listed.stdout
    assert QUERY in listed.stdout
    assert told(run, "list", "--state", "withdrawn") == {"enhancements": []}
    with deployment.guard() as guard:
        assert guard.retriever.query(QUERY, k=1).answers[0].enhancement

    gone = run("withdraw", one["enhancement_id"][:8], "--reason", "has left", "--by", "bo")
    assert "1 retired" in gone.stdout
    assert [row["ended_by"] for row in told(run, "list")["enhancements"]] == ["bo"]
    assert "No enhancement has expired" in run("expire").stdout
    with deployment.guard() as guard:
        assert guard.retriever.query(QUERY, k=1).answers == ()


def test_a_report_gives_question_and_answer(run: Run, deployment: Workspace) -> None:
    with deployment.guard() as guard:
        filing = Filing(QUERY, "the thief", datetime.now(UTC), correct="the warden")
        added = reports.file_report(guard.ledger, filing, "f1")

    made = told(run, "enable", "--report", added.report_id[:10], "--reason", "asked", "--days", "0")

    (one,) = made["enhancements"]
    assert (one["report_id"], one["expires_at"], one["query"]) == (added.report_id, None, QUERY)
    assert one["text"].endswith("Answer: the warden.")


def test_hostile_text_is_shown_as_it_is(run: Run) -> None:
    told(run, "enable", "--query", HOSTILE, "--text", "It is opened by [b]the warden[/b].", "--reason", "r")

    listed = run("list").stdout

    assert "[red]opens[/red]⟨U+202E⟩" in listed
    assert "[b]the warden[/b]" in listed
    assert "\u202e" not in listed


def test_what_is_missing_is_named(run: Run) -> None:
    for arguments in (
        ("enable", "--reason", "r", "--query", QUERY),
        ("enable", "--reason", "r", "--answer", "the warden"),
        ("enable", "--reason", "r", "--query", QUERY, "--answer", "a", "--text", "t"),
    ):
        with pytest.raises(Misuse, match=r"--query .* --text or --answer"):
            run(*arguments)
    with pytest.raises(UnknownSubject):
        run("enable", "--reason", "r", "--report", "0" * 32)
    with pytest.raises(UnknownSubject, match="guard enhance list"):
        run("withdraw", "0" * 32, "--reason", "r")
    with pytest.raises(Misuse, match="active, expired, withdrawn"):
        run("list", "--state", "gone")


def test_the_prompt_is_printed_as_it_is(run: Run) -> None:
    assert run("prompt").stdout == system_prompt() + "\n"
    assert told(run, "prompt") == {"system_prompt": system_prompt()}
