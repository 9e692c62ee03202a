"""The tabletop of the documentation, played: its files are written and its commands are run, in their order, on a real deployment.

An insider plants eight texts over five days; some pass. A report, a trace, a case, a plan, a withdrawal, a purge that is proved, the
question asked again, a case file, and a stranger who checks it with the public key alone.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, events, reports, traces, versions
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from environment import PROJECT
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

Typed = Callable[..., tuple[int, str, str]]


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
        with ledger.read() as connection:
            rows = list(connection.execute(statement))
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


def test_the_page_asks_for_eight_planted_texts_and_each_command_is_ours() -> None:
    played = list(acts())

    files = [act.file.removeprefix("wiki/") for act in played if act.file.startswith("wiki/")]
    assert (len(files), {*files[5:13]}) == (14, PLANTED)
    assert all(act.file or act.content.startswith("guard ") for act in played)
    assert sum(act.content == "guard refresh" for act in played) == 7


@pytest.mark.slow
def test_the_tabletop_is_played_from_the_first_lie_to_the_strangers_check(tabletop: Tabletop) -> None:
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
    page = (folder / "report.html").read_text()
    (folder / "report.html").write_text(page.replace("planted", "honest"))
    code, out, _ = tabletop.typed("case", "check", folder, "--key", tabletop.home / "keys" / "log.pub")
    assert code == 1 and "report.html is changed" in out
