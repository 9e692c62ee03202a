"""`guard incident` and `guard keys` on a real, sealed corpus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import chromadb
import pytest
from typer.testing import CliRunner, Result

from corpus_guard.cli import main as cli
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.settings import Settings
from material import Shelf, a_version

Run = Callable[..., Result]


@pytest.fixture
def settings(lite_shelf: Shelf, tmp_path: Path) -> Settings:
    return lite_shelf.settings(tmp_path)


@pytest.fixture
def run(lite_shelf: Shelf, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    lite_shelf.serve(a_version("a"), a_version("b"))
    with Deployment(settings) as guard:
        guard.seal("run-1")
    for name in ("home", "ledger_url", "chroma_url", "collection_prefix"):
        monkeypatch.setenv(f"CORPUS_GUARD_{name.upper()}", str(getattr(settings, name)))
    yield lambda *words: CliRunner().invoke(cli.app, list(words))


def forge(shelf: Shelf, chroma: chromadb.ClientAPI) -> str:
    chunk = a_version("a").chunks[0].chunk_id
    collection = chroma.get_collection(shelf.store.collection_name(TrustLevel.OPEN), embedding_function=None)
    collection.update(ids=[chunk], metadatas=[{"owner": "<script>nobody</script>"}])
    return chunk


def test_a_deviation_becomes_an_incident_and_is_healed(run: Run, lite_shelf: Shelf, chroma: chromadb.ClientAPI) -> None:
    assert run("verify").exit_code == 0
    chunk = forge(lite_shelf, chroma)

    found = run("verify", "--json")
    assert found.exit_code == 1
    name = json.loads(found.stdout)["incident"]
    shown = run("incident", "show", name[:6])
    assert shown.exit_code == 0
    assert "metadata_changed" in shown.stdout
    assert json.loads(run("incident", "show", name, "--json").stdout)["deviations"][0]["subject"] == chunk
    assert run("verify", "--json").exit_code == 1
    assert [one["incident_id"] for one in json.loads(run("incident", "list", "--json").stdout)] == [name]

    assert run("incident", "heal", name).exit_code == 0

    assert run("verify").exit_code == 0
    (healed,) = json.loads(run("incident", "list", "--state", "healed", "--json").stdout)
    assert healed["incident_id"] == name


def test_status_begins_with_an_incident_until_a_person_acknowledges_it(
    run: Run, lite_shelf: Shelf, chroma: chromadb.ClientAPI
) -> None:
    forge(lite_shelf, chroma)
    name = json.loads(run("verify", "--json").stdout)["incident"]
    assert run("status").stdout.startswith(
        f"Incident {name[:8]}, not acknowledged: open, not healed: 1 metadata_changed"
    )

    assert "acknowledge" in run("incident", "heal", name).stdout
    first, *_ = run("status").stdout.splitlines()
    assert first.startswith(f"Incident {name[:8]}, not acknowledged: healed, not explained: 1 metadata_changed")
    (red,) = json.loads(run("status", "--json").stdout)["incidents"]
    assert (red["incident_id"], red["state"]) == (name, "healed")
    shown = json.loads(run("incident", "show", name, "--json").stdout)
    assert shown["window"]["seal"] == 1 and shown["window"]["verified_at"] is None
    assert "Healed, and nobody has explained it." in run("incident", "show", name).stdout

    assert run("incident", "acknowledge", name[:6], "--reason", "a backup test", "--by", "mo").exit_code == 0

    assert not run("status").stdout.startswith("Incident")
    assert json.loads(run("status", "--json").stdout)["incidents"] == []
    assert run("incident", "acknowledge", name, "--reason", "twice", "--by", "eve").exception is not None


def test_a_verification_can_leave_no_trace(run: Run, lite_shelf: Shelf, chroma: chromadb.ClientAPI) -> None:
    forge(lite_shelf, chroma)

    assert run("verify", "--no-incident").exit_code == 1
    assert json.loads(run("incident", "list", "--json").stdout) == []


def test_what_was_accepted_is_shown_and_no_failure(
    run: Run, lite_shelf: Shelf, chroma: chromadb.ClientAPI, settings: Settings
) -> None:
    forge(lite_shelf, chroma)
    (settings.keys / "log.pub").write_text("")
    name = json.loads(run("verify", "--json").stdout)["incident"]

    accepted = run("incident", "accept", name, "--reason", "our own repair", "--by", "mo")

    assert accepted.exit_code == 0
    assert "1 published again" in accepted.stdout
    again = run("verify")
    assert again.exit_code == 0
    assert "1 deviation, all accepted" in again.stdout
    assert run("incident", "acknowledge", name, "--reason", "twice", "--by", "mo").exception is not None


def test_keys_are_shown_rotated_and_revoked(run: Run) -> None:
    (first,) = json.loads(run("keys", "show", "--json").stdout)["keys"]

    rotated = json.loads(run("keys", "rotate", "--reason", "yearly", "--by", "mo", "--json").stdout)

    shown = json.loads(run("keys", "show", "--json").stdout)["keys"]
    assert [one["state"] for one in shown] == ["replaced", "active"]
    assert shown[1]["vkey"] == rotated["vkey"]
    assert run("keys", "revoke", first["key_id"], "--reason", "stolen", "--by", "mo").exit_code == 0
    assert [one["state"] for one in json.loads(run("keys", "show", "--json").stdout)["keys"]] == ["revoked", "active"]
    assert run("verify").exit_code == 0


def test_an_incident_leaves_in_a_standard_form(
    run: Run, lite_shelf: Shelf, chroma: chromadb.ClientAPI, tmp_path: Path
) -> None:
    chunk = forge(lite_shelf, chroma)
    name = json.loads(run("verify", "--json").stdout)["incident"]

    (event,) = run("export", "incident", name, "--format", "ocsf").stdout.splitlines()

    assert json.loads(event)["class_uid"] == 2004
    assert chunk in event
    assert "1 deviation written to" in run("export", "incident", name, "-o", str(tmp_path / "one.jsonl")).stdout


def test_the_difference_of_two_seals_names_chunk_place_and_run(run: Run, lite_shelf: Shelf, settings: Settings) -> None:
    assert run("diff").exception is not None  # there is one seal
    new, gone = a_version("c"), a_version("b")
    lite_shelf.serve(new)
    lite_shelf.retire(gone.doc_id)
    lite_shelf.drain()
    with Deployment(settings) as guard:
        guard.seal("run-2")

    lines = [json.loads(line) for line in run("diff", "--json").stdout.splitlines()]

    told = {(line["what"], line["chunk_id"], line["uri"]) for line in lines}
    assert told == {
        *(("added", chunk.chunk_id, "c") for chunk in new.chunks),
        *(("removed", chunk.chunk_id, "b") for chunk in gone.chunks),
    }
    assert all(line["run_id"] for line in lines)
    assert {json.loads(line)["what"] for line in run("diff", "2", "1", "--json").stdout.splitlines()} == {
        "added",
        "removed",
    }
