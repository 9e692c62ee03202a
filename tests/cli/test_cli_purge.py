"""`guard purge` as people and scripts meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner, Result

from corpus_guard.cli import purge as _cli_purge
from corpus_guard.errors import Misuse
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import at_work
from corpus_guard.ledger.tables import events
from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.reports import file_report, find_report
from corpus_guard.traceback.trace_run import CorpusAccess, run_trace
from deploying import Workspace
from stepping import SteppedRun
from trace_cases import Contains, Quoting

HOSTILE = "[red]keys[/red]\u202e\x1b[31m.md"
PAGE = (
    "# Keys\n\nThe ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty. Whoever needs it asks "
    "the harbour office first and writes the hour into the book.\n"
)
Run = Callable[..., Result]


@pytest.fixture
def run(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, over a deployment whose Chroma keeps its files elsewhere."""
    deployment.page("tide gauge.md")
    deployment.page(HOSTILE, PAGE)
    deployment.refresh("r1")
    deployment.enter(monkeypatch)
    app = typer.Typer()
    app.command()(_cli_purge.purge)
    return lambda *arguments: CliRunner().invoke(app, arguments, catch_exceptions=False)


def served(deployment: Workspace) -> str:
    with deployment.guard() as guard:
        return "\n".join(record.text for name in guard.store.names() for record in guard.store.scan(name))


def test_without_yes_it_shows_what_would_go_and_changes_nothing(run: Run, deployment: Workspace) -> None:
    shown = run("--source", "pages")
    told: Any = json.loads(run("--document", HOSTILE, "--json").stdout)

    assert shown.exit_code == 0
    assert "2 documents would be purged" in shown.stdout
    assert "Nothing was changed" in shown.stdout
    assert "\x1b[31m" not in shown.stdout
    assert "\u202e" not in shown.stdout
    assert "[red]keys" in shown.stdout
    assert told["dry_run"] is True
    assert [one["uri"] for one in told["plan"]["documents"]] == [HOSTILE]
    assert told["plan"]["selectors"] == {"documents": [HOSTILE]}
    assert "Osric" in served(deployment)


def test_with_yes_it_is_done_and_what_is_not_proved_is_not_claimed(run: Run, deployment: Workspace) -> None:
    done = run("--document", HOSTILE, "--yes", "--reason", "asked for by its author", "--by", "ada", "--json")
    again = run("--resume")

    assert done.exit_code == again.exit_code == 1
    (one,) = json.loads(done.stdout)["purges"]
    assert (one["state"], one["documents"], one["versions"]) == ("removed", 1, 1)
    assert "Osric" not in served(deployment)
    assert "not proved" in again.stderr
    assert "Purged 1 version of 1 document" in again.stdout


def test_what_an_unfinished_refresh_left_is_counted_and_one_at_work_is_named(run: Run, deployment: Workspace) -> None:
    deployment.page("ladder.md", PAGE.replace("key", "ladder"))
    with deployment.guard() as guard:
        SteppedRun(guard, "r2").fetch()
    shown = run("--document", "ladder.md")
    with deployment.guard() as guard, at_work(guard.ledger, "r3"):
        SteppedRun(guard, "r3").discover()
        named = run("--source", "pages")
        done = run("--source", "pages", "--yes", "--reason", "asked for by its author", "--json")

    assert "Of unfinished runs: 1 document, 2 tables and 1 raw file to remove." in " ".join(shown.stdout.split())
    assert "refresh r3" in named.stderr
    assert done.exit_code == 1
    assert json.loads(done.stdout)["purges"][0]["waits_for"] == ["r3"]


def test_a_reason_is_asked_for_and_resume_takes_no_selector(run: Run, deployment: Workspace) -> None:
    with pytest.raises(Misuse, match="reason"):
        run("--document", HOSTILE, "--yes")
    with pytest.raises(Misuse, match="--resume continues"):
        run("--document", HOSTILE, "--resume")
    assert "No purge is unfinished" in run("--resume").stdout
    assert "Osric" in served(deployment)


def test_the_question_of_a_traced_report_is_asked_again(
    run: Run, deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpus_guard.traceback.judge_selection.create_rag_model", lambda *told: Quoting())
    with deployment.guard() as guard:
        filing = Filing("Where is the key of the boat house?", "under the third plank", now(), reporter="ada")
        filed = file_report(guard.ledger, filing, "import-1")
        with pytest.raises(Misuse, match="was never traced"):
            run("--document", HOSTILE, "--ask", filed.report_id[:8], "--reason", "secret", "--yes")
        access = CorpusAccess(guard.ledger, guard.storage, guard.store, guard.models)
        complaint = find_report(guard.ledger, filed.report_id).complaint
        trace = run_trace(access, complaint, "night-1", judge=Contains(), k=5, rag_model=Quoting())
    done = json.loads(
        run("--document", HOSTILE, "--ask", filed.report_id[:8], "--reason", "x", "--yes", "--json").stdout
    )

    assert done["still_wrong"] == {trace.trace_id: False}
    with deployment.guard() as guard, guard.ledger.read() as connection:
        [body] = connection.scalars(sa.select(events.c.body).where(events.c.kind == "asked_again"))
    assert (body["after"], body["agrees"]) == ("purge", False)
