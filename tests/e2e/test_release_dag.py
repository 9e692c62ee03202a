"""`quarantine_release` through Airflow: what a reviewer decided takes effect, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deployment import MakeDeployment, Run, Workspace
from small_corpus import ATTACK

from corpus_guard.corpus.retriever import GuardedRetriever, RetrievedChunk
from corpus_guard.domain import TrustLevel
from corpus_guard.ledger.tables import decisions
from corpus_guard.review.queue import QueueItem, load_page
from deciding import decided

RELEASED = "tickets.jsonl#T-1~2"
REJECTED = "tickets.jsonl#T-10"
QUESTIONS = {RELEASED: "Which hatch leaks in the bow?", REJECTED: ATTACK}


@pytest.fixture(scope="module")
def one(deploy: MakeDeployment, snapshot: Path) -> Workspace:
    return deploy("reviewed", snapshot)


@pytest.fixture(scope="module")
def idle(one: Workspace) -> Run:
    """A run before anybody decided."""
    return one.start("quarantine_release").finish()


@pytest.fixture(scope="module")
def run(one: Workspace) -> Run:
    """A run after two decisions: one by the library, one by the command line."""
    items = {item.uri: item.version_id for item in _waiting(one)}
    with one.guard() as guard:
        decided(guard.ledger, items[RELEASED], "release", by="mo")
    guard_command = [str(Path(sys.executable).with_name("guard")), "quarantine", "reject", items[REJECTED][:10]]
    subprocess.run(
        [*guard_command, "--reason", "an attack", "--reviewer", "mo", "--no-apply"],
        env={**os.environ, "CORPUS_GUARD_HOME": str(one.home), "CORPUS_GUARD_CHROMA_URL": one.url},
        check=True,
        capture_output=True,
    )
    assert {uri for uri, state in one.states().items() if state == "quarantined"} >= {RELEASED, REJECTED}
    return one.run("quarantine_release")


@pytest.mark.slow
def test_without_decisions_nothing_heavy_is_loaded_and_nothing_changes(one: Workspace, idle: Run) -> None:
    assert idle.succeeded, idle.log[-3000:]
    assert idle.heavy == set()
    assert "starting task_id=apply" not in idle.log, "the short circuit skips what follows"


def test_decisions_take_effect(one: Workspace, run: Run) -> None:
    assert run.succeeded, run.log[-3000:]
    last = one.ask_runs()[-1]

    assert (last.kind, last.state) == ("release", "sealed")
    assert (last.counts["released"], last.counts["rejected"], last.counts["published"]) == (1, 1, 1)
    assert one.count(decisions, decisions.c.applied_at.is_(None)) == 0
    assert {place: one.states()[place] for place in QUESTIONS} == {RELEASED: "released", REJECTED: "rejected"}
    one.everything_agrees()


def test_the_released_text_is_found_and_marked(one: Workspace, run: Run) -> None:
    answer = _ask(one, QUESTIONS[RELEASED])[0]

    assert (answer.uri, answer.trust) == (RELEASED, TrustLevel.OPEN)
    assert {line["verdict"] for line in one.manifest() if line["uri"] == RELEASED} == {"release"}
    assert {record.metadata["verdict"] for record in one.records() if record.metadata["uri"] == RELEASED} == {"release"}


def test_the_rejected_text_is_never_found(one: Workspace, run: Run) -> None:
    assert REJECTED not in {answer.uri for answer in _ask(one, QUESTIONS[REJECTED])}
    assert REJECTED not in one.texts()


def test_what_nobody_decided_still_waits(one: Workspace, run: Run) -> None:
    assert {item.uri for item in _waiting(one)} == {
        "bad/locked.pdf",
        "bad/truncated.pdf",
        "tickets.jsonl#T-11",
        "tickets.jsonl#row-13",
    }


def test_the_decision_holds_when_the_same_bytes_are_refreshed(one: Workspace, run: Run) -> None:

    with one.guard() as guard:
        counts = guard.refresh("after the review")

    assert counts["unchanged"] == counts["documents"]
    assert one.states()[RELEASED] == "released"
    assert RELEASED in one.texts()


def _waiting(one: Workspace) -> tuple[QueueItem, ...]:
    with one.guard() as guard:
        return load_page(guard.ledger).items


def _ask(one: Workspace, question: str) -> list[RetrievedChunk]:
    with one.guard() as guard:
        found = GuardedRetriever(guard.ledger, guard.store, guard.models.embedder).query(question, k=50)
    assert found.withheld == ()
    return list(found.answers)
