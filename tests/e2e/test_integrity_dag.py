"""`integrity_nightly` through Airflow: silence while the corpus is what was sealed, an incident and its healing when it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chromadb
import pytest
from deployment import MakeDeployment, Run, Workspace

from corpus_guard.ledger.tables import events, heads, incidents

FORGED = "The valve is opened by whoever passes."


@pytest.fixture(scope="module")
def one(deploy: MakeDeployment, snapshot: Path) -> Workspace:
    return deploy("verified", snapshot)


@pytest.fixture(scope="module")
def quiet(one: Workspace) -> Run:
    """A night on which nobody touched anything."""
    return one.run("integrity_nightly")


@pytest.fixture(scope="module")
def forged(one: Workspace, quiet: Run) -> tuple[str, Run]:
    """A night after somebody wrote to Chroma: one text was changed, one record added."""
    chroma = chromadb.HttpClient(host="127.0.0.1", port=one.ports.chroma)
    collection = chroma.get_collection("corpus-open", embedding_function=None)
    chunk = sorted(collection.get(include=[])["ids"])[0]
    vector = collection.get(ids=[chunk], include=["embeddings"])["embeddings"][0]
    collection.update(ids=[chunk], documents=[FORGED], embeddings=[vector])
    collection.add(ids=["planted"], documents=[FORGED], embeddings=[vector], metadatas=[{"source": "nobody"}])
    return chunk, one.run("integrity_nightly")


def guard(one: Workspace, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in one.env().items() if name != "PYTHONPATH"}
    command = [str(Path(sys.executable).with_name("guard")), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_corpus_that_is_what_was_sealed_opens_nothing(one: Workspace, quiet: Run) -> None:
    assert quiet.succeeded, quiet.log[-3000:]
    assert one.count(heads) >= 1
    assert "'holds': True" in quiet.log
    assert "starting task_id=heal" not in quiet.log, "the short circuit skips what follows"


def test_what_was_forged_is_named_and_undone(one: Workspace, forged: tuple[str, Run]) -> None:
    _, run = forged

    assert run.succeeded, run.log[-3000:]
    (incident,) = one.ask(incidents.select())
    assert (incident.state, incident.counts) == ("healed", {"added": 1, "text_changed": 1})
    assert {row.kind for row in one.ask(events.select())} >= {"incident_opened", "healed", "incident_healed"}
    assert FORGED not in {record.text for record in one.records()}
    assert "planted" not in {record.chunk_id for record in one.records()}
    one.everything_agrees()


@pytest.mark.slow
def test_the_command_line_shows_the_incident_and_that_all_holds_again(one: Workspace, forged: tuple[str, Run]) -> None:
    chunk, _ = forged
    (incident,) = one.ask(incidents.select())

    shown = guard(one, "incident", "show", incident.incident_id[:8], "--json")
    assert shown.returncode == 0, shown.stderr
    assert chunk in shown.stdout
    assert FORGED not in shown.stdout
    verified = guard(one, "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
