"""The live collections against what was sealed.

Rules
    * a collection compares by inner product, and says it holds vectors of the model the manifest names;
    * each record that is expected is there, with the text, vector and metadata whose hashes were sealed; nothing else is there;
    * each vector asks for itself and is answered: counts and samples stay green while records cannot be found (chroma #7678, #7758);
    * what differs is looked at again while nobody publishes, against the log as it is by then.

What counts as answered, and what many equal vectors do to an index, stands in `corpus_guard.corpus.reach`.

Memory holds 16 bytes a chunk and one page of records. Most of the time goes into the queries, then into reading the vectors.

What is not done here: Chroma's table for full-text search is not compared; nothing of ours asks it.
"""

from __future__ import annotations

import binascii
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpus_guard.batches.tables import split
from corpus_guard.corpus.reach import lost
from corpus_guard.corpus.store import BATCH, Record
from corpus_guard.domain import TrustLevel
from corpus_guard.proof._found import KEPT, Found, Progress
from corpus_guard.proof._inspected import Inspected, Terms
from corpus_guard.proof._sealed import Expected, Key, Sealed, expected, published, since, states
from corpus_guard.proof._verify_ledger import IN_FLIGHT
from corpus_guard.proof.deviations import Kind

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

SPACE = "ip"


@dataclass
class Compared:
    """How far a comparison of the collections went."""

    records: int = 0
    queried: int = 0
    in_flight: set[Key] = field(default_factory=set)


@dataclass
class _Shelf:
    """One collection while it is compared."""

    ids: bytearray = field(default_factory=bytearray)  # 16 bytes a chunk that is expected
    models: set[str] = field(default_factory=set)
    present: int = 0

    def sorted_ids(self) -> NDArray[np.bytes_]:
        """For looking up."""
        return np.sort(np.frombuffer(bytes(self.ids), "S16"))


Suspects = dict[Key, Expected | None]
"""What differed at first sight, and what was expected there; at most `KEPT`."""


def check_store(guard: Guard, sealed: Sealed, found: Found, progress: Progress) -> Compared:
    """Compare every record of every collection; deviations go to `found`.

    Raises:
        StoreUnavailable: Chroma does not answer.
    """
    store = Inspected(guard.store.url, guard.store.prefix)
    return _Comparison(guard, store, sealed, found, progress).run()


