"""Who resembles whom in a run and in its history: MinHash, banded (Leskovec, Rajaraman, Ullman, "Mining of Massive
Datasets", chapter 3.4). Columns of integers instead of objects: 20,000 versions take some 60 MB while compared.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from corpus_guard.domain import TrustLevel
from corpus_guard.screening.signals import PERMUTATIONS, SIGNALS, Signals
from corpus_guard.screening.survey import BANDS, KEEP, MOST_OF_A_BAND, History, Known, Neighbour, Standing

ROWS: Final = PERMUTATIONS // BANDS  # values a band
ALL_WITH_ALL: Final = 64  # versions sharing a band up to which each is compared with each
_SHOWN: Final = 32  # versions of each trust level that a larger group is compared with
_ASK: Final = 2_000  # keys in one question to the history
_NEARLY: Final = 127 / 128  # the most a text that is not the same can reach: all 64 values agree

_Place: TypeAlias = tuple[str, str, str, TrustLevel, Standing]  # version id, doc id, source, trust, standing
_Kind: TypeAlias = tuple[Standing, TrustLevel]  # of which a version keeps its nearest neighbours
_Kept: TypeAlias = dict[_Kind, dict[str, Neighbour]]  # the inner key is the document
_KINDS: Final[dict[_Kind, int]] = {kind: number for number, kind in enumerate(product(Standing, TrustLevel))}


class Run:
    """The run's versions as columns."""

    def __init__(self, new: Iterable[Signals]) -> None:
        self.places: list[_Place] = []
        self.values: dict[str, dict[str, array[float]]] = {}  # source → signal → values
        self.same: dict[str, list[int]] = {}  # text → positions; empty texts have none
        self.of_text: list[tuple[str, TrustLevel]] = []  # by position: what stands for its equals in comparisons
        self.first: dict[tuple[str, TrustLevel], int] = {}  # the position that does
        sketches, sources, seen = bytearray(), dict[str, str](), set[str]()
        for item in new:
            if item.version_id in seen:
                continue
            seen.add(item.version_id)
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
        self.compared = firsts[~is_empty(matrix[firsts])]
        self.sketches = matrix[self.compared]
        self.keys = keys_of(self.sketches)


def neighbours_of(run: Run, history: History, similarity: float) -> dict[str, tuple[Neighbour, ...]]:
    """Version id → other documents with the same or a similar text, the nearest of each standing first."""
    near = _Nearest(run, similarity)
    _compare_new(run, near)
    _compare_known(run, history, near)
    same = _same_known(run, history)
    result = {}
    for position, place in enumerate(run.places):
        text, trust = run.of_text[position]
        kept: _Kept = {}
        for found in (
            _same_new(run, position),
            same.get(text, {}),
            near.found.get(run.first.get((text, trust), -1), {}),
        ):
            for kind, by_document in found.items():
                mine = kept.setdefault(kind, {})
                for document, neighbour in by_document.items():
                    if document != place[1] and neighbour.similarity > getattr(mine.get(document), "similarity", 0.0):
                        mine[document] = neighbour
        if any(kept.values()):
            result[place[0]] = tuple(
                n for kind in sorted(kept, key=_KINDS.__getitem__) for n in _best(kept[kind], KEEP)
            )
    return result


