"""Writing records so that queries find them, and rewriting those that no query finds.

Rules
    * a record is reachable when a query for its own vector returns it, or an equal vector with the same text;
    * written records are looked for at once; an unreachable one is deleted and written again together with
      its nearest neighbours, at most `MAX_REPAIR_ROUNDS` times;
    * another writer's record is rewritten only if the caller claims it first: then the ledger already says
      that it is to be published.

Equal vectors are legal: equal texts have them. Where a query returns neither the record nor an equal one, it
is repeated for more answers until these are farther away than the record is from itself.

Facts this rests on (chromadb 1.5.9: a graph of neighbours, each with room for 16 or 32 links; measured with
384 dimensions)
    * one fresh record in some hundreds gets no link that leads to it: it is stored, `get` returns it, and no
      query does (#7678, #7758). Beside 600 vectors that are nearly equal it was 1 to 6 of 650 in two trials
      of three; beside 120 that are equal some of 8 others;
    * written again in its place it was found after three rounds in 1 of 12 trials, deleted and written alone
      in 13 of 37, and up to 49 others were lost on the way: links move. Deleted and written *together with
      its nearest that are found* it was in 42 of 42; the delete and the write in direct succession: with a
      query between them it mostly was not;
    * in about 1 of 50 runs of a test on a busy machine some 153 of 162 records, 150 of them equal, stay lost for all
      rounds: each time that was looked at in the second write to a new collection, emptied after the first. Neither
      another order in each round nor writing all 162 again helped. They stay unpublished until the next run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus.store import RECORDS_PER_REQUEST, VECTORS_PER_QUERY, ChunkRecord, Store

log = logging.getLogger(__name__)

NEAREST_COUNT = 3  # answers to the query for a record's own vector
WIDER_COUNTS = (100, 1_000, 10_000)  # answers to the next queries, where the record is not among them
DISTANCE_TOLERANCE = 1e-5  # distances closer than this are equal: float32 products of unit vectors
MAX_REPAIR_ROUNDS = 5  # the most that was needed is 3
NEIGHBOURS_PER_RECORD = 5  # nearest records that are written again with an unreachable one
# in no larger collection all records are looked for after a repair, which takes seconds
MAX_FULL_CHECK_RECORDS = 5_000

ClaimNeighbours: TypeAlias = Callable[[Sequence[str], Sequence[str]], Sequence[ChunkRecord]]
"""Takes the ids of unreachable records and of neighbours the caller did not write; returns the neighbours
that may be deleted and written again."""


@dataclass(frozen=True, slots=True)
class ReachableWrite:
    """Result of `write_reachable`."""

    reachable: tuple[ChunkRecord, ...]  # the caller's records and claimed neighbours that queries find
    unreachable: tuple[ChunkRecord, ...]  # those that are stored and no query finds
    rewritten: int  # records deleted and written again, summed over the rounds


def unreachable_records(store: Store, collection: str, records: Sequence[ChunkRecord]) -> list[ChunkRecord]:
    """Return the records that no query with their own vector finds; `collection` holds all of `records`.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    unreachable = []
    for batch in in_batches(records, VECTORS_PER_QUERY):
        answers = store.nearest_ids(collection, np.stack([record.vector for record in batch]), NEAREST_COUNT)
        missed = {
            record.chunk_id: (record, {chunk_id for chunk_id, distance in answer if _is_equal(record, distance)})
            for record, answer in zip(batch, answers, strict=True)
            if record.chunk_id not in {chunk_id for chunk_id, _ in answer}
        }
        equal_ids = sorted({chunk_id for _, equals in missed.values() for chunk_id in equals})
        stored, _ = store.read(collection, equal_ids) if equal_ids else ({}, [])
        texts = {chunk_id: record.text_sha256 for chunk_id, record in stored.items()}
        for record, equals in missed.values():
            if record.text_sha256 in {texts.get(chunk_id) for chunk_id in equals}:
                continue
            if not _is_among_more(store, collection, record):
                unreachable.append(record)
    return unreachable


