"""Plan of a purge: from the chunks, documents, sources and hashes that are named to what would be removed.

A chunk stands for its whole version. `corpus_guard.removal.purge_targets` says what goes along with a
version, `corpus_guard.removal.unrecorded` what unfinished runs have left behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.domain import EMPTY_TEXT_SHA256, digest
from corpus_guard.errors import AlreadyAtWork, Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.runs import refreshes_at_work
from corpus_guard.ledger.tables import chunks, documents, versions
from corpus_guard.removal.purge_targets import (
    PurgeTargets,
    collections_of,
    removal_targets,
    versions_with_equal_content,
)
from corpus_guard.removal.storage_files import StorageFiles
from corpus_guard.removal.unrecorded import (
    Selector,
    UnrecordedContent,
    select_unrecorded,
    selected_before,
    unnamed_blobs,
)

if TYPE_CHECKING:
    from corpus_guard.intake.blobs import BlobStore


@dataclass(frozen=True, slots=True)
class PurgeSelectors:
    """Subjects of a purge, as the user named them; all of them together."""

    chunks: tuple[str, ...] = ()  # ids
    documents: tuple[str, ...] = ()  # URIs or ids
    sources: tuple[str, ...] = ()  # names
    hashes: tuple[str, ...] = ()  # SHA-256 of raw bytes, of a document's text or of a chunk's text, hex

    def as_dict(self) -> dict[str, list[str]]:
        """Return them JSON-ready, sorted, without empty lists."""
        return {name: sorted(set(values)) for name, values in asdict(self).items() if values}


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document that has versions to be purged."""

    doc_id: str
    source: str
    uri: str
    trust: str
    versions: int  # to be purged
    served: bool  # one of these versions is served now


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """Data of unfinished runs that a purge would remove: nothing in the ledger names them."""

    documents: int  # that were selected
    files: tuple[str, ...]  # tables, storage names
    blobs: tuple[str, ...]  # raw bytes, storage names; also those of no document that is known


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """Everything that a purge would remove."""

    selectors: PurgeSelectors
    documents: tuple[PlannedDocument, ...]
    versions: tuple[str, ...]  # ids
    chunks: tuple[str, ...]  # ids
    content_sha256: tuple[str, ...]
    text_sha256: tuple[str, ...]
    collections: tuple[str, ...]  # that hold some of it, or did
    files: tuple[str, ...]  # tables to be rewritten or removed, storage names
    blobs: tuple[str, ...]  # raw bytes of documents to be removed, storage names
    unrecorded: UnrecordedContent  # what is purged besides the versions, also by an earlier purge of the same selection
    unfinished: UnfinishedWork
    waits_for: tuple[str, ...]  # ids of refreshes at work: what they have not recorded stays

    @property
    def purge_id(self) -> str:
        """Id of the purge: the same versions give the same id."""
        unrecorded = self.unrecorded.versions or self.unrecorded.content_sha256
        return digest("purge/v1", (*self.versions, *unrecorded))[:32]

    @property
    def targets(self) -> PurgeTargets:
        """Rows and hashes that must leave the disk."""
        recorded = PurgeTargets(
            frozenset(self.versions),
            frozenset(self.chunks),
            frozenset(self.content_sha256),
            frozenset(self.text_sha256),
        )
        return self.unrecorded.added_to(recorded)

    @property
    def document_count(self) -> int:
        """Number of documents, those that only unfinished runs know included."""
        return len({*(document.doc_id for document in self.documents), *self.unrecorded.documents})

    def as_dict(self) -> dict[str, object]:
        """Return the plan JSON-ready."""
        return {"purge_id": self.purge_id, **asdict(self), "selectors": self.selectors.as_dict()}


