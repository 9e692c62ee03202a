"""What the collections shall hold: the newest manifest that is signed for, and what was logged after it.

Rules
    * a seal counts when its event lies under a verified head: whoever can write to the ledger can log a seal, but not sign it;
    * its manifest has the hash, the root and the number of lines the event says, its lines sorted, none twice;
    * what was published or withdrawn since was logged with digests: it is expected as logged, and counted as not proved yet;
    * without such a manifest the ledger is all there is to compare with; the verification has failed already, and names what else is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import split
from corpus_guard.domain import record_digest
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, events, publications
from corpus_guard.proof._found import Found, Progress
from corpus_guard.proof.deviations import Kind
from corpus_guard.proof.manifest import LastSealed, Since, manifest_lines, told_since
from corpus_guard.proof.merkle import Frontier, leaf_hash

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PAGE = 500  # keys a statement
STEP = 20_000  # lines between two signs of progress

Key = tuple[str, str]
"""(chunk id, collection)."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a collection shall hold under a chunk's id."""

    chunk_id: str
    collection: str
    doc_id: str
    text_sha256: str
    vector_sha256: str
    metadata_sha256: str
    model: str

    @property
    def key(self) -> Key:
        """(chunk id, collection)."""
        return self.chunk_id, self.collection

    @property
    def digest(self) -> str:
        """As the log tells of it."""
        return record_digest(self.text_sha256, self.vector_sha256, self.metadata_sha256)

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Expected:
        """From a line of a manifest."""
        return cls(**{name: line[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Sealed:
    """The newest seal that is signed for."""

    event: LastSealed | None  # none: nothing was sealed, or not signed
    whole: bool  # its manifest is there, and is what was signed

    @property
    def lines(self) -> int:
        """How many its manifest has."""
        return self.event.chunks if self.event else 0


def check_manifest(guard: Guard, signed: int, found: Found, progress: Progress) -> Sealed:
    """Find the newest seal among the first `signed` events and compare its manifest; deviations go to `found`."""
    event = sealed_below(guard.ledger, signed)
    if event is None:
        found.add(
            Kind.MANIFEST_MISSING,
            "manifest",
            "no signed event tells of a manifest: nothing was ever sealed, or by a release that signed nothing; run `guard refresh`",
        )
        return Sealed(None, whole=False)
    where = guard.storage.location(event.name)
    try:
        wrong = _wrong_with(guard.storage, event, progress)
    except Inconsistent:
        found.add(
            Kind.MANIFEST_MISSING,
            event.name,
            f"the manifest {where} is gone; restore it from a copy, or seal again: an unchanged corpus gives the same one",
            expected=event.sha256,
        )
        return Sealed(event, whole=False)
    if wrong:
        found.add(
            Kind.MANIFEST_CHANGED,
            event.name,
            f"the manifest {where} is not what was signed: {wrong}; restore it from a copy",
            expected=event.sha256,
        )
    return Sealed(event, whole=not wrong)


def sealed_below(ledger: Ledger, size: int) -> LastSealed | None:
    """The newest seal among the first `size` events; None where none names a root."""
    statement = sa.select(events).where(events.c.kind == "sealed", events.c.seq < size).order_by(events.c.seq.desc())
    with ledger.read() as connection:
        return LastSealed.of_event(connection.execute(statement.limit(1)).first())


def since(ledger: Ledger, sealed: Sealed) -> Since:
    """What was published and withdrawn after the seal, the last word on each chunk."""
    return told_since(ledger, sealed.event.seq) if sealed.event else Since({}, {})


def expected(guard: Guard, sealed: Sealed, after: Since) -> Iterator[Expected]:
    """Every record the collections shall hold: those of the manifest in its order, then those published since; memory flat."""
    if not (sealed.event and sealed.whole):
        yield from map(Expected.of, map(orjson.loads, manifest_lines(guard.ledger)))
        return
    for line in guard.storage.lines(sealed.event.name):
        one = Expected.of(orjson.loads(line))
        if one.key not in after.told:
            yield one
    new = sorted(key for key, digest in after.told.items() if digest is not None)
    yield from published(guard.ledger, new).values()


def published(ledger: Ledger, keys: Sequence[Key]) -> dict[Key, Expected]:
    """What the ledger says of chunks it has published."""
    statement = (
        sa.select(*(publications.c[name] for name in Expected.__slots__ if name != "text_sha256"), chunks.c.text_sha256)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(publications.c.state == "published")
    )
    return {
        (row.chunk_id, row.collection): Expected(**row._mapping)
        for row in _by_key(ledger, statement, publications, keys)
    }


def states(ledger: Ledger, keys: Sequence[Key]) -> dict[Key, str]:
    """State of each publication there is."""
    statement = sa.select(publications.c.chunk_id, publications.c.collection, publications.c.state)
    return {(row.chunk_id, row.collection): row.state for row in _by_key(ledger, statement, publications, keys)}


def report_unsealed(after: Since, in_flight: int, found: Found) -> None:
    """One deviation for all that is not proved yet."""
    count = sum(after.runs.values()) + in_flight
    if not count:
        return
    runs = [f"{run} ({number})" for run, number in sorted(after.runs.items())]
    runs += [f"the outbox ({in_flight})"] if in_flight else []
    found.add(
        Kind.UNSEALED,
        "manifest",
        f"{count} chunks were published, withdrawn or asked for since the last signed seal, by {', '.join(runs[:5])}: not proved "
        "yet. A run that works now seals at its end; after one that was killed run `guard refresh`",
        found=count,
    )


def _wrong_with(storage: Storage, event: LastSealed, progress: Progress) -> str:
    hasher, tree = hashlib.sha256(), Frontier()
    before: Key | None = None
    sorted_ = True
    for number, line in enumerate(storage.lines(event.name)):
        hasher.update(line + b"\n")
        tree.append(leaf_hash(line))
        if number % STEP == 0:
            progress("manifest", number, event.chunks)
        try:
            row = orjson.loads(line)
            key = row["chunk_id"], row["collection"]
        except (ValueError, TypeError, LookupError):
            return f"line {number + 1} is none of a manifest"
        sorted_ = sorted_ and (before is None or before < key)
        before = key
    if (hasher.hexdigest(), tree.root().hex()) != (event.sha256, event.root):
        return f"it has {tree.size} lines and SHA-256 {hasher.hexdigest()[:16]}…, signed were {event.chunks} and {event.sha256[:16]}…"
    if tree.size != event.chunks or not sorted_:
        return f"its {tree.size} lines are not {event.chunks} in order, each once"
    return ""


def _by_key(ledger: Ledger, statement: Any, table: sa.Table, keys: Sequence[Key]) -> Iterator[Any]:
    wanted = set(keys)
    for part in split(sorted({chunk for chunk, _ in wanted}), PAGE):
        with ledger.read() as connection:
            rows = connection.execute(statement.where(table.c.chunk_id.in_(part))).all()
        yield from (row for row in rows if (row.chunk_id, row.collection) in wanted)
