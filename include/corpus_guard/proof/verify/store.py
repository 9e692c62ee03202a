"""Comparison of the live collections with what was sealed.

Rules
    * a collection belongs to this deployment; one that does not is named, and none of its records is compared;
    * a collection compares by inner product, and says that it holds vectors of the model that the manifest
      names;
    * each expected record is there, with the text, vector and metadata whose hashes were sealed; nothing else
      is there;
    * malformed records are named like any other change; a collection that the server itself refuses to read is named
      as a whole;
    * each vector is found by a query for itself: counts and samples stay right while records cannot be found
      (chroma #7678, #7758);
    * whatever differs is checked again while nobody publishes, against the log as it is then.

`corpus_guard.corpus.reach` says when a vector counts as found, and how many equal vectors affect an index.

Memory holds 16 bytes a chunk and one page of records. Most of the time goes into the queries, then into
reading the vectors.

Not done here: comparing Chroma's table for full-text search; nothing of ours queries it.
"""

from __future__ import annotations

import binascii
import contextlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus.reach import unreachable_records
from corpus_guard.corpus.store import RECORDS_PER_REQUEST, ChunkRecord, CollectionTerms, Store
from corpus_guard.domain import Progress, TrustLevel
from corpus_guard.errors import StoreRefused
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import UNFINISHED_STATES
from corpus_guard.proof.deviations import UNREADABLE, DeviationKind
from corpus_guard.proof.manifest import RecordKey
from corpus_guard.proof.verify.expected import (
    ExpectedRecord,
    SignedSeal,
    changes_since,
    expected_records,
    publication_states,
    published_records,
)
from corpus_guard.proof.verify.findings import MAX_NAMED_DEVIATIONS, DeviationCollector

SPACE: Final = "ip"
ID_BYTES: Final = 16  # of a chunk id


@dataclass
class StoreCheck:
    """Extent of a comparison of the collections."""

    records: int = 0  # read
    queried: int = 0  # vectors
    in_flight: set[RecordKey] = field(default_factory=set)  # the outbox is about to publish or withdraw them


@dataclass
class _CollectionState:
    """A collection while it is compared."""

    ids: bytearray = field(default_factory=bytearray)  # ID_BYTES for each expected chunk
    models: set[str] = field(default_factory=set)
    present: int = 0

    @property
    def expected(self) -> int:
        """Number of expected chunks."""
        return len(self.ids) // ID_BYTES

    def sorted_ids(self) -> NDArray[np.bytes_]:
        """Return the expected ids, sorted for lookups."""
        return np.sort(np.frombuffer(bytes(self.ids), f"S{ID_BYTES}"))


