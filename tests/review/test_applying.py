"""Decisions take effect once, whoever is killed, whoever undoes meanwhile, and only when they are complete."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.domain import Severity
from corpus_guard.errors import Stale
from corpus_guard.ledger.tables import decisions, publications, versions
from corpus_guard.proof.verification import verify
from corpus_guard.refresh.run import refresh
from corpus_guard.review import applying
from corpus_guard.review.applying import apply, unapplied
from corpus_guard.review.queue import Item, waiting
from corpus_guard.review.undoing import undo
from corpus_guard.screening.policy import ReviewRules
from deciding import ADA, MO, decided
from deploying import BAD, Deployment

RULES = ReviewRules(two_person_severity=Severity.LOW)
PROCESSES = multiprocessing.get_context(
    "forkserver"
)  # a plain fork of a process that has computed never computes again


@pytest.fixture
def item(deployment: Deployment) -> Item:
    deployment.page("good.md")
    deployment.page("bad.md", BAD)
    with deployment.guard() as guard:
        refresh(guard, "r1")
        (one,) = waiting(guard.ledger)[0]
    return one


def served(deployment: Deployment) -> set[str]:
    with deployment.guard() as guard:
        return {str(record.metadata["uri"]) for name in guard.store.names() for record in guard.store.scan(name)}


def state(deployment: Deployment, item: Item) -> str:
    with deployment.guard() as guard, guard.ledger.read() as connection:
        return str(connection.scalar(sa.select(versions.c.state).where(versions.c.version_id == item.version_id)))


def test_half_an_approval_publishes_nothing_and_the_second_does(deployment: Deployment, item: Item) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id, by=ADA, rules=RULES)
        first = apply(guard, "d1")
    assert (first["released"], first["published"]) == (0, 0)
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")

    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id, by=MO, rules=RULES)
        second = apply(guard, "d2")
        left = unapplied(guard.ledger)
        holds = verify(guard)

    assert (second["released"], left) == (1, 0)
    assert served(deployment) == {"good.md", "bad.md"}
    assert holds.holds, holds.as_dict()


def test_what_was_undone_is_not_applied(deployment: Deployment, item: Item) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id)
        undo(guard.ledger, made.decision_id, reviewer=MO, reason="wrong one")
        result = apply(guard, "d1")
        holds = verify(guard)

    assert (result["released"], result["rejected"]) == (0, 0)
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")
    assert holds.holds, holds.as_dict()


def test_an_undone_rejection_is_not_kept_for_the_same_bytes(deployment: Deployment, item: Item) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id, "reject")
        undo(guard.ledger, made.decision_id, reviewer=MO, reason="wrong one")
    deployment.page("bad.md", "# Pump\n\nThe pump behind the office is painted blue every second year.\n")
    with deployment.guard() as guard:
        refresh(guard, "r2")
    deployment.page("bad.md", BAD)

    with deployment.guard() as guard:
        refresh(guard, "r3")

    assert state(deployment, item) == "quarantined"


def test_a_rejection_that_is_undone_after_the_bytes_came_again_lets_them_wait(
    deployment: Deployment, item: Item
) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id, "reject")
    deployment.page("bad.md", "# Pump\n\nThe pump behind the office is painted blue every second year.\n")
    with deployment.guard() as guard:
        refresh(guard, "r2")
    deployment.page("bad.md", BAD)
    with deployment.guard() as guard:
        refresh(guard, "r3")
        assert waiting(guard.ledger)[0] == [], "the rejection stands, applied or not"

        undo(guard.ledger, made.decision_id, reviewer=MO, reason="wrong one")

        assert [one.version_id for one in waiting(guard.ledger)[0]] == [item.version_id]
        assert verify(guard).holds


def test_who_undoes_while_vectors_are_made_is_heard(
    deployment: Deployment, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = applying.embed_chunks
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id)

        def slowly(*arguments: Any) -> Any:
            undo(guard.ledger, made.decision_id, reviewer=MO, reason="wait")
            return embed(*arguments)

        monkeypatch.setattr(applying, "embed_chunks", slowly)
        result = apply(guard, "d1")

    assert (result["released"], result["published"]) == (0, 0)
    assert (served(deployment), state(deployment, item)) == ({"good.md"}, "quarantined")


def test_who_undoes_too_late_is_told(deployment: Deployment, item: Item) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id)
        apply(guard, "d1")

        with pytest.raises(Stale, match="has taken effect"):
            undo(guard.ledger, made.decision_id, reviewer=MO, reason="too late")

    assert state(deployment, item) == "released"


MOMENTS = ("before anything", "vectors are made", "the ledger knows", "Chroma has it", "before it is sealed")


def die_at(deployment: Deployment, moment: str) -> None:
    """Apply in a process that is killed there."""

    def die(*_arguments: Any, **_named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "before anything":
        applying.begin = die
    elif moment == "vectors are made":
        applying.publishing.request = die  # type: ignore[attr-defined]
    elif moment == "the ledger knows":
        applying.outbox.drain = die  # type: ignore[attr-defined]
    elif moment == "Chroma has it":
        from corpus_guard.corpus import outbox

        drain = outbox.drain
        applying.outbox.drain = lambda *given: (drain(*given), die())  # type: ignore[attr-defined]
    else:
        applying.seal_corpus = die  # type: ignore[attr-defined]
    with deployment.guard() as guard:
        apply(guard, "d1")


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_between_deciding_and_serving_a_second_run_converges(
    deployment: Deployment, item: Item, moment: str
) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id)
    alone = Deployment(deployment.root, deployment.settings)  # models are loaded there
    process = PROCESSES.Process(target=die_at, args=(alone, moment))
    process.start()
    process.join(240)
    assert process.exitcode == -signal.SIGKILL

    with deployment.guard() as guard:
        apply(guard, "d2")
        again = apply(guard, "d3")
        holds = verify(guard)
        with guard.ledger.read() as connection:
            states = set(connection.scalars(sa.select(publications.c.state)))
            applied = connection.scalars(sa.select(decisions.c.applied_at)).all()

    assert served(deployment) == {"good.md", "bad.md"}
    assert (again["released"], again["published"]) == (0, 0)
    assert (states, state(deployment, item)) == ({"published"}, "released")
    assert None not in applied
    assert holds.holds, holds.as_dict()
