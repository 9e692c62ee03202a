"""Rows and hashes that leave together: everything that has the same bytes or the same text.

Rules
    * with a version goes every version of any document that has the same bytes or the same text, and so on
      until nothing is added;
    * the empty text does not count: a hundred unreadable files are not one content.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from corpus_guard.domain import EMPTY_TEXT_SHA256
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.tables import chunks, publications, versions


@dataclass(frozen=True, slots=True)
class PurgeTargets:
    """Versions to be removed, with everything by which they are recognised."""

    versions: frozenset[str] = frozenset()  # ids
    chunks: frozenset[str] = frozenset()  # ids
    content_sha256: frozenset[str] = frozenset()
    text_sha256: frozenset[str] = frozenset()  # without that of the empty text


def versions_with_equal_content(connection: sa.Connection, version_ids: set[str]) -> set[str]:
    """Return `version_ids` and all versions that have the text or the bytes of one of them."""
    return set[str]().union(*group_by_content(connection, version_ids).values())


def group_by_content(connection: sa.Connection, version_ids: set[str]) -> dict[str, frozenset[str]]:
    """Return each of `version_ids` with all versions that have its text or its bytes, itself included.

    A few statements, however many versions there are.
    """
    columns = sa.select(versions.c.version_id, versions.c.content_sha256, versions.c.text_sha256)
    keys_of: dict[str, set[str]] = {}
    holders: defaultdict[str, set[str]] = defaultdict(set)
    added = set(version_ids)
    while added:
        rows = list(select_in_batches(connection, columns, versions.c.version_id, added))
        contents = {row.content_sha256 for row in rows}
        texts = {row.text_sha256 for row in rows} - {EMPTY_TEXT_SHA256}
        equal = [
            *rows,
            *select_in_batches(connection, columns, versions.c.content_sha256, contents),
            *select_in_batches(connection, columns, versions.c.text_sha256, texts),
        ]
        added = {row.version_id for row in equal} - keys_of.keys() - {row.version_id for row in rows}
        for row in equal:
            keys = {f"content {row.content_sha256}", f"text {row.text_sha256}"} - {f"text {EMPTY_TEXT_SHA256}"}
            keys_of[row.version_id] = keys
            for key in keys:
                holders[key].add(row.version_id)
    groups: dict[str, frozenset[str]] = {}
    for version_id in version_ids:
        group, new = {version_id}, {version_id}
        while new and version_id not in groups:
            new = {other for member in new for key in keys_of.get(member, ()) for other in holders[key]} - group
            group |= new
        groups |= {member: frozenset(group) for member in group if version_id not in groups}
    return {version_id: groups[version_id] for version_id in version_ids}


def removal_targets(connection: sa.Connection, version_ids: Iterable[str]) -> PurgeTargets:
    """Return these versions with their chunks and hashes."""
    version_ids = set(version_ids)
    rows = list(select_in_batches(connection, sa.select(versions), versions.c.version_id, version_ids))
    chunk_rows = select_in_batches(connection, sa.select(chunks.c.chunk_id), chunks.c.version_id, version_ids)
    return PurgeTargets(
        frozenset(version_ids),
        frozenset(row.chunk_id for row in chunk_rows),
        frozenset(row.content_sha256 for row in rows),
        frozenset(row.text_sha256 for row in rows) - {EMPTY_TEXT_SHA256},
    )


def collections_of(connection: sa.Connection, version_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the collections that hold chunks of these versions, or held some."""
    statement = sa.select(publications.c.collection).distinct()
    rows = select_in_batches(connection, statement, publications.c.version_id, version_ids)
    return tuple(sorted({row.collection for row in rows}))