def check_store(
    ledger: Ledger, storage: Storage, store: Store, seal: SignedSeal, collector: DeviationCollector, progress: Progress
) -> StoreCheck:
    """Compare every record of every collection; deviations go to `collector`.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    store.forget_collections()
    return _Comparison(ledger, storage, store, seal, collector, progress).run()


class _Comparison:
    def __init__(
        self,
        ledger: Ledger,
        storage: Storage,
        store: Store,
        seal: SignedSeal,
        collector: DeviationCollector,
        progress: Progress,
    ) -> None:
        self.ledger, self.storage, self.store = ledger, storage, store
        self.seal, self.collector, self.progress = seal, collector, progress
        self.terms: Mapping[str, CollectionTerms] = {}
        self.collections: dict[str, _CollectionState] = defaultdict(_CollectionState)
        self.damaged: set[str] = set()  # collections that the server refuses to read
        self.suspects: dict[RecordKey, ExpectedRecord | None] = {}  # different at first sight → what is expected there
        self.uncollected = 0  # suspects beyond MAX_NAMED_DEVIATIONS
        self.result = StoreCheck()

    def run(self) -> StoreCheck:
        changes = changes_since(self.ledger, self.seal)
        self.terms = self.store.terms()  # after the log: a collection is made before its publications are logged
        foreign = self.store.foreign_collections()
        for name, error in foreign.items():
            self.collector.add(
                DeviationKind.COLLECTION_FOREIGN,
                name,
                str(error),
                expected=error.ours,
                actual=error.theirs,
                collection=name,
            )
        self.terms = {name: terms for name, terms in self.terms.items() if name not in foreign}
        expected = expected_records(self.ledger, self.storage, self.seal, changes)
        for page in _pages_by_collection(self.collections, expected):
            with self._naming_damage(page[0].collection):
                self._compare(page)
            self.progress("records", self.result.records, self.seal.lines or None)
        self._check_terms(foreign)
        for name in sorted(self.terms):
            with self._naming_damage(name):
                self._look_for_additions(name)
        if self.suspects:
            with self.ledger.exclusive("publish"):
                self._check_suspects_again()
        self.collector.more += self.uncollected
        return self.result

    def _compare(self, page: Sequence[ExpectedRecord]) -> None:
        collection = page[0].collection
        if collection not in self.terms or collection in self.damaged:
            return  # reported as a whole
        records, broken = self.store.read(collection, [expected.chunk_id for expected in page])
        self.result.records += len(records)
        self.collections[collection].present += len(records) + len(broken)
        intact: dict[str, tuple[ExpectedRecord, ChunkRecord]] = {}
        for expected in page:
            record = records.get(expected.chunk_id)
            if record is None or _changes(expected, record):
                self._suspect(expected.key, expected)
            else:
                intact[expected.chunk_id] = expected, record
        for record in unreachable_records(self.store, collection, [record for _, record in intact.values()]):
            self._suspect((record.chunk_id, collection), intact[record.chunk_id][0])
        self.result.queried += len(intact)

    @contextlib.contextmanager
    def _naming_damage(self, collection: str) -> Iterator[None]:
        """Add one deviation for a collection that the server has and refuses to read, and continue after the block."""
        try:
            yield
        except StoreRefused:
            if collection not in self.store.terms():
                raise
            if collection not in self.damaged:
                self.collector.add(
                    DeviationKind.COLLECTION_DAMAGED,
                    collection,
                    f"collection {collection} at {self.store.address} exists, and {self.store.system} refuses to read it: its files were "
                    "changed or are damaged; its log says where. Delete the collection, then run `guard incident heal`, "
                    "which makes it again",
                    collection=collection,
                )
            self.damaged.add(collection)

    def _suspect(self, key: RecordKey, expected: ExpectedRecord | None) -> None:
        if len(self.suspects) < MAX_NAMED_DEVIATIONS:
            self.suspects[key] = expected
        else:
            self.uncollected += 1

    def _check_terms(self, foreign: Container[str]) -> None:
        for name, state in sorted(self.collections.items()):
            if name in foreign:
                continue
            if name not in self.terms:
                self.collector.add(
                    DeviationKind.COLLECTION_MISSING,
                    name,
                    f"collection {name} at {self.store.address} is missing with its {state.expected} chunks; "
                    "`guard incident heal` makes it again",
                    expected=state.expected,
                    collection=name,
                )
                continue
            for terms in sorted({CollectionTerms(SPACE, model.rpartition("/")[0]) for model in state.models}, key=str):
                if self.terms[name] != terms:
                    self.collector.add(
                        DeviationKind.SPACE_CHANGED,
                        name,
                        f"collection {name} at {self.store.address} uses another distance or embedder than it "
                        "was made with, so it ranks differently. Delete it, then run `guard incident heal`, "
                        "which makes it again",
                        expected=terms,
                        actual=self.terms[name],
                        collection=name,
                    )

    def _look_for_additions(self, name: str) -> None:
        ours = {self.store.collection_name(level) for level in TrustLevel}
        if name not in ours:
            self.collector.add(
                DeviationKind.COLLECTION_ADDED,
                name,
                f"collection {name} at {self.store.address} is named like one of ours, and nothing was sealed "
                "for it; find out who made it",
                actual=sum(map(len, self.store.ids(name))),
                collection=name,
            )
            return
        if self._suspect_unexpected_ids(name) < self.collections[name].present:
            # Records were deleted meanwhile, so that pages moved past each other.
            with self.ledger.exclusive("publish"):
                self._suspect_unexpected_ids(name)

    def _suspect_unexpected_ids(self, name: str) -> int:
        """Suspect every id that is not expected; return the number of expected ids that are there."""
        expected_ids = self.collections[name].sorted_ids()
        count = 0
        for page in self.store.ids(name):
            expected = _contained(expected_ids, page)
            count += int(expected.sum())
            for chunk_id in (chunk_id for chunk_id, is_expected in zip(page, expected, strict=True) if not is_expected):
                if (chunk_id, name) not in self.suspects:
                    self._suspect((chunk_id, name), None)
        return count

    def _check_suspects_again(self) -> None:
        """Compare the suspects while nobody publishes: what still differs is wrong."""
        digests = changes_since(self.ledger, self.seal).digests
        new = published_records(self.ledger, [key for key in self.suspects if digests.get(key)])
        states = publication_states(self.ledger, list(self.suspects))
        differences = _Differences(self.collector)
        for keys in _batches_by_collection(self.suspects):
            collection = keys[0][1]
            records: dict[str, ChunkRecord] = {}
            broken: list[str] = []
            with self._naming_damage(collection):
                records, broken = self.store.read(collection, [chunk_id for chunk_id, _ in keys])
            if collection in self.damaged:
                continue
            for key in keys:
                expected = new.get(key) if key in digests else self.suspects[key]
                if states.get(key) in UNFINISHED_STATES:
                    self.result.in_flight.add(key)
                else:
                    differences.add(key, expected, records.get(key[0]), broken=key[0] in broken)
            equal = [records[chunk_id] for chunk_id, _ in keys if (chunk_id, collection) in differences.equal]
            for record in unreachable_records(self.store, collection, equal):
                key = record.chunk_id, collection
                differences.report_unreachable(key, self.suspects[key])
        differences.report(self.collections, set(self.terms))


class _Differences:
    """Differences, until it is known which of them belong together: a move, or a swap."""

    def __init__(self, collector: DeviationCollector) -> None:
        self.collector = collector
        self.removed: dict[RecordKey, ExpectedRecord] = {}
        self.added: list[RecordKey] = []
        self.changed: dict[RecordKey, tuple[ExpectedRecord, ChunkRecord]] = {}
        self.equal: set[RecordKey] = set()

    def add(self, key: RecordKey, expected: ExpectedRecord | None, record: ChunkRecord | None, *, broken: bool) -> None:
        if expected is None:
            if record is not None or broken:
                self.added.append(key)
        elif broken:
            self.report_unreachable(key, expected, UNREADABLE)
        elif record is None:
            self.removed[key] = expected
        elif _changes(expected, record):
            self.changed[key] = expected, record
        else:
            self.equal.add(key)

    def report_unreachable(self, key: RecordKey, expected: ExpectedRecord | None, actual: str = "") -> None:
        problem = "exists, and no query finds it: its entry in the index is damaged"
        self._report(DeviationKind.UNREACHABLE, key, expected, problem, after=actual)

    def report(self, collections: Mapping[str, _CollectionState], existing: set[str]) -> None:
        """Report each difference as the most specific kind."""
        missing = {name: state.sorted_ids() for name, state in collections.items() if name not in existing}
        removed_from = dict(self.removed.keys())
        for chunk_id, name in self.added:
            home = removed_from.get(chunk_id) or next(
                (collection for collection, ids in missing.items() if _contained(ids, [chunk_id])[0]), ""
            )
            if not home:
                self._report(
                    DeviationKind.ADDED, (chunk_id, name), None, "was added from outside: no manifest lists it"
                )
                continue
            expected = self.removed.pop((chunk_id, home), None)
            self._report(DeviationKind.MOVED, (chunk_id, home), expected, f"was moved to {name}", home, name)
        for key, expected in self.removed.items():
            self._report(DeviationKind.REMOVED, key, expected, "is missing")
        partners = self._swapped()
        for key, (expected, record) in self.changed.items():
            if key in partners:
                partner = partners[key]
                problem = f"and chunk {partner} hold each other's content"
                self._report(DeviationKind.SWAPPED, key, expected, problem, key[0], partner)
                continue
            for kind, part, before, after in _changes(expected, record):
                self._report(kind, key, expected, f"does not have the {part} that was sealed", before, after)

    def _swapped(self) -> dict[RecordKey, str]:
        """Return the records that hold each other's text or vector, with the chunk id of the other."""
        partners: dict[RecordKey, str] = {}
        for part in ("text_sha256", "vector_sha256"):
            owners = {getattr(expected, part): key for key, (expected, _) in self.changed.items()}
            for key, (expected, record) in self.changed.items():
                owner = owners.get(getattr(record, part), key)
                if owner != key and getattr(self.changed[owner][1], part) == getattr(expected, part):
                    partners[key] = owner[0]
        return partners

    def _report(
        self,
        kind: DeviationKind,
        key: RecordKey,
        expected: ExpectedRecord | None,
        problem: str,
        before: str = "",
        after: str = "",
    ) -> None:
        chunk_id, collection = key
        self.collector.add(
            kind,
            chunk_id,
            f"chunk {chunk_id[:64]} of {collection} {problem}; `guard incident heal` restores what was sealed",
            expected=before,
            actual=after,
            collection=collection,
            doc_id=expected.doc_id if expected else "",
        )


