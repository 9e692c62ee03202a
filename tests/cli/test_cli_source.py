"""`guard source` as people and scripts meet it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from corpus_guard.review.queue import load_page
from deciding import decided
from deploying import BAD, TICKETS, Typed, Workspace

HOSTILE = "a\x1b[31m\u202e[bold]<script>{{ x }}\n.md"


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(deployment: Workspace, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    """`guard` in this process, models loaded once."""
    deployment.enter(monkeypatch)
    return typed


@pytest.fixture
def wiki(deployment: Workspace) -> list[str]:
    """A folder that is not declared yet, and the options that declare it."""
    folder = deployment.root / "wiki"
    folder.mkdir()
    (folder / "moorings.md").write_text(
        "# Moorings\n\nBuoys 7 to 11 belong to the club; guests pay at the kiosk on the pier.\n"
    )
    (folder / HOSTILE).write_text(BAD.replace("{title}", "x"))
    return ["wiki", "--kind", "folder", "--url", "wiki", "--owner", "wiki@example.org", "--trust", "open"]


def test_list_says_what_became_of_each_source(deployment: Workspace, run: Typed) -> None:
    deployment.sources(
        {"kind": "folder", "name": "far", "url": "ftp://me:secret@host/docs?key=x", "owner": "o", "trust": "trusted"}
    )
    deployment.page("good.md")
    deployment.page("bad.md", BAD)
    deployment.refresh("r1", ["pages"])

    code, shown, _ = run("source", "list", "--json")
    pages, far = json.loads(shown)

    assert code == 0
    assert (pages["documents"], pages["served"], pages["waiting"]) == (2, 1, 1)
    assert (pages["last_run"], pages["last_run_state"]) == ("r1", "sealed")
    assert pages["last_seen_at"]
    assert (pages["kind"], pages["owner"], pages["trust"]) == ("folder", "harbour", "open")
    assert pages["url"].endswith("pages")
    assert (far["documents"], far["last_run"], far["last_seen_at"], far["url"]) == (0, None, None, "ftp://host/docs")
    code, shown, _ = run("source", "list")
    assert code == 0
    assert "secret" not in shown
    assert "never" in shown


def test_a_source_that_is_no_longer_declared_is_named_with_what_to_do(deployment: Workspace, run: Typed) -> None:
    deployment.page("good.md")
    deployment.refresh("r1")
    deployment.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.settings.sources_file.write_text(json.dumps({"sources": [TICKETS]}))

    for command in (("source", "list"), ("status",), ("refresh",)):
        assert (
            "pages is not in sources.yaml, and 1 document of it is still served. Declare it again, or stop serving them: "
            "guard source retire pages\n" in run(*command)[1]
        )


def test_check_shows_verdicts_sizes_and_the_riskiest_of_a_source_that_is_not_declared(
    deployment: Workspace, run: Typed, wiki: list[str]
) -> None:
    before = deployment.settings.sources_file.read_text()

    code, shown, _ = run("source", "check", *wiki, "--json")
    found = json.loads(shown)

    assert code == 0
    assert found["verdicts"] == {"accept": 1, "quarantine": 1, "reject": 0}
    assert (found["listed"], found["looked_at"], found["types"]) == (2, 2, {"text/markdown": 2})
    assert found["riskiest"][0]["document"] == HOSTILE
    assert found["riskiest"][0]["findings"][0]["code"].startswith("instructions.")
    assert BAD[-60:] not in shown
    assert deployment.settings.sources_file.read_text() == before

    code, shown, _ = run("source", "check", *wiki)
    assert code == 0
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "⟨U+202E⟩" in shown
    assert "Nothing was recorded" in shown


def test_check_of_a_declared_source_and_of_a_file(deployment: Workspace, run: Typed, tmp_path: Path) -> None:
    deployment.page("good.md")
    file = tmp_path / "one.yaml"
    file.write_text("name: again\nkind: folder\nurl: pages\nowner: o\ntrust: reviewed\n")

    by_name = json.loads(run("source", "check", "pages", "--json")[1])
    by_file = json.loads(run("source", "check", "--file", str(file), "--limit", "0", "--json")[1])

    assert (by_name["source"], by_name["trust"], by_name["listed"]) == ("pages", "open", 1)
    assert (by_file["source"], by_file["trust"], by_file["listed"]) == ("again", "reviewed", 1)


def test_what_is_skipped_is_told_by_check_and_refresh(deployment: Workspace, run: Typed) -> None:
    deployment.page("good.md")
    deployment.page(".hidden.md")
    (deployment.pages / "out.md").symlink_to(deployment.settings.sources_file)
    os.mkfifo(deployment.pages / "pipe.md")
    reasons = [
        "hidden (a name that begins with a dot)",
        "links that lead out of the source",
        "pipes, sockets and devices",
    ]

    by_check = json.loads(run("source", "check", "pages", "--json")[1])
    in_words = run("source", "check", "pages")[1]
    by_refresh = json.loads(run("refresh", "--json")[1])
    again = run("refresh")[1]

    assert by_check["skipped"] == dict.fromkeys(reasons, 1)
    assert all(reason in in_words for reason in reasons)
    assert by_refresh["skipped"] == {"pages": dict.fromkeys(reasons, 1)}
    assert by_refresh["documents"] == 1
    counted = "1 hidden (a name that begins with a dot), 1 link that leads out of the source, 1 pipe, socket or device"
    assert f"Skipped in pages: {counted}" in again


def test_what_cannot_be_listed_exits_with_1(run: Typed) -> None:
    gone = ["gone", "--kind", "folder", "--url", "nowhere", "--owner", "o", "--trust", "open"]

    code, shown, said = run("source", "check", *gone)
    assert (code, shown) == (1, "")
    assert "nowhere" in said
    code, shown, _ = run("source", "check", *gone, "--json")
    assert code == 1
    assert json.loads(shown)["listed"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no source"),
        (("nobody",), "known: pages"),
        (("extra", "--kind", "folder"), "missing"),
        (("x", "--file", "y.yaml"), "--file holds the whole declaration"),
        (("--file", "nowhere.yaml"), "cannot be read"),
        (("pages", "--kind", "folder", "--url", "p", "--owner", "o", "--trust", "open"), "already the name"),
        (("x", "--kind", "folder", "--set", "=1"), "--set"),
        (
            ("W", "--kind", "folder", "--url", "p", "--owner", "o", "--trust", "open"),
            "guard: the new source: name: expected 2 to 41 lower case letters, digits, - and _, with a letter first (got 'W')",
        ),
        (
            ("wiki", "--kind", "web", "--url", "nothttp://x", "--owner", "o", "--trust", "open"),
            "guard: the new source: url: ",
        ),
        (
            ("wiki", "--kind", "foldr", "--owner", "o", "--trust", "open"),
            "guard: the new source: kind: 'foldr' is none of",
        ),
    ],
)
def test_misuse_says_what_is_wrong(run: Typed, arguments: tuple[str, ...], says: str) -> None:
    code, shown, said = run("source", "check", *arguments)

    assert code == 2
    assert shown == ""
    assert says in said


def test_add_checks_then_appends_and_the_next_refresh_pulls_it(
    deployment: Workspace, run: Typed, wiki: list[str]
) -> None:
    file = deployment.settings.sources_file
    file.write_text("# ours\n" + file.read_text() + "# the end\n")

    code, shown, _ = run("source", "add", *wiki, "--set", "include=['**/*.md']", "--yes")

    assert code == 0, shown
    assert "Expected verdicts" in shown
    text = file.read_text()
    assert text.startswith("# ours\n")
    assert text.endswith("# the end\n")
    assert json.loads(run("source", "list", "--json")[1])[-1]["name"] == "wiki"
    assert deployment.refresh("r1", ["wiki"])["documents"] == 2

    code, _, said = run("source", "add", *wiki, "--yes")
    assert code == 2
    assert "already the name" in said
    assert file.read_text() == text


def test_add_asks_where_nobody_can_answer_it_refuses(deployment: Workspace, run: Typed, wiki: list[str]) -> None:
    before = deployment.settings.sources_file.read_text()

    code, _, said = run("source", "add", *wiki)

    assert code == 2
    assert "--yes" in said
    assert deployment.settings.sources_file.read_text() == before


def test_no_is_no(deployment: Workspace, run: Typed, wiki: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    before = deployment.settings.sources_file.read_text()

    code, shown, _ = run("source", "add", *wiki)

    assert code == 1, shown
    assert "Add wiki to" in shown
    assert deployment.settings.sources_file.read_text() == before


def test_a_source_that_cannot_be_listed_is_not_added_unless_asked_by_its_unsafe_name(
    deployment: Workspace, run: Typed, caplog: pytest.LogCaptureFixture
) -> None:
    later = ["later", "--kind", "folder", "--url", "not-there-yet", "--owner", "o", "--trust", "open", "--yes"]
    before = deployment.settings.sources_file.read_text()

    assert run("source", "add", *later)[0] == 1
    assert deployment.settings.sources_file.read_text() == before
    assert run("source", "add", *later, "--unsafe-skip-check")[0] == 0

    assert "unsafe: source later is declared without a preview" in caplog.text
    assert "name: later" in deployment.settings.sources_file.read_text()


# --- a source that is no longer declared ----------------------------------------------------------------------------


@pytest.fixture
def abandoned(deployment: Workspace) -> Workspace:
    """A source with a served, a released and a waiting document, that nobody declares any more."""
    deployment.page("good.md")
    deployment.page("released.md", BAD.replace("{title}", "released"))
    deployment.page("waiting.md", BAD.replace("{title}", "waiting"))
    with deployment.guard() as guard:
        guard.refresh("r1")
        (item,) = (item for item in load_page(guard.ledger).items if item.uri == "released.md")
        decided(guard.ledger, item.version_id)
        guard.apply_decisions("apply")
    deployment.settings.sources_file.write_text("sources: []")
    return deployment


def test_a_source_is_retired_and_comes_back_when_it_is_declared(abandoned: Workspace, run: Typed) -> None:
    before = abandoned.served()
    code, shown, _ = run("source", "retire", "pages", "--json")
    assert (code, json.loads(shown)["documents"]) == (
        0,
        [{"document": name, "served": name != "waiting.md"} for name in ("good.md", "released.md", "waiting.md")],
    )
    assert abandoned.served() == before

    code, shown, _ = run("source", "retire", "pages", "--by", "ada", "--reason", "moved", "--yes", "--json")

    assert (code, json.loads(shown)["documents"]) == (0, 3)
    assert abandoned.served() == []
    with abandoned.guard() as guard:
        assert guard.verify().holds
        assert load_page(guard.ledger).total == 0
    assert run("source", "retire", "pages", "--by", "ada", "--reason", "again", "--yes", "--json")[0] == 0

    abandoned.sources()
    abandoned.refresh("r2")

    assert abandoned.served() == before
    assert abandoned.states() == {"good.md": "accepted", "released.md": "released", "waiting.md": "quarantined"}
    with abandoned.guard() as guard:
        assert guard.verify().holds


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("elsewhere", "--reason", "moved"), "source elsewhere is not in the ledger"),
        (("pages", "--reason", " "), "needs a person and a reason"),
    ],
)
def test_nothing_is_retired_by_mistake(abandoned: Workspace, run: Typed, arguments: tuple[str, ...], why: str) -> None:
    before = abandoned.served()

    code, _, told = run("source", "retire", *arguments, "--yes")

    assert (code, abandoned.served()) == (2, before)
    assert why in told


def test_a_declared_source_is_not_retired(deployment: Workspace, run: Typed) -> None:
    deployment.page("good.md")
    deployment.refresh("r1")

    code, _, told = run("source", "retire", "pages", "--reason", "moved", "--yes")

    assert code == 2
    assert "take it out of that file first" in told
    assert len(deployment.served()) == 1
