"""What a refresh tells those who watch it: asset events, metrics, lineage, messages; through Airflow, into real sinks."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deployment import MakeDeployment, Run, Workspace
from small_corpus import ATTACK, GOOD, write_document
from test_review_dags import TOKEN, connections

from corpus_guard.ledger.tables import seals
from sinks import Sink

pytestmark = pytest.mark.slow

OURS = {"accepted", "unchanged", "published", "retired"}
CHANGED = "anchoring.md"
DOWNSTREAM = Path(__file__).with_name("downstream_dags")


@pytest.fixture(scope="module")
def udp() -> Iterator[list[str]]:
    """A StatsD server's ear: every line that was sent."""
    heard: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.settimeout(0.2)
        stop = threading.Event()

        def listen() -> None:
            while not stop.is_set():
                try:
                    heard.extend(ear.recv(65_536).decode().splitlines())
                except TimeoutError:
                    continue

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        heard.append(str(ear.getsockname()[1]))  # the first line: where
        yield heard
        stop.set()
        thread.join(5)


@pytest.fixture(scope="module")
def watched(
    deploy: MakeDeployment, snapshot: Path, udp: list[str], mail: Sink, hook: Sink
) -> tuple[Workspace, Run, Path]:
    """One document changed, a run with everything switched on."""
    one = deploy("watched-run", snapshot)
    write_document(one.corpus, CHANGED, f"{GOOD[CHANGED]} Since spring the chain is marked in red every ten metres.")
    lineage = one.root / "lineage.jsonl"
    run = one.start(
        AIRFLOW__METRICS__STATSD_ON="True",
        AIRFLOW__METRICS__STATSD_PORT=udp[0],
        AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps({"type": "file", "log_file_path": str(lineage), "append": True}),
        AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD="True",
        AIRFLOW__OPENLINEAGE__DISABLE_SOURCE_CODE="True",
        **connections(mail, hook),
    ).finish()
    assert run.succeeded, run.log[-3000:]
    return one, run, lineage


def counts(one: Workspace) -> dict[str, Any]:
    return dict(one.ask_runs()[-1].counts)


def test_a_dag_downstream_sees_counts_digest_and_run(watched: tuple[Workspace, Run, Path]) -> None:
    one, run, _ = watched
    env = {
        "AIRFLOW_HOME": str(run.airflow),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{run.airflow / 'airflow.db'}",
    }

    read = one.start("reads_the_corpus", AIRFLOW__CORE__DAGS_FOLDER=str(DOWNSTREAM), **env).finish()

    assert read.succeeded, read.log[-3000:]
    with sqlite3.connect(run.airflow / "airflow.db") as connection:
        (value,) = connection.execute(
            "SELECT value FROM xcom WHERE task_id = 'read' AND key = 'return_value'"
        ).fetchone()
    seen, done = json.loads(value), counts(one)
    digest = one.ask(seals.select().order_by(seals.c.number.desc()).limit(1))[0].manifest_sha256
    for asset in ("corpus", "quarantine"):
        assert seen[asset]["manifest_sha256"] == digest
        assert seen[asset]["run_id"] == done["run_id"] == one.ask_runs()[-1].run_id
    assert {name: seen["corpus"][name] for name in sorted(OURS)} == {name: done[name] for name in sorted(OURS)}
    assert seen["corpus"]["chunks"] == done["served"]
    assert seen["quarantine"]["quarantined"] == done["quarantined"]
    assert all(
        isinstance(value, int)
        for asset in seen.values()
        for key, value in asset.items()
        if key not in {"run_id", "manifest_sha256"}
    )


def test_metrics_of_airflow_and_of_the_guard_arrive(watched: tuple[Workspace, Run, Path], udp: list[str]) -> None:
    done = counts(watched[0])
    totals: Counter[str] = Counter()
    for line in udp[1:]:
        if found := re.fullmatch(r"airflow\.corpus_guard\.([\w.]+):(\d+)\|([cg])", line):
            totals[found[1]] += int(found[2])

    assert any(line.startswith("airflow.ti.finish") for line in udp), udp[:5]
    assert totals == Counter(
        {
            "documents.accepted": done["accepted"],
            "documents.unchanged": done["unchanged"],
            "chunks.published": done["published"],
            "chunks.retired": done["retired"],
            "chunks.served": done["served"],
        }
    )
    assert done["accepted"] == 1
    assert ATTACK not in "".join(udp)


def test_lineage_names_sources_collections_and_manifest(watched: tuple[Workspace, Run, Path]) -> None:
    one, _, file = watched
    events = [json.loads(line) for line in file.read_text().splitlines()]
    ours = [event for event in events if event["job"]["name"] == "corpus_refresh.seal"]
    kinds = {event["eventType"] for event in ours}
    named = [event for event in ours if event["inputs"]]

    assert kinds == {"START", "RUNNING", "COMPLETE"}
    assert len({event["run"]["runId"] for event in ours}) == 1, "events of one run are about the same data"
    (event,) = named
    inputs = {each["name"]: each for each in event["inputs"]}
    assert {each["namespace"] for each in event["inputs"]} == {"file"}
    assert inputs.keys() == {str(one.corpus / "boat"), str(one.corpus / "tickets.jsonl")}
    boat = inputs[str(one.corpus / "boat")]["facets"]
    assert boat["dataSource"]["name"] == "boat"
    assert boat["ownership"]["owners"][0]["name"] == "skipper@example.org"
    outputs = {(each["namespace"], each["name"]): each["facets"] for each in event["outputs"]}
    done = counts(one)
    collections = {("chroma://" + one.url.removeprefix("http://"), name) for name in ("corpus-open", "corpus-reviewed")}
    manifest = ("file", str(one.home / "storage" / done["manifest"]))
    assert outputs.keys() == collections | {manifest}
    assert {facets["version"]["datasetVersion"] for facets in outputs.values()} == {done["manifest_sha256"]}
    assert ATTACK not in file.read_text()


def run_failing(one: Workspace, mail: Sink, hook: Sink) -> Run:
    return one.start("fails", AIRFLOW__CORE__DAGS_FOLDER=str(DOWNSTREAM), **connections(mail, hook)).finish()


def test_a_run_that_fails_is_told_once_and_nothing_of_the_error_leaves(
    watched: tuple[Workspace, Run, Path], mail: Sink, hook: Sink
) -> None:
    assert (mail.messages, hook.messages) == ([], []), "a run that succeeded tells nobody"

    run = run_failing(watched[0], mail, hook)

    assert not run.succeeded
    assert (len(mail.messages), len(hook.messages)) == (1, 1)
    message, (_, posted) = mail.messages[0], hook.messages[0]
    assert message["Subject"] == "Corpus Guard: fails failed"
    assert re.search(
        r'fails failed: a task failed, the last one breaks; run manual__\S+\. See "When it fails"', posted["text"]
    )
    assert re.search(r"http://127\.0\.0\.1:\d+/dags/fails/runs/manual__", posted["text"])
    for leaked in ("pa55-in-an-error", "Ignore all previous"):
        assert leaked in run.log, "or this proves nothing"
        assert leaked not in message.as_string() + posted["text"]
    assert TOKEN not in run.log


def test_a_message_that_cannot_be_sent_fails_nothing_and_stands_in_the_log(
    watched: tuple[Workspace, Run, Path], mail: Sink, hook: Sink
) -> None:
    hook.refuses = True
    try:
        run = run_failing(watched[0], mail, hook)
    finally:
        hook.refuses = False

    assert "connection corpus_guard_slack (HTTPStatusError): the message could not be sent" in run.log
    assert "the message was: fails failed" in run.log
    assert TOKEN not in run.log