class _Comparison:
    def __init__(self, guard: Guard, store: Inspected, sealed: Sealed, found: Found, progress: Progress) -> None:
        self.guard, self.store, self.sealed, self.found, self.progress = guard, store, sealed, found, progress
        self.terms: Mapping[str, Terms] = {}
        self.shelves: dict[str, _Shelf] = defaultdict(_Shelf)
        self.suspects: Suspects = {}
        self.unnamed = 0  # suspects beyond those that are kept
        self.result = Compared()

    def run(self) -> Compared:
        after = since(self.guard.ledger, self.sealed)
        self.terms = self.store.terms()  # after the log: a collection is made before it tells of a publication
        for page in _by_collection(self.shelves, expected(self.guard, self.sealed, after)):
            self._compare(page)
            self.progress("records", self.result.records, self.sealed.lines or None)
        self._check_terms()
        for name in sorted(self.terms):
            self._look_for_more(name)
        if self.suspects:
            with self.guard.ledger.exclusive("publish"):
                self._look_again()
        self.found.more += self.unnamed
        return self.result

    def _compare(self, page: Sequence[Expected]) -> None:
        collection = page[0].collection
        if collection not in self.terms:
            return  # named as a whole
        there, broken = self.store.read(collection, [one.chunk_id for one in page])
        self.result.records += len(there)
        self.shelves[collection].present += len(there) + len(broken)
        intact = []
        for one in page:
            record = there.get(one.chunk_id)
            if record is None or _changes(one, record):
                self._suspect(one.key, one)
            else:
                intact.append(record)
        for record in lost(self.store, collection, intact):
            self._suspect((record.chunk_id, collection), next(one for one in page if one.chunk_id == record.chunk_id))
        self.result.queried += len(intact)

    def _suspect(self, key: Key, wanted: Expected | None) -> None:
        if len(self.suspects) < KEPT:
            self.suspects[key] = wanted
        else:
            self.unnamed += 1

    def _check_terms(self) -> None:
        for name, shelf in sorted(self.shelves.items()):
            if name not in self.terms:
                self.found.add(
                    Kind.COLLECTION_MISSING,
                    name,
                    f"collection {name} at {self.store.url} is gone with its {len(shelf.ids) // 16} chunks; healing makes it again",
                    expected=len(shelf.ids) // 16,
                    collection=name,
                )
                continue
            for wanted in sorted({Terms(SPACE, model.rpartition("/")[0]) for model in shelf.models}, key=str):
                if self.terms[name] != wanted:
                    self.found.add(
                        Kind.SPACE_CHANGED,
                        name,
                        f"collection {name} at {self.store.url} compares by other terms than it was made with: it ranks otherwise. Delete "
                        "it, then heal: it is made again",
                        expected=wanted,
                        found=self.terms[name],
                        collection=name,
                    )

    def _look_for_more(self, name: str) -> None:
        ours = {self.store.collection_name(level) for level in TrustLevel}
        if name not in ours:
            self.found.add(
                Kind.COLLECTION_ADDED,
                name,
                f"collection {name} at {self.store.url} looks like one of ours, and nobody sealed anything for it; find out who made it",
                found=sum(map(len, self.store.ids(name))),
                collection=name,
            )
            return
        if self._strangers(name) < self.shelves[name].present:
            # Somebody deleted meanwhile, and pages moved past each other.
            with self.guard.ledger.exclusive("publish"):
                self._strangers(name)

    def _strangers(self, name: str) -> int:
        """Suspect every id that is not expected; how many that are were seen."""
        known = self.shelves[name].sorted_ids()
        seen = 0
        for page in self.store.ids(name):
            inside = _are_in(known, page)
            seen += int(inside.sum())
            for chunk in (chunk for chunk, is_known in zip(page, inside, strict=True) if not is_known):
                if (chunk, name) not in self.suspects:
                    self._suspect((chunk, name), None)
        return seen

    def _look_again(self) -> None:
        """Nobody publishes now: what still differs is wrong."""
        ledger = self.guard.ledger
        told = since(ledger, self.sealed).told
        new = published(ledger, [key for key in self.suspects if told.get(key)])
        state = states(ledger, list(self.suspects))
        differing = _Differing(self.found)
        for keys in _pages_of(self.suspects):
            collection = keys[0][1]
            there, broken = self.store.read(collection, [chunk for chunk, _ in keys])
            for key in keys:
                wanted = new.get(key) if key in told else self.suspects[key]
                if state.get(key) in IN_FLIGHT:
                    self.result.in_flight.add(key)
                else:
                    differing.add(key, wanted, there.get(key[0]), broken=key[0] in broken)
            same = [there[chunk] for chunk in (key[0] for key in keys) if differing.agrees((chunk, collection))]
            for record in lost(self.store, collection, same):
                differing.unreachable((record.chunk_id, collection), self.suspects[record.chunk_id, collection])
        differing.report(self.shelves, set(self.terms))


