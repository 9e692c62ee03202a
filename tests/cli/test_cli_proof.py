"""`guard verify`, `guard log`, `guard prove`, `guard check-proof`: what people see, what scripts get, how they end."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chromadb
import pytest
import typer
from typer.testing import CliRunner, Result

from corpus_guard import errors
from corpus_guard.cli import proof as _cli_proof
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.settings import Settings
from material import Shelf, a_version, vector_of

VERSION = a_version("pumps\x1b[31m.md")
CHUNK = VERSION.chunks[0]
HOSTILE = "\x1b[31m[red]planted[/red]\u202e"

app = typer.Typer()
app.command("verify")(_cli_proof.verify)
app.command("log")(_cli_proof.log)
app.command("prove")(_cli_proof.prove)
app.command("check-proof")(_cli_proof.check_proof)


@dataclass
class Deployed:
    home: Path
    shelf: Shelf

    def run(self, *arguments: str | Path) -> Result:
        return CliRunner().invoke(app, [str(one) for one in arguments])

    @property
    def public(self) -> Path:
        return self.home / "keys" / "log.pub"


@pytest.fixture
def deployed(lite_shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    settings = Settings(home=tmp_path, chroma_url=lite_shelf.store.url, collection_prefix=lite_shelf.store.prefix)
    lite_shelf.serve(VERSION)
    with Deployment(settings) as guard:
        guard.seal("run-1")
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path))
    monkeypatch.setenv("CORPUS_GUARD_CHROMA_URL", settings.chroma_url)
    monkeypatch.setenv("CORPUS_GUARD_COLLECTION_PREFIX", settings.collection_prefix)
    yield Deployed(tmp_path, lite_shelf)


def plant(deployed: Deployed, chroma: chromadb.ClientAPI) -> str:
    name = deployed.shelf.store.collection_name(TrustLevel.OPEN)
    chroma.get_collection(name).add(ids=[HOSTILE], embeddings=[vector_of("planted")], documents=["secret text"])
    return name


def test_verify_says_what_was_checked(deployed: Deployed) -> None:
    shown = deployed.run("verify")
    told = deployed.run("verify", "--json")

    assert (shown.exit_code, told.exit_code) == (0, 0)
    assert re.search(r"\d+ events under 1 head, 2 lines of the manifest, 2 records, 2 vectors by query", shown.output)
    assert "It holds." in shown.output
    assert {name: json.loads(told.stdout)[name] for name in ("holds", "records", "deviations", "more")} == {
        "holds": True, "records": 2, "deviations": [], "more": 0,
    }  # fmt: skip


def test_verify_names_a_deviation_and_ends_with_1(deployed: Deployed, chroma: chromadb.ClientAPI) -> None:
    name = plant(deployed, chroma)

    shown = deployed.run("verify")
    told = deployed.run("verify", "--json")

    assert (shown.exit_code, told.exit_code) == (1, 1)
    for word in ("added", name, "1 deviation.", "⟨U+001B⟩"):
        assert word in shown.output
    assert not any(character in shown.output + told.stdout for character in "\x1b\u202e")
    assert "secret" not in shown.output + told.stdout
    [deviation] = json.loads(told.stdout)["deviations"]
    assert (deviation["kind"], deviation["subject"]) == ("added", HOSTILE)


def test_verify_counts_by_kind_and_source_and_lists_only_the_first(
    deployed: Deployed, chroma: chromadb.ClientAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(deployed, chroma)
    monkeypatch.setattr("corpus_guard.cli.proof.DEVIATIONS_SHOWN", 0)

    shown = deployed.run("verify").output

    (row,) = [line.split() for line in shown.splitlines() if line.startswith("added")]
    assert row[-2:] == ["1", "yes"]
    assert "1 more; --json shows the first 1" in shown


def test_before_the_first_seal_there_is_nothing_to_verify_and_no_incident(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path / "new"))
    monkeypatch.setenv("CORPUS_GUARD_COLLECTION_PREFIX", f"{deployed.shelf.store.prefix}-new")
    shown, told = deployed.run("verify"), deployed.run("verify", "--json")

    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert shown.output == "Nothing is sealed yet. Run guard refresh: it seals what it publishes.\n"
    assert (json.loads(told.stdout)["holds"], json.loads(told.stdout)["incident"]) == (False, None)


def test_what_was_published_and_never_sealed_is_an_incident(
    lite_shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lite_shelf.serve(VERSION)
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path))
    monkeypatch.setenv("CORPUS_GUARD_CHROMA_URL", lite_shelf.store.url)
    monkeypatch.setenv("CORPUS_GUARD_COLLECTION_PREFIX", lite_shelf.store.prefix)
    told = CliRunner().invoke(app, ["verify", "--json"])

    assert told.exit_code == 1
    assert json.loads(told.stdout)["incident"]


def test_verify_by_age(deployed: Deployed) -> None:
    done = deployed.run("verify", "--max-age-hours", "0", "--json")

    assert done.exit_code == 1
    assert json.loads(done.stdout)["counts"] == {"stale": 1}


def test_verify_of_an_outage_is_no_deviation(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS_GUARD_CHROMA_URL", "http://chroma.invalid:1")

    assert isinstance(deployed.run("verify").exception, errors.StoreUnavailable)


def test_verify_writes_nothing_but_what_it_remembers(deployed: Deployed, chroma: chromadb.ClientAPI) -> None:
    note = deployed.home / "proof" / "head.note"
    note.unlink()
    assert deployed.run("verify").exit_code == 0
    assert note.exists()

    note.unlink()
    plant(deployed, chroma)
    assert deployed.run("verify").exit_code == 1
    assert not note.exists()


def test_log_newest_last(deployed: Deployed) -> None:
    def lines(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in deployed.run("log", "--json", *arguments).stdout.splitlines()]

    events = lines()
    (published,) = lines("--kind", "published")
    assert [line["kind"] for line in events if line["kind"] != "rows"] == ["judged", "published", "sealed"]
    assert [line["seq"] for line in events] == list(range(len(events)))
    assert lines("--limit", "2") == events[-2:]
    assert lines("--since", "2") == events[2:]
    assert published in events
    assert published["body"]["chunks"].keys() == {chunk.chunk_id for chunk in VERSION.chunks}
    shown = deployed.run("log")
    assert shown.exit_code == 0
    assert "chunks: 2" in shown.output


def test_log_of_a_kind_that_no_event_has_names_those_there_are(deployed: Deployed) -> None:
    shown = deployed.run("log", "--kind", "nonsense")

    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "No event of the kind nonsense. Kinds in this log: " in shown.stderr
    assert "sealed" in shown.stderr


def test_log_of_an_event_that_cannot_be_read(deployed: Deployed) -> None:
    with closing(sqlite3.connect(deployed.home / "ledger.sqlite")) as database, database:
        database.execute("DROP TRIGGER events_UPDATE")
        database.execute("UPDATE events SET body = '{' WHERE seq = 1")

    assert isinstance(deployed.run("log").exception, errors.Inconsistent)
    assert deployed.run("log", "--since", "2").exit_code == 0


def test_a_proof_for_a_stranger(deployed: Deployed, tmp_path: Path) -> None:
    proof, text = tmp_path / "out" / "proof.json", tmp_path / "text.txt"
    text.write_bytes(CHUNK.text.encode())

    made = deployed.run("prove", CHUNK.chunk_id, "-o", proof)
    shown = deployed.run("check-proof", proof, "--key", deployed.public, "--text", text)
    told = deployed.run("check-proof", proof, "--key", deployed.public.read_text().strip(), "--json")

    assert (made.exit_code, made.stdout) == (0, "")
    assert f"guard check-proof {proof} --key KEY" in made.stderr.replace("\n", "")
    assert shown.exit_code == 0
    assert "It holds as of the seal of" in shown.output
    assert told.exit_code == 0
    assert json.loads(told.stdout)["facts"]["line"]["chunk_id"] == CHUNK.chunk_id
    assert json.loads(deployed.run("prove", CHUNK.chunk_id).stdout) == json.loads(proof.read_text())
    assert "was not compared" in deployed.run("check-proof", proof, "--key", deployed.public).output


def test_a_proof_that_fails_ends_with_1(deployed: Deployed, tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    deployed.run("prove", CHUNK.chunk_id, "-o", proof)
    proof.write_text(proof.read_text().replace(CHUNK.chunk_id, VERSION.chunks[1].chunk_id))

    shown = deployed.run("check-proof", proof, "--key", deployed.public)

    assert shown.exit_code == 1
    assert "fails" in shown.output
    assert "It proves nothing." in shown.output
    assert deployed.run("check-proof", proof, "--key", deployed.public, "--json").exit_code == 1


def test_an_exported_folder(deployed: Deployed, tmp_path: Path) -> None:
    folder = tmp_path / "proofs"

    assert deployed.run("prove", "--export", folder).exit_code == 0
    assert deployed.run("check-proof", folder, "--key", deployed.public).exit_code == 0
    (folder / "manifest.jsonl").write_bytes(b"")
    assert deployed.run("check-proof", folder, "--key", deployed.public).exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("prove",),
        ("prove", "abc", "--export", "folder"),
        ("prove", "--export", "folder", "-o", "file"),
        ("prove", "abc"),
        ("check-proof", "nothing.json", "--key", "name+00000000+AA=="),
        ("check-proof", "nothing.json", "--key", "nothing.pub"),
    ],
)
def test_misuse(deployed: Deployed, arguments: tuple[str, ...]) -> None:
    assert isinstance(deployed.run(*arguments).exception, errors.Misuse)


def test_check_proof_wants_a_key(deployed: Deployed) -> None:
    assert deployed.run("check-proof", "proof.json").exit_code == 2
