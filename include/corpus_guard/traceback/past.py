"""The corpus of an earlier moment: what was published then, with the texts and vectors of then.

Rules
    * the event log says what was served: every chunk that was published and not withdrawn by that moment, in the order in which it was
      logged;
    * vectors come from the Parquet files that publications name, texts from the batches, and a text counts only with the hash that the
      ledger has of its chunk;
    * of what was erased by a purge since only the number is known (`missing`);
    * one question is asked of it: vectors are streamed, and only the texts that a trace can reach are read.

What it does not do: know what somebody wrote into Chroma past the guard; the log does not tell of it. Ids of the whole corpus are held in
memory, some 200 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches.tables import split, versions_from_table
from corpus_guard.domain import sha256_text
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, events, publications, purges, versions
from corpus_guard.traceback.loop import MOST_JUDGED
from corpus_guard.traceback.suspects import Suspect, TextsInMemory

if TYPE_CHECKING:
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.suspects import Embeds

REACHED = MOST_JUDGED + 100
"""Nearest texts that a trace can ask for: all it may judge, and the largest K."""
AT_ONCE = 500  # ids in one statement
PAGE = 1_000  # events held at a time


@dataclass(frozen=True, slots=True)
class _Near:
    """A chunk among the nearest."""

    similarity: float  # cosine, -1..1
    row: Any
    vector: NDArray[np.float32]


def corpus_as_of(guard: Guard, when: datetime, query: str, embedder: Embeds | None = None) -> TextsInMemory:
    """What `query` could retrieve at `when`.

    Args:
        guard: the deployment.
        when: with its time zone.
        query: the question; of another one the answers may lack texts that are far from this one.
        embedder: of the question; the deployment's own unless given.

    Raises:
        Misuse: `when` has no time zone or lies in the future, or another embedder made the vectors of then.
        Inconsistent: a file is gone, or does not hold what the ledger published.
    """
    if when.tzinfo is None or when > now():
        raise Misuse(f"as of {when.isoformat()}: expected a moment of the past with its time zone")
    asked = embedder or guard.models.embedder
    served = _served(guard, when)
    files, missing = _files(guard, served)
    near: list[_Near] = []
    if files:
        question = asked.embed([query])[0]
        for name in sorted(files):
            near = _nearest([*near, *_measured(guard, name, files[name], question)])
    suspects = _with_texts(guard, near)
    vectors = np.array([one.vector for one in near], np.float32) if near else np.empty((0, 0), np.float32)
    return TextsInMemory(suspects, vectors, asked, missing)


def _served(guard: Guard, when: datetime) -> dict[str, str]:
    """Chunk → collection, of what the log says was served at `when`."""
    told = (
        sa.select(events.c.kind, events.c.subject, events.c.body)
        .where(events.c.kind.in_(("published", "unpublished")), events.c.at <= when)
        .order_by(events.c.seq)
        .execution_options(yield_per=PAGE)
    )
    served: dict[str, set[str]] = {}
    with guard.ledger.read() as connection:
        for row in connection.execute(told):
            for chunk in row.body["chunks"]:
                if row.kind == "published":
                    served.setdefault(chunk, set()).add(row.subject)
                else:
                    served.get(chunk, set()).discard(row.subject)
    # While its source's trust level changes a chunk lies in two collections; it is one text all the same.
    return {chunk: max(collections) for chunk, collections in served.items() if collections}


def _files(guard: Guard, served: Mapping[str, str]) -> tuple[dict[str, dict[str, Any]], int]:
    """Vector file → chunk → its row, and how many chunks were erased since."""
    columns = (
        publications.c.chunk_id,
        publications.c.collection,
        publications.c.version_id,
        publications.c.vectors,
        publications.c.model,
        versions.c.batch,
        versions.c.stamp,
        chunks.c.text_sha256,
    )
    joined = (
        sa.select(*columns)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
    )
    files: dict[str, dict[str, Any]] = {}
    missing = 0
    with guard.ledger.read() as connection:
        erased = {version for versions_ in connection.scalars(sa.select(purges.c.versions)) for version in versions_}
        for part in split(sorted(served), AT_ONCE):
            for row in connection.execute(joined.where(publications.c.chunk_id.in_(part))):
                if served[row.chunk_id] != row.collection:
                    continue
                if row.version_id in erased:
                    missing += 1
                else:
                    files.setdefault(row.vectors, {})[row.chunk_id] = row
    return files, missing


def _measured(guard: Guard, name: str, rows: Mapping[str, Any], question: NDArray[np.float32]) -> Iterator[_Near]:
    """The nearest of one file."""
    import pyarrow.compute as pc

    table = guard.storage.read_table(name)
    table = table.filter(pc.field("chunk_id").isin(list(rows)))
    found = table["chunk_id"].to_pylist()
    if set(found) != set(rows):
        raise Inconsistent(
            f"{guard.storage.location(name)} lacks vectors of {len(set(rows) - set(found)):,} chunks that were published from it; "
            "restore the storage folder from a copy"
        )
    column = table["vector"].combine_chunks()
    if column.type.list_size != len(question):
        raise Misuse(
            f"{guard.storage.location(name)} holds vectors of another embedder ({next(iter(rows.values())).model}); "
            "set CORPUS_GUARD_EMBEDDER to that one"
        )
    vectors = np.asarray(column.flatten(), dtype="<f4").reshape(len(column), column.type.list_size)
    similarities = vectors @ question
    for place in np.argsort(-similarities, kind="stable")[:REACHED].tolist():
        yield _Near(float(similarities[place]), rows[found[place]], vectors[place].copy())


def _nearest(near: Iterable[_Near]) -> list[_Near]:
    return sorted(near, key=lambda one: (-one.similarity, one.row.chunk_id))[:REACHED]


def _with_texts(guard: Guard, near: Sequence[_Near]) -> list[Suspect]:
    """In the order of `near`."""
    texts: dict[str, str] = {}
    # A version that came again may have been cut anew into another batch; the batch of then lies beside its vectors.
    for name in ("batch", "vectors"):
        by_batch: dict[str, list[Any]] = {}
        for one in near:
            if one.row.chunk_id not in texts:
                batch = one.row.batch if name == "batch" else f"{one.row.vectors.rpartition('/')[0]}/versions.parquet"
                by_batch.setdefault(batch, []).append(one.row)
        for batch, rows in sorted(by_batch.items()):
            texts.update(_texts(guard, batch, rows))
    lost = [one.row.chunk_id for one in near if one.row.chunk_id not in texts]
    if lost:
        raise Inconsistent(
            f"{len(lost):,} chunks that were served then are in no batch, first {lost[0]}; restore the storage folder from a copy"
        )
    return [
        Suspect(
            chunk_id=one.row.chunk_id,
            text=texts[one.row.chunk_id],
            similarity=one.similarity,
            vector=one.vector,
            collection=one.row.collection,
            version_id=one.row.version_id,
            source=str(one.row.stamp["source"]),
            uri=str(one.row.stamp["uri"]),
        )
        for one in near
    ]


def _texts(guard: Guard, batch: str, rows: Sequence[Any]) -> Iterator[tuple[str, str]]:
    if not guard.storage.exists(batch):
        return
    expected = {row.chunk_id: row.text_sha256 for row in rows}
    wanted = sorted({row.version_id for row in rows})
    for version in versions_from_table(guard.storage.read_table(batch, filters=[("version_id", "in", wanted)])):
        for chunk in version.chunks:
            if expected.get(chunk.chunk_id) == sha256_text(chunk.text):
                yield chunk.chunk_id, chunk.text
