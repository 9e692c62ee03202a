"""`guard trace` as people and scripts meet it: real store and ledger, a judge that can be followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner, Result

from corpus_guard.cli import trace as _cli_trace
from corpus_guard.deployment import Deployment
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import documents, reports, suspects, traces
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from deploying import GOOD, Typed, Workspace
from material import Shelf
from trace_cases import OUTPUT, QUESTION, Contains, NearModels, Quoting, report, rows, serve, truth

HOSTILE = "[red]notice[/red]\u202e\x1b[31m.md"
LIE = f"The ferry slipway is inspected {OUTPUT}, by decision of the board (near 990)."
PAGE = f"# Slipway\n\nThe ferry slipway is inspected {OUTPUT}, by decision of the harbour board. Nobody looks at it in between.\n"
Run = Callable[..., Result]


class Rude(Contains):
    """A judge whose words are meant for the terminal."""

    def conclude(self, complaint: Complaint, judged: Any) -> JudgeConclusion:
        return JudgeConclusion(0.97 if any(opinion.label is Label.POISONED for _, opinion in judged) else 0.02)

    def _opinion(self, complaint: Complaint, one: RetrievedText) -> Opinion:
        return replace(super()._opinion(complaint, one), explanation="[bold]why[/bold]\x1b[2J")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, with a judge that can be followed."""
    monkeypatch.setattr("corpus_guard.traceback.judge_selection.create_judge", lambda *told: Rude())
    monkeypatch.setattr("corpus_guard.traceback.judge_selection.create_rag_model", lambda *told: Quoting())
    monkeypatch.setenv("COLUMNS", "250")
    app = typer.Typer()
    app.add_typer(_cli_trace.app, name="trace")
    app.command("other")(lambda: None)
    return lambda *words: CliRunner().invoke(app, ("trace", *words), catch_exceptions=False)


