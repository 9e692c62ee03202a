"""`guard case` and `guard map` on a real, sealed corpus, from the opening to the stranger's check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from corpus_guard.cli import main as cli
from corpus_guard.deployment import Deployment
from corpus_guard.settings import Settings
from material import Shelf, a_version

Run = Callable[..., Result]
HOSTILE = "[red]bold[/red]\u202e.md"


@pytest.fixture
def settings(lite_shelf: Shelf, tmp_path: Path) -> Settings:
    return lite_shelf.settings(tmp_path)


@pytest.fixture
def run(lite_shelf: Shelf, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Run:
    lite_shelf.serve(*(a_version(uri, (f"A text of {uri}.",)) for uri in (HOSTILE, "b.md", "c.md", "d.md")))
    with Deployment(settings) as guard:
        guard.seal("run-1")
    for name in ("home", "ledger_url", "chroma_url", "collection_prefix"):
        monkeypatch.setenv(f"CORPUS_GUARD_{name.upper()}", str(getattr(settings, name)))

    def call(*words: str) -> Result:
        return CliRunner().invoke(cli.app, list(words))

    return call


def test_a_case_is_worked_from_its_opening_to_the_check_of_its_file(
    run: Run, lite_shelf: Shelf, settings: Settings, tmp_path: Path
) -> None:
    opened = run(
        "case", "open", "wrong interval", "--document", HOSTILE, "--reason", "reported", "--by", "ada", "--json"
    )
    assert opened.exit_code == 0, opened.output
    case = json.loads(opened.stdout)["case_id"]
    assert run("case", "add", case[:6], "--document", "harbour/b.md", "--reason", "same author").exit_code == 0
    shown = run("case", "show", case)
    assert "Accused documents" in shown.stdout and "\u202e" not in shown.stdout
    cause = json.loads(run("case", "show", case, "--json").stdout)["root_cause"]
    assert [each["admitted"] for each in cause["versions"]] == ["accepted by the policy"] * 2
    plan = json.loads(run("case", "plan", case, "--json").stdout)
    kinds = [step["kind"] for step in plan]
    assert kinds[:2] == ["withdraw", "purge"] and len(plan[0]["subjects"]) == 2

    approved = run("case", "approve", case, "withdraw", "-d", "b.md", "--reason", "planted", "--json")
    assert len(json.loads(approved.stdout)["subjects"]) == 1
    assert run("case", "close", case, "--conclusion", "too early").exit_code != 0
    done = json.loads(run("case", "run", case, "--json").stdout)["results"]
    assert [result["versions"] for result in done.values()] == [1]
    assert {str(record.metadata["uri"]) for record in lite_shelf.in_chroma().values()} == {HOSTILE, "c.md", "d.md"}

    lines = run("case", "timeline", case).stdout
    assert "withdrawn and blocked by" in lines and "event" in lines and "\u202e" not in lines
    assert run("case", "close", case, "--conclusion", "planted").exit_code == 0
    (listed,) = json.loads(run("case", "list", "--json").stdout)
    assert (listed["state"], listed["conclusion"]) == ("closed", "planted")
    folder, key = tmp_path / "file", settings.keys / "log.pub"
    assert run("case", "export", case, "--out", str(folder)).exit_code == 0
    assert run("case", "check", str(folder), "--key", str(key)).exit_code == 0
    (folder / "report.html").write_text("all is well")
    checked = run("case", "check", str(folder), "--key", str(key))
    assert checked.exit_code == 1 and "report.html is changed" in checked.stdout
    assert run("case", "reopen", case, "--reason", "once more").exit_code == 0


def test_the_map_is_drawn_as_it_is_named(run: Run, tmp_path: Path) -> None:
    page, picture = tmp_path / "map.html", tmp_path / "map.svg"

    assert run("map", "--out", str(page)).exit_code == run("map", "--out", str(picture), "--by", "trust").exit_code == 0

    assert page.read_text().startswith("<!doctype html>") and picture.read_text().startswith("<?xml")
    assert len(json.loads(run("map", "--json").stdout)["points"]) == 4
    for words in (("map",), ("map", "--out", str(tmp_path / "map.gif")), ("case", "open", "x", "--reason", "y")):
        assert run(*words).exit_code != 0