class _Differing:
    """What was seen to differ, until it is known which of it is one story: a move, or a swap."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.removed: dict[Key, Expected] = {}
        self.added: list[Key] = []
        self.changed: dict[Key, tuple[Expected, Record]] = {}
        self.same: set[Key] = set()

    def add(self, key: Key, wanted: Expected | None, there: Record | None, *, broken: bool) -> None:
        if wanted is None:
            if there is not None or broken:
                self.added.append(key)
        elif broken:
            self.unreachable(key, wanted)
        elif there is None:
            self.removed[key] = wanted
        elif _changes(wanted, there):
            self.changed[key] = wanted, there
        else:
            self.same.add(key)

    def agrees(self, key: Key) -> bool:
        return key in self.same

    def unreachable(self, key: Key, wanted: Expected | None) -> None:
        self._say(Kind.UNREACHABLE, key, wanted, "is there, and no query finds it: its place in the index is damaged")

    def report(self, shelves: Mapping[str, _Shelf], existing: set[str]) -> None:
        """Name each with the kind that says most."""
        gone = {name: shelf.sorted_ids() for name, shelf in shelves.items() if name not in existing}
        elsewhere = dict(self.removed.keys())
        for chunk, name in self.added:
            home = elsewhere.get(chunk) or next((one for one, ids in gone.items() if _are_in(ids, [chunk])[0]), "")
            if not home:
                self._say(Kind.ADDED, (chunk, name), None, "was put there by somebody else: no manifest lists it")
                continue
            wanted = self.removed.pop((chunk, home), None)
            self._say(Kind.MOVED, (chunk, home), wanted, f"lies in {name} now", home, name)
        for key, wanted in self.removed.items():
            self._say(Kind.REMOVED, key, wanted, "is gone")
        other = self._swapped()
        for key, (wanted, there) in self.changed.items():
            if key in other:
                self._say(
                    Kind.SWAPPED, key, wanted, f"and chunk {other[key]} carry each other's content", key[0], other[key]
                )
                continue
            for kind, what, before, after in _changes(wanted, there):
                self._say(kind, key, wanted, f"has another {what} than was sealed", before, after)

    def _swapped(self) -> dict[Key, str]:
        pairs: dict[Key, str] = {}
        for part in ("text_sha256", "vector_sha256"):
            belongs = {getattr(wanted, part): key for key, (wanted, _) in self.changed.items()}
            for key, (wanted, there) in self.changed.items():
                partner = belongs.get(getattr(there, part), key)
                if partner != key and getattr(self.changed[partner][1], part) == getattr(wanted, part):
                    pairs[key] = partner[0]
        return pairs

    def _say(self, kind: Kind, key: Key, wanted: Expected | None, what: str, before: str = "", after: str = "") -> None:
        self.found.add(
            kind,
            key[0],
            f"chunk {key[0][:64]} of {key[1]} {what}; healing puts right what is served",
            expected=before,
            found=after,
            collection=key[1],
            doc_id=wanted.doc_id if wanted else "",
        )


def _changes(wanted: Expected, there: Record) -> list[tuple[Kind, str, str, str]]:
    """(kind, what, expected, found) of each part that is not as sealed."""
    parts = (
        (Kind.TEXT_CHANGED, "text", wanted.text_sha256, there.text_sha256),
        (Kind.VECTOR_CHANGED, "vector", wanted.vector_sha256, there.vector_sha256),
        (Kind.METADATA_CHANGED, "metadata", wanted.metadata_sha256, there.metadata_sha256),
    )
    return [part for part in parts if part[2] != part[3]]


def _are_in(known: NDArray[np.bytes_], ids: Sequence[str]) -> NDArray[np.bool_]:
    """Which ids are in the sorted array; what is no 32 hexadecimal digits is in none."""
    raw = [_bytes(chunk) for chunk in ids]
    asked = np.array([value or b"" for value in raw], "S16")
    if not len(known):
        return np.zeros(len(ids), bool)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    inside: NDArray[np.bool_] = (known[at] == asked) & np.array([value is not None for value in raw], bool)
    return inside


def _bytes(chunk: str) -> bytes | None:
    try:
        value = binascii.unhexlify(chunk)
    except (ValueError, binascii.Error):
        return None
    return value if len(value) == 16 and value.hex() == chunk else None


def _by_collection(shelves: dict[str, _Shelf], records: Iterable[Expected]) -> Iterator[Sequence[Expected]]:
    """Pages of one collection each; notes on the shelves what passes."""
    pages: dict[str, list[Expected]] = defaultdict(list)
    for one in records:
        shelf = shelves[one.collection]
        shelf.ids += binascii.unhexlify(one.chunk_id)
        shelf.models.add(one.model)
        page = pages[one.collection]
        page.append(one)
        if len(page) == BATCH:
            yield pages.pop(one.collection)
    yield from pages.values()


def _pages_of(keys: Iterable[Key]) -> Iterator[Sequence[Key]]:
    by_collection: dict[str, list[Key]] = defaultdict(list)
    for key in keys:
        by_collection[key[1]].append(key)
    for group in by_collection.values():
        yield from split(group, BATCH)
