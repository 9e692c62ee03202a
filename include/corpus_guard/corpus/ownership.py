"""The deployment that a collection belongs to.

Rules
    * a collection names the deployment that made it in its metadata, by the id that is in the ledger;
    * one that names another is not read, written or deleted;
    * one that names none was made by an older release, or by somebody else. It is ours if it is empty, or if
      more than half of a sample of what the ledger published to it is there, with text and metadata as
      published: metadata holds the time of the fetch, so that another deployment's copy of the same documents
      does not pass. It gets the id with the next record that is written.

Not done here: protection from somebody who can write to Chroma and sets our id; `guard verify` compares every
record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from corpus_guard.domain import canonical_json, sha256_bytes, sha256_text
from corpus_guard.errors import ForeignCollection
from corpus_guard.ledger.states import PublicationState
from corpus_guard.ledger.tables import chunks, publications

if TYPE_CHECKING:
    from chromadb import Collection

    from corpus_guard.ledger import Ledger

OWNER_KEY: Final = "corpus_guard_deployment"
SAMPLE: Final = 100  # records; their ids are hashes, so the first ones are as good as any


def require_own(ledger: Ledger, collection: Collection, url: str) -> None:
    """Check that a collection belongs to the deployment of `ledger`.

    Args:
        url: of the server, for the message.

    Raises:
        ForeignCollection: it names another deployment, or none and holds something else than the ledger published.
    """
    owner = (collection.metadata or {}).get(OWNER_KEY)
    if owner == ledger.deployment_id or (owner is None and _holds_what_was_published(ledger, collection)):
        return
    belongs = (
        f"belongs to deployment {owner}"
        if owner is not None
        else "names no deployment and does not hold what this ledger published to it"
    )
    raise ForeignCollection(
        f"collection {collection.name} at {url} {belongs}; this is deployment {ledger.deployment_id}, ledger "
        f"{ledger.address}. Nothing was read or written. Unset CORPUS_GUARD_CHROMA_URL, so that this home has a server "
        "of its own, or set it to the server of this deployment; then run `guard verify`",
        ours=ledger.deployment_id,
        theirs=str(owner or ""),
    )


def _holds_what_was_published(ledger: Ledger, collection: Collection) -> bool:
    statement = (
        sa.select(publications.c.chunk_id, chunks.c.text_sha256, publications.c.metadata_sha256)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(
            publications.c.collection == collection.name,
            publications.c.metadata_sha256.is_not(None),  # it was published; it may wait to be published again
            publications.c.state != PublicationState.RETIRED,
        )
        .order_by(publications.c.chunk_id)
        .limit(SAMPLE)
    )
    with ledger.read() as connection:
        published = {row.chunk_id: (row.text_sha256, row.metadata_sha256) for row in connection.execute(statement)}
    if not collection.count():
        return True
    if not published:
        return False
    page = collection.get(ids=list(published), include=["documents", "metadatas"])
    rows = zip(page["ids"], page["documents"] or (), page["metadatas"] or (), strict=True)
    same = sum(
        published[chunk_id] == (sha256_text(text or ""), sha256_bytes(canonical_json(dict(metadata or {}))))
        for chunk_id, text, metadata in rows
    )
    return 2 * same > len(published)
