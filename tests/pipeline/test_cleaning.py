"""Cleaning removes what nobody needs any more, says so in the log, and leaves all evidence."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.batches.logged_files import log_files
from corpus_guard.batches.reading import BatchDamaged, read_checked_versions
from corpus_guard.deployment import Deployment
from corpus_guard.domain import sha256_bytes
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import at_work, begin_run
from corpus_guard.ledger.tables import events, publications, versions
from corpus_guard.pipeline import cleaning
from corpus_guard.pipeline.cleaning import CleaningResult, DisposableKind, clean
from corpus_guard.pipeline.rebuild import CannotRebuild, batches_of_documents, rebuild
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.incidents import end_incident, open_incident
from deciding import decided
from deploying import BAD, GOOD, Workspace

PROCESSES = multiprocessing.get_context("forkserver")
DAYS = 40


def grow_old(guard: Deployment) -> None:
    """Make every stored file as old as if it had been written DAYS days ago."""
    then = time.time() - DAYS * 86_400
    for path in Path(guard.settings.storage).rglob("*"):
        os.utime(path, (then, then))


def cleaned(guard: Deployment, run_id: str = "c1", **options: bool) -> CleaningResult:
    return clean(guard.ledger, guard.storage, guard.settings, run_id, **options)


def empty_page_changes_twice(deployment: Workspace, guard: Deployment) -> tuple[str, str]:
    """Return the batches of two versions that the policy rejects, the newer one last."""
    for run_id in ("r2", "r3"):
        deployment.page("empty.md", "\n" * int(run_id[1]))
        guard.refresh(run_id)
    with guard.ledger.read() as connection:
        rows = connection.execute(sa.select(versions.c.run_id, versions.c.batch).where(versions.c.state == "rejected"))
        of_run = {row.run_id: row.batch for row in rows}
    return of_run["r2"], of_run["r3"]


def rooms(guard: Deployment) -> Counter[str]:
    return Counter(name.partition("/")[0] for name in guard.storage.names())


def holds(guard: Deployment) -> None:
    verified = guard.verify(deep=True)
    assert verified.holds, verified.as_dict()
    assert verified.unsigned == 0


def test_young_files_stay_and_old_files_of_runs_go(guard: Deployment) -> None:
    before = guard.storage.names()
    assert cleaned(guard)["removed"] == {}
    assert guard.storage.names() == before

    grow_old(guard)
    dry = cleaned(guard, dry_run=True)
    assert guard.storage.names() == before
    result = cleaned(guard)

    assert dry["removed"] == result["removed"]
    assert result["removed"].keys() == {DisposableKind.RUN, DisposableKind.CANARIES}
    gone = before - guard.storage.names()
    assert len(gone) == sum(totals["files"] for totals in result["removed"].values())
    assert {name.partition("/")[0] for name in gone} == {"runs", "canaries"}
    told = guard.ledger.scalars(sa.select(events.c.body).where(events.c.kind == "cleaned"))
    assert {name for body in told for name in body["files"]} == gone
    assert sum(body["bytes"] for body in told) == sum(totals["bytes"] for totals in result["removed"].values()) > 0
    holds(guard)
    assert cleaned(guard)["removed"] == {}
    assert not any(
        path.is_dir() and not any(path.iterdir()) for path in Path(guard.settings.storage, "runs").rglob("*")
    )


def test_nothing_is_removed_with_no_days_while_a_run_works_or_while_an_incident_is_red(guard: Deployment) -> None:
    grow_old(guard)
    before = guard.storage.names()
    forever = guard.settings.model_copy(update={"clean_days": 0})
    assert clean(guard.ledger, guard.storage, forever, "c1")["days"] == 0

    with at_work(guard.ledger, "r2"):
        begin_run(guard.ledger, "r2", "refresh", "0" * 64)
        assert "run r2 is at work" in cleaned(guard)["waits_for"]

    incident = open_incident(
        guard.ledger, guard.storage, "i1", [Deviation(DeviationKind.REMOVED, "x", "gone", "", "", "", "")]
    )
    assert "is not acknowledged" in cleaned(guard)["waits_for"]
    assert before <= guard.storage.names()

    end_incident(guard.ledger, guard.settings, incident.incident_id, "closed", by="mo", reason="a drill", run_id="i1")
    assert cleaned(guard)["removed"]


def test_what_is_served_waits_or_was_decided_on_stays(deployment: Workspace, guard: Deployment) -> None:
    """The texts of a version that was served once, of one that a person rejected, and of one that waits."""
    waiting = guard.ledger.scalar(sa.select(versions.c.version_id).where(versions.c.state == "quarantined"))
    decided(guard.ledger, waiting, "reject")
    guard.apply_decisions("d1")
    for number in range(2):
        deployment.page("good.md", GOOD + f"\nRewritten {number}.\n")
        deployment.page("bad.md", BAD + f"\nAgain {number}.\n")
        guard.refresh(f"again-{number}")
    grow_old(guard)
    with guard.ledger.read() as connection:
        batches = set(connection.scalars(sa.select(versions.c.batch)))
        vectors = set(connection.scalars(sa.select(publications.c.vectors)))
    assert len(batches) == 3

    cleaned(guard)

    for name in batches:
        read_checked_versions(guard.ledger, guard.storage, name)
    assert vectors <= guard.storage.names()
    holds(guard)


def test_a_rejected_and_replaced_batch_goes_and_says_so(deployment: Workspace, guard: Deployment) -> None:
    replaced, newest = empty_page_changes_twice(deployment, guard)
    grow_old(guard)

    result = cleaned(guard)

    assert result["removed"][DisposableKind.REJECTED]["files"] >= 3
    assert not guard.storage.exists(replaced)
    assert guard.storage.exists(newest)
    holds(guard)
    with pytest.raises(BatchDamaged, match=r"removed on .* by c1: the policy had rejected what it holds"):
        read_checked_versions(guard.ledger, guard.storage, replaced)
    with pytest.raises(CannotRebuild, match=r"is not lost: it was removed on .* by c1"):
        rebuild(guard.ledger, guard.storage, guard.blobs, guard.models, guard.settings, "b1", replaced)
    assert not guard.storage.exists(replaced)
    assert replaced not in batches_of_documents(guard.ledger)
    guard.rescreen("again")
    holds(guard)


def test_what_an_incident_names_stays(deployment: Workspace, guard: Deployment) -> None:
    replaced, _ = empty_page_changes_twice(deployment, guard)
    version = guard.ledger.scalar(sa.select(versions.c.version_id).where(versions.c.batch == replaced))
    deviation = Deviation(DeviationKind.LEDGER_CHANGED, str(version), "changed", "", "", "", "")
    incident = open_incident(guard.ledger, guard.storage, "i1", [deviation])
    end_incident(guard.ledger, guard.settings, incident.incident_id, "closed", by="mo", reason="a drill", run_id="i1")
    grow_old(guard)

    assert DisposableKind.REJECTED not in cleaned(guard)["removed"]
    assert guard.storage.exists(replaced)


def test_files_to_which_nothing_refers_go(guard: Deployment) -> None:
    folder = str(guard.ledger.scalar(sa.select(versions.c.batch).limit(1))).rpartition("/")[0]
    junk = {
        "batches/0123/versions.parquet": DisposableKind.UNRECORDED,
        "batches/0123/signals.parquet": DisposableKind.UNRECORDED,
        f"{folder}/vectors-0123.parquet": DisposableKind.VECTORS,
        f"{folder}/judgements-0123.parquet": DisposableKind.VERDICTS,
        "manifests/0123.jsonl": DisposableKind.MANIFESTS,
        f"{folder}/.0123": DisposableKind.DRAFTS,
        "raw/sha256/01/.0123": DisposableKind.DRAFTS,
    }
    for name in junk:
        guard.storage.write(name, b"left over")
    for number in range(2):
        guard.storage.write(f"query-bank/vectors-{number}.parquet", b"vectors")
    grow_old(guard)
    newer = time.time() - 35 * 86_400
    os.utime(guard.storage.location("query-bank/vectors-1.parquet"), (newer, newer))

    result = cleaned(guard)

    assert junk.keys().isdisjoint(guard.storage.names())
    assert guard.storage.exists("query-bank/vectors-1.parquet")
    expected = Counter(junk.values()) + Counter({DisposableKind.QUESTIONS: 1})
    found = {kind: totals["files"] for kind, totals in result["removed"].items()}
    assert {kind: found[kind] for kind in expected} == dict(expected)
    holds(guard)


def test_a_file_that_is_not_as_it_was_logged_stays(guard: Deployment) -> None:
    guard.storage.write("batches/0123/versions.parquet", b"as it was")
    with guard.ledger.write() as connection:
        log_files(connection, "r1", {"batches/0123/versions.parquet": sha256_bytes(b"as it was")})
    guard.storage.write("batches/0123/versions.parquet", b"edited")
    grow_old(guard)

    result = cleaned(guard)

    assert result["changed"] == ["batches/0123/versions.parquet"]
    assert guard.storage.read("batches/0123/versions.parquet") == b"edited"


def test_a_batch_that_is_recorded_meanwhile_stays(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment_batch = "batches/0123/versions.parquet"
    guard.storage.write(deployment_batch, b"of a run that was killed")
    grow_old(guard)
    changed = cleaning._changed_files

    def recorded_first(*given: object) -> list[str]:
        guard.ledger.execute(versions.update().values(batch=deployment_batch))
        return changed(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(cleaning, "_changed_files", recorded_first)
    assert DisposableKind.UNRECORDED not in cleaned(guard)["removed"]
    assert guard.storage.exists(deployment_batch)


def killed_before_the_files_go(deployment: Workspace) -> None:
    with deployment.guard() as guard:
        guard.storage.remove = lambda name: os._exit(9)  # type: ignore[method-assign]
        cleaned(guard, "killed")


def test_killed_in_the_middle_it_converges(deployment: Workspace, guard: Deployment) -> None:
    guard.storage.write("batches/0123/versions.parquet", b"left over")
    grow_old(guard)
    before = guard.storage.names()
    plain = Workspace(deployment.root, deployment.settings)
    process = PROCESSES.Process(target=killed_before_the_files_go, args=(plain,))
    process.start()
    process.join(120)
    assert process.exitcode == 9
    assert guard.storage.names() == before
    verified = guard.verify(deep=True)
    assert verified.holds, verified.as_dict()

    cleaned(guard)

    assert rooms(guard)["runs"] == 0
    assert not guard.storage.exists("batches/0123/versions.parquet")
    holds(guard)


def test_age_is_that_of_the_file(guard: Deployment) -> None:
    guard.storage.write("batches/0123/versions.parquet", b"x")
    assert abs(guard.storage.written_at("batches/0123/versions.parquet") - now()) < timedelta(minutes=5)
