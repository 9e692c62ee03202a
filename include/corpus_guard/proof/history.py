"""What changed between two seals, and which run did it.

The manifests say what, the events of the log between them say by whom: a difference that no event tells of has no run, and would not have
been sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger.tables import events, publications, seals, versions
from corpus_guard.proof.manifest import Change, compare

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

AT_ONCE = 500  # differences looked up together


@dataclass(frozen=True, slots=True)
class Difference:
    """A chunk that one manifest lists and the other does not, or lists otherwise."""

    what: str  # added, removed, modified
    chunk_id: str
    collection: str
    source: str
    uri: str
    run_id: str  # "" where no event tells of it


def differences(guard: Guard, older: int | None = None, newer: int | None = None) -> Iterator[Difference]:
    """The differences between two seals, by their numbers; the last two when left out. Memory as large as what changed.

    Raises:
        UnknownSubject: there is no such seal, or there are fewer than two.
        Inconsistent: a manifest is gone from storage.
    """
    first, second = _seals(guard, older, newer)
    runs = _runs(guard, first.manifest_sha256, second.manifest_sha256)
    found = compare(guard.storage.lines(first.manifest), guard.storage.lines(second.manifest))
    for page in split(found, AT_ONCE):
        places = _places(guard, page)
        for change in page:
            source, uri = places.get(change.key, ("", ""))
            chunk, collection = change.key
            yield Difference(change.what, chunk, collection, source, uri, runs.get(change.key, ""))


def _seals(guard: Guard, older: int | None, newer: int | None) -> tuple[sa.Row[tuple[object, ...]], ...]:
    with guard.ledger.read() as connection:
        rows = connection.execute(sa.select(seals).order_by(seals.c.number)).all()
    numbers = [row.number for row in rows]
    wanted = (
        numbers[-2] if older is None and len(rows) > 1 else older,
        numbers[-1] if newer is None and rows else newer,
    )
    chosen = tuple(row for number in wanted for row in rows if row.number == number)
    if len(chosen) < len(wanted):
        known = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
        raise UnknownSubject(f"seals {wanted[0]} and {wanted[1]}: two are compared; the ledger has {known}")
    return chosen


def _runs(guard: Guard, older: str, newer: str) -> dict[tuple[str, str], str]:
    with guard.ledger.read() as connection:

        def last(sha256: str) -> int:
            sealed = sa.select(sa.func.max(events.c.seq)).where(events.c.kind == "sealed", events.c.subject == sha256)
            return connection.scalar(sealed) or 0

        span = sorted((last(older), last(newer)))
        told = sa.select(events).where(
            events.c.seq > span[0], events.c.seq < span[1], events.c.kind.in_(("published", "unpublished"))
        )
        return {
            (chunk, row.subject): row.run_id
            for row in connection.execute(told.order_by(events.c.seq))
            for chunk in (row.body["chunks"] if isinstance(row.body["chunks"], list | dict) else ())
        }


def _places(guard: Guard, page: list[Change]) -> dict[tuple[str, str], tuple[str, str]]:
    statement = (
        sa.select(publications.c.chunk_id, publications.c.collection, versions.c.stamp)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.chunk_id.in_([change.key[0] for change in page]))
    )
    with guard.ledger.read() as connection:
        return {
            (row.chunk_id, row.collection): (row.stamp["source"], row.stamp["uri"])
            for row in connection.execute(statement)
        }
