"""Content that was purged or withdrawn, and stays out. Intake asks before it keeps bytes or a text.

Rules
    * blocked bytes are not kept, whatever their name and source; a blocked text is not kept in other bytes
      either;
    * the document is recorded without text, with a finding that says why and a verdict that no policy
      loosens;
    * the next fetch of the same bytes counts as unchanged; so does that of a withdrawn version, which keeps its
      record;
    * raw bytes of purged content leave the disk; of withdrawn content
      (`corpus_guard.traceback.withdrawal_plan`) they are evidence.

What it does not see: a changed text. To the hash, one more blank is another text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity, Version
from corpus_guard.ledger import Ledger, tables
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.states import VersionState

BLOCKED: Final = "parsing.blocked"
"""Code of the finding; `corpus_guard.screening.policy` rejects versions with it."""
BLOCKED_MESSAGE: Final = (
    "The same content was purged or withdrawn and is not taken in again. `guard log` shows who did it and why."
)


def find_blocked(ledger: Ledger, sha256s: Iterable[str]) -> set[str]:
    """Return the hashes, of bytes or of texts, that were purged or withdrawn."""
    return _select_hashes(ledger, sa.select(tables.blocked.c.sha256), sha256s)


def find_purged(ledger: Ledger, sha256s: Iterable[str]) -> set[str]:
    """Return the hashes that were purged: nothing of them is kept."""
    by_purge = sa.select(tables.blocked.c.sha256).join(
        tables.purges, tables.purges.c.purge_id == tables.blocked.c.purge_id
    )
    return _select_hashes(ledger, by_purge, sha256s)


def is_withdrawn(ledger: Ledger, version_id: str) -> bool:
    """Return whether a version was withdrawn, and neither restored nor purged since."""
    table = tables.versions
    statement = sa.select(table.c.content_sha256).where(
        table.c.version_id == version_id, table.c.state == VersionState.REJECTED
    )
    content = ledger.scalar(statement)
    return content is not None and content in find_blocked(ledger, [content]) - find_purged(ledger, [content])


def _select_hashes(ledger: Ledger, statement: sa.Select[tuple[str]], sha256s: Iterable[str]) -> set[str]:
    with ledger.read() as connection:
        rows = select_in_batches(connection, statement, tables.blocked.c.sha256, sha256s)
        return {row.sha256 for row in rows}


def strip_blocked(ledger: Ledger, versions: Sequence[Version]) -> list[Version]:
    """Return the versions; those with a blocked text lose it and get a finding instead."""
    stopped = find_blocked(ledger, (version.text_sha256 for version in versions))
    return [_emptied(version) if version.text_sha256 in stopped else version for version in versions]


def _emptied(version: Version) -> Version:
    stamp = replace(version.stamp, declared={})
    finding = Finding("parsing", BLOCKED, Severity.CRITICAL, 1.0, BLOCKED_MESSAGE)
    return replace(version, stamp=stamp, text="", hidden="", chunks=(), problems=(finding,))
