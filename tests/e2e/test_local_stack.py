"""The real thing, as `make up` starts it: scheduler, LocalExecutor, PostgreSQL and Chroma, driven through Airflow's REST API."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa
from local_stack import Local, answer, running, trigger, until, wait_until_ended
from small_corpus import BAD, GOOD, GOOD_ROWS, write_corpus, write_rows

from environment import PROJECT

pytestmark = pytest.mark.slow

DAG = "/api/v2/dags/corpus_refresh"
RUN_SECONDS = 900
DOCUMENTS = len(GOOD) + len(GOOD_ROWS) + len(BAD) + 3


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("stack")
    write_corpus(root / "corpus")
    (root / "home").mkdir()
    (root / "home" / "models").symlink_to(models)
    with running(root) as one:
        yield one


@pytest.fixture(scope="module")
def scheduled(local: Local) -> dict[str, Any]:
    """Unpaused, the DAG runs its last interval by itself."""
    with local.api() as api:
        api.patch(DAG, json={"is_paused": False}).raise_for_status()

        def started() -> Any:
            found = api.get(f"{DAG}/dagRuns").raise_for_status().json()["dag_runs"]
            return next((run["dag_run_id"] for run in found if run["run_type"] == "scheduled"), None)

        return wait_until_ended(api, DAG, until(started, RUN_SECONDS), RUN_SECONDS)


def test_the_scheduler_runs_it_and_the_note_holds_the_counts(local: Local, scheduled: dict[str, Any]) -> None:
    assert scheduled["state"] == "success"
    (counts,) = (json.loads(row[0]) for row in local.ledger("SELECT counts FROM runs WHERE state = 'sealed'"))

    assert counts["documents"] == DOCUMENTS
    for name in ("accepted", "quarantined", "rejected", "published", "served"):
        assert f"{counts[name]:,} {name}" in scheduled["note"]


def test_the_note_leads_to_the_data_docs(local: Local, scheduled: dict[str, Any]) -> None:
    line = scheduled["note"].splitlines()[-1]
    summary, _, address = line.rpartition(", ")
    assert summary.startswith("Data Docs: ") and "suites" in summary, line
    path = address.removeprefix(f"http://127.0.0.1:{local.ports.airflow}/plugin/corpus-guard")
    with local.api() as api:
        page = api.get(f"http://127.0.0.1:{local.ports.airflow}{path}", headers={"Accept": "text/html"})

    assert page.status_code == 200
    assert "expectation.freshness.future" in page.text


def test_workers_see_the_settings_of_the_stack(local: Local, scheduled: dict[str, Any]) -> None:
    # The ledger and the storage of this home were written, in shards of the size that only the caller's environment names.
    assert local.ledger("SELECT count(*) FROM documents")[0][0] == DOCUMENTS
    assert {path.name for path in local.home.iterdir()} >= {"ledger.sqlite", "storage", "chroma"}
    with local.api() as api:
        run = scheduled["dag_run_id"]
        found = api.get(f"{DAG}/dagRuns/{run}/taskInstances", params={"task_id": "intake", "limit": 100}).json()
        intakes = [one for one in found["task_instances"] if one["task_id"] == "intake"]
    assert len(intakes) == 5
    assert {one["state"] for one in intakes} == {"success"}
    assert not (PROJECT / "ledger.sqlite").exists()


def test_the_asset_events_exist_and_hold_counts(local: Local, scheduled: dict[str, Any]) -> None:
    with local.api() as api:
        events = api.get("/api/v2/assets/events").raise_for_status().json()["asset_events"]

    extras = {event["name"]: event["extra"] for event in events if event["source_run_id"] == scheduled["dag_run_id"]}
    assert extras.keys() == {"corpus", "quarantine"}
    assert extras["corpus"]["chunks"] == local.ledger("SELECT chunks FROM seals")[0][0]
    assert (
        extras["quarantine"]["quarantined"]
        == local.ledger("SELECT count(*) FROM versions WHERE state = 'quarantined'")[0][0]
    )


def test_a_run_of_one_source_takes_only_that_source(local: Local, scheduled: dict[str, Any]) -> None:
    write_rows(
        local.corpus,
        {**GOOD_ROWS, "T-9": "The sauna on the island was closed for the season by the committee on Friday."},
    )
    with local.api() as api:
        run = wait_until_ended(api, DAG, trigger(api, DAG, sources=["tickets"]))

    assert run["state"] == "success"
    assert run["note"].startswith("1 accepted, 12 unchanged, 1 published, 1 retired")


def test_a_source_that_does_not_exist_is_refused_before_anything_runs(local: Local, scheduled: dict[str, Any]) -> None:
    with local.api() as api:
        refused = api.post(f"{DAG}/dagRuns", json={"logical_date": None, "conf": {"sources": ["../etc"]}})

    assert refused.status_code == 400
    assert "not one of" in refused.text


def test_a_viewer_may_look_and_not_run(local: Local, scheduled: dict[str, Any]) -> None:
    with local.api("viewer") as api:
        assert api.get(f"{DAG}/dagRuns").status_code == 200
        assert api.post(f"{DAG}/dagRuns", json={"logical_date": None}).status_code == 403


class TestAsking:
    """What a person is asked under *Required Actions*, and what becomes of the answer."""

    def answered(
        self, local: Local, name: str, option: str, conf: dict[str, Any] | None = None, **form: str
    ) -> dict[str, Any]:
        """Answer the first run that asks: one that is triggered with `conf`, or that the schedule starts once it is unpaused.

        Args:
            form: what is entered beside the answer.
        """
        dag = f"/api/v2/dags/{name}"
        with local.api() as api:
            if conf is None:
                api.patch(dag, json={"is_paused": False}).raise_for_status()
            else:
                trigger(api, dag, **conf)
            return answer(api, dag, local.wait_until_asked(api, dag), option, **form)

    def test_a_deviation_that_nobody_accepts_leaves_the_incident_open_and_the_run_red(
        self, local: Local, scheduled: dict[str, Any]
    ) -> None:
        engine = sa.create_engine(f"sqlite:///{local.home / 'ledger.sqlite'}", poolclass=sa.NullPool)
        one = "SELECT min(version_id) FROM versions WHERE state = 'accepted'"
        with engine.begin() as connection:
            connection.execute(sa.text(f"UPDATE versions SET state = 'rejected' WHERE version_id = ({one})"))

        run = self.answered(local, "integrity_nightly", "Leave red", reason="")

        assert run["state"] == "failed"
        ((incident, state),) = local.ledger("SELECT incident_id, state FROM incidents")
        assert state == "open"
        assert (
            f"Incidents: 1 incident not acknowledged: {incident[:8]} (open, not healed: 1 ledger_changed" in run["note"]
        )

    def test_an_accepted_one_is_the_new_baseline_in_the_name_of_who_accepted(
        self, local: Local, scheduled: dict[str, Any]
    ) -> None:
        run = self.answered(local, "integrity_nightly", "Accept as the new baseline", {}, reason="our own repair")

        assert run["state"] == "success"
        assert local.ledger("SELECT state, closed_by, reason FROM incidents") == [
            ("accepted", "admin", "our own repair")
        ]

    def test_an_approved_purge_is_carried_out(self, local: Local, scheduled: dict[str, Any]) -> None:
        ((source, uri),) = local.ledger(
            "SELECT source, uri FROM documents WHERE target_version IS NOT NULL ORDER BY doc_id LIMIT 1"
        )
        selection = {"documents": [f"{source}/{uri}"], "chunks": [], "sources": [], "hashes": [], "reason": "asked for"}

        run = self.answered(local, "content_purge", "Approve", selection)

        assert run["state"] == "success"
        assert local.ledger("SELECT state, requested_by FROM purges") == [("closed", "admin")]


def test_down_leaves_nothing_running(local: Local, scheduled: dict[str, Any]) -> None:
    before = local.processes()
    assert len(before) > len(vars(local.ports))

    assert local.stack("down").returncode == 0

    assert [one for one in before if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    for port in vars(local.ports).values():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
