"""`detector_training` through Airflow: trained for real, approved by a person, and heard by the next night of traces.

The judge of that night is the scripted endpoint of `test_traceback_dag`; the RAG model, its activations and the probe are real.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployment import _copy
from test_local_stack import Local
from test_traceback_dag import LIES, Script, asking, file_reports

from corpus_guard.settings import PROJECT
from endpoint import Endpoint, scripted
from environment import Ports
from postgres import free_port

QUESTIONS = 18  # of the sample's 32: enough of both classes in every part
SECONDS = 1_500  # about 100 prompts and four trainings on a busy machine


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with scripted(Script()) as running:
        yield running


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory, snapshot: Path, endpoint: Endpoint) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("training")
    _copy(snapshot, root)
    sample = (PROJECT / "include" / "sample_corpus" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = root / "questions.jsonl"
    questions.write_text("\n".join(sample[:QUESTIONS]) + "\n", encoding="utf-8")
    settings = asking(endpoint) | {
        "CORPUS_GUARD_RAG_MODEL": "embedded",
        "CORPUS_GUARD_DETECTOR_QUESTIONS": str(questions),
    }
    one = Local(root / "home", root / "corpus", Ports(*(free_port() for _ in range(4))), settings)
    try:
        said = one.stack("up", "--only", "postgres,chroma,mlflow,airflow")
        assert said.returncode == 0, said.stdout + said.stderr
        yield one
    finally:
        one.stack("down")


@pytest.mark.slow
def test_a_probe_is_trained_approved_and_heard_by_the_next_night(local: Local) -> None:
    names = file_reports(f"sqlite:///{local.home / 'ledger.sqlite'}")
    with local.api() as api:
        dag = "/api/v2/dags/detector_training"
        api.patch(dag, json={"is_paused": False}).raise_for_status()  # runs its last interval by itself
        waiting = until(lambda: [one for one in tasks(api, dag) if one["state"] == "awaiting_input"], api, dag)[0]
        assert local.ledger("SELECT count(*) FROM events WHERE kind = 'promoted'") == [(0,)], "nobody approved yet"
        # Airflow 3.3.2: an answer that comes before the scheduler heard that the task is parked fails the task.
        time.sleep(5)
        run = f"{dag}/dagRuns/{waiting['dag_run_id']}"
        told = {"chosen_options": ["Approve"], "params_input": {}}
        api.patch(f"{run}/taskInstances/approve_promotion/-1/hitlDetails", json=told).raise_for_status()
        ended = until(lambda: one if (one := api.get(run).json())["state"] in {"success", "failed"} else None, api, dag)
        assert ended["state"] == "success"
        assert "is in use: approved by admin" in ended["note"]

        nightly = "/api/v2/dags/traceback_nightly"
        api.patch(nightly, json={"is_paused": False}).raise_for_status()
        until(lambda: [one for one in tasks(api, nightly) if one["state"] == "awaiting_input"], api, nightly)

    ((body,),) = local.ledger("SELECT body FROM events WHERE kind = 'promoted'")
    promoted = json.loads(body)
    assert (promoted["by"], promoted["version"]) == ("admin", 1)
    folder = local.home / "storage" / "detectors" / "activations" / promoted["digest"]
    assert sorted(path.name for path in folder.iterdir()) == ["probe.json", "probe.safetensors"]
    figures = json.loads((folder / "probe.json").read_bytes())["figures"]
    assert figures["samples"] > 10
    heard = {
        report: json.loads(told)
        for report, told in local.ledger("SELECT report_id, activations FROM traces WHERE outcome IS NOT NULL")
    }
    assert set(heard) == set(names.values())
    for page in LIES:
        assert heard[names[page]]["vote"] in {"poisoned", "clean", "unsure"}
        assert heard[names[page]]["probe"] == promoted["digest"][:16]
    assert heard[names[""]]["vote"] == "skipped"


def tasks(api: httpx.Client, dag: str) -> list[dict[str, Any]]:
    every = api.get(f"{dag}/dagRuns/~/taskInstances", params={"limit": 100}).raise_for_status().json()
    return list(every["task_instances"])


def until(reached: Any, api: httpx.Client, dag: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := reached()):
        states = [(one["task_id"], one["state"]) for one in tasks(api, dag)]
        assert not any(state in {"failed", "upstream_failed"} for _, state in states), states
        assert time.monotonic() < deadline, states
        time.sleep(2)
    return found
