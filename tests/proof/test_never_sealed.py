"""A home whose first refresh has not ended is no incident; one that lost its seals is."""

from __future__ import annotations

from corpus_guard.deployment import Deployment
from corpus_guard.ledger.tables import seals
from corpus_guard.proof.incidents import examine, is_never_sealed
from deploying import Workspace


def never_sealed(guard: Deployment) -> bool:
    examination = examine(guard.ledger, guard.storage, guard.store, guard.settings)
    assert not examination.clean
    return is_never_sealed(guard.ledger, examination.verification)


def test_a_new_home_lacks_only_a_seal(deployment: Workspace) -> None:
    with deployment.guard() as guard:
        assert never_sealed(guard)


def test_a_home_that_lost_its_seals_is_an_incident(deployment: Workspace) -> None:
    deployment.page("good.md")
    with deployment.guard() as guard:
        guard.refresh("r1")
        with guard.ledger.engine.begin() as connection:
            connection.execute(seals.delete())

        assert not never_sealed(guard)
