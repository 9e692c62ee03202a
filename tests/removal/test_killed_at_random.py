"""SIGKILL at random moments over refresh, release, withdrawal, restore, purge, healing and cases: running again converges.

Nothing that was acknowledged is lost.

The worker has its own Chroma. Either the worker is killed, and Chroma dies with it, or Chroma alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa
from purging import purge_document

from corpus_guard.corpus import outbox
from corpus_guard.deployment import Deployment
from corpus_guard.errors import UnknownSubject
from corpus_guard.forensics.cases import MemberKind, StepKind, approve_step, find_case, find_member, open_case
from corpus_guard.forensics.plan import find_step, plan_case
from corpus_guard.forensics.scope import scope_of
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import RunKind
from corpus_guard.ledger.tables import documents, events, versions
from corpus_guard.proof.healing import heal
from corpus_guard.removal.purge_targets import removal_targets
from corpus_guard.removal.restoring import request_restore
from corpus_guard.removal.withdrawal import retire_versions, withdraw_versions, withdrawal_id
from corpus_guard.review.identities import ReviewAct
from deciding import ADA, decided
from deploying import BAD, GOOD, Workspace, deploy
from hashed_models import HashedModels

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(  # else two of three kills meet a process that still imports
    [
        "chromadb",
        "hashed_models",
        "purging",
        "corpus_guard.forensics.plan",
        "corpus_guard.pipeline.refresh",
        "corpus_guard.proof.healing",
        "corpus_guard.proof.verify.verification",
        "corpus_guard.review.release",
        "corpus_guard.screening.registry",
    ]
)
KILLS = int(os.environ.get("GUARD_TEST_KILLS", "100"))
WAIT = 240  # seconds


def work(deployment: Workspace, kind: str, run_id: str, subject: str) -> None:
    """Do one piece of work; it may have been done before, in part or whole."""
    with deployment.guard() as guard:
        WORK[kind](guard, run_id, subject)


def refresh(guard: Deployment, run_id: str, _: str) -> None:
    guard.refresh(run_id)


def release(guard: Deployment, run_id: str, _: str) -> None:
    guard.apply_decisions(run_id)


def withdraw(guard: Deployment, run_id: str, uri: str) -> None:
    with guard.ledger.write() as connection:
        served = connection.scalars(sa.select(documents.c.target_version).where(documents.c.uri == uri)).all()
        retire_versions(connection, run_id, [version for version in served if version], "withdrawn by a test")
    outbox.drain(guard.ledger, guard.storage, guard.store, run_id)
    guard.seal(run_id)


def restore(guard: Deployment, run_id: str, _: str) -> None:
    guard.restore(run_id)


def purge(guard: Deployment, run_id: str, uri: str) -> None:
    guard.purger.resume(run_id)
    with contextlib.suppress(UnknownSubject):  # purged already
        purge_document(guard, uri, run_id)


def repair(guard: Deployment, run_id: str, _: str) -> None:
    heal(guard.ledger, guard.storage, guard.store, run_id, guard.verify().deviations)
    guard.seal(run_id)


def work_case(guard: Deployment, run_id: str, case_id: str) -> None:
    guard.run_case(find_case(guard.ledger, case_id), run_id)


WORK: dict[str, Callable[[Deployment, str, str], None]] = {
    "refresh": refresh,
    "release": release,
    "withdraw": withdraw,
    "restore": restore,
    "purge": purge,
    "heal": repair,
    "case": work_case,
}
KINDS = tuple(os.environ.get("GUARD_TEST_KILL_KINDS", ",".join(WORK)).split(","))
"""Kinds of work that are killed, in turn; the first refreshes, so that the others have something to do."""


def logged(guard: Deployment) -> list[bytes]:
    return [repr(row).encode() for row in guard.ledger.rows(sa.select(events).order_by(events.c.seq))]


@pytest.mark.slow
@pytest.mark.timeout(KILLS * 60 + 600)
@pytest.mark.parametrize("kills", [len(KINDS), pytest.param(KILLS, marks=pytest.mark.hours)])
def test_killed_at_random_moments_everything_converges(tmp_path: Path, models_home: Path, kills: int) -> None:
    rng = random.Random(kills)
    deployment = deploy(tmp_path / "deployment", chroma_url="", models_home=models_home)
    deployment = Workspace(deployment.root, deployment.settings, HashedModels(deployment.settings))
    seconds = dict.fromkeys(KINDS, 3.0)
    counts: Counter[str] = Counter()
    served: set[str] = set()
    deployment.page("first.md")
    deployment.refresh("first")
    served.add("first.md")
    number = 0
    while counts["killed"] < kills:
        number += 1
        kind, run_id = KINDS[(number - 1) % len(KINDS)], f"run-{number}"
        subject = prepare(deployment, kind, number, served)
        began = time.monotonic()
        process = PROCESSES.Process(target=work, args=(deployment, kind, run_id, subject))
        process.start()
        process.join(rng.uniform(0, seconds[kind]))
        target = "chroma" if rng.random() < 0.4 else "worker"
        killed = kill(process.pid or 0, target)
        process.join(WAIT)
        if not killed:  # it was over before
            assert process.exitcode == 0, f"{kind} failed undisturbed"
            seconds[kind] = (time.monotonic() - began) * 0.9
        else:
            counts.update(["killed", f"{kind}, {target} killed"])
        with deployment.guard() as guard:
            acknowledged = logged(guard)

        again = PROCESSES.Process(target=work, args=(deployment, kind, f"{run_id}-again", subject))
        again.start()
        again.join(WAIT)

        where = f"{number}: {kind}, {target} killed"
        assert again.exitcode == 0, where
        with deployment.guard() as guard:
            assert logged(guard)[: len(acknowledged)] == acknowledged, f"{where}: events were lost"
            verified = guard.verify(deep=True)
            assert verified.holds, (where, verified.as_dict())
            names = guard.store.names()
            found = {str(record.metadata["uri"]) for name in names for record in guard.store.scan(name)}
        assert found == served, where
        if killed:
            print(f"{counts['killed']:3d} {where}: converged", flush=True)
    print("\n".join(f"{count:4d} {what}" for what, count in sorted(counts.items())))


def prepare(deployment: Workspace, kind: str, number: int, served: set[str]) -> str:
    """Give the work something to do, and note in `served` what is served at its end; return the document it is about."""
    if kind == "refresh":
        uri = f"good-{number}.md"
        deployment.page(uri, GOOD + f"\nEntry {number} of the log book.\n")
        deployment.page("first.md", GOOD + f"\nRewritten for the {number}th time.\n")
        deployment.page(f"bad-{number}.md", BAD + f"\nCopy {number}.\n")
        served |= {uri, "first.md"}
        return uri
    if not served - {"first.md"}:
        deployment.page(f"more-{number}.md", GOOD + f"\nEntry {number} of another log book.\n")
        deployment.refresh(f"more-{number}")
        served.add(f"more-{number}.md")
    with deployment.guard() as guard:
        if kind == "release":
            statement = sa.select(versions.c.version_id, documents.c.uri).join(
                documents, documents.c.latest_version == versions.c.version_id
            )
            row = guard.ledger.first(statement.where(versions.c.state == "quarantined"))
            if row is None:
                return ""
            decided(guard.ledger, row.version_id)
            served.add(row.uri)
            return str(row.uri)
        if kind == "restore":
            uri = sorted(served - {"first.md"})[0]
            take_back(guard, uri, f"withdrawal-{number}")
            return uri
        if kind == "heal":
            name = guard.store.names()[0]
            record = next(guard.store.scan(name))
            guard.store.delete(name, [record.chunk_id])
            return record.chunk_id
    uri = sorted(served - {"first.md"})[0]
    (deployment.pages / uri).unlink(missing_ok=True)
    served.discard(uri)
    return approved_case(deployment, uri) if kind == "case" else uri


def approved_case(deployment: Workspace, uri: str) -> str:
    """Open a case about a document, and approve that it is withdrawn and purged; return the id of the case."""
    with deployment.guard() as guard:
        members = find_member(guard.ledger, MemberKind.VERSION, uri)
        case = open_case(guard.ledger, uri, members, by="ada", reason="planted")
        for kind in (StepKind.WITHDRAW, StepKind.PURGE):
            steps = plan_case(guard.ledger, guard.policy, case, scope_of(guard.ledger, case))
            approve_step(guard.ledger, case.case_id, find_step(steps, kind).step, by="ada", reason="planted")
        return case.case_id


def take_back(guard: Deployment, uri: str, run_id: str) -> None:
    """Withdraw a document, undisturbed, and decide to restore it."""
    begin_run(guard.ledger, run_id, RunKind.WITHDRAWAL, guard.screening.digest)
    with guard.ledger.write() as connection:
        wanted = sa.select(documents.c.target_version).where(documents.c.uri == uri)
        version_ids = [str(version) for version in connection.scalars(wanted)]
        targets = removal_targets(connection, version_ids)
        withdraw_versions(
            connection, run_id, withdrawal_id(version_ids), version_ids, targets.content_sha256, targets.text_sha256,
            policy_digest=guard.screening.digest, by="ada", reason="traced",
        )  # fmt: skip
    outbox.drain(guard.ledger, guard.storage, guard.store, run_id)
    guard.seal(run_id)
    request_restore(guard.ledger, guard.policy.review, version_ids, ReviewAct(ADA, "honest", guard.screening.digest))


def kill(worker: int, target: str) -> bool:
    """Kill the worker or its Chroma; return whether one was still there."""
    try:
        process = psutil.Process(worker)
        if target == "chroma":
            servers: list[psutil.Process] = []
            while not servers and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # not started yet
                servers = [child for child in process.children(recursive=True) if "chroma" in " ".join(child.cmdline())]
                time.sleep(0.02)
            for server in servers:
                server.send_signal(signal.SIGKILL)
            return bool(servers)
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True
