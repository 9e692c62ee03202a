"""Near duplicates in a run and in its history: MinHash with banding (Leskovec, Rajaraman, Ullman, "Mining of
Massive Datasets", chapter 3.4).

Columns of integers instead of objects: 20,000 versions take some 60 MB while they are compared.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpus_guard.batches.tables import in_batches
from corpus_guard.domain import TrustLevel
from corpus_guard.screening.survey.signals import PERMUTATIONS, SIGNALS, Signals

BANDS: Final = 16  # keys of a version
ROWS: Final = PERMUTATIONS // BANDS  # values of a band
NEIGHBOURS_PER_KIND: Final = 12  # neighbours kept of each standing and trust level
VERSIONS_PER_BAND: Final = 64  # versions of one standing and trust level compared for one band key
MIRROR_SIMILARITY: Final = (
    0.84  # from which two texts are one, mirrored: near copies with a planted claim are less alike
)
MAX_ALL_PAIRS_GROUP: Final = 64  # versions sharing a band up to which each is compared with each
_VERSIONS_PER_TRUST: Final = 32  # versions of each trust level that a larger group is compared with
_KEYS_PER_QUERY: Final = 2_000  # texts or band keys in one question to the history
_MAX_ESTIMATE: Final = 127 / 128  # similarity of different texts whose 64 values all agree


class Standing(StrEnum):
    """Place of a similar document in the corpus."""

    NEW = "new"  # in this run
    SERVED = "served"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class SimilarDocument:
    """Another document with the same or nearly the same text."""

    version_id: str
    doc_id: str
    source: str
    trust: TrustLevel
    standing: Standing
    similarity: float  # Jaccard of word shingles, 1.0: the same text
    mirrored: str = (
        ""  # version id that stands for the run's texts that differ from this one in a few words; "": not new
    )


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version in the ledger, as the history offers it for comparison."""

    version_id: str
    doc_id: str
    source: str
    trust: TrustLevel
    standing: Standing  # never NEW
    text_sha256: str  # hex
    minhash: bytes  # as in `Signals`


class History(Protocol):
    """The ledger's record of earlier runs.

    Callers ask for 2,000 texts or bands at a time; answers may be streamed.
    """

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Return signal → values of the source's latest accepted versions (5,000 are plenty), as measured."""

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[KnownVersion]:
        """Return the versions that are served, quarantined or rejected and have one of these texts."""

    def near(self, bands: Sequence[int]) -> Iterable[tuple[int, KnownVersion]]:
        """Return (band, version) for every such version that has one of these `band_keys`.

        Of one band, standing and trust level it may leave out all but VERSIONS_PER_BAND.
        """


class EmptyHistory:
    """A history without versions, for ``guard screen`` on a folder."""

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Return nothing."""
        return {}

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[KnownVersion]:
        """Return nothing."""
        return ()

    def near(self, bands: Sequence[int]) -> Iterable[tuple[int, KnownVersion]]:
        """Return nothing."""
        return ()


_Place: TypeAlias = tuple[str, str, str, TrustLevel, Standing]  # version id, doc id, source, trust, standing
_Kind: TypeAlias = tuple[Standing, TrustLevel]  # the nearest neighbours are kept for each kind
_ByKind: TypeAlias = dict[_Kind, dict[str, SimilarDocument]]  # the inner key is the document
_KINDS: Final[dict[_Kind, int]] = {kind: number for number, kind in enumerate(product(Standing, TrustLevel))}


class RunColumns:
    """The run's versions as columns."""

    def __init__(self, new: Iterable[Signals]) -> None:
        self.places: list[_Place] = []
        self.values: dict[str, dict[str, array[float]]] = {}  # source → signal → values
        self.same: dict[str, list[int]] = {}  # text → positions; empty texts have none
        self.of_text: list[tuple[str, TrustLevel]] = []  # by position: what stands for its equals in comparisons
        self.first: dict[tuple[str, TrustLevel], int] = {}  # the position that does
        sketches, sources, version_ids = bytearray(), dict[str, str](), set[str]()
        for item in new:
            if item.version_id in version_ids:
                continue
            version_ids.add(item.version_id)
            source = sources.setdefault(item.source, item.source)
            columns = self.values.setdefault(source, {name: array("d") for name in SIGNALS})
            for name in SIGNALS:
                columns[name].append(item.values[name])
            position = len(self.places)
            self.places.append((item.version_id, item.doc_id, source, item.trust, Standing.NEW))
            self.of_text.append((item.text_sha256, item.trust))
            if item.values["chars"]:
                self.same.setdefault(item.text_sha256, []).append(position)
                self.first.setdefault((item.text_sha256, item.trust), position)
            sketches += item.minhash
        matrix = np.frombuffer(bytes(sketches), dtype="<u4").reshape(-1, PERMUTATIONS)
        firsts = np.array(list(self.first.values()), dtype=np.intp)
        self.compared = firsts[~_is_empty(matrix[firsts])]
        self.sketches = matrix[self.compared]
        self.keys = _compute_band_keys(self.sketches)


