"""Versions of a batch that a decision brings into service: embedded, published and compared with what is served."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import log_files
from corpus_guard.corpus import publishing
from corpus_guard.corpus.store import Store
from corpus_guard.corpus.vectors import embed_stored
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.review.reopening import contradictions_of_released, reopen

if TYPE_CHECKING:
    from corpus_guard.screening.runner import Screening

Confirm: TypeAlias = Callable[[sa.Connection], Collection[str]]
"""Writes what was decided, and returns the ids of the versions that are to be served."""


def serve_batch(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    models: Models,
    screening: Screening,
    run_id: str,
    batch: str,
    version_ids: Sequence[str],
    confirm: Confirm,
) -> tuple[Collection[str], int]:
    """Embed versions of a batch and ask the outbox to publish those that are confirmed, in one transaction with that.

    Returns:
        the confirmed versions, and how many served ones were reopened because a trusted one of them contradicts them.

    Raises:
        BatchDamaged: the batch does not hold what was judged; nothing of it was embedded or published.
    """
    stored, vectors, model, hashes = embed_stored(ledger, storage, models, batch, version_ids)
    contradictions = contradictions_of_released(stored, vectors, storage, store, screening, models)
    with ledger.write() as connection:
        log_files(connection, run_id, hashes)
        confirmed = confirm(connection)
        publishing.request_publication(
            connection,
            run_id,
            [version for version in stored if version.version_id in confirmed],
            collection=store.collection_name,
            vectors=vectors,
            model=model,
        )
        against = [each for each in contradictions if each.version_id in confirmed]
        reopened = reopen(connection, run_id, screening.policy, (), against) if against else 0
    return confirmed, reopened
