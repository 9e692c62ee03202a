"""`integrity_nightly` through Airflow: silence while the corpus is what was sealed, an alert until a person ends it when it is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromadb
import pytest
from deployment import MakeDeployment, Run, Workspace, _copy
from local_stack import Local, answer, question_of, running, trigger
from test_review_dags import connections

from corpus_guard.airflow.integrity import ACKNOWLEDGE, LEAVE_RED
from corpus_guard.ledger.tables import events, heads, incidents
from corpus_guard.settings import Settings
from corpus_guard.tracking.integrity_nightly import EXPERIMENT
from corpus_guard.tracking.mlflow_runs import mlflow_client
from sinks import Sink

FORGED = "The valve is opened by whoever passes."


@pytest.fixture(scope="module")
def one(deploy: MakeDeployment, snapshot: Path) -> Workspace:
    return deploy("verified", snapshot)


@pytest.fixture(scope="module")
def quiet(one: Workspace) -> Run:
    """A night on which nobody touched anything."""
    return one.run("integrity_nightly")


@pytest.fixture(scope="module")
def forged(one: Workspace) -> tuple[str, str]:
    """A night after somebody wrote to Chroma, up to the moment a person is asked: the forged chunk and the log."""
    chunk = forge(one.ports.chroma)
    return chunk, one.run_until_asked("acknowledge", "integrity_nightly", MLFLOW_TRACKING_URI=tracking(one))


def forge(port: int) -> str:
    """Change one text in Chroma and add one record; return the id of the changed one."""
    chroma = chromadb.HttpClient(host="127.0.0.1", port=port)
    collection = chroma.get_collection("corpus-open", embedding_function=None)
    chunk = sorted(collection.get(include=[])["ids"])[0]
    vector = collection.get(ids=[chunk], include=["embeddings"])["embeddings"][0]
    collection.update(ids=[chunk], documents=[FORGED], embeddings=[vector])
    collection.add(ids=["planted"], documents=[FORGED], embeddings=[vector], metadatas=[{"source": "nobody"}])
    return chunk


def guard(one: Workspace, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in one.env().items() if name != "PYTHONPATH"}
    command = [str(Path(sys.executable).with_name("guard")), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_corpus_that_is_what_was_sealed_opens_nothing(one: Workspace, quiet: Run) -> None:
    assert quiet.succeeded, quiet.log[-3000:]
    assert one.count(heads) >= 1
    assert "'holds': True" in quiet.log
    for skipped in ("heal", "acknowledge", "settle"):
        assert f"starting task_id={skipped}" not in quiet.log


def test_what_was_forged_is_named_and_undone_and_a_person_is_asked(one: Workspace, forged: tuple[str, str]) -> None:
    (incident,) = one.ask(incidents.select())
    assert (incident.state, incident.counts) == ("healed", {"added": 1, "text_changed": 1})
    assert {row.kind for row in one.ask(events.select())} >= {"incident_opened", "healed", "incident_healed"}
    assert FORGED not in {record.text for record in one.records()}
    assert "planted" not in {record.chunk_id for record in one.records()}
    one.everything_agrees()
    _, log = forged
    assert f"1 incident not acknowledged: {incident.incident_id[:8]} (healed, not explained: " in log


def test_the_run_in_mlflow_is_tagged(one: Workspace, forged: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    (incident,) = one.ask(incidents.select())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking(one))
    client = mlflow_client(Settings(home=one.home))
    experiment = client.get_experiment_by_name(EXPERIMENT)

    (night,) = client.search_runs([experiment.experiment_id], "tags.tampering = 'true'")

    assert night.data.tags["incident"] == incident.incident_id


def tracking(one: Workspace) -> str:
    """The address of an MLflow store without a server."""
    return f"sqlite:///{one.home / 'mlflow.db'}"


@pytest.mark.slow
def test_the_command_line_shows_the_incident_and_that_all_holds_again(one: Workspace, forged: tuple[str, str]) -> None:
    chunk, _ = forged
    (incident,) = one.ask(incidents.select())

    shown = guard(one, "incident", "show", incident.incident_id[:8], "--json")
    assert shown.returncode == 0, shown.stderr
    assert chunk in shown.stdout
    assert FORGED not in shown.stdout
    verified = guard(one, "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    status = guard(one, "status")
    assert status.stdout.startswith(f"Incident {incident.incident_id[:8]}, not acknowledged: healed, not explained")


DAG = "/api/v2/dags/integrity_nightly"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, snapshot: Path, mail: Sink, hook: Sink) -> Iterator[Local]:
    """Airflow with its scheduler and its review pages, over a corpus that somebody has tampered with."""
    root = tmp_path_factory.mktemp("tampered")
    _copy(snapshot, root)
    with running(root, connections(mail, hook)) as one:
        forge(one.ports.chroma)
        yield one


@pytest.fixture(scope="module")
def asked(local: Local) -> dict[str, Any]:
    """The task of the run that the schedule starts, when it asks a person."""
    with local.api() as api:
        api.patch(DAG, json={"is_paused": False}).raise_for_status()
        return local.wait_until_asked(api, DAG)


@pytest.mark.slow
def test_tampering_is_told_on_every_road_and_red_until_a_person_answers(
    local: Local, asked: dict[str, Any], mail: Sink, hook: Sink
) -> None:
    ((incident, state),) = local.ledger("SELECT incident_id, state FROM incidents")
    sentence = f"1 incident not acknowledged: {incident[:8]} (healed, not explained: 1 added, 1 text_changed)"
    assert (asked["task_id"], state) == ("acknowledge", "healed")
    assert mail.messages[-1]["Subject"] == "Corpus Guard: 1 incident not acknowledged"
    assert sentence in hook.messages[-1][1]["text"]
    assert f"/plugin/corpus-guard/corpus-guard/incidents/{incident}" in hook.messages[-1][1]["text"]
    with local.api() as api:
        note = api.get(f"{DAG}/dagRuns/{asked['dag_run_id']}").raise_for_status().json()["note"]
        details = api.get(f"{DAG}/{question_of(asked)}").json()
        corpus, page = (api.get(f"/corpus-guard/{path}").text for path in ("corpus", f"incidents/{incident}"))
    assert note.splitlines()[0] == f"Incidents: {sentence}"
    assert sentence in details["body"]
    assert "note wrong" in corpus and "healed, not explained" in corpus
    assert "text changed" in page and "data-send" in page
    assert FORGED not in "".join([details["body"], corpus, page, note, str(hook.messages[-1])])

    with local.api() as api:
        ended = answer(api, DAG, asked, ACKNOWLEDGE, reason="a restore test wrote to the live store")
        corpus = api.get("/corpus-guard/corpus").text

    assert ended["state"] == "success"
    assert ended["note"].startswith("Incidents: acknowledged by admin: a restore test wrote to the live store\n")
    assert local.ledger("SELECT state, closed_by, reason FROM incidents") == [
        ("closed", "admin", "a restore test wrote to the live store")
    ]
    assert "note wrong" not in corpus


@pytest.mark.slow
def test_a_night_that_nobody_answers_is_red_and_one_acknowledged_on_the_page_is_not(
    local: Local, asked: dict[str, Any]
) -> None:
    with local.api() as api:
        for acknowledged in (False, True):
            if not acknowledged:
                forge_again(local)
            trigger(api, DAG)
            again = local.wait_until_asked(api, DAG)
            ((incident,),) = local.ledger("SELECT incident_id FROM incidents WHERE state = 'healed'")
            if acknowledged:
                told = {"reason": "seen on the page"}
                path = f"/corpus-guard/api/v1/incidents/{incident}/acknowledge"
                assert api.post(path, json=told, headers={"X-Corpus-Guard": "test"}).status_code == 200

            ended = answer(api, DAG, again, LEAVE_RED, reason="")

            assert ended["state"] == ("success" if acknowledged else "failed")
    assert local.ledger("SELECT closed_by, reason FROM incidents ORDER BY opened_at DESC LIMIT 1") == [
        ("admin", "seen on the page")
    ]


def forge_again(local: Local) -> None:
    chroma = chromadb.HttpClient(host="127.0.0.1", port=local.ports.chroma)
    collection = chroma.get_collection("corpus-open", embedding_function=None)
    collection.delete(ids=[sorted(collection.get(include=[])["ids"])[0]])
