"""Content that was purged or withdrawn stays out: what intake asks before it keeps bytes, and before it keeps a text.

Rules
    * bytes that are blocked are not kept, whatever their name and source; a text that is blocked is not kept in other bytes either;
    * the document is recorded all the same, without text, with a finding that says why and a verdict that no policy loosens;
    * the next fetch of the same bytes is no news;
    * raw bytes of what was purged leave the disk; of what was withdrawn (`corpus_guard.traceback.withdrawing`) they are evidence.

What it does not do: see a text that was changed. To the hash, one more blank is another text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity, Version
from corpus_guard.ledger import Ledger, tables

BLOCKED: Final = "parsing.blocked"
"""The code of the finding; `corpus_guard.screening.policy` rejects for it."""
MESSAGE: Final = (
    "The same content was purged or withdrawn; it is not taken in again. `guard log` tells who asked for it and why."
)


def blocked(ledger: Ledger, sha256s: Iterable[str]) -> set[str]:
    """Those of the hashes, of bytes or of texts, that were purged or withdrawn."""
    return _found(ledger, sa.select(tables.blocked.c.sha256), sha256s)


def purged(ledger: Ledger, sha256s: Iterable[str]) -> set[str]:
    """Those of the hashes that were purged: of these nothing is kept."""
    by_purge = sa.select(tables.blocked.c.sha256).join(
        tables.purges, tables.purges.c.purge_id == tables.blocked.c.purge_id
    )
    return _found(ledger, by_purge, sha256s)


def _found(ledger: Ledger, statement: sa.Select[Any], sha256s: Iterable[str]) -> set[str]:
    wanted = sorted(set(sha256s))
    with ledger.read() as connection:
        return {
            sha
            for start in range(0, len(wanted), 500)
            for sha in connection.scalars(statement.where(tables.blocked.c.sha256.in_(wanted[start : start + 500])))
        }


def without_blocked(ledger: Ledger, versions: Sequence[Version]) -> list[Version]:
    """The same versions; those with a purged text have none any more, and a finding instead."""
    stopped = blocked(ledger, (version.text_sha256 for version in versions))
    return [_emptied(version) if version.text_sha256 in stopped else version for version in versions]


def _emptied(version: Version) -> Version:
    stamp = replace(version.stamp, declared={})
    finding = Finding("parsing", BLOCKED, Severity.CRITICAL, 1.0, MESSAGE)
    return replace(version, stamp=stamp, text="", hidden="", chunks=(), problems=(finding,))
