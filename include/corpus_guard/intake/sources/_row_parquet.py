"""Parquet, by pyarrow, a small batch at a time.

The container is read in this process, by native code: take Parquet only from a writer you would run code of. What its
cells say is hostile all the same and is treated so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

from corpus_guard.intake.sources._row import Place, Row

_SCAN_ROWS = 8_192  # only ids are read, never texts
_READ_ROWS = 64  # texts are read; 64 of the largest documents fit into memory


class Parquet:
    """A reader (`RowFile`)."""

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[Row]:
        file = _open(stream, columns)
        number = 0
        for group in range(file.num_row_groups):
            for index, values in enumerate(_identities(file, group, columns[1:])):
                number += 1
                yield Row(Place(group, index, number), values)

    def read(self, stream: IO[bytes], places: Sequence[Place], columns: Sequence[str], limit: int) -> Iterator[Row]:
        file = _open(stream, ())
        wanted = [column for column in columns if column in file.schema_arrow.names]
        group, position, batches = -1, 0, iter(())  # the open row group, and the index its next batch starts at
        held: list[dict[str, Any]] = []
        for place in places:
            if place.at != group or place.extent < position - len(held):
                group, position, held = place.at, 0, []
                batches = file.iter_batches(batch_size=_READ_ROWS, row_groups=[group], columns=wanted)
            while place.extent >= position:
                held = next(batches).to_pylist()
                position += len(held)
            yield Row(place, held[place.extent - (position - len(held))])


def _identities(file: Any, group: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    if not columns:
        yield from ({} for _ in range(file.metadata.row_group(group).num_rows))
        return
    for batch in file.iter_batches(batch_size=_SCAN_ROWS, row_groups=[group], columns=list(columns)):
        yield from batch.to_pylist()


def _open(stream: IO[bytes], columns: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"is no Parquet file that can be read ({type(error).__name__})") from error
    if missing := [column for column in columns if column not in file.schema_arrow.names]:
        raise ValueError(f"has no column {', '.join(map(repr, missing))}")
    return file
