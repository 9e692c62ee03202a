"""Cells: every vector in one, all others seen where there are few, the nearest where there are many."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.screening.survey.cells import Cells, find_largest

TOPICS = 40


def vectors_by_topic(count: int) -> NDArray[np.float32]:
    """Unit vectors around `TOPICS` directions; the topic of each is its position modulo `TOPICS`."""
    chance = np.random.default_rng(3)
    topics = chance.standard_normal((TOPICS, 64))
    vectors = topics[np.arange(count) % TOPICS] + 0.8 * chance.standard_normal((count, 64))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 99, 4_000])
def test_blocks_hold_each_position_once_and_one_cell_each(count: int) -> None:
    cells = Cells(vectors_by_topic(count), cell_vectors=100)
    positions = np.arange(0, count, 2)

    blocks = list(cells.split(positions, 30))

    assert sorted(position for block in blocks for position in block.tolist()) == positions.tolist()
    assert all(0 < len(block) <= 30 and len(set(cells.labels[block].tolist())) == 1 for block in blocks)


def test_up_to_the_limit_every_wanted_one_is_seen() -> None:
    cells = Cells(vectors_by_topic(4_000), cell_vectors=100, max_compared=1_000)
    wanted = np.arange(0, 4_000, 4)

    assert all(cells.around(cell, wanted).tolist() == wanted.tolist() for cell in range(40))


def test_beyond_it_a_quarter_of_all_holds_nearly_all_that_is_nearest() -> None:
    vectors = vectors_by_topic(4_000)
    cells = Cells(vectors, cell_vectors=100, max_compared=1_000)
    seen = {cell: set(cells.around(cell, np.arange(4_000)).tolist()) for cell in set(cells.labels.tolist())}

    nearest = np.argsort(-(vectors[:400] @ vectors.T), axis=1)[:, 1:9].tolist()
    kept = [other in seen[cells.labels[row]] for row, others in enumerate(nearest) for other in others]

    assert max(map(len, seen.values())) <= 1_000 + max(np.bincount(cells.labels))
    assert np.mean(kept) >= 0.95


@pytest.mark.parametrize("width", [1, 2, 9, 300, 2_304, 5_000])
def test_the_largest_cosines_of_each_row_are_found_wherever_they_stand(width: int) -> None:
    cosines = np.random.default_rng(width).random((40, width), np.float32) - np.float32(1.5)  # all below 0
    cosines[0, -1] = cosines[1, 0] = 1.0  # in the last run, and in the first

    found = find_largest(cosines, 8)

    assert found.shape == (40, min(8, width))
    for row, columns in zip(cosines, found, strict=True):
        assert sorted(row[columns]) == sorted(row)[-8:]
