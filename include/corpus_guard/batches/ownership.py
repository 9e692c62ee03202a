"""The deployment that a storage belongs to.

Rules
    * a storage names its deployment in the file `deployment`, by the id that is in the ledger;
    * in one that names another no run begins, and nothing is erased: what this ledger does not name is theirs, not left over;
    * one that names none is new, or of an older release. It is ours if it holds no manifests, or if this ledger sealed more than
      half of them. It gets the id with the next run.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.errors import ForeignStorage
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import seals

OWNER_FILE: Final = "deployment"


def claim_storage(ledger: Ledger, storage: Storage) -> None:
    """Write the id of the deployment into a storage that has none.

    Raises:
        ForeignStorage: it belongs to another deployment.
    """
    if not storage.exists(OWNER_FILE):
        require_own_storage(ledger, storage)
        storage.write(OWNER_FILE, ledger.deployment_id.encode(), keep_existing=True)  # of two the first stands
    require_own_storage(ledger, storage)


def require_own_storage(ledger: Ledger, storage: Storage) -> None:
    """Check that a storage belongs to the deployment of `ledger`.

    Raises:
        ForeignStorage: it names another deployment, or none and holds mostly manifests that this ledger did not seal.
    """
    if storage.exists(OWNER_FILE):
        owner = storage.read(OWNER_FILE).decode("utf-8", "replace").strip()
        belongs = "" if owner == ledger.deployment_id else f"belongs to deployment {owner[:64]}"
    else:
        belongs = "" if _holds_own_manifests(ledger, storage) else "holds manifests of another deployment"
    if belongs:
        raise ForeignStorage(
            f"storage {storage.url} {belongs}; this is deployment {ledger.deployment_id}, ledger {ledger.address}. Nothing was "
            "written or erased. Set CORPUS_GUARD_STORAGE_URL to a storage of this deployment: an empty one, or a copy "
            f"whose file {OWNER_FILE} holds {ledger.deployment_id}"
        )


def _holds_own_manifests(ledger: Ledger, storage: Storage) -> bool:
    stored = {name for name in storage.names() if name.startswith("manifests/")}
    with ledger.read() as connection:
        own = stored.intersection(connection.scalars(sa.select(seals.c.manifest).distinct()))
    return not stored or 2 * len(own) > len(stored)
