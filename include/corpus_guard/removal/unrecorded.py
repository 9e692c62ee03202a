"""Content of unfinished runs: rows of batches and raw bytes that no version in the ledger names.

Rules
    * a refresh stores raw bytes and batches before the ledger records their versions; if it is killed in between, they
      stay. Documents, sources and hashes select such rows as they select versions;
    * the bytes and the text of a selected row are purged with it, unless a recorded version has them, too: it keeps them
      until it is purged itself;
    * its batch is removed as a whole (`corpus_guard.removal.storage_files`): a refresh makes it again;
    * raw bytes that neither a version nor a batch names do not tell whose they are, so every purge erases them: a refresh
      fetches them again;
    * what a refresh at work has stored is left to it, and the refresh is named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
import sqlalchemy as sa

from corpus_guard.batches.storage import ROWS_PER_GROUP
from corpus_guard.batches.tables import in_batches
from corpus_guard.domain import EMPTY_TEXT_SHA256, sha256_text
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.runs import refreshes_at_work
from corpus_guard.ledger.tables import purges, versions
from corpus_guard.removal.purge_targets import PurgeTargets

if TYPE_CHECKING:
    from corpus_guard.removal.storage_files import StorageFiles

Selector: TypeAlias = tuple[str, str]
"""(document, source or hash; its value)."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class UnrecordedContent:
    """Rows of batches that no version in the ledger names, and what is purged with them."""

    documents: tuple[str, ...] = ()  # ids
    versions: tuple[str, ...] = ()  # ids
    content_sha256: tuple[str, ...] = ()  # of bytes that no version in the ledger has
    text_sha256: tuple[str, ...] = ()  # of texts that no version in the ledger has
    sources: tuple[str, ...] = ()  # names

    @classmethod
    def from_dict(cls, row: Mapping[str, Sequence[str]]) -> UnrecordedContent:
        """Build from a dictionary made by `as_dict`; an empty one stands for nothing."""
        return cls(**{name: tuple(values) for name, values in row.items()})

    def as_dict(self) -> dict[str, list[str]]:
        """Return the content JSON-ready."""
        return {name: list(values) for name, values in asdict(self).items()}

    @property
    def is_empty(self) -> bool:
        """True if nothing is purged with it."""
        return not self.versions and not self.content_sha256

    def joined_with(self, other: UnrecordedContent) -> UnrecordedContent:
        """Return what is in this or in the other one."""
        names = [field.name for field in fields(self)]
        return UnrecordedContent(
            **{name: tuple(sorted({*getattr(self, name), *getattr(other, name)})) for name in names}
        )

    def added_to(self, targets: PurgeTargets) -> PurgeTargets:
        """Return the targets of the recorded versions together with these."""
        return PurgeTargets(
            targets.versions.union(self.versions),
            targets.chunks,
            targets.content_sha256.union(self.content_sha256),
            targets.text_sha256.union(self.text_sha256),
        )


@dataclass(frozen=True, slots=True)
class UnrecordedSelection:
    """Unrecorded content that was selected."""

    content: UnrecordedContent
    matched: frozenset[Selector]  # that select some of it, also where a refresh at work keeps it
    waits_for: tuple[str, ...]  # ids of refreshes at work whose documents are not in `content`


def select_unrecorded(
    ledger: Ledger,
    files: StorageFiles,
    documents: Collection[str],
    sources: Collection[str],
    hashes: Collection[str],
) -> UnrecordedSelection:
    """Return the unrecorded content that documents (URIs or ids), sources and hashes select.

    Raises:
        Inconsistent: a table is unreadable.
    """
    refreshes = refreshes_at_work(ledger)
    columns = ["version_id", "doc_id", "stamp", *(("text", "chunks") if hashes else ())]
    matched: set[Selector] = set()
    waits_for: set[str] = set()
    document_ids: set[str] = set()
    source_names: set[str] = set()
    contents: set[str] = set()
    texts: set[str] = set()
    selected: dict[str, set[str]] = {}
    for name in _unnamed_tables(ledger, files) if documents or sources or hashes else ():
        for row in _unrecorded_rows(ledger, files, name, columns):
            stamp = orjson.loads(row["stamp"])
            matching = set(_matching_selectors(row, stamp, documents, sources, hashes))
            matched |= matching
            users = [run.run_id for run in refreshes if stamp["source"] in run.sources]
            if matching and users:
                waits_for.update(users)
            elif matching:
                document_ids.add(row["doc_id"])
                source_names.add(stamp["source"])
                contents.add(stamp["content_sha256"])
                selected.setdefault(name, set()).add(row["version_id"])
    for name, version_ids in selected.items():
        for row in files.rows(name, ["version_id", "text"]):
            if row["version_id"] in version_ids:
                texts.add(sha256_text(row["text"]))
    raw = {sha256 for sha256 in hashes if _SHA256.fullmatch(sha256) and files.has_blob(sha256)}
    matched |= {("hash", sha256) for sha256 in raw}
    content = UnrecordedContent(
        documents=tuple(sorted(document_ids)),
        versions=tuple(sorted(set().union(*selected.values()))),
        content_sha256=tuple(sorted(contents | raw)),
        text_sha256=tuple(sorted(texts - {EMPTY_TEXT_SHA256})),
        sources=tuple(sorted(source_names)),
    )
    return UnrecordedSelection(_without_recorded(ledger, content), frozenset(matched), tuple(sorted(waits_for)))


