"""The deployment that a collection belongs to.

Rules
    * a collection names the deployment that made it in its metadata, by the id that is in the ledger;
    * one that names another is not read, written or deleted;
    * the ledger serves collections of one prefix: under another one nothing would be found, and what is new would be
      published beside what is served;
    * one that names none was made by an older release, or by somebody else. It is ours if it is empty, or if
      more than half of a sample of what the ledger published to it is there, with text and metadata as
      published: metadata holds the time of the fetch, so that another deployment's copy of the same documents
      does not pass. It gets the id with the next record that is written.

Not done here: protection from somebody who can write to the store and sets our id; `guard verify` compares every
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from corpus_guard.domain import canonical_json, sha256_bytes, sha256_text
from corpus_guard.errors import ForeignCollection, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import PublicationState
from corpus_guard.ledger.tables import chunks, publications

OWNER_KEY: Final = "corpus_guard_deployment"
SAMPLE: Final = 100  # records; their ids are hashes, so the first ones are as good as any


class HeldChunk(NamedTuple):
    """Chunk as a collection holds it, without its vector."""

    chunk_id: str
    text: str
    metadata: Mapping[str, str | int | float | bool]


def require_own(
    ledger: Ledger,
    collection: str,
    owner: str | None,
    read_held: Callable[[Sequence[str]], Iterable[HeldChunk] | None],
    address: str,
    advice: str,
) -> None:
    """Check that a collection belongs to the deployment of `ledger`.

    Args:
        owner: id of the deployment that the collection names; None: it names none.
        read_held: returns those of the given chunks that the collection holds; None where it is empty.
        address: of the server, for the message.
        advice: what to do about the server, a sentence without its full stop.

    Raises:
        ForeignCollection: it names another deployment, or none and holds something else than the ledger published.
    """
    if owner == ledger.deployment_id or (owner is None and _holds_what_was_published(ledger, collection, read_held)):
        return
    belongs = (
        f"belongs to deployment {owner}"
        if owner is not None
        else "names no deployment and does not hold what this ledger published to it"
    )
    raise ForeignCollection(
        f"collection {collection} at {address} {belongs}; this is deployment {ledger.deployment_id}, ledger "
        f"{ledger.address}. Nothing was read or written. {advice}; then run `guard verify`",
        ours=ledger.deployment_id,
        theirs=str(owner or ""),
    )


def require_served_prefix(ledger: Ledger, prefix: str) -> None:
    """Check that what the ledger serves lies in collections of `prefix`.

    Raises:
        SettingsError: it lies in those of another one.
    """
    statement = sa.select(publications.c.collection).where(publications.c.state == PublicationState.PUBLISHED).limit(1)
    served = ledger.scalar(statement)
    if served is not None and served.rpartition("-")[0] != prefix:
        raise SettingsError(
            f"environment variable CORPUS_GUARD_COLLECTION_PREFIX: the ledger {ledger.address} serves the collection "
            f"{served}, and the prefix is {prefix!r}; set it to {served.rpartition('-')[0]!r}. Another corpus needs another home"
        )


def _holds_what_was_published(
    ledger: Ledger, collection: str, read_held: Callable[[Sequence[str]], Iterable[HeldChunk] | None]
) -> bool:
    statement = (
        sa.select(publications.c.chunk_id, chunks.c.text_sha256, publications.c.metadata_sha256)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(
            publications.c.collection == collection,
            publications.c.metadata_sha256.is_not(None),  # it was published; it may wait to be published again
            publications.c.state != PublicationState.RETIRED,
        )
        .order_by(publications.c.chunk_id)
        .limit(SAMPLE)
    )
    published = {row.chunk_id: (row.text_sha256, row.metadata_sha256) for row in ledger.rows(statement)}
    present = read_held(list(published))
    if present is None:
        return True
    same = sum(
        published[chunk.chunk_id] == (sha256_text(chunk.text), sha256_bytes(canonical_json(dict(chunk.metadata))))
        for chunk in present
    )
    return 2 * same > len(published)
