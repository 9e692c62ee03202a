"""Reading of recorded batches: what a file holds is compared with the hashes of the ledger before it is used.

Rules
    * a version's text has the hash that was judged, its stamp is the judged one, and its chunks are cut where
      they were cut then: ids, order, spans, lengths and hashes;
    * a version that the ledger does not keep in this file is returned unchecked: its verdict is yet to be
      recorded, from what a run has just read;
    * content that was purged is missing rightly; anything else that is asked for and missing is an error.

Not checked here: hidden text and the parser's problems, of which the ledger keeps no hash; `guard verify`
compares the hash of the whole file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches.logged_files import find_removal
from corpus_guard.batches.storage import FileDamaged, Filters, Storage
from corpus_guard.batches.tables import read_versions, vectors_from_table, versions_from_table
from corpus_guard.domain import Stamp, Version, sha256_text
from corpus_guard.errors import GuardError, Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.tables import blocked, chunks, purges, versions

MISSING: Final = "the file is missing"


@dataclass(frozen=True, slots=True)
class BatchDefect:
    """A difference between a version in a batch and the ledger."""

    version_id: str  # "": the file as a whole
    doc_id: str
    problem: str  # "its text is not the one that was judged"
    expected: str = ""  # hash
    actual: str = ""


class BatchDamaged(Inconsistent):
    """A batch is missing or unreadable, or does not hold what was judged.

    Attributes:
        batch: storage name of the Parquet file.
        defects: what differs, one or more.
    """

    def __init__(self, message: str, batch: str, defects: Sequence[BatchDefect]) -> None:
        super().__init__(message)
        self.batch = batch
        self.defects = tuple(defects)


def read_checked_versions(
    ledger: Ledger,
    storage: Storage,
    name: str,
    version_ids: Collection[str] | None = None,
    columns: list[str] | None = None,
) -> list[Version]:
    """Read versions of a batch and compare them with the ledger.

    Args:
        version_ids: of the versions that are read; None: all of the file.
        columns: all, or `SERVED_COLUMNS`.

    Raises:
        BatchDamaged: the file is gone or unreadable, or a version is not as it was judged.
    """
    stored, defects = compare_batch(ledger, storage, name, version_ids, columns)
    if not defects:
        return stored
    first = defects[0]
    subject = f"version {first.version_id} of document {first.doc_id}: " if first.version_id else ""
    more = f" ({len(defects) - 1:,} more)" if len(defects) > 1 else ""
    if first.problem.startswith("removed "):
        raise BatchDamaged(
            f"{storage.location(name)} was {first.problem}: the policy had rejected what it holds, newer versions replaced it, "
            "and nothing of it was ever served. The raw bytes are kept, and the log tells of the removal "
            "(`guard log --kind cleaned`)",
            name,
            defects,
        )
    remedy = (
        "Correct CORPUS_GUARD_STORAGE_URL if the folder moved, restore the file from a copy, or run `guard rescreen`, which "
        "makes it again from the raw bytes"
        if first.problem == MISSING
        else "Restore the file from a copy, or delete it and run `guard rescreen`, which makes it again from the raw bytes"
    )
    raise BatchDamaged(
        f"{storage.location(name)}: {subject}{first.problem}{more}. Nothing of it was embedded or published. {remedy}; "
        "`guard verify --deep` lists all that is damaged",
        name,
        defects,
    )


def compare_batch(
    ledger: Ledger,
    storage: Storage,
    name: str,
    version_ids: Collection[str] | None = None,
    columns: list[str] | None = None,
) -> tuple[list[Version], list[BatchDefect]]:
    """Return the versions of a batch and how they differ from the ledger; the arguments are those above."""
    filters: Filters | None = None if version_ids is None else [("version_id", "in", list(version_ids))]
    try:
        stored = versions_from_table(storage.read_table(name, columns=columns, filters=filters))
    except FileDamaged as error:
        return [], [BatchDefect("", "", f"the file is not readable as a batch ({type(error.__cause__).__name__})")]
    except Inconsistent:
        with ledger.read() as connection:
            removal = find_removal(connection, name)
        return [], [BatchDefect("", "", str(removal or MISSING))]
    # What foreign columns and values make the conversion raise.
    except (pa.ArrowException, ValueError, LookupError, TypeError, AttributeError) as error:
        return [], [BatchDefect("", "", f"the file is not readable as a batch ({type(error).__name__})")]
    expected = _Expected.load(ledger, name, version_ids)
    return stored, list(_defects(stored, expected))


def read_vectors(storage: Storage, name: str) -> dict[str, NDArray[np.float32]]:
    """Read the vectors of a Parquet file: chunk id → float32 vector.

    Raises:
        BatchDamaged: the file is gone or unreadable.
    """
    try:
        return vectors_from_table(storage.read_table(name))
    except Inconsistent as error:
        problem = "damaged" if isinstance(error, FileDamaged) else "missing"
        raise BatchDamaged(str(error), name, [BatchDefect("", "", f"the file is {problem}")]) from error


@dataclass(frozen=True, slots=True)
class _Expected:
    """Record of the ledger about the versions of a file."""

    versions: Mapping[str, Row]
    chunks: Mapping[str, Mapping[str, Row]]  # version id → chunk id → row
    purged: frozenset[str]  # hashes of contents and texts

    @classmethod
    def load(cls, ledger: Ledger, name: str, version_ids: Collection[str] | None) -> _Expected:
        columns = (versions.c.version_id, versions.c.doc_id, versions.c.content_sha256, versions.c.text_sha256)
        in_file = sa.select(*columns, versions.c.stamp).where(versions.c.batch == name)
        chunk_columns = sa.select(chunks)
        purged = sa.select(blocked.c.sha256).join(purges, purges.c.purge_id == blocked.c.purge_id)
        with ledger.read() as connection:
            rows = (
                connection.execute(in_file).all()
                if version_ids is None
                else list(select_in_batches(connection, in_file, versions.c.version_id, version_ids))
            )
            by_version: dict[str, dict[str, Row]] = defaultdict(dict)
            ids = [row.version_id for row in rows]
            for row in select_in_batches(connection, chunk_columns, chunks.c.version_id, ids):
                by_version[row.version_id][row.chunk_id] = row
            hashes = [sha256 for row in rows for sha256 in (row.content_sha256, row.text_sha256)]
            gone = select_in_batches(connection, purged, blocked.c.sha256, hashes)
            return cls({row.version_id: row for row in rows}, by_version, frozenset(row.sha256 for row in gone))


def _defects(stored: Sequence[Version], expected: _Expected) -> Iterator[BatchDefect]:
    present = {version.version_id: version for version in stored}
    for version_id, row in sorted(expected.versions.items()):
        version = present.get(version_id)
        if expected.purged & {row.content_sha256, row.text_sha256}:
            continue
        if version is None:
            yield BatchDefect(version_id, row.doc_id, "the file does not hold it", row.text_sha256)
        elif version.text_sha256 != row.text_sha256:
            problem = "its text is not the one that was judged"
            yield BatchDefect(version_id, row.doc_id, problem, row.text_sha256, version.text_sha256)
        elif (version.doc_id, version.stamp) != (row.doc_id, Stamp.from_dict(row.stamp)):
            yield BatchDefect(version_id, row.doc_id, "its stamp is not the one that was judged")
        elif not _cut_as_recorded(version, expected.chunks.get(version_id, {})):
            yield BatchDefect(version_id, row.doc_id, "its chunks are not those that were judged")


def _cut_as_recorded(version: Version, recorded: Mapping[str, Row]) -> bool:
    for chunk in version.chunks:
        row = recorded.get(chunk.chunk_id)
        if row is None or (row.ordinal, row.span_start, row.span_end, row.tokens, row.text_sha256) != (
            chunk.ordinal,
            chunk.start,
            chunk.end,
            chunk.tokens,
            sha256_text(chunk.text),
        ):
            return False
    # Another chunker may have cut the same version before: then all its chunks are left over, the first included. Another
    # parser may have read another text in the same bytes, of which chunks may be left over that are also in this one; then no
    # chunk of this text is missing.
    cut = {chunk.chunk_id for chunk in version.chunks}
    left_over = [row for chunk_id, row in recorded.items() if chunk_id not in cut and _is_in_text(row, version.text)]
    if not left_over:
        return True
    return bool(version.chunks) and (any(row.ordinal == 0 for row in left_over) or _is_covered(version))


def _is_in_text(row: Row, text: str) -> bool:
    return sha256_text(text[row.span_start : row.span_end]) == str(row.text_sha256)


def _is_covered(version: Version) -> bool:
    """Return whether every character that is not white space is in a chunk, as the chunker guarantees."""
    ends = [0, *(chunk.end for chunk in version.chunks)]
    starts = [*(chunk.start for chunk in version.chunks), len(version.text)]
    return all(not version.text[end:start].strip() for end, start in zip(ends, starts, strict=True))


def read_chunk_texts(ledger: Ledger, storage: Storage, chunk_ids: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield id and text of the chunks whose batch still holds the text that the ledger has the hash of."""
    statement = (
        sa.select(chunks.c.chunk_id, chunks.c.text_sha256, versions.c.version_id, versions.c.batch)
        .join(versions, versions.c.version_id == chunks.c.version_id)
        .where(chunks.c.chunk_id.in_(list(chunk_ids)))
    )
    hashes: dict[str, str] = {}
    versions_by_batch: dict[str, set[str]] = defaultdict(set)
    with ledger.read() as connection:
        for row in connection.execute(statement):
            hashes[row.chunk_id] = row.text_sha256
            versions_by_batch[row.batch].add(row.version_id)
    for batch, version_ids in versions_by_batch.items():
        try:
            stored = read_versions(storage, batch, version_ids)
        except (GuardError, ValueError, OSError):  # purged meanwhile, or damaged: the hash alone is known
            continue
        for chunk in (chunk for version in stored for chunk in version.chunks):
            if hashes.get(chunk.chunk_id) == sha256_text(chunk.text):
                yield chunk.chunk_id, chunk.text
