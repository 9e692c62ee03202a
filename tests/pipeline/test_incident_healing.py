"""An older ledger beside newer collections, and what a person accepted: nothing honest goes, and nothing comes back unseen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.ledger.states import IncidentState
from corpus_guard.ledger.tables import runs
from corpus_guard.pipeline.cleaning import clean
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.incidents import examine, open_incident
from corpus_guard.removal.purge_plan import PurgeSelectors, plan_purge
from deploying import GOOD, Workspace


def found(guard: Deployment) -> dict[DeviationKind, list[Deviation]]:
    by_kind: dict[DeviationKind, list[Deviation]] = {}
    for deviation in examine(guard.ledger, guard.storage, guard.store, guard.settings).unanswered:
        by_kind.setdefault(deviation.kind, []).append(deviation)
    return by_kind


def incident_of(guard: Deployment) -> str:
    verification = guard.verify()
    return open_incident(guard.ledger, guard.storage, "night", verification.deviations).incident_id


@pytest.fixture
def rolled_back(deployment: Workspace, tmp_path: Path) -> Workspace:
    """The ledger of the first refresh beside the collections of the second, which replaced a page and added one."""
    ledger, copy = deployment.settings.home / "ledger.sqlite", tmp_path / "copy.sqlite"
    deployment.page("old.md")
    deployment.page("replaced.md")
    deployment.refresh("r1")
    shutil.copy(ledger, copy)
    deployment.page("new.md")
    deployment.page("replaced.md", GOOD.replace("boat house", "ferry"))
    deployment.refresh("r2")
    for file in ledger.parent.glob("ledger.sqlite-*"):
        file.unlink()
    shutil.copy(copy, ledger)
    return deployment


def test_a_refresh_over_an_older_ledger_does_nothing(rolled_back: Workspace) -> None:
    served = rolled_back.served()
    rolled_back.page("newest.md")

    with pytest.raises(Inconsistent, match="it was rolled back"):
        rolled_back.refresh("r3")

    assert rolled_back.served() == served
    assert [row.run_id for row in rolled_back.read(sa.select(runs.c.run_id))] == ["r1"]


def test_nothing_is_cleaned_or_purged_by_an_older_ledger(rolled_back: Workspace) -> None:
    with rolled_back.guard() as guard:
        before = guard.storage.names()
        plan = plan_purge(guard.ledger, guard.storage, guard.blobs, PurgeSelectors(documents=("old.md",)))

        with pytest.raises(Inconsistent, match="it was rolled back"):
            clean(guard.ledger, guard.storage, guard.settings, "c1")
        with pytest.raises(Inconsistent, match="it was rolled back"):
            guard.purger.purge("p1", plan, "mo", "a request")
        with pytest.raises(Inconsistent, match="it was rolled back"):
            guard.purger.resume("p1")

        assert guard.storage.names() == before


def test_a_refresh_without_the_keys_of_the_ledger_does_nothing(deployment: Workspace) -> None:
    deployment.page("old.md")
    deployment.refresh("r1")
    served = deployment.served()
    deployment.page("new.md")
    for key in deployment.settings.keys.glob("*.pem"):
        key.unlink()

    with pytest.raises(SettingsError, match="No such file or directory"):
        deployment.refresh("r2")

    assert deployment.served() == served
    assert [row.run_id for row in deployment.read(sa.select(runs.c.run_id))] == ["r1"]


def test_an_older_ledger_heals_nothing_until_a_person_accepts_it(rolled_back: Workspace) -> None:
    served = rolled_back.served()
    with rolled_back.guard() as guard:
        incident = incident_of(guard)
        assert {DeviationKind.ROLLED_BACK, DeviationKind.ADDED, DeviationKind.REMOVED} <= set(found(guard))

        healing = guard.heal_incident(incident, "heal-1", by="integrity_nightly")

        assert healing.incident.state == IncidentState.OPEN
        assert rolled_back.served() == served

        guard.accept_incident(incident, "accept-1", by="mo", reason="Tuesday's backup")
        guard.seal("accept-1")

        assert DeviationKind.ROLLED_BACK not in found(guard)
        assert not {DeviationKind.ADDED, DeviationKind.REMOVED} & set(found(guard))
    rolled_back.refresh("r3")
    assert rolled_back.served() == served


def test_an_incident_that_is_older_than_the_other_ledger_heals_nothing_either(rolled_back: Workspace) -> None:
    served = rolled_back.served()
    with rolled_back.guard() as guard:
        records = [deviation for deviation in guard.verify().deviations if deviation.healable]
        incident = open_incident(guard.ledger, guard.storage, "before", records).incident_id

        guard.heal_incident(incident, "heal-1", by="guard incident heal")

    assert rolled_back.served() == served


def test_a_ledger_that_was_lost_is_begun_anew_once_that_is_accepted(deployment: Workspace) -> None:
    deployment.page("old.md")
    deployment.refresh("r1")
    served = deployment.served()
    for file in deployment.settings.home.glob("ledger.sqlite*"):
        file.unlink()
    shutil.rmtree(deployment.settings.home / "storage")
    with deployment.guard() as guard:  # a new ledger has a new id
        for name in guard.store.names():
            guard.store.__class__(guard.store.url, guard.store.prefix).delete_collection(name)
    with deployment.guard() as guard, pytest.raises(Inconsistent, match="it was rolled back"):
        guard.refresh("r2")
    with deployment.guard() as guard:
        guard.accept_incident(incident_of(guard), "accept-1", by="mo", reason="no copy is left")
        guard.seal("accept-1")

    deployment.refresh("r3")

    assert deployment.served() == served
    with deployment.guard() as guard:
        assert not {DeviationKind.ROLLED_BACK, DeviationKind.HEAD_MISSING} & set(found(guard))


def test_a_record_that_goes_again_after_its_incident_was_accepted_is_named_again(deployment: Workspace) -> None:
    deployment.page("old.md")
    deployment.refresh("r1")
    with deployment.guard() as guard:
        collection = guard.store.collection_name(TrustLevel.OPEN)
        [chunk] = [record.chunk_id for record in guard.store.scan(collection)]
        guard.store.delete(collection, [chunk])
        guard.accept_incident(incident_of(guard), "accept-1", by="mo", reason="a test of mine")
        guard.seal("accept-1")
        assert found(guard) == {}

        guard.store.delete(collection, [chunk])

        assert [deviation.subject for deviation in found(guard)[DeviationKind.REMOVED]] == [chunk]


def test_a_log_that_no_key_verifies_is_never_clean(deployment: Workspace) -> None:
    deployment.page("old.md")
    deployment.refresh("r1")
    shutil.rmtree(deployment.settings.keys)
    with deployment.guard() as guard:
        guard.accept_incident(incident_of(guard), "accept-1", by="mo", reason="the keys are lost")

        examination = examine(guard.ledger, guard.storage, guard.store, guard.settings)

    assert examination.unanswered == ()
    assert not examination.clean
