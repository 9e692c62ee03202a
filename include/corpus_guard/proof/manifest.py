"""The manifest: one canonical JSON line for each published chunk, sorted by chunk id.

It is derived from the ledger, and the ledger's hashes are those of what Chroma gave back after writing. Two manifests of the same
corpus are equal byte for byte. No line holds a float or a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson
import sqlalchemy as sa

from corpus_guard.domain import canonical_json, record_digest
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, decisions, events, publications, seals, standing, versions
from corpus_guard.proof.merkle import Frontier, leaf_hash

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PAGE = 2_000  # rows held at a time
CHANGING = ("published", "unpublished", "judged", "rejudged", "decided")  # events after which the manifest may differ
RENEW_AFTER = timedelta(hours=6)  # a nightly run renews, a second run of the same morning does not


@dataclass(frozen=True, slots=True)
class Manifest:
    """A written manifest."""

    name: str  # in storage
    sha256: str
    root: str  # RFC 6962 tree over its lines, hex
    chunks: int


def write_manifest(guard: Guard, run_id: str) -> Manifest:
    """Write the manifest of what is served now and log it; an unchanged corpus keeps the last one, and logs so once in a while.

    Nobody publishes meanwhile: what another run marks between the reading and the seal would be taken for sealed.

    Raises:
        Inconsistent: Chroma holds another number of chunks than the ledger published, or the ledger says of a chunk what no event tells.
    """
    with guard.ledger.exclusive("publish"):
        last = last_sealed(guard.ledger)
        # A seal is renewed although nothing changed, so that its age shows that somebody still looks.
        fresh = last is not None and now() - last.at < RENEW_AFTER
        if last and guard.storage.exists(last.name) and not _changed_since(guard.ledger, last):
            sealed = Manifest(last.name, last.sha256, last.root, last.chunks)
            if fresh:
                return sealed
        else:
            _compare_counts(guard)
            sealed = _write(guard)
            if last and sealed.sha256 != last.sha256:
                explain(guard, last, sealed)
        with guard.ledger.write() as connection:
            if not last or sealed.sha256 != last.sha256:
                row = {"run_id": run_id, "manifest": sealed.name, "manifest_sha256": sealed.sha256, "root": sealed.root}
                connection.execute(seals.insert().values(**row, chunks=sealed.chunks, sealed_at=now()))
            guard.ledger.event(
                connection,
                "sealed",
                sealed.sha256,
                run_id,
                manifest=sealed.name,
                root=sealed.root,
                chunks=sealed.chunks,
            )
        return sealed


def _write(guard: Guard) -> Manifest:
    tree = Frontier()

    def planted() -> Iterator[bytes]:
        for line in manifest_lines(guard.ledger):
            tree.append(leaf_hash(line))
            yield line

    name, sha256, count = guard.storage.write_lines("manifests", planted(), ".jsonl")
    return Manifest(name, sha256, tree.root().hex(), count)


def manifest_lines(ledger: Ledger) -> Iterator[bytes]:
    """The lines, without newline, as the ledger stands."""
    released_by = (
        sa.select(decisions.c.decision_id)
        .where(decisions.c.version_id == publications.c.version_id, decisions.c.verdict == "release", standing())
        .order_by(decisions.c.decided_at.desc(), decisions.c.decision_id)
        .limit(1)
        .scalar_subquery()
        .label("released_by")
    )
    statement = (
        sa.select(
            publications.c.chunk_id,
            publications.c.collection,
            publications.c.doc_id,
            publications.c.version_id,
            publications.c.model,
            publications.c.vector_sha256,
            publications.c.metadata_sha256,
            chunks.c.ordinal,
            chunks.c.text_sha256,
            versions.c.stamp,
            versions.c.verdict,
            versions.c.state,
            versions.c.policy_digest,
            released_by,
        )
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.state == "published")
        .order_by(publications.c.chunk_id, publications.c.collection)
        .execution_options(yield_per=PAGE)
    )
    with ledger.read() as connection:
        for row in connection.execute(statement):
            stamp = row.stamp
            yield canonical_json(
                {
                    "v": 2,
                    "chunk_id": row.chunk_id,
                    "collection": row.collection,
                    "doc_id": row.doc_id,
                    "version_id": row.version_id,
                    "ordinal": row.ordinal,
                    "source": stamp["source"],
                    "owner": stamp["owner"],
                    "trust": stamp["trust"],
                    "uri": stamp["uri"],
                    "fetched_at": stamp["fetched_at"],
                    "content_sha256": stamp["content_sha256"],
                    "text_sha256": row.text_sha256,
                    "vector_sha256": row.vector_sha256,
                    "metadata_sha256": row.metadata_sha256,
                    "model": row.model,
                    "verdict": "release" if row.state == "released" else row.verdict,
                    "decision_id": row.released_by if row.state == "released" else None,
                    "policy_digest": row.policy_digest,
                }
            )


@dataclass(frozen=True, slots=True)
class LastSealed:
    """What the newest event of kind ``sealed`` says."""

    seq: int
    at: datetime
    name: str
    sha256: str
    root: str
    chunks: int

    @classmethod
    def of_event(cls, row: Any) -> LastSealed | None:
        """From a row of events; None where it seals nothing, or by a release that signed nothing."""
        if row is None or row.kind != "sealed" or "root" not in row.body:
            return None
        return cls(row.seq, row.at, row.body["manifest"], row.subject, row.body["root"], row.body["chunks"])


def last_sealed(ledger: Ledger) -> LastSealed | None:
    """The newest seal of the log; None where none names a root, or where somebody since accepted another baseline."""
    marks = events.c.kind.in_(("sealed", "baseline_accepted"))
    with ledger.read() as connection:
        return LastSealed.of_event(
            connection.execute(sa.select(events).where(marks).order_by(events.c.seq.desc()).limit(1)).first()
        )


@dataclass(frozen=True, slots=True)
class Since:
    """What was logged after a seal."""

    told: Mapping[
        tuple[str, str], str | None
    ]  # (chunk id, collection) → digest of what is held there now; None: nothing
    runs: Mapping[str, int]  # run → chunks published and withdrawn


def told_since(ledger: Ledger, seq: int) -> Since:
    """What was published and withdrawn after event `seq`, the last word on each chunk."""
    told: dict[tuple[str, str], str | None] = {}
    runs: Counter[str] = Counter()
    statement = (
        sa.select(events.c.kind, events.c.subject, events.c.run_id, events.c.body)
        .where(events.c.seq > seq, events.c.kind.in_(("published", "unpublished")))
        .order_by(events.c.seq)
    )
    with ledger.read() as connection:
        for kind, collection, run_id, body in connection.execute(statement):
            runs[run_id] += len(body["chunks"])
            for chunk in body["chunks"]:
                told[chunk, collection] = body["chunks"][chunk] if kind == "published" else None
    return Since(told, runs)


def _changed_since(ledger: Ledger, last: LastSealed) -> bool:
    # By the order of events, not by times: the clocks of two machines differ.
    changing = sa.select(events.c.seq).where(events.c.seq > last.seq, events.c.kind.in_(CHANGING))
    with ledger.read() as connection:
        return connection.execute(changing.limit(1)).first() is not None


def explain(guard: Guard, last: LastSealed, sealed: Manifest) -> None:
    """See that every difference between two manifests was told by an event between them.

    Raises:
        Inconsistent: a row of the ledger was written, changed or taken away by somebody who logged nothing.
    """
    told = told_since(guard.ledger, last.seq).told
    for change in compare(guard.storage.lines(last.name), guard.storage.lines(sealed.name)):
        if change.record != told.get(change.key, "nothing"):
            raise Inconsistent(
                f"chunk {change.key[0]} of {change.key[1]}: the ledger's row was {change.what} since the last seal and no event of the log "
                "tells of it; somebody wrote to the database by another road. Nothing was sealed; `guard verify` names what is wrong"
            )


_END: Final = (("\uffff", ""), "")  # behind every key: ids are hexadecimal


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two manifests."""

    key: tuple[str, str]  # chunk id, collection
    what: str  # added, removed, modified
    record: str | None  # digest of what the collection shall hold now; None: nothing


