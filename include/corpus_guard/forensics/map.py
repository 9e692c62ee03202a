"""Embedding map: the corpus as points in a plane, for people to look at. It decides nothing.

Rules
    * the plane is fitted once for each seal, to what that seal serves: the two directions in which the vectors differ most
      (principal components). It is exact, the same on every machine but for rounding, needs no random start, and places a
      newcomer by one multiplication; methods that draw clearer islands (UMAP, t-SNE) move everything when one text comes;
    * what waits in quarantine is placed in the same plane, and never shapes it: many texts that are held back do not turn
      the map;
    * a point has ids, a place and a reason, no text. Points beyond a limit are left out by id, which is a hash: the rest
      is a fair sample, and the map says how many it left out;
    * two texts that are near in the plane may be far in the space: the map says what share of the variance it shows.

Source: Pearson, "On lines and planes of closest fit to systems of points in space" (1901).
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import embedder_of, vectors_from_table
from corpus_guard.domain import JsonRecord
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, record_from_row, select_in_batches
from corpus_guard.ledger.states import PublicationState, VersionState
from corpus_guard.ledger.tables import chunks, documents, findings, publications, seals, versions
from corpus_guard.proof.log.key_files import write_durably
from corpus_guard.screening.policy import Policy

MAX_POINTS: Final = 3_000  # served chunks; as many again may wait
FIT_POINTS: Final = 5_000  # served chunks, by id, to which the plane is fitted
MIN_POINTS: Final = 3  # a plane needs three
EDGE: Final = 0.05  # of the picture's width, kept free on each side
OUTER_PERCENT: Final = 1.0  # of the served points on each side that may lie at the edge
COORDINATE_DIGITS: Final = 4
RISK_BINS: Final = 20


@dataclass(frozen=True, slots=True)
class Plane:
    """A projection from the space of the vectors to the plane."""

    manifest_sha256: str  # of the seal that it was fitted to
    model: str  # embedder
    mean: NDArray[np.float32]  # shape (dimensions,)
    axes: NDArray[np.float32]  # shape (dimensions, 2)
    low: NDArray[np.float32]  # shape (2,): coordinates at the left and lower edge
    high: NDArray[np.float32]  # shape (2,)
    shown_variance: float  # share of the variance that the plane shows, 0..1

    def transform(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return where vectors lie, shape (n, 2), 0..1; what lies outside comes to the edge."""
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        placed = ((vectors - self.mean) @ self.axes - self.low) / span
        return np.asarray(np.clip(EDGE + placed * (1 - 2 * EDGE), 0.01, 0.99), np.float32)


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A chunk on the map."""

    chunk_id: str
    version_id: str
    source: str
    uri: str  # hostile text
    trust: str
    state: str  # accepted, released, quarantined, reopened
    campaign: str  # id; empty: none
    risk: float  # 0..1
    reason: str  # codes of its worst findings; empty: none
    is_accused: bool  # by the case that the map was drawn for
    x: float  # 0..1
    y: float  # 0..1

    @property
    def waits(self) -> bool:
        """Return whether it waits for a person."""
        return self.state in {"quarantined", "reopened"}


@dataclass(frozen=True, slots=True)
class CorpusMap(JsonRecord):
    """The corpus in a plane."""

    json_properties: ClassVar = ("left_out",)

    manifest_sha256: str  # of the seal that the plane was fitted to
    shown_variance: float  # 0..1
    points: tuple[MapPoint, ...]
    served: int  # chunks that are served
    waiting: int  # chunks that wait in quarantine
    not_placed: int  # chunks of the sample without a vector of this embedder

    @property
    def left_out(self) -> int:
        """Chunks that are not drawn: beyond the limit, or without a vector."""
        return max(self.served + self.waiting - len(self.points), 0)


@dataclass(frozen=True, slots=True)
class RiskHistogram:
    """Documents by the risk of their newest version, and where they begin to wait."""

    counts: tuple[int, ...]  # documents in each twentieth of 0..1
    waiting: tuple[int, ...]  # of these, documents that wait or were rejected
    thresholds: Mapping[str, float]  # trust level or source → risk from which a version waits


def corpus_map(
    ledger: Ledger, storage: Storage, cache: Path, accused: Collection[str] = (), limit: int = MAX_POINTS
) -> CorpusMap:
    """Return the map of what is served and what waits.

    Args:
        accused: ids of versions that a case accuses; they are always drawn.
        limit: served chunks that are drawn at most, and as many that wait.

    Raises:
        Misuse: nothing is sealed, or fewer than three chunks are served.
    """
    with ledger.read() as connection:
        seal = connection.execute(sa.select(seals).order_by(seals.c.number.desc()).limit(1)).first()
        if seal is None:
            raise Misuse("nothing is sealed yet, so there is no map; run `guard refresh` first")
        served_rows = connection.execute(_served().order_by(chunks.c.chunk_id).limit(limit)).all()
        waiting_rows = connection.execute(_waiting().order_by(chunks.c.chunk_id).limit(limit)).all()
        rows = {row.chunk_id: row for row in (*waiting_rows, *served_rows)}
        for row in select_in_batches(connection, _chunks(), chunks.c.version_id, set(accused)):
            rows.setdefault(row.chunk_id, row)
        published = publications.c.state == PublicationState.PUBLISHED
        served_count = (
            connection.scalar(sa.select(sa.func.count(publications.c.chunk_id.distinct())).where(published)) or 0
        )
        waiting_count = connection.scalar(_waiting().with_only_columns(sa.func.count())) or 0
        reasons = _reasons(connection, {row.version_id for row in rows.values()})
    plane = _plane_of_seal(ledger, storage, cache, seal.manifest_sha256)
    vectors = _read_vectors(storage, rows.values()).get(plane.model, {})
    placed = [row for row in rows.values() if row.chunk_id in vectors]
    points = []
    if placed:
        places = plane.transform(np.stack([vectors[row.chunk_id] for row in placed]))
        points = [_point(row, reasons, row.version_id in accused, xy) for row, xy in zip(placed, places, strict=True)]
    return CorpusMap(
        manifest_sha256=seal.manifest_sha256,
        shown_variance=round(plane.shown_variance, COORDINATE_DIGITS),
        points=tuple(sorted(points, key=lambda point: point.chunk_id)),
        served=served_count,
        waiting=waiting_count,
        not_placed=len(rows) - len(placed),
    )


def _plane_of_seal(ledger: Ledger, storage: Storage, cache: Path, manifest_sha256: str) -> Plane:
    """Return the plane of a seal: the one that is kept, or one that is fitted to what is served now, and kept."""
    stored = _load_plane(cache, manifest_sha256)
    if stored is not None:
        return stored
    rows = ledger.rows(_served().order_by(chunks.c.chunk_id).limit(FIT_POINTS))
    by_model = _read_vectors(storage, rows)
    model = max(sorted(by_model), key=lambda name: len(by_model[name]), default="")
    vectors = [by_model[model][row.chunk_id] for row in rows if model and row.chunk_id in by_model[model]]
    plane = fit_plane(np.stack(vectors) if vectors else np.zeros((0, 1), np.float32), manifest_sha256, model)
    _save_plane(cache, plane)
    return plane


def fit_plane(vectors: NDArray[np.float32], manifest_sha256: str, model: str) -> Plane:
    """Return the plane in which vectors differ most.

    Args:
        vectors: shape (chunks, dimensions), in an order that follows from their ids.

    Raises:
        Misuse: there are fewer than three.
    """
    if len(vectors) < MIN_POINTS:
        raise Misuse(f"a map needs {MIN_POINTS} served chunks, got {len(vectors)}; run `guard refresh` first")
    mean = vectors.mean(axis=0, dtype=np.float64)
    centred = vectors - mean
    values, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
    axes = directions[:, [-1, -2]] if directions.shape[1] > 1 else np.repeat(directions, 2, axis=1)
    # An eigenvector's sign is arbitrary: its largest component is made positive.
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, [0, 1]] < 0, -1.0, 1.0)
    at = centred @ axes
    low, high = np.percentile(at, [OUTER_PERCENT, 100 - OUTER_PERCENT], axis=0)
    total = float(values.sum())
    share = float(values[-2:].sum()) / total if total > 0 else 0.0
    return Plane(
        manifest_sha256=manifest_sha256,
        model=model,
        mean=np.asarray(mean, np.float32),
        axes=np.asarray(axes, np.float32),
        low=np.asarray(low, np.float32),
        high=np.asarray(high, np.float32),
        shown_variance=share,
    )


def risk_histogram(ledger: Ledger, thresholds: Mapping[str, float]) -> RiskHistogram:
    """Return how many documents have which risk, by their newest version.

    Args:
        thresholds: trust level or source → risk from which a version waits.
    """
    statement = (
        sa.select(versions.c.risk, versions.c.state, sa.func.count().label("size"))
        .join(documents, documents.c.latest_version == versions.c.version_id)
        .where(documents.c.retired_at.is_(None))
        .group_by(versions.c.risk, versions.c.state)  # a risk has four digits: there are few of them
    )
    counts, waiting = [0] * RISK_BINS, [0] * RISK_BINS
    with ledger.read() as connection:
        for row in connection.execute(statement):
            place = min(max(int(row.risk * RISK_BINS), 0), RISK_BINS - 1)
            counts[place] += row.size
            waiting[place] += row.size if row.state in {VersionState.QUARANTINED, VersionState.REJECTED} else 0
    return RiskHistogram(tuple(counts), tuple(waiting), dict(thresholds))


def policy_thresholds(policy: Policy) -> dict[str, float]:
    """Return the risk from which a version waits, by trust level and by source with a threshold of its own."""
    levels = {str(trust.value): threshold.risk for trust, threshold in policy.quarantine.items()}
    return levels | {name: threshold.risk for name, threshold in policy.sources.items()}


_COLUMNS: Final = (
    chunks.c.chunk_id,
    chunks.c.version_id,
    *versions.c["batch", "state", "risk", "campaign", "reopened_at"],
    documents.c.source,
    documents.c.uri,
    documents.c.trust,
)


def _chunks() -> sa.Select[tuple[object, ...]]:
    vectors = (
        sa.select(sa.func.max(publications.c.vectors))
        .where(publications.c.chunk_id == chunks.c.chunk_id)
        .scalar_subquery()
        .label("vectors")
    )
    return (
        sa.select(*_COLUMNS, vectors)
        .join(versions, versions.c.version_id == chunks.c.version_id)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
    )


def _served() -> sa.Select[tuple[object, ...]]:
    is_published = sa.exists().where(
        publications.c.chunk_id == chunks.c.chunk_id, publications.c.state == PublicationState.PUBLISHED
    )
    return _chunks().where(is_published)


def _waiting() -> sa.Select[tuple[object, ...]]:
    return _chunks().where(
        versions.c.state == VersionState.QUARANTINED, documents.c.latest_version == versions.c.version_id
    )


def _reasons(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, str]:
    """Return the codes of the findings that are worse than a note, the strongest first."""
    statement = sa.select(findings.c.version_id, findings.c.code, findings.c.score).where(
        findings.c.severity.not_in(["info", "low"])
    )
    codes: dict[str, dict[str, float]] = defaultdict(dict)
    for row in select_in_batches(connection, statement, findings.c.version_id, version_ids):
        codes[row.version_id][row.code] = max(row.score, codes[row.version_id].get(row.code, 0.0))
    return {
        version_id: ", ".join(sorted(scores, key=lambda code: (-scores[code], code))[:3])
        for version_id, scores in codes.items()
    }


def _read_vectors(storage: Storage, rows: Iterable[Row]) -> Mapping[str, Mapping[str, NDArray[np.float32]]]:
    """Return the vectors of chunks by the embedder that made them."""
    wanted: dict[str, set[str]] = defaultdict(set)
    by_folder: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.vectors:
            wanted[row.vectors].add(row.chunk_id)
        else:
            by_folder[row.batch.rpartition("/")[0]].add(row.chunk_id)
    for name in sorted(storage.names()) if by_folder else ():
        folder, _, file = name.rpartition("/")
        if folder in by_folder and file.startswith("vectors"):
            wanted[name] |= by_folder[folder]
    by_model: dict[str, dict[str, NDArray[np.float32]]] = defaultdict(dict)
    for name, chunk_ids in sorted(wanted.items()):
        for chunk_id, vector, model in _vectors_of(storage, name, chunk_ids):
            by_model[model][chunk_id] = vector
    return by_model


def _vectors_of(storage: Storage, name: str, chunk_ids: set[str]) -> Iterator[tuple[str, NDArray[np.float32], str]]:
    """Yield (chunk, vector, embedder) of a file; nothing of one that is gone: the map says what it did not place."""
    try:
        table = storage.read_table(name, filters=[("chunk_id", "in", sorted(chunk_ids))])
        model = embedder_of(table)
        for chunk_id, vector in vectors_from_table(table).items():
            yield chunk_id, vector, model
    except (Inconsistent, ValueError, LookupError):
        return


def _point(row: Row, reasons: Mapping[str, str], is_accused: bool, xy: Sequence[float]) -> MapPoint:
    return record_from_row(
        MapPoint,
        row,
        state="reopened" if row.reopened_at else row.state,
        reason=reasons.get(row.version_id, ""),
        is_accused=is_accused,
        x=round(float(xy[0]), COORDINATE_DIGITS),
        y=round(float(xy[1]), COORDINATE_DIGITS),
    )


def _plane_file(cache: Path, manifest_sha256: str) -> Path:
    return cache / f"{manifest_sha256}.npz"


def _load_plane(cache: Path, manifest_sha256: str) -> Plane | None:
    """Return the plane of a seal; None if there is none that can be read."""
    try:
        with np.load(_plane_file(cache, manifest_sha256), allow_pickle=False) as stored:
            parts = {name: stored[name] for name in ("mean", "axes", "low", "high")}
            return Plane(manifest_sha256, str(stored["model"]), **parts, shown_variance=float(stored["shown_variance"]))
    except (OSError, ValueError, LookupError):
        return None


def _save_plane(cache: Path, plane: Plane) -> None:
    buffer = io.BytesIO()
    np.savez(
        buffer,
        mean=plane.mean,
        axes=plane.axes,
        low=plane.low,
        high=plane.high,
        model=np.array(plane.model),
        shown_variance=np.array(plane.shown_variance),
    )
    cache.mkdir(parents=True, exist_ok=True)
    write_durably(_plane_file(cache, plane.manifest_sha256), buffer.getvalue(), 0o600)