def band_keys(minhash: bytes) -> tuple[int, ...]:
    """Return BANDS signed 64-bit keys (SQL BIGINT), of which similar texts share at least one.

    Empty for a text too short to be compared.
    """
    sketch = np.frombuffer(minhash, dtype="<u4").reshape(1, -1)
    return () if _is_empty(sketch)[0] else tuple(_compute_band_keys(sketch)[0].tolist())


def find_neighbours(run: RunColumns, history: History, similarity: float) -> dict[str, tuple[SimilarDocument, ...]]:
    """Return version id → other documents with the same or a similar text, nearest of each standing first.

    Args:
        similarity: Jaccard from which two texts are neighbours, 0..1.
    """
    nearest = _NearestNeighbours(run, similarity)
    _compare_within_run(run, nearest)
    _compare_with_history(run, history, nearest)
    same_text = _same_text_in_history(run, history)
    mirrored = _find_mirrored(run, nearest)
    result = {}
    for position, place in enumerate(run.places):
        text, trust = run.of_text[position]
        merged: _ByKind = {}
        for neighbours in (
            _same_text_in_run(run, position),
            same_text.get(text, {}),
            nearest.by_position.get(run.first.get((text, trust), -1), {}),
        ):
            for kind, by_document in neighbours.items():
                best = merged.setdefault(kind, {})
                for document, neighbour in by_document.items():
                    if document != place[1] and neighbour.similarity > getattr(best.get(document), "similarity", 0.0):
                        best[document] = neighbour
        if any(merged.values()):
            result[place[0]] = tuple(
                replace(neighbour, mirrored=mirrored.get(neighbour.version_id, ""))
                for kind in sorted(merged, key=_KINDS.__getitem__)
                for neighbour in _nearest_of(merged[kind], NEIGHBOURS_PER_KIND)
            )
    return result


def _find_mirrored(run: RunColumns, nearest: _NearestNeighbours) -> dict[str, str]:
    """Return new version id → the version that stands for all texts linked to it by MIRROR_SIMILARITY."""
    linked: dict[str, str] = {}

    def first(version: str) -> str:
        while linked.get(version, version) != version:
            version = linked[version]
        return version

    for position in run.compared.tolist():
        for kind, neighbours in nearest.by_position.get(position, {}).items():
            if kind[0] is Standing.NEW:
                for neighbour in neighbours.values():
                    if neighbour.similarity >= MIRROR_SIMILARITY:
                        root, other = sorted((first(neighbour.version_id), first(run.places[position][0])))
                        linked[other] = root
    standing_for = {text: first(run.places[position][0]) for text, position in run.first.items()}
    return {place[0]: standing_for.get(text, place[0]) for place, text in zip(run.places, run.of_text, strict=True)}