def _changes(expected: ExpectedRecord, record: ChunkRecord) -> list[tuple[DeviationKind, str, str, str]]:
    """Return (kind, name of the part, expected hash, actual hash) of each part that differs."""
    parts = (
        (DeviationKind.TEXT_CHANGED, "text", expected.text_sha256, record.text_sha256),
        (DeviationKind.VECTOR_CHANGED, "vector", expected.vector_sha256, record.vector_sha256),
        (DeviationKind.METADATA_CHANGED, "metadata", expected.metadata_sha256, record.metadata_sha256),
    )
    return [part for part in parts if part[2] != part[3]]


def _contained(sorted_ids: NDArray[np.bytes_], chunk_ids: Sequence[str]) -> NDArray[np.bool_]:
    """Return whether each chunk id is in the sorted array; False if it is not 32 hexadecimal digits."""
    raw = [_id_bytes(chunk_id) for chunk_id in chunk_ids]
    if not len(sorted_ids):
        return np.zeros(len(chunk_ids), bool)
    values = np.array([value or b"" for value in raw], f"S{ID_BYTES}")
    positions = np.minimum(np.searchsorted(sorted_ids, values), len(sorted_ids) - 1)
    is_id = np.array([value is not None for value in raw], bool)
    contained: NDArray[np.bool_] = (sorted_ids[positions] == values) & is_id
    return contained


def _id_bytes(chunk_id: str) -> bytes | None:
    try:
        value = binascii.unhexlify(chunk_id)
    except (ValueError, binascii.Error):
        return None
    return value if len(value) == ID_BYTES and value.hex() == chunk_id else None


def _pages_by_collection(
    collections: dict[str, _CollectionState], records: Iterable[ExpectedRecord]
) -> Iterator[Sequence[ExpectedRecord]]:
    """Yield pages of records, each of one collection; add what passes to `collections`."""
    pages: dict[str, list[ExpectedRecord]] = defaultdict(list)
    for record in records:
        state = collections[record.collection]
        state.ids += binascii.unhexlify(record.chunk_id)
        state.models.add(record.model)
        page = pages[record.collection]
        page.append(record)
        if len(page) == RECORDS_PER_REQUEST:
            yield pages.pop(record.collection)
    yield from pages.values()


def _batches_by_collection(keys: Iterable[RecordKey]) -> Iterator[Sequence[RecordKey]]:
    by_collection: dict[str, list[RecordKey]] = defaultdict(list)
    for key in keys:
        by_collection[key[1]].append(key)
    for group in by_collection.values():
        yield from in_batches(group, RECORDS_PER_REQUEST)
