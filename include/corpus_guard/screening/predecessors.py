"""Accepted predecessors of new versions: the texts that a change is compared with.

Rules
- The predecessor is the version that came before (`Stamp.parent_version`) if it was accepted or released. If
  it was stopped, it is the version that the collections hold of the document: otherwise a text that is
  stopped would clear the way for the next one.
- A document that vanished from the same source is followed by the one that holds most of its text since: with another
  name, an edit would be a new document. It counts while it is missing, and for `MOVING_TIME` after it was retired.
  A document that has a predecessor of its own follows the more similar of the two.
- Bytes that were known before have no predecessor.
- A text that the ledger names and storage does not hold, or holds with another hash, is an error: compared
  with nothing, a change would pass unseen.

What it does not see: a copy that arrives in a run before its original vanishes, documents that exchange their names, and
a moved text of fewer than `signals.MIN_WORDS` words that was changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches, versions_from_table
from corpus_guard.domain import Version
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger, tables
from corpus_guard.ledger.queries import IDS_PER_STATEMENT, Row, rows_by_id, values_by_id
from corpus_guard.ledger.states import SERVABLE_STATES, RunKind
from corpus_guard.screening.survey.resemblance import VERSIONS_PER_BAND, band_keys
from corpus_guard.screening.survey.signals import compute_minhash
from corpus_guard.screening.survey.survey import NEIGHBOUR_SIMILARITY

MOVING_TIME: Final = timedelta(days=30)
"""Time after its retirement in which a document may come back under another name."""
_LEAST_SIMILARITY: Final = float(np.nextafter(NEIGHBOUR_SIMILARITY, 0.0))  # that a text must exceed to be a moved one


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A version as the ledger names it."""

    version_id: str
    doc_id: str
    batch: str
    text_sha256: str


def find_predecessors(ledger: Ledger, run_id: str, versions: Sequence[Version]) -> dict[str, Predecessor]:
    """Return id of the new version → its predecessor.

    A new document that resembles none that vanished, or one of which nothing was ever accepted, has none.

    Args:
        run_id: the run at work. If it lists no source, documents count as vanished as of the refresh that fetched a version.
    """
    predecessors = _accepted_before(ledger, versions)
    is_refresh = tables.runs.c.kind == RunKind.REFRESH
    started = sa.select(*tables.runs.c["run_id", "started_at"]).where(is_refresh)
    by_listing: dict[tuple[str, datetime], list[Version]] = defaultdict(list)  # source, beginning of its listing
    with ledger.read() as connection:
        starts = values_by_id(connection, started, [run_id, *(version.stamp.run_id for version in versions)])
        for version in versions:
            when = starts.get(run_id) or starts.get(version.stamp.run_id)
            if when and version.text:
                by_listing[version.stamp.source, when].append(version)
        for (source, when), listed in by_listing.items():
            predecessors |= _moved_from(connection, _is_vanished(source, when), listed, predecessors)
    return predecessors


def read_predecessors(storage: Storage, predecessors: Mapping[str, Predecessor]) -> dict[str, Version]:
    """Return id of the new version → its predecessor with its text, read one batch at a time.

    Raises:
        Inconsistent: a batch cannot be read, or lacks a version that the ledger says it holds.
    """
    by_batch: dict[str, dict[str, Predecessor]] = defaultdict(dict)  # batch → version id → predecessor
    followers: dict[str, list[str]] = defaultdict(list)
    for new, predecessor in predecessors.items():
        by_batch[predecessor.batch][predecessor.version_id] = predecessor
        followers[predecessor.version_id].append(new)
    loaded: dict[str, Version] = {}
    for batch, of_batch in by_batch.items():
        for version in _read(storage, batch, of_batch.values()):
            loaded |= dict.fromkeys(followers[version.version_id], version)
    return loaded


def _accepted_before(ledger: Ledger, versions: Iterable[Version]) -> dict[str, Predecessor]:
    """Return id of the new version → its predecessor."""
    table = tables.versions
    columns = table.c["version_id", "doc_id", "batch", "text_sha256"]
    is_accepted = table.c.state.in_(SERVABLE_STATES)
    is_served = tables.documents.c.target_version == table.c.version_id
    served = sa.select(table.c.doc_id.label("of"), *columns).where(is_accepted).join(tables.documents, is_served)
    followers = [(version, parent) for version in versions if (parent := version.stamp.parent_version)]
    with ledger.read() as connection:
        accepted = rows_by_id(connection, sa.select(*columns).where(is_accepted), (parent for _, parent in followers))
        by_document = rows_by_id(connection, served, (version.doc_id for version, _ in followers))
    predecessors: dict[str, Predecessor] = {}
    for version, parent in followers:
        row = accepted.get(parent) or by_document.get(version.doc_id)
        # A parent of another document would be a forged stamp; nothing of it is compared.
        if row is not None and row.doc_id == version.doc_id and row.version_id != version.version_id:
            predecessors[version.version_id] = Predecessor(row.version_id, row.doc_id, row.batch, row.text_sha256)
    return predecessors