def selected_before(ledger: Ledger, subject: Mapping[str, Sequence[str]]) -> UnrecordedContent:
    """Return the unrecorded content of earlier purges with the same selectors, so that a repeated one is the same purge."""
    content = UnrecordedContent()
    with ledger.read() as connection:
        rows = connection.execute(sa.select(purges.c.purge_id, purges.c.subject)).all()
        same = [row.purge_id for row in rows if row.subject == subject]
        for row in select_in_batches(connection, sa.select(purges.c.evidence), purges.c.purge_id, same):
            content = content.joined_with(UnrecordedContent.from_dict(row.evidence.get("unrecorded", {})))
    return _without_recorded(ledger, content)


def holders_in_ledger(connection: sa.Connection, content: UnrecordedContent) -> list[sa.Row[Any]]:
    """Return the versions in the ledger that are this content, or hold its bytes or its text."""
    columns = sa.select(*versions.c["version_id", "content_sha256", "text_sha256"])
    return [
        row
        for column, values in (
            (versions.c.version_id, content.versions),
            (versions.c.content_sha256, content.content_sha256),
            (versions.c.text_sha256, content.text_sha256),
        )
        for row in select_in_batches(connection, columns, column, values)
    ]


def unnamed_blobs(ledger: Ledger, files: StorageFiles, removed: Collection[str] = ()) -> list[str]:
    """Return the names of the raw bytes that neither a version nor a batch names.

    Args:
        removed: tables that count as removed already, storage names.

    Raises:
        Inconsistent: a table is unreadable.
    """
    unnamed: dict[str, str] = {}
    for batch in in_batches(files.blob_names()):
        by_hash = {name.rpartition("/")[2]: name for name in batch}
        with ledger.read() as connection:
            columns = sa.select(versions.c.content_sha256)
            rows = select_in_batches(connection, columns, versions.c.content_sha256, by_hash)
            recorded = {row.content_sha256 for row in rows}
        unnamed |= {sha256: name for sha256, name in by_hash.items() if sha256 not in recorded}
    for name in set(_unnamed_tables(ledger, files)).difference(removed) if unnamed else ():
        for row in files.rows(name, ["stamp"]):
            unnamed.pop(orjson.loads(row["stamp"])["content_sha256"], None)
    return list(unnamed.values())


def _unnamed_tables(ledger: Ledger, files: StorageFiles) -> Iterator[str]:
    """Yield the tables of versions that no version in the ledger names."""
    for batch in in_batches(files.version_tables()):
        with ledger.read() as connection:
            columns = sa.select(versions.c.batch).distinct()
            named = {row.batch for row in select_in_batches(connection, columns, versions.c.batch, batch)}
        yield from (name for name in batch if name not in named)


def _unrecorded_rows(ledger: Ledger, files: StorageFiles, name: str, columns: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table whose versions are not in the ledger: what came again was recorded from another batch."""
    for rows in in_batches(files.rows(name, columns), ROWS_PER_GROUP):
        with ledger.read() as connection:
            recorded = _recorded_ids(connection, (row["version_id"] for row in rows))
        yield from (row for row in rows if row["version_id"] not in recorded)


def _recorded_ids(connection: sa.Connection, version_ids: Iterable[str]) -> set[str]:
    rows = select_in_batches(connection, sa.select(versions.c.version_id), versions.c.version_id, version_ids)
    return {row.version_id for row in rows}


def _matching_selectors(
    row: Mapping[str, Any],
    stamp: Mapping[str, Any],
    documents: Collection[str],
    sources: Collection[str],
    hashes: Collection[str],
) -> Iterator[Selector]:
    """Yield the selectors that a row meets."""
    for name in (row["doc_id"], stamp["uri"], f"{stamp['source']}/{stamp['uri']}"):
        if name in documents:
            yield "document", name
    if stamp["source"] in sources:
        yield "source", stamp["source"]
    if hashes:
        pieces = (row["text"][chunk["start"] : chunk["end"]] for chunk in row["chunks"])
        for sha256 in (stamp["content_sha256"], *map(sha256_text, (row["text"], *pieces))):
            if sha256 in hashes:
                yield "hash", sha256


def _without_recorded(ledger: Ledger, content: UnrecordedContent) -> UnrecordedContent:
    """Return the content without what versions in the ledger hold: that goes or stays with them."""
    with ledger.read() as connection:
        holders = holders_in_ledger(connection, content)
    recorded = {value for row in holders for value in (row.version_id, row.content_sha256, row.text_sha256)}
    return UnrecordedContent(
        documents=content.documents,
        versions=tuple(version for version in content.versions if version not in recorded),
        content_sha256=tuple(sha256 for sha256 in content.content_sha256 if sha256 not in recorded),
        text_sha256=tuple(sha256 for sha256 in content.text_sha256 if sha256 not in recorded),
        sources=content.sources,
    )