def compare(before: Iterable[bytes], after: Iterable[bytes]) -> Iterator[Change]:
    """What was added, removed or modified (in text, vector or metadata) between two manifests, in their order; memory flat."""
    old, new = _keyed(before), _keyed(after)
    left, right = next(old, _END), next(new, _END)
    while left is not _END or right is not _END:
        key = min(left[0], right[0])
        if left[0] == right[0]:
            if left[1] != right[1]:
                yield Change(key, "modified", right[1])
            left, right = next(old, _END), next(new, _END)
        elif key == left[0]:
            yield Change(key, "removed", None)
            left = next(old, _END)
        else:
            yield Change(key, "added", right[1])
            right = next(new, _END)


def _keyed(lines: Iterable[bytes]) -> Iterator[tuple[tuple[str, str], str]]:
    for line in lines:
        row = orjson.loads(line)
        record = record_digest(row["text_sha256"], row["vector_sha256"], row["metadata_sha256"])
        yield (row["chunk_id"], row["collection"]), record


def _compare_counts(guard: Guard) -> None:
    # What another run asked for and nobody published or removed yet may be in Chroma or not.
    unfinished = publications.c.state.in_(("pending", "retiring"))
    statement = (
        sa.select(
            publications.c.collection,
            sa.func.count().filter(publications.c.state == "published").label("published"),
            sa.func.count().filter(unfinished).label("unfinished"),
        )
        .group_by(publications.c.collection)
        .order_by(publications.c.collection)
    )
    with guard.ledger.read() as connection:
        expected = connection.execute(statement).all()
    for row in expected:  # none where nothing was ever served: no server is started to learn that it is empty
        found = guard.store.count(row.collection)
        if not row.published <= found <= row.published + row.unfinished:
            raise Inconsistent(
                f"collection {row.collection} at {guard.store.url} holds {found} chunks, the ledger published {row.published}; something "
                "else writes to it, or it lost records. Nothing was sealed"
            )