def _is_vanished(source: str, when: datetime) -> sa.ColumnElement[bool]:
    """Return the condition for documents of a source that its listing at `when` lacked."""
    columns = tables.documents.c
    is_recent = sa.or_(columns.retired_at.is_(None), columns.retired_at >= when - MOVING_TIME)
    return sa.and_(columns.source == source, columns.last_seen_at < when, is_recent)


def _moved_from(
    connection: sa.Connection,
    is_vanished: sa.ColumnElement[bool],
    versions: Sequence[Version],
    own: Mapping[str, Predecessor],
) -> dict[str, Predecessor]:
    """Return id of a version → what a vanished document held, if it is more like it than its own predecessor."""
    if not connection.scalar(sa.select(sa.exists().where(is_vanished))):
        return {}
    columns = tables.signals.c["version_id", "minhash"]
    own_sketches = values_by_id(connection, sa.select(*columns), (old.version_id for old in own.values()))
    sketches = {version.version_id: compute_minhash(version.text) for version in versions}
    similarities = {
        new: _similarity(sketches[new], own_sketches[old.version_id])
        for new, old in own.items()
        if new in sketches and old.version_id in own_sketches
    }
    by_text: dict[str, list[Version]] = defaultdict(list)
    by_band: dict[int, list[Version]] = defaultdict(list)
    for version in versions:
        by_text[version.text_sha256].append(version)
        for band in band_keys(sketches[version.version_id]):
            by_band[band].append(version)
    moved: dict[str, Predecessor] = {}
    for column, by_key in ((tables.versions.c.text_sha256, by_text), (tables.bands.c.band, by_band)):
        for row in _vanished_texts(connection, is_vanished, column, by_key):
            for version in by_key[row.key]:
                new = version.version_id
                is_same = row.text_sha256 == version.text_sha256
                similarity = 1.0 if is_same else _similarity(sketches[new], row.minhash)
                if row.doc_id != version.doc_id and similarity > similarities.get(new, _LEAST_SIMILARITY):
                    similarities[new] = similarity
                    moved[new] = Predecessor(row.version_id, row.doc_id, row.batch, row.text_sha256)
    return moved


def _vanished_texts(
    connection: sa.Connection,
    is_vanished: sa.ColumnElement[bool],
    column: sa.ColumnElement[Any],
    keys: Iterable[Any],
) -> Iterator[Row]:
    """Yield what vanished documents held last and was accepted, with its key: one of `keys` in `column`.

    Of one key there are VERSIONS_PER_BAND at most.
    """
    versions, documents, signals = tables.versions, tables.documents, tables.signals
    accepted = versions.alias()
    last = (
        sa.select(accepted.c.version_id)
        .where(accepted.c.doc_id == documents.c.doc_id, accepted.c.state.in_(SERVABLE_STATES))
        .order_by(accepted.c.judged_at.desc(), accepted.c.version_id)
        .limit(1)
        .scalar_subquery()
    )
    joined = documents.join(versions, versions.c.doc_id == documents.c.doc_id)
    joined = joined.join(signals, signals.c.version_id == versions.c.version_id)
    if column is tables.bands.c.band:
        joined = joined.join(tables.bands, tables.bands.c.version_id == versions.c.version_id)
    is_held = versions.c.version_id == sa.func.coalesce(documents.c.target_version, last)
    position = sa.func.row_number().over(partition_by=column, order_by=versions.c.version_id)
    columns = (*versions.c["version_id", "doc_id", "batch", "text_sha256"], signals.c.minhash)
    statement = (
        sa.select(column.label("key"), position.label("position"), *columns)
        .select_from(joined)
        .where(is_vanished, is_held)
    )
    for part in in_batches(keys, IDS_PER_STATEMENT):
        ranked = statement.where(column.in_(part)).subquery()
        yield from connection.execute(sa.select(ranked).where(ranked.c.position <= VERSIONS_PER_BAND))


def _similarity(sketch: bytes, other: bytes) -> float:
    """Return the estimated share of word shingles that two texts have in common, 0..1."""
    return float((np.frombuffer(sketch, dtype="<u4") == np.frombuffer(other, dtype="<u4")).mean())


def _read(storage: Storage, batch: str, predecessors: Collection[Predecessor]) -> list[Version]:
    version_ids = [predecessor.version_id for predecessor in predecessors]
    try:
        table = storage.read_table(batch, filters=[("version_id", "in", version_ids)])
        stored = {version.version_id: version for version in versions_from_table(table)}
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise Inconsistent(
            f"{storage.location(batch)}: unreadable ({type(error).__name__}), expected the predecessors of new versions; "
            "restore the file"
        ) from error
    for predecessor in predecessors:
        version = stored.get(predecessor.version_id)
        if version is None or version.text_sha256 != predecessor.text_sha256:
            difference = "has another text than the ledger says" if version else "is not in it"
            raise Inconsistent(
                f"{storage.location(batch)}: version {predecessor.version_id} {difference}, and a new version must be "
                "compared with it; restore the file"
            )
    return list(stored.values())
