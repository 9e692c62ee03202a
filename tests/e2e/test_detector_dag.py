"""`detector_training` through Airflow: three detectors trained for real, approved by a person, and used by what comes next.

The judge of the night that hears the probe is the scripted endpoint of `test_traceback_dag`; the RAG model, its activations and the probe
are real, and so are the embedded judge and the filter that are asked besides.
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
from local_stack import Local, question_of, running, tasks
from test_traceback_dag import LIES, REPORTED, K, Script, asking, file_reports

from corpus_guard.corpus.filterrag.learned import SHIPPED_SHA256
from corpus_guard.deployment import Deployment
from corpus_guard.settings import PROJECT, Settings
from corpus_guard.traceback.judge_selection import create_judge
from corpus_guard.traceback.retrieval import Complaint
from corpus_guard.traceback.trace_run import CorpusAccess, run_trace
from endpoint import Endpoint, scripted

SECONDS = 3_600  # about 180 prompts, 800 texts for the filter and five trainings on a busy machine
NAMES = {"judge": "judge", "filter": "filter", "probe": "activations"}
"""Detector → what the ledger calls it; in the order they are trained."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with scripted(Script()) as running:
        yield running


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory, snapshot: Path, endpoint: Endpoint) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("training")
    _copy(snapshot, root)
    settings = asking(endpoint) | {
        "CORPUS_GUARD_RAG_MODEL": "embedded",
        "CORPUS_GUARD_DETECTOR_QUESTIONS": str(PROJECT / "include" / "sample_corpus" / "questions.jsonl"),
    }
    with running(root, settings, "postgres,chroma,mlflow,airflow") as one:
        yield one


@pytest.mark.slow
@pytest.mark.hours  # trains each kind of detector: ten minutes
def test_detectors_are_trained_approved_and_used(local: Local) -> None:
    names = file_reports(f"sqlite:///{local.home / 'ledger.sqlite'}")
    with local.api() as api:
        dag = "/api/v2/dags/detector_training"
        api.patch(dag, json={"is_paused": False}).raise_for_status()  # runs its last interval by itself
        asked: list[str] = []
        for name in NAMES:
            waiting = until(lambda name=name: parked_or_skipped(api, dag, f"approve_{name}"), api, dag)
            promoted_before = local.ledger("SELECT count(*) FROM events WHERE kind = 'promoted'")
            assert promoted_before == [(len(asked),)], "not yet approved"
            if waiting["state"] == "skipped":
                continue
            asked.append(name)
            run = waiting["dag_run_id"]
            told = {"chosen_options": ["Approve"], "params_input": {}}
            url = f"{dag}/{question_of(local.wait_until_asked(api, dag, f'approve_{name}'))}"
            assert "On questions it never saw" in api.get(url).json()["body"] or name == "probe"
            api.patch(url, json=told).raise_for_status()
            until(lambda name=name: ended(api, dag, f"promote_{name}"), api, dag)
        whole = until(
            lambda: one if (one := api.get(f"{dag}/dagRuns/{run}").json())["state"] in {"success", "failed"} else None,
            api,
            dag,
        )
        assert whole["state"] == "success"

        nightly = "/api/v2/dags/traceback_nightly"
        api.patch(nightly, json={"is_paused": False}).raise_for_status()
        until(lambda: [one for one in tasks(api, nightly) if one["state"] == "awaiting_input"], api, nightly)

    rows = local.ledger("SELECT subject, body FROM events WHERE kind = 'promoted'")
    promoted = {subject: json.loads(body) for subject, body in rows}
    assert {"judge", "probe"} <= set(asked), whole[
        "note"
    ]  # of the sample's few questions the filter learns no more than it knew
    assert promoted.keys() == {NAMES[name] for name in asked}
    for name in NAMES.keys() - set(asked):
        assert f"{name}: no better than the champion, so not proposed" in whole["note"]
    for name, subject in ((name, NAMES[name]) for name in asked):
        assert (promoted[subject]["by"], promoted[subject]["version"]) == ("admin", 1)
        line = f"{name}: {promoted[subject]['digest'][:16]}, version 1, is in use: approved by admin"
        assert line in whole["note"].splitlines()

    folder = local.home / "storage" / "detectors" / "activations" / promoted["activations"]["digest"]
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
        assert heard[names[page]]["probe"] == promoted["activations"]["digest"][:16]
    assert heard[names[""]]["vote"] == "skipped"
    uses_judge_and_filter(local, promoted)


def uses_judge_and_filter(local: Local, promoted: dict[str, Any]) -> None:
    """A trace and a query of the same deployment, with settings that name no file."""
    settings = Settings(
        home=local.home,
        sources_file=local.corpus / "sources.yaml",
        chroma_url=f"http://127.0.0.1:{local.ports.chroma}",
        retrieval_filter="ml_filterrag",
        traceback_k=K,
    )
    query, output = REPORTED[LIES[0]]
    with Deployment(settings) as guard:
        judge = create_judge(guard.settings, guard.models, guard.ledger)
        access = CorpusAccess(guard.ledger, guard.storage, guard.store, guard.models)
        traced = run_trace(access, Complaint(query, output), "asked", judge=judge, k=K)
        found = guard.retriever.query(query, k=2)
    assert traced.judged
    assert traced.judge.endswith("/" + promoted["judge"]["digest"][:16])
    assert found.answers or found.filtered
    used = promoted.get("filter", {"digest": SHIPPED_SHA256})["digest"]
    assert (found.checked_by, found.filter_digest) == ("ml_filterrag", used)
    assert local.ledger("SELECT filter_digest FROM retrievals") == [(used,)]


def parked_or_skipped(api: httpx.Client, dag: str, task: str) -> dict[str, Any] | None:
    found: dict[str, Any] = next((one for one in tasks(api, dag) if one["task_id"] == task), {})
    return found if found.get("state") in {"awaiting_input", "skipped"} else None


def ended(api: httpx.Client, dag: str, task: str) -> bool:
    return any(one["task_id"] == task and one["state"] == "success" for one in tasks(api, dag))


def until(reached: Any, api: httpx.Client, dag: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := reached()):
        states = [(one["task_id"], one["state"]) for one in tasks(api, dag)]
        assert not any(state in {"failed", "upstream_failed"} for _, state in states), states
        assert time.monotonic() < deadline, states
        time.sleep(2)
    return found
