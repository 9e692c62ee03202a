"""Cells of near vectors: what lies near is compared together, and no chunk with more than a fixed number of others.

Cells come from some rounds of k-means. Up to `MAX_COMPARED` others are all compared, so that nothing is lost; of
more, those in the nearest cells, so that time grows with the number of vectors and not with its square.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

CELL_VECTORS: Final = 2_000
"""Vectors of a cell, on average."""
MAX_COMPARED: Final = 60_000
"""Vectors that one is compared with: about 50 megaflop."""
ROUNDS: Final = 3
"""Times that cells are made from the means of those before, as k-means does."""
_COLUMNS: Final = 256
"""Columns of which the largest cosine is looked for first."""
_ROWS: Final = 10_000
"""Vectors whose cell is looked for at a time."""


class Cells:
    """Unit vectors by cell."""

    def __init__(
        self, vectors: NDArray[np.float32], *, cell_vectors: int = CELL_VECTORS, max_compared: int = MAX_COMPARED
    ) -> None:
        """Give each vector its cell.

        Args:
            vectors: unit vectors, shape (vectors, dimensions).
            cell_vectors: of a cell, on average.
            max_compared: vectors that one is compared with, in whole cells: those of the last one may exceed it.
        """
        count = min(len(vectors), max(1, len(vectors) // cell_vectors))
        drawn = np.sort(np.random.default_rng(0).choice(len(vectors), count, replace=False))
        self._max_compared = max_compared
        self._centres = vectors[drawn]
        self.labels = np.zeros(len(vectors), np.intp)
        for _ in range(ROUNDS if count > 1 else 0):
            for start in range(0, len(vectors), _ROWS):
                self.labels[start : start + _ROWS] = (vectors[start : start + _ROWS] @ self._centres.T).argmax(axis=1)
            self._centres = self._means(vectors)

    def _means(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the direction of each cell; an empty one keeps its own."""
        sums = self._centres * np.float32(1e-6)
        np.add.at(sums, self.labels, vectors)
        means: NDArray[np.float32] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return means

    def split(self, positions: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
        """Yield positions in blocks of at most `size`, each of one cell."""
        by_cell = positions[np.argsort(self.labels[positions], kind="stable")]
        for block in np.split(by_cell, np.flatnonzero(np.diff(self.labels[by_cell])) + 1):
            for start in range(0, len(block), size):
                yield block[start : start + size]

    def around(self, cell: int, wanted: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those of the wanted positions that vectors of a cell are compared with: all, or those of the nearest cells."""
        if len(wanted) <= self._max_compared:
            return wanted
        labels = self.labels[wanted]
        nearest = np.argsort(-(self._centres @ self._centres[cell]), kind="stable")
        sizes = np.bincount(labels, minlength=len(nearest))[nearest]
        enough = int(np.searchsorted(np.cumsum(sizes), self._max_compared)) + 1
        is_seen = np.zeros(len(nearest), bool)
        is_seen[nearest[:enough]] = True
        return wanted[is_seen[labels]]


def find_largest(cosines: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the columns of the `count` largest cosines of each row, in any order; shape (rows, at most `count`).

    They stand in the `count` runs of columns whose largest cosines are largest.
    """
    rows, width = cosines.shape
    starts = np.arange(0, width, _COLUMNS)
    if len(starts) <= count:
        return np.argpartition(cosines, max(0, width - count), axis=1)[:, -count:]
    largest = np.maximum.reduceat(cosines, starts, axis=1)
    runs = np.argpartition(largest, len(starts) - count, axis=1)[:, -count:]
    columns = (starts[runs][:, :, None] + np.arange(_COLUMNS)).reshape(rows, -1)
    values = np.take_along_axis(cosines, np.minimum(columns, width - 1), axis=1)
    values[columns >= width] = -np.inf
    chosen = np.argpartition(values, values.shape[1] - count, axis=1)[:, -count:]
    return np.take_along_axis(columns, chosen, axis=1)
