"""Vectors of chunks: equal texts do not hide others from a search."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from corpus_guard.corpus import reach
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.corpus.vectors import set_apart
from corpus_guard.domain import TrustLevel
from material import a_record

MODEL = "hashed-texts"


def test_a_footer_of_each_page_hides_few_pages(store: Store) -> None:
    """Where they are equal 52 to 200 of the 200 pages are not found, and 0 to 4 where they are set apart (eight trials each)."""
    name = store.collection_name(TrustLevel.OPEN)
    footer = a_record("All rights reserved.")
    footers = [replace(footer, chunk_id=_id(f"footer {page}")) for page in range(1_000)]
    pages = [a_record(f"page {page}") for page in range(200)]
    records = _set_apart([[*footers, *pages][at] for at in np.random.default_rng(0).permutation(1_200)])

    for start in range(0, len(records), 100):
        store.upsert(name, records[start : start + 100], MODEL)

    assert len(reach.unreachable_records(store, name, records)) <= 10


@pytest.mark.slow
def test_many_footers_hide_few_pages_from_an_index_of_pgvector(pgvector_store: Store) -> None:
    """Of 1,500 pages 104 were missed where links were chosen among 64 entries, pgvector's own number, and none among 256."""
    name = pgvector_store.collection_name(TrustLevel.OPEN)
    footers = [
        replace(a_record(f"Footer {kind}"), chunk_id=_id(f"{kind} {page}")) for kind in range(10) for page in range(300)
    ]
    pages = _set_apart([a_record(f"page {page}") for page in range(1_500)])
    records = [*pages, *_set_apart(footers)]

    for start in range(0, len(records), 500):
        pgvector_store.upsert(name, records[start : start + 500], MODEL)

    answers = [
        answer
        for start in range(0, len(pages), 100)
        for answer in pgvector_store.nearest_ids(
            name, np.stack([page.vector for page in pages[start : start + 100]]), 3
        )
    ]
    missed = [
        page for page, answer in zip(pages, answers, strict=True) if page.chunk_id not in {chunk for chunk, _ in answer}
    ]
    assert len(missed) <= 15


def test_vectors_are_moved_less_than_a_number_format_moves_them() -> None:
    vectors = np.stack([a_record(f"page {page}").vector for page in range(50)])
    ids = [_id(f"chunk {page}") for page in range(50)]

    moved = set_apart(vectors, ids)

    assert moved.dtype == np.float32
    assert (moved * vectors).sum(axis=1).min() > 0.99998
    assert np.allclose(np.linalg.norm(moved, axis=1), 1, atol=1e-6)
    assert np.array_equal(moved[7:9], set_apart(vectors[7:9], ids[7:9])), "it does not depend on the batch"


def test_equal_texts_are_farther_apart_than_equal_vectors() -> None:
    same = np.full((50, 384), 384**-0.5, np.float32)

    moved = set_apart(same, [_id(f"chunk {page}") for page in range(50)])

    distances = 1 - moved @ moved.T
    assert distances[~np.eye(50, dtype=bool)].min() > reach.DISTANCE_TOLERANCE


def _set_apart(records: list[ChunkRecord]) -> list[ChunkRecord]:
    vectors = set_apart(np.stack([record.vector for record in records]), [record.chunk_id for record in records])
    return [replace(record, vector=vector) for record, vector in zip(records, vectors, strict=True)]


def _id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]
