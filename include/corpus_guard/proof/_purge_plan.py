"""From what is asked for to what would go. Part of `corpus_guard.proof.purge`.

Rules
    * a chunk stands for its whole version;
    * along with a version goes every version of any document with the same bytes or the same text, and so on until nothing is added;
    * the empty text is nobody's: a hundred broken files are not one content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.domain import digest, sha256_text
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger.tables import chunks, documents, publications, versions
from corpus_guard.proof._purge_files import Disk, Doomed

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

_EMPTY = sha256_text("")
_AT_ONCE = 500  # ids in one statement


@dataclass(frozen=True, slots=True)
class Selectors:
    """What is asked for: all of it together."""

    chunks: tuple[str, ...] = ()  # ids
    documents: tuple[str, ...] = ()  # URIs or ids
    sources: tuple[str, ...] = ()  # names
    hashes: tuple[str, ...] = ()  # SHA-256 of raw bytes, of a document's text or of a chunk's, hex

    def as_dict(self) -> dict[str, list[str]]:
        """JSON-ready, sorted, without what is empty."""
        return {name: sorted(set(values)) for name, values in asdict(self).items() if values}


@dataclass(frozen=True, slots=True)
class Plan:
    """What would go."""

    selectors: Selectors
    documents: tuple[
        Mapping[str, Any], ...
    ]  # doc_id, source, uri, trust, versions (how many of it), served (by one of them)
    versions: tuple[str, ...]  # ids
    chunks: tuple[str, ...]  # ids
    content_sha256: tuple[str, ...]
    text_sha256: tuple[str, ...]
    collections: tuple[str, ...]  # that hold some of it, or did
    files: tuple[str, ...]  # tables to be written anew or removed, storage names
    blobs: tuple[str, ...]  # raw bytes to be removed, storage names

    @property
    def purge_id(self) -> str:
        """The same versions are the same purge."""
        return digest("purge/v1", self.versions)[:32]

    @property
    def doomed(self) -> Doomed:
        """What has to leave the disk."""
        return Doomed(
            frozenset(self.versions),
            frozenset(self.chunks),
            frozenset(self.content_sha256),
            frozenset(self.text_sha256),
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"purge_id": self.purge_id, **asdict(self), "selectors": self.selectors.as_dict()}


def plan(guard: Guard, selectors: Selectors) -> Plan:
    """What a purge would take out. Changes nothing.

    Raises:
        Misuse: nothing is selected.
        UnknownSubject: the ledger has no such chunk, document, source or hash.
    """
    if not selectors.as_dict():
        raise Misuse("nothing is selected to be purged; give --chunk, --document, --source or --hash")
    with guard.ledger.read() as connection:
        ids = with_equals(connection, _selected(connection, selectors))
        doomed = doomed_of(connection, ids)
        named = tuple(_documents(connection, ids))
        collections = collections_of(connection, ids)
    disk = Disk(guard)
    return Plan(
        selectors=selectors,
        documents=named,
        versions=tuple(sorted(doomed.versions)),
        chunks=tuple(sorted(doomed.chunks)),
        content_sha256=tuple(sorted(doomed.content_sha256)),
        text_sha256=tuple(sorted(doomed.text_sha256)),
        collections=collections,
        files=tuple(name for held in disk.held(doomed) for name in held.tables),
        blobs=tuple(disk.blobs(doomed)),
    )


def in_parts(
    connection: sa.Connection, statement: sa.Select[Any], column: sa.ColumnElement[Any], values: Iterable[str]
) -> Iterator[Any]:
    """Rows whose `column` is one of `values`, however many those are."""
    for part in split(sorted(set(values)), _AT_ONCE):
        yield from connection.execute(statement.where(column.in_(part))).all()


def with_equals(connection: sa.Connection, ids: set[str]) -> set[str]:
    """These versions and all that have the text or the bytes of one of them."""
    columns = sa.select(versions.c.version_id, versions.c.content_sha256, versions.c.text_sha256)
    new = set(ids)
    while new:
        rows = list(in_parts(connection, columns, versions.c.version_id, new))
        equal = [
            *in_parts(connection, columns, versions.c.content_sha256, {row.content_sha256 for row in rows}),
            *in_parts(connection, columns, versions.c.text_sha256, {row.text_sha256 for row in rows} - {_EMPTY}),
        ]
        new = {row.version_id for row in equal} - ids
        ids = ids | new
    return ids


def doomed_of(connection: sa.Connection, ids: Iterable[str]) -> Doomed:
    """What has to go along with these versions."""
    ids = set(ids)
    rows = list(in_parts(connection, sa.select(versions), versions.c.version_id, ids))
    of_versions = in_parts(connection, sa.select(chunks.c.chunk_id), chunks.c.version_id, ids)
    return Doomed(
        frozenset(ids),
        frozenset(row.chunk_id for row in of_versions),
        frozenset(row.content_sha256 for row in rows),
        frozenset(row.text_sha256 for row in rows) - {_EMPTY},
    )


def collections_of(connection: sa.Connection, ids: Iterable[str]) -> tuple[str, ...]:
    """Collections that hold chunks of these versions, or did."""
    rows = in_parts(connection, sa.select(publications.c.collection).distinct(), publications.c.version_id, ids)
    return tuple(sorted({row.collection for row in rows}))


def _selected(connection: sa.Connection, selectors: Selectors) -> set[str]:
    ids: set[str] = set()
    joined = sa.select(versions.c.version_id).join(documents, documents.c.doc_id == versions.c.doc_id)
    by_chunk = sa.select(versions.c.version_id).join(chunks, chunks.c.version_id == versions.c.version_id)
    for what, values, statement, columns in (
        ("chunk", selectors.chunks, by_chunk, (chunks.c.chunk_id,)),
        (
            "document",
            selectors.documents,
            joined,
            (documents.c.doc_id, documents.c.uri, documents.c.source + "/" + documents.c.uri),
        ),
        ("source", selectors.sources, joined, (documents.c.source,)),
        (
            "hash",
            selectors.hashes,
            # A document without text has no chunk.
            sa.select(versions.c.version_id).outerjoin(chunks, chunks.c.version_id == versions.c.version_id),
            (versions.c.content_sha256, versions.c.text_sha256, chunks.c.text_sha256),
        ),
    ):
        for value in values:
            if what == "hash" and value == _EMPTY:
                raise Misuse("hash of the empty text: it belongs to no document; name the document or its bytes")
            found = set(connection.scalars(statement.where(sa.or_(*(column == value for column in columns)))))
            if not found:
                raise UnknownSubject(
                    f"{what} {value!r} is not in the ledger; `guard search --json` and `guard quarantine list --json` show ids"
                )
            ids |= found
    return ids


def _documents(connection: sa.Connection, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    columns = (documents.c.doc_id, documents.c.source, documents.c.uri, documents.c.trust, documents.c.target_version)
    joined = sa.select(*columns, versions.c.version_id).join(versions, versions.c.doc_id == documents.c.doc_id)
    found: dict[str, dict[str, Any]] = {}
    for row in in_parts(connection, joined, versions.c.version_id, ids):
        one = found.setdefault(
            row.doc_id,
            {
                "doc_id": row.doc_id,
                "source": row.source,
                "uri": row.uri,
                "trust": row.trust,
                "versions": 0,
                "served": False,
            },
        )
        one["versions"] += 1
        one["served"] |= row.target_version == row.version_id
    yield from sorted(found.values(), key=lambda one: (one["source"], one["uri"]))
