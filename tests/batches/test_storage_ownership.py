"""Two deployments by mistake in one storage: the second is refused before it writes or erases anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus_guard.batches import Storage
from corpus_guard.batches.ownership import OWNER_FILE, claim_storage, require_own_storage
from corpus_guard.deployment import Deployment
from corpus_guard.errors import ForeignStorage
from corpus_guard.ledger import Ledger
from corpus_guard.pipeline.cleaning import clean
from corpus_guard.removal.purge_plan import PurgeSelectors, plan_purge
from deploying import Workspace


@pytest.fixture
def guard(deployment: Workspace) -> Iterator[Deployment]:
    """A sealed corpus."""
    deployment.page("good.md")
    with deployment.guard() as made:
        made.refresh("r1")
        yield made


def test_a_run_writes_the_id_once(guard: Deployment) -> None:
    assert guard.storage.read(OWNER_FILE).decode() == guard.ledger.deployment_id
    guard.refresh("r2")
    claim_storage(guard.ledger, guard.storage)
    require_own_storage(guard.ledger, guard.storage)


def test_an_empty_storage_belongs_to_whoever_comes_first(
    tmp_path: Path, sqlite_ledger: Ledger, guard: Deployment
) -> None:
    storage = Storage(str(tmp_path / "empty"))
    require_own_storage(guard.ledger, storage)

    claim_storage(sqlite_ledger, storage)

    with pytest.raises(
        ForeignStorage, match=f"belongs to deployment {sqlite_ledger.deployment_id}; this is deployment"
    ):
        claim_storage(guard.ledger, storage)


def test_a_storage_of_an_older_release_belongs_to_the_ledger_that_sealed_it(
    sqlite_ledger: Ledger, guard: Deployment
) -> None:
    guard.storage.remove(OWNER_FILE)

    with pytest.raises(ForeignStorage, match="holds manifests of another deployment"):
        claim_storage(sqlite_ledger, guard.storage)
    assert not guard.storage.exists(OWNER_FILE)
    claim_storage(guard.ledger, guard.storage)
    assert guard.storage.read(OWNER_FILE).decode() == guard.ledger.deployment_id


@pytest.mark.parametrize("work", ["refresh", "decisions", "clean", "purge", "resume"])
def test_nothing_is_written_or_erased_in_the_storage_of_another(
    sqlite_ledger: Ledger, guard: Deployment, work: str
) -> None:
    plan = plan_purge(guard.ledger, guard.storage, guard.blobs, PurgeSelectors(documents=("good.md",)))
    guard.storage.write(OWNER_FILE, sqlite_ledger.deployment_id.encode())
    before = guard.storage.names()

    with pytest.raises(ForeignStorage, match="Nothing was written or erased"):
        match work:
            case "refresh":
                guard.refresh("r2")
            case "decisions":
                guard.apply_decisions("r2")
            case "clean":
                clean(guard.ledger, guard.storage, guard.settings, "c1")
            case "purge":
                guard.purger.purge("p1", plan, "mo", "a request")
            case _:
                guard.purger.resume("p1")

    assert guard.storage.names() == before
