"""Decisions take effect once, whoever is killed, whoever undoes meanwhile, and only when they are complete."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.batches.reading import BatchDamaged
from corpus_guard.batches.tables import versions_from_table, versions_to_table
from corpus_guard.domain import Severity
from corpus_guard.errors import Stale
from corpus_guard.ledger.tables import decisions, publications, versions
from corpus_guard.review import release as applying
from corpus_guard.review import serving
from corpus_guard.review.decisions import Choice
from corpus_guard.review.evidence import load_evidence
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.queue import QueueItem, load_page
from corpus_guard.review.release import count_pending_decisions
from corpus_guard.review.undo import undo_decision
from corpus_guard.screening.policy import ReviewRules
from deciding import ADA, MO, decided
from deploying import BAD, Workspace
from hashed_models import HashedModels

RULES = ReviewRules(two_person_severity=Severity.LOW)
PROCESSES = multiprocessing.get_context(
    "forkserver"
)  # a plain fork of a process that has computed never computes again


@pytest.fixture
def item(deployment: Workspace) -> QueueItem:
    deployment.page("good.md")
    deployment.page("bad.md", BAD)
    with deployment.guard() as guard:
        guard.refresh("r1")
        (one,) = load_page(guard.ledger).items
    return one


def served(deployment: Workspace) -> set[str]:
    with deployment.guard() as guard:
        return {str(record.metadata["uri"]) for name in guard.store.names() for record in guard.store.scan(name)}


def state(deployment: Workspace, item: QueueItem) -> str:
    with deployment.guard() as guard, guard.ledger.read() as connection:
        return str(connection.scalar(sa.select(versions.c.state).where(versions.c.version_id == item.version_id)))


def test_half_an_approval_publishes_nothing_and_the_second_does(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id, by=ADA, rules=RULES)
        first = guard.apply_decisions("d1")
    assert (first["released"], first["published"]) == (0, 0)
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")

    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id, by=MO, rules=RULES)
        second = guard.apply_decisions("d2")
        left = count_pending_decisions(guard.ledger)
        holds = guard.verify()

    assert (second["released"], left) == (1, 0)
    assert served(deployment) == {"good.md", "bad.md"}
    assert holds.holds, holds.as_dict()


@pytest.mark.parametrize("choices", [("release",), ("release", "reject")])
def test_what_was_undone_is_not_applied(deployment: Workspace, item: QueueItem, choices: tuple[Choice, ...]) -> None:
    """Nor is an older release that an undone rejection had replaced."""
    with deployment.guard() as guard:
        for choice in choices:
            (made,) = decided(guard.ledger, item.version_id, choice)
        undo_decision(guard.ledger, made.decision_id, ReviewAct(MO, "wrong one"))
        result = guard.apply_decisions("d1")
        holds = guard.verify()

    assert (result["released"], result["rejected"]) == (0, 0)
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")
    assert holds.holds, holds.as_dict()


@pytest.mark.parametrize("released_first", [False, True])
def test_a_rejection_that_took_effect_can_be_undone(
    deployment: Workspace, item: QueueItem, *, released_first: bool
) -> None:
    with deployment.guard() as guard:
        if released_first:
            decided(guard.ledger, item.version_id)
        (rejection,) = decided(guard.ledger, item.version_id, "reject")
        guard.apply_decisions("d1")
        assert state(deployment, item) == "rejected"

        undo_decision(guard.ledger, rejection.decision_id, ReviewAct(MO, "wrong one"))

        assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")
        assert guard.verify().holds
        with pytest.raises(Stale, match="was already undone"):
            undo_decision(guard.ledger, rejection.decision_id, ReviewAct(MO, "again"))
        guard.refresh("r2")
        assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined"), "no older release counts"
        decided(guard.ledger, item.version_id)
        guard.apply_decisions("d2")

        assert served(deployment) == {"good.md", "bad.md"}
        assert guard.verify().holds


def test_a_rejection_that_was_decided_on_again_is_not_undone(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        (first,) = decided(guard.ledger, item.version_id, "reject")
        guard.apply_decisions("d1")
        undo_decision(guard.ledger, first.decision_id, ReviewAct(MO, "wrong one"))
        (second,) = decided(guard.ledger, item.version_id)
        guard.apply_decisions("d2")

        with pytest.raises(Stale, match="has taken effect"):
            undo_decision(guard.ledger, second.decision_id, ReviewAct(MO, "too late"))
    assert served(deployment) == {"good.md", "bad.md"}


def test_an_undone_rejection_is_not_kept_for_the_same_bytes(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id, "reject")
        undo_decision(guard.ledger, made.decision_id, ReviewAct(MO, "wrong one"))
    deployment.page("bad.md", "# Pump\n\nThe pump behind the office is painted blue every second year.\n")
    deployment.refresh("r2")
    deployment.page("bad.md", BAD)

    deployment.refresh("r3")

    assert state(deployment, item) == "quarantined"


def test_a_rejection_that_is_undone_after_the_bytes_came_again_lets_them_wait(
    deployment: Workspace, item: QueueItem
) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id, "reject")
    deployment.page("bad.md", "# Pump\n\nThe pump behind the office is painted blue every second year.\n")
    deployment.refresh("r2")
    deployment.page("bad.md", BAD)
    with deployment.guard() as guard:
        guard.refresh("r3")
        assert load_page(guard.ledger).items == (), "the rejection stands, applied or not"

        undo_decision(guard.ledger, made.decision_id, ReviewAct(MO, "wrong one"))

        assert [one.version_id for one in load_page(guard.ledger).items] == [item.version_id]
        assert guard.verify().holds


def test_who_undoes_while_vectors_are_made_is_heard(
    deployment: Workspace, item: QueueItem, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = serving.embed_stored
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id)

        def slowly(*arguments: Any) -> Any:
            undo_decision(guard.ledger, made.decision_id, ReviewAct(MO, "wait"))
            return embed(*arguments)

        monkeypatch.setattr(serving, "embed_stored", slowly)
        result = guard.apply_decisions("d1")

    assert (result["released"], result["published"]) == (0, 0)
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")


def test_who_undoes_too_late_is_told(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id)
        guard.apply_decisions("d1")

        with pytest.raises(Stale, match="has taken effect"):
            undo_decision(guard.ledger, made.decision_id, ReviewAct(MO, "too late"))

    assert state(deployment, item) == "released"


QUICK = ("the ledger knows", "before it is sealed")
MOMENTS = ("before anything", "vectors are made", "the ledger knows", "Chroma has it", "before it is sealed")


def die_at(deployment: Workspace, moment: str) -> None:
    """Apply in a process that is killed there."""

    def die(*_arguments: Any, **_named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "before anything":
        applying.begin_run = die  # type: ignore[attr-defined]
    elif moment == "vectors are made":
        applying.publishing.request_publication = die  # type: ignore[attr-defined]
    elif moment == "the ledger knows":
        applying.outbox.drain = die  # type: ignore[attr-defined]
    elif moment == "Chroma has it":
        from corpus_guard.corpus import outbox

        drain = outbox.drain
        applying.outbox.drain = lambda *given: (drain(*given), die())  # type: ignore[attr-defined]
    else:
        applying.seal_run = die  # type: ignore[attr-defined]
    with deployment.guard() as guard:
        guard.apply_decisions("d1")


@pytest.mark.parametrize(
    "moment", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MOMENTS]
)
def test_killed_between_deciding_and_serving_a_second_run_converges(
    deployment: Workspace, item: QueueItem, moment: str
) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id)
    alone = Workspace(deployment.root, deployment.settings, HashedModels(deployment.settings))
    process = PROCESSES.Process(target=die_at, args=(alone, moment))
    process.start()
    process.join(240)
    assert process.exitcode == -signal.SIGKILL

    with deployment.guard() as guard:
        guard.apply_decisions("d2")
        again = guard.apply_decisions("d3")
        holds = guard.verify()
        with guard.ledger.read() as connection:
            states = set(connection.scalars(sa.select(publications.c.state)))
            applied = connection.scalars(sa.select(decisions.c.applied_at)).all()

    assert served(deployment) == {"good.md", "bad.md"}
    assert (again["released"], again["published"]) == (0, 0)
    assert (states, state(deployment, item)) == ({"published"}, "released")
    assert None not in applied
    assert holds.holds, holds.as_dict()


def test_an_edited_batch_is_refused_by_name_before_anything_is_embedded(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id)
        batch = str(guard.ledger.scalar(sa.select(versions.c.batch).where(versions.c.version_id == item.version_id)))
        stored = versions_from_table(guard.storage.read_table(batch))
        edited = [replace(version, text=version.text.replace("spare pump", "spare room")) for version in stored]
        Path(guard.storage.location(batch)).unlink()
        guard.storage.write_table(batch, versions_to_table(edited))
        files = sorted(Path(guard.storage.location(batch)).parent.iterdir())

        with pytest.raises(BatchDamaged, match="its text is not the one that was judged") as caught:
            guard.apply_decisions("d1")

        assert batch in str(caught.value)
        with pytest.raises(BatchDamaged, match="not the one that was judged"):
            load_evidence(guard.ledger, guard.storage, item)
        assert count_pending_decisions(guard.ledger) == 1
        assert sorted(Path(guard.storage.location(batch)).parent.iterdir()) == files, "nothing was embedded"
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")