@pytest.fixture
def run(command: Run, lite_shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Over a corpus with one lie in it."""
    serve(lite_shelf, {HOSTILE: LIE, **truth(6)})
    settings = lite_shelf.settings(tmp_path).model_dump(mode="json", exclude_defaults=True)
    for name, value in settings.items():
        monkeypatch.setenv(f"CORPUS_GUARD_{name.upper()}", str(value))
    monkeypatch.setattr("corpus_guard.deployment.Models", NearModels)
    return command


def test_a_question_from_the_command_line_names_the_text_and_leaves_nothing_behind(run: Run, lite_shelf: Shelf) -> None:
    shown = run("--query", QUESTION, "--output", OUTPUT, "--correct", "twice a year")
    told = json.loads(run("--query", QUESTION, "--output", OUTPUT, "--json", "--k", "3").stdout)

    assert shown.exit_code == 0
    assert "texts judged, rounds:" in shown.stdout
    assert "notice" in shown.stdout
    assert "Outcome traced: these texts caused the answer; probability of an attack 0.97" in shown.stdout
    assert f"Question {QUESTION}" in shown.stdout and "Right    twice a year" in shown.stdout
    assert "Activations skipped: the RAG model is behind an endpoint, which shows no activations" in shown.stdout
    assert "--keep" in shown.stdout
    assert "guard purge --chunk" in shown.stdout
    assert (told["outcome"], told["counts"]["poisoned"], told["trace_id"]) == ("traced", 1, "")
    assert [one["uri"] for one in told["judged"] if one["label"] == "poisoned"] == [HOSTILE]
    assert OUTPUT in told["answer_before"]
    assert OUTPUT not in told["answer_after"]
    assert (told["activations"]["vote"], told["activations"]["counts"]) == ("skipped", False)
    assert rows(lite_shelf, reports) == rows(lite_shelf, traces) == rows(lite_shelf, suspects) == []
    assert len(lite_shelf.check_agreement()) == 7, "a trace removes nothing"


def test_what_the_model_does_not_repeat_is_not_called_the_cause(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reticent(Quoting):
        def answer(self, question: str, texts: Any) -> str:
            return "Nobody knows."

    monkeypatch.setattr("corpus_guard.traceback.judge_selection.create_rag_model", lambda *told: Reticent())
    traced = run("--query", QUESTION, "--output", OUTPUT, "--keep")
    name = json.loads(run("list", "--json").stdout)[0]["trace_id"]
    looked = run("withdraw", name)

    assert "Outcome traced: the judge finds that these texts state the reported claim; probability" in traced.stdout
    assert "caused the answer" not in traced.stdout
    assert json.loads(run("withdraw", name, "--json").stdout)["plan"]["versions"] == [], "none is chosen by default"
    assert f"Question {QUESTION}" in traced.stdout.replace("\n", " ") and f"Reported {OUTPUT}" in traced.stdout
    for shown in (traced, looked):
        assert "does not give the reported answer" in shown.output
        assert "withdraw only what you have read" in shown.output


def test_nothing_hostile_reaches_the_terminal(run: Run) -> None:
    shown = run("--query", QUESTION, "--output", OUTPUT)

    assert "\x1b[31m" not in shown.stdout
    assert "\x1b[2J" not in shown.stdout
    assert "\u202e" not in shown.stdout
    assert "[red]notice[/red]⟨U+202E⟩" in shown.stdout
    assert "[bold]why[/bold]" in shown.stdout


def test_kept_listed_shown_and_withdrawn(run: Run, lite_shelf: Shelf) -> None:
    kept = json.loads(run("--query", QUESTION, "--output", OUTPUT, "--keep", "--json").stdout)
    name = kept["trace_id"]
    listed = json.loads(run("list", "--report", kept["report_id"][:8], "--json").stdout)
    shown = run("show", name[:8])
    looked = run("withdraw", name[:8])

    assert [(one["trace_id"], one["outcome"]) for one in listed] == [(name, "traced")]
    assert f"guard trace withdraw {name[:8]}" in shown.stdout
    assert "1 version of 1 document (1 chunk) would be withdrawn" in looked.stdout
    assert "Nothing was changed" in looked.stdout
    assert len(lite_shelf.in_ledger()) == 7
    uri = next(text["uri"] for text in kept["judged"] if text["label"] == "poisoned")
    version_id = next(text["version_id"] for text in kept["judged"] if text["label"] == "poisoned")
    assert f"--document {version_id}" in looked.stdout.replace("\n", " "), (
        "a command to copy; the name holds what is hidden"
    )
    with pytest.raises(Misuse, match="name each document"):
        run("withdraw", name, "--yes", "--reason", "planted", "--by", "ada")
    assert len(lite_shelf.in_ledger()) == 7, "nothing is withdrawn that nobody named"
    done = run("withdraw", name, "--document", uri, "--yes", "--reason", "planted", "--by", "ada", "--json")

    assert done.exit_code == 0
    assert json.loads(done.stdout)["still_wrong"] == {name: False}
    assert len(lite_shelf.check_agreement()) == 6


def test_a_withdrawal_that_was_killed_is_completed_by_the_same_call(
    run: Run, lite_shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = json.loads(run("--query", QUESTION, "--output", OUTPUT, "--keep", "--json").stdout)
    uri = next(text["uri"] for text in kept["judged"] if text["label"] == "poisoned")
    call = ("withdraw", kept["trace_id"], "--document", uri, "--yes", "--reason", "planted", "--by", "ada")
    with monkeypatch.context() as patched:
        patched.setattr("corpus_guard.corpus.outbox.drain", Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            run(*call)
    assert (len(lite_shelf.in_ledger("retiring")), len(lite_shelf.in_chroma())) == (1, 7), "only the ledger knows"

    assert run(*call).exit_code == 0

    assert len(lite_shelf.check_agreement()) == 6
    with Deployment(lite_shelf.settings(tmp_path)) as guard:
        assert guard.verify().holds, "it is sealed"


def test_what_is_withdrawn_stays_out_of_the_next_refresh_and_its_bytes_stay_on_disk(
    command: Run, deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real models, sources and policy."""
    for name in ("tide gauge.md", "barometer.md", "lamp.md"):
        deployment.page(name, GOOD)
    deployment.page("notice.md", PAGE)
    deployment.refresh("r1")
    assert OUTPUT in served(deployment)
    deployment.enter(monkeypatch)
    asked = ("--query", "How often is the ferry slipway inspected?", "--output", OUTPUT)

    traced = json.loads(command(*asked, "--keep", "--json").stdout)
    assert [one["uri"] for one in traced["judged"] if one["label"] == "poisoned"] == ["notice.md"]
    command("withdraw", traced["trace_id"], "--document", "notice.md", "--yes", "--reason", "planted", "--by", "ada")
    deployment.page("copy of the notice.md", PAGE)
    for run_id in ("r2", "r3"):
        deployment.refresh(run_id)

    assert OUTPUT not in served(deployment), "the source still has it; it comes back by no road"
    raw = [path.read_bytes() for path in (deployment.settings.home / "storage" / "raw").rglob("*") if path.is_file()]
    assert PAGE.encode() in raw, "its bytes are evidence"
    restored = command("restore", traced["trace_id"], "--yes", "--reason", "it is right", "--by", "ada", "--json")
    assert json.loads(restored.stdout)["restored"] == 1
    with deployment.guard() as guard:
        guard.refresh("r4")
        assert guard.verify(deep=True).holds
    assert served(deployment).count(OUTPUT) == 1, "the refreshes in between left its record as it was"


def served(deployment: Workspace) -> str:
    with deployment.guard() as guard:
        return "\n".join(record.text for name in guard.store.names() for record in guard.store.scan(name))


def test_a_report_is_followed_by_its_id_and_all_that_are_open_at_once(run: Run, lite_shelf: Shelf) -> None:
    first, honest = report(lite_shelf), report(lite_shelf, output="in the kitchen")
    every = json.loads(run("--open", "--json").stdout)
    again = json.loads(run(first.report_id[:8], "--json").stdout)

    assert {one["report_id"]: one["outcome"] for one in every} == {
        first.report_id: "traced",
        honest.report_id: "not_poisoning",
    }
    assert (again["report_id"], again["outcome"]) == (first.report_id, "traced")
    assert json.loads(run("--open", "--json").stdout) == [], "both are closed"
    assert run("list").stdout.count("traced") == 2


def test_the_corpus_of_another_day(run: Run, lite_shelf: Shelf) -> None:
    then = now()
    serve(lite_shelf, {HOSTILE: "It is inspected twice a year (near 990)."}, minute=1)
    serve(lite_shelf, {"board.md": LIE.replace("every nine years", "every ninth year").replace("990", "300")}, minute=1)

    today = json.loads(run("-q", QUESTION, "-o", OUTPUT, "--json").stdout)
    past = json.loads(run("-q", QUESTION, "-o", OUTPUT, "--as-of", then.isoformat(), "--json").stdout)
    this_day = json.loads(run("-q", QUESTION, "-o", OUTPUT, "--as-of", now().date().isoformat(), "--json").stdout)

    assert [one["outcome"] for one in (today, past, this_day)] == ["not_poisoning", "traced", "not_poisoning"]
    ((accused, places),) = past["now"].items()
    assert accused in {one["chunk_id"] for one in past["judged"]}
    assert [one["uri"] for one in places][:1] == ["board.md"], "the lie lives on in other words"
    assert today.get("now") == {}
    shown = run("-q", QUESTION, "-o", OUTPUT, "--as-of", then.isoformat()).stdout
    assert "Today's corpus" in shown
    assert "board.md" in shown


def test_a_corpus_that_serves_nothing_is_named_as_the_reason(run: Run, lite_shelf: Shelf) -> None:
    served = lite_shelf.ledger.scalars(sa.select(documents.c.doc_id))
    lite_shelf.retire(*served)
    lite_shelf.drain()

    assert "Outcome exhausted: nothing is served that could be judged" in run("-q", QUESTION, "-o", OUTPUT).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--query", QUESTION), "output is empty"),
        (("--query", " \u200b", "--output", "x"), "query is empty"),
        (("--open", "--query", QUESTION, "--output", "x"), "exactly one of"),
        (("--query", QUESTION, "--output", "x", "--as-of", "yesterday"), "expected a date"),
        (("--query", QUESTION, "--output", "x", "--as-of", "2999-01-01"), "a time in the past"),
        (("withdraw", "0" * 32), "is not in the ledger"),
    ],
)
def test_misuse_says_what_was_expected(run: Run, words: tuple[str, ...], says: str) -> None:
    with pytest.raises((Misuse, UnknownSubject), match=says):
        run(*words)


def test_help_of_the_group_shows_how_to_trace_without_a_command(typed: Typed) -> None:
    code, out, _ = typed("trace", "--help")

    assert code == 0
    assert "guard trace --query" in out and "--output" in out and "--open" in out