def plan_purge(ledger: Ledger, storage: Storage, blobs: BlobStore, selectors: PurgeSelectors) -> PurgePlan:
    """Return what a purge would remove. Changes nothing.

    Raises:
        Misuse: nothing is selected.
        UnknownSubject: neither the ledger nor an unfinished run has such a chunk, document, source or hash.
        AlreadyAtWork: only a refresh that is at work has it.
    """
    if not selectors.as_dict():
        raise Misuse("nothing is selected for the purge; give --chunk, --document, --source or --hash")
    files = StorageFiles(ledger, storage, blobs)
    selection = select_unrecorded(ledger, files, selectors.documents, selectors.sources, selectors.hashes)
    before = selected_before(ledger, selectors.as_dict())
    unrecorded = selection.content.joined_with(before)
    with ledger.read() as connection:
        selected, unknown = _selected_versions(connection, selectors)
        version_ids = versions_with_equal_content(connection, selected)
        targets = removal_targets(connection, version_ids)
        planned_documents = _planned_documents(connection, version_ids)
        collections = collections_of(connection, version_ids)
    if before.is_empty:  # else the same was selected before, and may be gone
        _require_known(selector for selector in unknown if selector not in selection.matched)
    if selection.waits_for and not version_ids and unrecorded.is_empty:
        raise AlreadyAtWork(
            f"refresh {', '.join(selection.waits_for)} is at work, and only it has what was selected; nothing was done. "
            "Wait until it ends, then run this again"
        )
    all_targets = unrecorded.added_to(targets)
    tables: list[str] = []
    unfinished_tables: list[str] = []
    for batch in files.batches_with(all_targets):
        tables += batch.tables
        if not files.is_referenced(batch.folder):
            unfinished_tables += batch.tables
    nameless = unnamed_blobs(ledger, files, unfinished_tables)
    busy = [run.run_id for run in refreshes_at_work(ledger)] if nameless else []
    unrecorded_blobs = files.blobs_of(unrecorded.added_to(PurgeTargets()))
    return PurgePlan(
        selectors=selectors,
        documents=tuple(planned_documents),
        versions=tuple(sorted(targets.versions)),
        chunks=tuple(sorted(targets.chunks)),
        content_sha256=tuple(sorted(targets.content_sha256)),
        text_sha256=tuple(sorted(targets.text_sha256)),
        collections=collections,
        files=tuple(tables),
        blobs=tuple(files.blobs_of(all_targets)),
        unrecorded=unrecorded,
        unfinished=UnfinishedWork(
            documents=len(selection.content.documents),
            files=tuple(unfinished_tables),
            blobs=tuple(sorted({*unrecorded_blobs, *(() if busy else nameless)})),
        ),
        waits_for=tuple(sorted({*selection.waits_for, *busy})),
    )


def _require_known(unknown: Iterable[Selector]) -> None:
    for subject, value in unknown:
        raise UnknownSubject(
            f"{subject} {value!r} is not in the ledger; "
            "`guard search --json` and `guard quarantine list --json` show ids"
        )


def _selected_versions(connection: sa.Connection, selectors: PurgeSelectors) -> tuple[set[str], list[Selector]]:
    """Return the ids of the versions that are selected, and the selectors that no version meets."""
    version_ids: set[str] = set()
    unknown: list[Selector] = []
    with_document = sa.select(versions.c.version_id).join(documents, documents.c.doc_id == versions.c.doc_id)
    with_chunk = sa.select(versions.c.version_id).join(chunks, chunks.c.version_id == versions.c.version_id)
    # A document without text has no chunk.
    with_any_chunk = sa.select(versions.c.version_id).outerjoin(chunks, chunks.c.version_id == versions.c.version_id)
    source_and_uri = documents.c.source + "/" + documents.c.uri
    for subject, values, statement, columns in (
        ("chunk", selectors.chunks, with_chunk, (chunks.c.chunk_id,)),
        ("document", selectors.documents, with_document, (documents.c.doc_id, documents.c.uri, source_and_uri)),
        ("source", selectors.sources, with_document, (documents.c.source,)),
        (
            "hash",
            selectors.hashes,
            with_any_chunk,
            (versions.c.content_sha256, versions.c.text_sha256, chunks.c.text_sha256),
        ),
    ):
        for value in values:
            if subject == "hash" and value == EMPTY_TEXT_SHA256:
                raise Misuse(
                    "this is the hash of the empty text, which belongs to no document; name the document, or "
                    "the hash of its bytes"
                )
            matches = set(connection.scalars(statement.where(sa.or_(*(column == value for column in columns)))))
            if not matches:
                unknown.append((subject, value))
            version_ids |= matches
    return version_ids, unknown


def _planned_documents(connection: sa.Connection, version_ids: Iterable[str]) -> list[PlannedDocument]:
    """Return the documents of these versions, by source and URI."""
    columns = (documents.c.doc_id, documents.c.source, documents.c.uri, documents.c.trust, documents.c.target_version)
    statement = sa.select(*columns, versions.c.version_id).join(versions, versions.c.doc_id == documents.c.doc_id)
    planned: dict[str, PlannedDocument] = {}
    for row in select_in_batches(connection, statement, versions.c.version_id, version_ids):
        earlier = planned.get(row.doc_id)
        planned[row.doc_id] = PlannedDocument(
            doc_id=row.doc_id,
            source=row.source,
            uri=row.uri,
            trust=row.trust,
            versions=1 + (earlier.versions if earlier else 0),
            served=row.target_version == row.version_id or (earlier is not None and earlier.served),
        )
    return sorted(planned.values(), key=lambda document: (document.source, document.uri))