def keys_of(sketches: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """[versions, BANDS]. The band's number is mixed in, so that all keys can share one column."""
    values = sketches.reshape(-1, BANDS, ROWS).astype(np.uint64)
    keys = np.broadcast_to(np.arange(1, BANDS + 1, dtype=np.uint64), values.shape[:2]).copy()
    for row in range(ROWS):
        keys = (keys ^ values[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
    return keys.view(np.int64)


def is_empty(sketches: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Which sketches are of texts too short to compare."""
    empty: npt.NDArray[np.bool_] = (sketches == np.uint32(0xFFFFFFFF)).all(axis=1)
    return empty


class _Nearest:
    """The nearest neighbours of each position that stands for its equals."""

    def __init__(self, run: Run, similarity: float) -> None:
        self.found: dict[int, _Kept] = {}
        self._run = run
        # What a row's next neighbour of a kind must exceed: once enough are kept, a flood of copies is passed over.
        below = np.nextafter(similarity, 0.0)
        self._limits = np.full((len(run.compared), len(_KINDS)), below)

    def add(self, rows: npt.NDArray[np.intp], shares: npt.NDArray[np.float64], place: _Place, text: str) -> None:
        """`place` as a neighbour of those of `rows` that it is near enough to."""
        kind = place[4], place[3]
        shares = np.minimum(shares, _NEARLY)
        for index in np.flatnonzero(shares > self._limits[rows, _KINDS[kind]]).tolist():
            position = int(self._run.compared[rows[index]])
            if self._run.of_text[position][0] != text:
                kept = self.found.setdefault(position, {})
                worst = _keep(kept, place, float(shares[index]))
                if worst is not None:
                    self._limits[rows[index], _KINDS[kind]] = worst


def _same_new(run: Run, position: int) -> _Kept:
    kept: _Kept = {}
    found = 0
    for other in run.same.get(run.of_text[position][0], ()):
        if run.places[other][1] != run.places[position][1]:
            _keep(kept, run.places[other], 1.0)
            found += 1
            if found == KEEP:
                break
    return kept


def _compare_new(run: Run, near: _Nearest) -> None:
    for group in _groups(run.keys):
        offered = group.tolist()
        if len(group) > ALL_WITH_ALL:
            # Whoever shares a band with so many either is nearly the same as all of them, and then a few of each trust
            # level will do, or differs in some value, and then meets its own kind in the band of that value.
            levels: dict[TrustLevel, list[int]] = {}
            for row in offered:
                levels.setdefault(run.places[run.compared[row]][3], []).append(row)
            offered = [row for rows in levels.values() for row in rows[:_SHOWN]]
        _compare(run, near, offered, group)


def _compare(run: Run, near: _Nearest, offered: Iterable[int], group: npt.NDArray[np.intp]) -> None:
    for row in offered:
        shares = (run.sketches[group] == run.sketches[row]).mean(axis=1)
        position = int(run.compared[row])
        near.add(group, shares, run.places[position], run.of_text[position][0])


def _same_known(run: Run, history: History) -> dict[str, _Kept]:
    same: dict[str, _Kept] = {}
    for texts in _slices(list(run.same)):
        for known in history.same_text(texts):
            _keep(same.setdefault(known.text_sha256, {}), _place(known), 1.0)
    return same


def _compare_known(run: Run, history: History, near: _Nearest) -> None:
    holders: dict[int, list[int]] = {}
    for row, keys in enumerate(run.keys):
        for key in keys.tolist():
            holders.setdefault(key, []).append(row)
    for bands in _slices(list(holders)):
        offered: Counter[tuple[int, _Kind]] = Counter()
        for band, known in history.near(bands):
            kind = known.standing, known.trust
            offered[band, kind] += 1
            if band in holders and offered[band, kind] <= MOST_OF_A_BAND:
                rows = np.array(holders[band], dtype=np.intp)
                shares = (run.sketches[rows] == np.frombuffer(known.minhash, dtype="<u4")).mean(axis=1)
                near.add(rows, shares, _place(known), known.text_sha256)


def _groups(keys: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.intp]]:
    """Rows that share a band key, two or more, each set of rows once."""
    seen: set[bytes] = set()
    for band in range(BANDS):
        order = np.argsort(keys[:, band], kind="stable")
        edges = np.flatnonzero(np.diff(keys[order, band])) + 1
        starts, ends = [0, *edges.tolist()], [*edges.tolist(), len(order)]
        for start, end in zip(starts, ends, strict=True):
            group = order[start:end]
            if len(group) > 1 and (members := group.tobytes()) not in seen:
                seen.add(members)
                yield group


def _keep(kept: _Kept, place: _Place, similarity: float) -> float | None:
    """Remember a neighbour. When only the nearest of its kind are left: the similarity that others must exceed."""
    of_kind = kept.setdefault((place[4], place[3]), {})
    before = of_kind.get(place[1])
    if before is None or before.similarity < similarity:
        of_kind[place[1]] = Neighbour(*place, similarity)
    if len(of_kind) <= 2 * KEEP:
        return None
    best = _best(of_kind, KEEP + 1)  # one may turn out to be the same document
    of_kind.clear()
    of_kind.update((neighbour.doc_id, neighbour) for neighbour in best)
    return best[-1].similarity


def _best(kept: Mapping[str, Neighbour], count: int) -> list[Neighbour]:
    return sorted(kept.values(), key=lambda n: (-n.similarity, n.doc_id))[:count]


def _place(known: Known) -> _Place:
    return known.version_id, known.doc_id, known.source, known.trust, known.standing


def _slices(keys: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(keys), _ASK):
        yield keys[start : start + _ASK]