def _compute_band_keys(sketches: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return keys of shape (versions, BANDS); the band's number is part of each key."""
    values = sketches.reshape(-1, BANDS, ROWS).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, BANDS + 1, dtype=np.uint64), values.shape[:2]).copy()
    for row in range(ROWS):
        keys = (keys ^ values[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
    return keys.view(np.int64)


def _is_empty(sketches: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return a mask of the sketches whose texts are too short to compare."""
    empty: NDArray[np.bool_] = (sketches == np.uint32(0xFFFFFFFF)).all(axis=1)
    return empty


class _NearestNeighbours:
    """Nearest neighbours of each position that is compared; it represents all positions with the same text."""

    def __init__(self, run: RunColumns, similarity: float) -> None:
        self.by_position: dict[int, _ByKind] = {}
        self._run = run
        # What a row's next neighbour of a kind must exceed: once enough are kept, a flood of copies is passed
        # over.
        below = np.nextafter(similarity, 0.0)
        self._limits = np.full((len(run.compared), len(_KINDS)), below)

    def add(self, rows: NDArray[np.intp], shares: NDArray[np.float64], place: _Place, text: str) -> None:
        """Add `place` as a neighbour of those of `rows` that it is near enough to."""
        kind = place[4], place[3]
        shares = np.minimum(shares, _MAX_ESTIMATE)
        for index in np.flatnonzero(shares > self._limits[rows, _KINDS[kind]]).tolist():
            position = int(self._run.compared[rows[index]])
            if self._run.of_text[position][0] != text:
                limit = _add_neighbour(self.by_position.setdefault(position, {}), place, float(shares[index]))
                if limit is not None:
                    self._limits[rows[index], _KINDS[kind]] = limit


def _same_text_in_run(run: RunColumns, position: int) -> _ByKind:
    neighbours: _ByKind = {}
    count = 0
    for other in run.same.get(run.of_text[position][0], ()):
        if run.places[other][1] != run.places[position][1]:
            _add_neighbour(neighbours, run.places[other], 1.0)
            count += 1
            if count == NEIGHBOURS_PER_KIND:
                break
    return neighbours


def _compare_within_run(run: RunColumns, nearest: _NearestNeighbours) -> None:
    for group in _groups_sharing_a_band(run.keys):
        candidates = group.tolist()
        if len(group) > MAX_ALL_PAIRS_GROUP:
            # A version that shares a band with so many is either nearly the same as all of them, and then a
            # few of each trust level are enough, or it differs in some value, and then meets its own kind in
            # the band of that value.
            by_trust: dict[TrustLevel, list[int]] = {}
            for row in candidates:
                by_trust.setdefault(run.places[run.compared[row]][3], []).append(row)
            candidates = [row for rows in by_trust.values() for row in rows[:_VERSIONS_PER_TRUST]]
        for row in candidates:
            shares = (run.sketches[group] == run.sketches[row]).mean(axis=1)
            position = int(run.compared[row])
            nearest.add(group, shares, run.places[position], run.of_text[position][0])


def _same_text_in_history(run: RunColumns, history: History) -> dict[str, _ByKind]:
    by_text: dict[str, _ByKind] = {}
    for texts in in_batches(run.same, _KEYS_PER_QUERY):
        for version in history.same_text(texts):
            _add_neighbour(by_text.setdefault(version.text_sha256, {}), _place(version), 1.0)
    return by_text


def _compare_with_history(run: RunColumns, history: History, nearest: _NearestNeighbours) -> None:
    rows_by_key: dict[int, list[int]] = {}
    for row, keys in enumerate(run.keys):
        for key in keys.tolist():
            rows_by_key.setdefault(key, []).append(row)
    for bands in in_batches(rows_by_key, _KEYS_PER_QUERY):
        compared: Counter[tuple[int, _Kind]] = Counter()
        for band, version in history.near(bands):
            kind = version.standing, version.trust
            compared[band, kind] += 1
            if band in rows_by_key and compared[band, kind] <= VERSIONS_PER_BAND:
                rows = np.array(rows_by_key[band], dtype=np.intp)
                shares = (run.sketches[rows] == np.frombuffer(version.minhash, dtype="<u4")).mean(axis=1)
                nearest.add(rows, shares, _place(version), version.text_sha256)


def _groups_sharing_a_band(keys: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Yield sets of two or more rows that share a band key, each set once."""
    yielded: set[bytes] = set()
    for band in range(BANDS):
        order = np.argsort(keys[:, band], kind="stable")
        edges = np.flatnonzero(np.diff(keys[order, band])) + 1
        starts, ends = [0, *edges.tolist()], [*edges.tolist(), len(order)]
        for start, end in zip(starts, ends, strict=True):
            group = order[start:end]
            if len(group) > 1 and (members := group.tobytes()) not in yielded:
                yielded.add(members)
                yield group


def _add_neighbour(neighbours: _ByKind, place: _Place, similarity: float) -> float | None:
    """Add a neighbour, and return the similarity that others must exceed, if only the nearest stay."""
    of_kind = neighbours.setdefault((place[4], place[3]), {})
    before = of_kind.get(place[1])
    if before is None or before.similarity < similarity:
        of_kind[place[1]] = SimilarDocument(*place, similarity)
    if len(of_kind) <= 2 * NEIGHBOURS_PER_KIND:
        return None
    nearest = _nearest_of(of_kind, NEIGHBOURS_PER_KIND + 1)  # one of them may turn out to be the same document
    of_kind.clear()
    of_kind.update((neighbour.doc_id, neighbour) for neighbour in nearest)
    return nearest[-1].similarity


def _nearest_of(neighbours: Mapping[str, SimilarDocument], count: int) -> list[SimilarDocument]:
    return sorted(neighbours.values(), key=lambda neighbour: (-neighbour.similarity, neighbour.doc_id))[:count]


def _place(version: KnownVersion) -> _Place:
    return version.version_id, version.doc_id, version.source, version.trust, version.standing
