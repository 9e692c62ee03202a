"""The tabletop of the documentation, played twice: by its commands, and through Airflow and the pages.

Its files are written and its commands are run, in their order, on a real deployment. In the second play each refresh is a run of
the DAG with a logical date of its own, the DAG for tracebacks traces the report, and what the page says people can do in a
browser is done in one, by two people.

An insider plants eight texts over five days; some pass. A report, a trace, a case, a plan, a withdrawal, a purge that is proved, the
question asked again, a case file, and a stranger who checks it with the public key alone.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from deployment import MakeDeployment, Workspace
from playwright.sync_api import Page

from browsing import Watched, chromium, mounted, needs_chromium, watched
from corpus_guard.deployment import Deployment
from corpus_guard.forensics.cases import StepKind
from corpus_guard.forensics.plan import STEP_TITLES
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, events, filings, reports, runs, traces, versions
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.web.access import RateLimit
from corpus_guard.web.app import make_app
from deploying import Typed
from environment import PROJECT
from plain_access import plain_access
from postgres import free_port

PAGE = PROJECT / "docs" / "tutorial" / "tabletop.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"`([\w./-]+)`:\s*\Z")
PLANTED = {
    "pump-winter-note.md", "pump-noise.md", "shaft-question.md", "shaft-correction.md", "spring-checklist.md", "labels.html",
    "pump-winter-note-2.md", "pump-storage.md",
}  # fmt: skip
OPENLY_HOSTILE = {"pump-noise.md", "labels.html"}
"""What gives an order or hides: it must wait. The others state what could be true, and a better guard may hold more of them."""

APPROVERS = {"withdraw": "ada", "purge": "ben", "re_embed": "ada", "ask_again": "ben", "notify": "ada"}
"""Who approves which step in the browser, in the order of the page."""
SHOTS = os.environ.get("GUARD_TEST_SHOTS", "")  # folder for pictures of the pages; empty: none are taken


@dataclass(frozen=True)
class Act:
    """A file that the page asks to write, or a command."""

    file: str  # empty: a command
    content: str


def acts() -> Iterator[Act]:
    """Yield what the page asks for, in its order; what it prints or sets up is left out."""
    text = PAGE.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        kind, content = fence[1], fence[2]
        name = FILE_NAME.search(text[: fence.start()])
        if kind in {"text", "yaml"} and name:
            yield Act(name[1], content)
        elif kind == "sh":
            yield from (Act("", line) for line in content.splitlines())


@dataclass
class Tabletop:
    """The folder in which the page is played."""

    root: Path
    typed: Typed

    @property
    def home(self) -> Path:
        return self.root / "var" / "tabletop"

    def read(self, statement: sa.Select[Any]) -> list[Any]:
        ledger = Ledger(f"sqlite:///{self.home / 'ledger.sqlite'}")
        rows = ledger.rows(statement)
        ledger.close()
        return rows

    def ids(self) -> dict[str, str]:
        """The ids that the page tells its reader to put in place of these words."""
        return {
            "REPORT": next((row.report_id for row in self.read(sa.select(reports))), ""),
            "TRACE": next((row.trace_id for row in self.read(sa.select(traces))), ""),
            "CASE": next(
                (row.subject for row in self.read(sa.select(events).where(events.c.kind == "case_opened"))), ""
            ),
        }

    def play(self, act: Act) -> str:
        if act.file:
            path = self.home / act.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(act.content, encoding="utf-8")
            return ""
        guard, *words = shlex.split(act.content)
        assert guard == "guard", act.content
        ids = self.ids() if {"REPORT", "TRACE", "CASE"} & set(words) else {}
        code, out, err = self.typed(*(ids.get(word, word) for word in words))
        assert code == 0, f"{act.content}\n{out}\n{err}"
        return out

    def states(self) -> dict[str, str]:
        latest = versions.c.version_id == documents.c.latest_version
        rows = self.read(sa.select(documents.c.uri, versions.c.state).join(versions, latest))
        return {row.uri: row.state for row in rows}


@pytest.fixture
def tabletop(tmp_path: Path, models_home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Tabletop:
    made = Tabletop(tmp_path, typed)
    made.home.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    shared = Models(Settings(home=models_home))  # loaded once for all commands
    monkeypatch.setattr("corpus_guard.deployment.Models", lambda settings: shared)
    for name, value in {
        "HOME": made.home,
        "SOURCES_FILE": made.home / "sources.yaml",
        "MODELS_FOLDER": models_home / "models",
        "CHROMA_URL": f"http://127.0.0.1:{free_port()}",
    }.items():
        monkeypatch.setenv(f"CORPUS_GUARD_{name}", str(value))
    return made


@dataclass
class ThroughAirflow(Tabletop):
    """The same, with the DAGs and the pages in place of the commands that they stand for."""

    workspace: Workspace
    session: Callable[[str], Watched]
    days: int = 0

    @property
    def home(self) -> Path:
        return self.workspace.home

    def play(self, act: Act) -> str:
        words = shlex.split(act.content)[1:] if not act.file else []
        ids = self.ids()
        case = f"cases/{ids['CASE']}"
        options = dict(pairwise(words))
        match words:
            case ["refresh"]:
                self.days += 1
                run = self.workspace.run("corpus_refresh", f"2026-11-{self.days:02}")
                assert run.succeeded, run.log[-3000:]
            case ["report", "add", *_]:
                page = self.open("maria", "reports")
                page.get_by_text("Report a wrong answer…").click()
                page.get_by_label("Question, as it was asked").fill(options["--query"])
                page.get_by_label("Wrong answer", exact=True).fill(options["--output"])
                page.get_by_label("Right answer, if you know it").fill(options["--correct"])
                page.get_by_role("button", name="Report", exact=True).click()
                page.get_by_role("status").get_by_text("Reported.").wait_for()
                self.picture("maria", "report")
            case ["trace", _]:
                self.workspace.run_until_said("1 report traced", "traceback_nightly")  # its question stays open
            case ["exposure", _]:
                page = self.open("ada", f"traces/{ids['TRACE']}")
                self.picture("ada", "trace")
                page.get_by_role("link", name="Exposure", exact=True).click()
                page.get_by_role("heading", name="Came the same road").wait_for()
                self.picture("ada", "exposure")
            case ["case", "open", title, *_]:
                page = self.open("ada", f"traces/{ids['TRACE']}")
                page.get_by_text("Open a case…").click()
                page.get_by_label("Title of the case").fill(title)
                page.get_by_label("Reason to open a case").fill(options["--reason"])
                page.get_by_role("button", name="Open", exact=True).click()
                page.get_by_role("status").get_by_text("Case opened.").wait_for()
            case ["case", "add", *_]:
                for name in (word for option, word in pairwise(words) if option == "--document"):
                    page = self.open("ada", case)
                    page.get_by_text("Add to the case…").click()
                    page.get_by_label("Its name or id").fill(name)
                    page.get_by_label("Reason to add it").fill(options["--reason"])
                    page.get_by_role("button", name="Add", exact=True).click()
                    page.get_by_role("status").get_by_text("Added to the case.").wait_for()
            case ["case", "approve", _, kind, *_]:
                who = APPROVERS[kind]
                page = self.open(who, case)
                self.picture(who, f"plan-{kind}")
                page.get_by_label(f"Reason to approve: {STEP_TITLES[StepKind(kind)]}").fill(options["--reason"])
                page.locator("article", has_text=STEP_TITLES[StepKind(kind)]).get_by_role(
                    "button", name="Approve"
                ).click()
                page.get_by_role("status").get_by_text("Approved.").wait_for()
            case ["case", "close", *_]:
                page = self.open("ben", case)
                page.get_by_label("Conclusion of the case").fill(options["--conclusion"])
                page.get_by_role("button", name="Close the case").click()
                page.get_by_role("status").get_by_text("Closed.").wait_for()
                self.picture("ben", "closed")
            case _:
                return super().play(act)
        return ""

    def open(self, who: str, path: str) -> Page:
        session = self.session(who)
        session.page.goto(f"http://{session.host}/corpus-guard/{path}")
        return session.page

    def picture(self, who: str, name: str) -> None:
        session = self.session(who)
        session.quiet()
        for width, theme in itertools.product((390, 1440), ("light", "dark")):
            session.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            session.page.set_viewport_size({"width": width, "height": 900})
            wide = session.page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide"
            if SHOTS:
                session.page.screenshot(path=f"{SHOTS}/{name}-{width}-{theme}.png", full_page=True)


@pytest.fixture
def through_airflow(
    deploy: MakeDeployment, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThroughAirflow]:
    workspace = deploy("tabletop")
    workspace.sources_file = workspace.home / "sources.yaml"
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "tabletop").symlink_to(workspace.home)
    monkeypatch.chdir(tmp_path)
    for name, value in workspace.env().items():
        if name.startswith("CORPUS_GUARD_"):
            monkeypatch.setenv(name, value)
    sessions: dict[str, Watched] = {}
    with mounted(make_app(Deployment, plain_access(), RateLimit())) as address, chromium() as browser:

        def session(who: str) -> Watched:
            if who not in sessions:
                sessions[who] = watched(browser, address, width=1440, headers={"Who": who})
            return sessions[who]

        yield ThroughAirflow(tmp_path, typed, workspace, session)


def test_the_page_asks_for_eight_planted_texts_and_each_command_is_ours() -> None:
    played = list(acts())

    files = [act.file.removeprefix("wiki/") for act in played if act.file.startswith("wiki/")]
    assert (len(files), {*files[5:13]}) == (14, PLANTED)
    assert all(act.file or act.content.startswith("guard ") for act in played)
    assert sum(act.content == "guard refresh" for act in played) == 7


@pytest.mark.slow
def test_the_tabletop_is_played_from_the_first_lie_to_the_strangers_check(tabletop: Tabletop) -> None:
    play_to_the_end(tabletop)


@pytest.mark.slow
@needs_chromium
def test_the_tabletop_is_played_through_airflow_and_in_a_browser(through_airflow: ThroughAirflow) -> None:
    play_to_the_end(through_airflow)

    approved = [
        row.body["by"] for row in through_airflow.read(sa.select(events).where(events.c.kind == "case_step_approved"))
    ]
    assert approved == list(APPROVERS.values())
    (filing,) = through_airflow.read(sa.select(filings))
    assert (filing.reporter, filing.origin) == ("maria", "review pages")
    took_in = through_airflow.read(sa.select(runs.c.run_id).where(runs.c.kind == "refresh"))
    assert len(took_in) == through_airflow.days == 7
    a_stranger_checks(through_airflow)


def a_stranger_checks(tabletop: Tabletop) -> None:
    """Check the case file in a new folder, by another process, with the public key and no network."""
    folder = tabletop.root / "stranger"
    shutil.copytree(tabletop.home / "case", folder / "case")
    page = folder / "case" / "report.html"
    page.write_text(page.read_text().replace("honest", "planted"))  # as it was handed over
    shutil.copy(tabletop.home / "keys" / "log.pub", folder)
    program = "from corpus_guard.cli.main import main; main()"
    command = [sys.executable, "-c", program, "case", "check", "case", "--key", "log.pub"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "include"), "HOME": str(folder / "nothing")}
    said = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "It holds: this is what the log says." in said.stdout, said.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["case", "log.pub"], "nothing was written"


def play_to_the_end(tabletop: Tabletop) -> None:
    said: dict[str, str] = {}
    for act in acts():
        said[act.content] = tabletop.play(act)
        if act.content == "guard status":
            states = tabletop.states()
            waiting = {name for name in PLANTED if states[name] == "quarantined"}
            assert waiting >= OPENLY_HOSTILE
            assert len(PLANTED - waiting) >= 2, "somebody has to report it"

    states = tabletop.states()
    assert {name: state for name, state in states.items() if name in PLANTED and state != "rejected"} == {
        "pump-storage.md": "accepted"  # as its owner repaired it
    }
    traced = tabletop.read(sa.select(traces.c.outcome))
    assert [row.outcome for row in traced] == ["traced"]
    assert "once a month" in " ".join(
        said['guard search -k 1 "How often do I turn the shaft of a stored P-40?"'].split()
    )
    assert "It holds" in said["guard verify"]
    kinds = [row.kind for row in tabletop.read(sa.select(events.c.kind).order_by(events.c.seq))]
    order = ["case_opened", "case_step_approved", "withdrawn", "purged", "asked_again", "case_closed", "case_exported"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    steps = [row.body for row in tabletop.read(sa.select(events).where(events.c.kind == "case_step_done"))]
    results = {body["what"]: body["result"] for body in steps}
    assert results["ask_again"] == {"asked": 1, "still_wrong": []}
    assert results["purge"]["state"] == "closed" and results["purge"]["versions"] == len(PLANTED)

    folder = tabletop.home / "case"
    assert "every nine weeks" not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    content = json.loads((folder / "case.json").read_text())
    assert content["exposure"]["retrieved"]["retrievals"] >= 2
    cause = content["root_cause"]
    assert len(cause["runs"]) == 5, "as they came in, not as they came again after the purge"
    assert len([each for each in cause["versions"] if each["admitted"] == "accepted by the policy"]) >= 2
    assert [each["place"] for each in cause["versions"] if each["replaced"]] == ["wiki/pump-storage.md"]
    page = (folder / "report.html").read_text()
    (folder / "report.html").write_text(page.replace("planted", "honest"))
    code, out, _ = tabletop.typed("case", "check", folder, "--key", tabletop.home / "keys" / "log.pub")
    assert code == 1 and "report.html is changed" in out
