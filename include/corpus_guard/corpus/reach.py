"""Whether a query finds what a collection holds, and writing anew what none finds.

Rules
    * a record is found when its own vector is answered with it, or with an equal vector that carries the same text;
    * what is written is looked for at once; what is not found is deleted and written again together with what lies nearest to it, a
      bounded number of times;
    * nobody's record is taken away to be written again unless the caller lends it: the ledger says first that it is to be published.

Equal vectors are legal, equal texts have them. Where neither the record nor its equal is answered, more answers are asked for until they
are farther away than the record is from itself.

Facts this rests on (chromadb 1.5.9: a graph of neighbours, each with room for 16 or 32 links; measured with 384 dimensions)
    * one fresh record in some hundreds gets no link that leads to it: it is there, `get` returns it, no query does (#7678, #7758). Beside
      600 vectors that are nearly equal it was 1 to 6 of 650 in two trials of three; beside 120 that are equal some of 8 others;
    * written again in its place it was found after three rounds in 1 of 12 trials, deleted and written alone in 13 of 37, and up to 49
      others were lost on the way: links move. Deleted and written *together with its nearest that are found* it was in 42 of 42; the
      delete and the write in direct succession: with a query between them it mostly was not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from corpus_guard.batches.tables import split
from corpus_guard.corpus.store import BATCH, NEAR_BATCH, Record, Store

log = logging.getLogger(__name__)

ASKED = 3  # answers to a vector that asks for itself
WIDER = (100, 1_000, 10_000)  # asked for where it is not among them
SAME = 1e-5  # distances closer than this are equal: float32 products of unit vectors
ROUNDS = 5  # repairs; the most that was needed is 3
NEIGHBOURS = 5  # nearest records that are written again with one that is lost
WHOLE = 5_000  # records: of no larger collection everything is looked for after a repair, some seconds

Lend = Callable[[Sequence[str], Sequence[str]], Sequence[Record]]
"""Given the ids of what is lost and of records the caller did not write: those of the latter that may be deleted and written again."""


@dataclass(frozen=True, slots=True)
class Written:
    """What `write` wrote."""

    found: tuple[Record, ...]  # the caller's and what it lent, as queries find them
    lost: tuple[Record, ...]  # of the same: there, and no query finds it
    rewritten: int  # records deleted and written again, summed over the rounds


def lost(store: Store, collection: str, records: Sequence[Record]) -> list[Record]:
    """Those of `records`, which the collection holds, that a query with their own vector does not find.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    missing = []
    for start in range(0, len(records), NEAR_BATCH):
        part = records[start : start + NEAR_BATCH]
        answers = store.nearest(collection, np.stack([record.vector for record in part]), ASKED)
        missed = {
            record.chunk_id: (record, {chunk for chunk, distance in answer if distance <= _own(record) + SAME})
            for record, answer in zip(part, answers, strict=True)
            if record.chunk_id not in {chunk for chunk, _ in answer}
        }
        equals = sorted({chunk for _, equal in missed.values() for chunk in equal})
        there, _ = store.read(collection, equals) if equals else ({}, [])
        texts = {chunk: record.text_sha256 for chunk, record in there.items()}
        for record, equal in missed.values():
            if record.text_sha256 in {texts.get(chunk) for chunk in equal}:
                continue
            if not _is_among_more(store, collection, record):
                missing.append(record)
    return missing


def write(store: Store, collection: str, records: Sequence[Record], model: str, lend: Lend) -> Written:
    """Write records, read them back by id, and see that queries find them; repair the index where one does not.

    Args:
        store: where.
        collection: its name there.
        records: the caller's, to be in the collection afterwards.
        model: the embedder their vectors are of.
        lend: asked before a record that is not the caller's is deleted and written again.

    Raises:
        Inconsistent: the collection belongs to another embedder, or what came back by id is not what was written.
        StoreUnavailable: the server does not answer.
    """
    store.upsert(collection, records, model)
    held = {record.chunk_id: record for record in records}
    missing = lost(store, collection, records)
    rewritten = 0
    for number in range(ROUNDS):
        if not missing:
            break
        ids = {record.chunk_id for record in missing}
        near = ids | _nearest(store, collection, missing)
        held |= {record.chunk_id: record for record in lend(sorted(ids), sorted(near - held.keys()))}
        again = [held[chunk] for chunk in sorted(ids & held.keys())]
        if not again:
            break  # what is lost is somebody else's; verification names it
        beside = [held[chunk] for chunk in sorted(near & held.keys() - ids)]
        log.warning(
            "%d chunks of %s are there, and no query finds them, first %s: round %d, written again with %d neighbours",
            len(again), collection, again[0].chunk_id, number + 1, len(beside),
        )  # fmt: skip
        store.upsert(collection, [*beside, *again], model, anew=True)
        rewritten += len(beside) + len(again)
        missing = _lost_of_all(store, collection, list(held.values()))
    still = {record.chunk_id for record in missing}
    return Written(
        tuple(record for chunk, record in held.items() if chunk not in still),
        tuple(record for chunk, record in held.items() if chunk in still),
        rewritten,
    )


def lend_nothing(lost: Sequence[str], others: Sequence[str]) -> Sequence[Record]:
    """For a collection that no ledger knows."""
    return ()


def _lost_of_all(store: Store, collection: str, written: Sequence[Record]) -> list[Record]:
    """After a repair, which moves links of others too: in a small collection everything is looked for."""
    if store.count(collection) > WHOLE:
        return lost(store, collection, written)
    missing = []
    for page in store.ids(collection):
        for part in split(page, BATCH):
            there, _ = store.read(collection, part)
            missing += lost(store, collection, list(there.values()))
    return missing


def _nearest(store: Store, collection: str, records: Sequence[Record]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(records), NEAR_BATCH):
        vectors = np.stack([record.vector for record in records[start : start + NEAR_BATCH]])
        found |= {chunk for answer in store.nearest(collection, vectors, NEIGHBOURS) for chunk, _ in answer}
    return found


def _is_among_more(store: Store, collection: str, record: Record) -> bool:
    """Whether it is among more answers than were asked for at first."""
    for count in WIDER:
        answer = store.nearest(collection, record.vector[None, :], count)[0]
        if record.chunk_id in {chunk for chunk, _ in answer}:
            return True
        if len(answer) < count or (count > WIDER[0] and answer[-1][1] > _own(record) + SAME):
            return False
    return False


def _own(record: Record) -> float:
    """Its distance from itself."""
    return 1.0 - float(record.vector @ record.vector)