def write_reachable(
    store: Store, collection: str, records: Sequence[ChunkRecord], model: str, claim: ClaimNeighbours
) -> ReachableWrite:
    """Write records, read them back by id, and repair the index until queries find them.

    Args:
        records: to be in the collection afterwards.
        model: identity of the embedder, without its number format.
        claim: called before another writer's record is deleted and written again.

    Raises:
        Inconsistent: the collection belongs to another embedder, or what came back by id is not what was
            written.
        StoreUnavailable: the server does not answer.
    """
    store.upsert(collection, records, model)
    own = {record.chunk_id: record for record in records}
    unreachable = unreachable_records(store, collection, records)
    rewritten = 0
    for number in range(MAX_REPAIR_ROUNDS):
        if not unreachable:
            break
        ids = {record.chunk_id for record in unreachable}
        nearby = ids | _nearest(store, collection, unreachable)
        own |= {record.chunk_id: record for record in claim(sorted(ids), sorted(nearby - own.keys()))}
        again = [own[chunk_id] for chunk_id in sorted(ids & own.keys())]
        if not again:
            break  # the unreachable record is somebody else's; verification names it
        neighbours = [own[chunk_id] for chunk_id in sorted(nearby & own.keys() - ids)]
        log.warning(
            "no query finds %d stored chunks of %s, first %s: round %d, written again with %d neighbours",
            len(again), collection, again[0].chunk_id, number + 1, len(neighbours),
        )  # fmt: skip
        store.upsert(collection, [*neighbours, *again], model, anew=True)
        rewritten += len(neighbours) + len(again)
        unreachable = _unreachable_after_repair(store, collection, list(own.values()))
    lost_ids = {record.chunk_id for record in unreachable}
    return ReachableWrite(
        tuple(record for chunk_id, record in own.items() if chunk_id not in lost_ids),
        tuple(record for chunk_id, record in own.items() if chunk_id in lost_ids),
        rewritten,
    )


def claim_nothing(unreachable: Sequence[str], neighbours: Sequence[str]) -> Sequence[ChunkRecord]:
    """Claim no neighbours: for a collection that no ledger knows."""
    return ()


def _unreachable_after_repair(store: Store, collection: str, written: Sequence[ChunkRecord]) -> list[ChunkRecord]:
    """Return the unreachable records after a repair, which moves links of other records too.

    In a small collection all records are looked for, in a large one those that were written.
    """
    if store.count(collection) > MAX_FULL_CHECK_RECORDS:
        return unreachable_records(store, collection, written)
    unreachable = []
    for page in store.ids(collection):
        for batch in in_batches(page, RECORDS_PER_REQUEST):
            stored, _ = store.read(collection, batch)
            unreachable += unreachable_records(store, collection, list(stored.values()))
    return unreachable


def _nearest(store: Store, collection: str, records: Sequence[ChunkRecord]) -> set[str]:
    nearest: set[str] = set()
    for batch in in_batches(records, VECTORS_PER_QUERY):
        answers = store.nearest_ids(collection, np.stack([record.vector for record in batch]), NEIGHBOURS_PER_RECORD)
        nearest |= {chunk_id for answer in answers for chunk_id, _ in answer}
    return nearest


def _is_among_more(store: Store, collection: str, record: ChunkRecord) -> bool:
    """Return whether a query for more answers finds the record."""
    for count in WIDER_COUNTS:
        answer = store.nearest_ids(collection, record.vector[None, :], count)[0]
        if record.chunk_id in {chunk_id for chunk_id, _ in answer}:
            return True
        if len(answer) < count or (count > WIDER_COUNTS[0] and not _is_equal(record, answer[-1][1])):
            return False
    return False


def _is_equal(record: ChunkRecord, distance: float) -> bool:
    """Return whether a record at this distance is no farther away than `record` is from itself."""
    return distance <= 1.0 - float(record.vector @ record.vector) + DISTANCE_TOLERANCE
