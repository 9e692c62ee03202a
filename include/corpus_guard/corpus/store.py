"""The vector store: collections of chunks, one for each trust level, behind the few operations the guard needs.

`corpus_guard.corpus.chroma_store` keeps them in Chroma, `corpus_guard.corpus.pgvector_store` in PostgreSQL. One suite of tests
holds both to these rules.

Rules
    * nothing is connected before the first operation, or before `Store.open`;
    * vectors come back bit for bit, and nearness is the inner product of unit vectors, so their cosine;
    * every write is read back and compared whole;
    * a collection is used only if it belongs to the deployment (`corpus_guard.corpus.ownership`), which is
      checked each time it is looked up;
    * an error names the server's address and never quotes the server's message, which can hold ids and texts.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import TrustLevel, canonical_json, sha256_bytes, sha256_text
from corpus_guard.errors import ForeignCollection, Inconsistent, StoreRefused

if TYPE_CHECKING:
    from corpus_guard.ledger import Ledger

MODEL_KEY = "corpus_guard_embedder"
IDS_PER_REQUEST = 5_000
RECORDS_PER_REQUEST = 1_000  # Chroma allows 5,461
VECTORS_PER_QUERY = 200  # with 24 answers each, some 5 MB of texts
LINKS_PER_VECTOR = 32
"""Room for links of a vector in a new index. Chroma and pgvector give 16 unless told. Then queries for three answers missed 393 and 463 of
79,533 made-up vectors, 7 of these in pgvector whatever the number of answers, and a refresh into Chroma did not pass its verification.
With 32 they missed none and 2."""


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A chunk as a collection holds it."""

    chunk_id: str
    text: str
    vector: NDArray[np.float32]  # shape (dimensions,), length 1
    metadata: Mapping[str, str | int | float | bool]

    @property
    def text_sha256(self) -> str:
        """Hex SHA-256 of the exact UTF-8 bytes."""
        return sha256_text(self.text)

    @property
    def vector_sha256(self) -> str:
        """Hex SHA-256 of the little-endian float32 bytes."""
        return sha256_bytes(np.ascontiguousarray(self.vector, dtype="<f4").tobytes())

    @property
    def metadata_sha256(self) -> str:
        """Hex SHA-256 of the canonical JSON."""
        return sha256_bytes(canonical_json(dict(self.metadata)))

    @property
    def fingerprint(self) -> tuple[str, str, str]:
        """Hashes of text, vector and metadata: everything that may not change unnoticed."""
        return self.text_sha256, self.vector_sha256, self.metadata_sha256


@dataclass(frozen=True, slots=True)
class Match:
    """A record found by a query."""

    record: ChunkRecord
    collection: str
    similarity: float  # cosine, -1..1


@dataclass(frozen=True, slots=True)
class NearChunk:
    """Record near a vector, as a collection returns it."""

    chunk_id: str
    text: str
    metadata: Mapping[str, str | int | float | bool]
    similarity: float  # cosine, -1..1


@dataclass(frozen=True, slots=True)
class CollectionTerms:
    """Distance and embedder of a collection."""

    space: str
    model: str  # embedder whose vectors the collection says it holds

    def __str__(self) -> str:
        return f"{self.space} over {self.model}"


class Store(ABC):
    """The collections of one server, one for each trust level.

    Threads may share a store. It connects on first use; call `open` where a particular thread has to do it.
    """

    system: ClassVar[str]
    """Name of the database, for messages."""

    def __init__(
        self, connect: str | Callable[[], str], prefix: str, ledger: Callable[[], Ledger] | None = None
    ) -> None:
        """Describe a store, without connecting.

        Args:
            connect: URL of the server, or a function that returns it and may start the server first; called
                once.
            prefix: collections are named ``<prefix>-<trust level>``.
            ledger: returns that of the deployment that the collections must belong to; called when one is
                looked up. None: for a temporary server; nothing is checked.
        """
        self.prefix = prefix
        self._ledger = ledger
        self._connect = connect
        self._url: str | None = None
        self._opening = threading.RLock()

    @property
    def url(self) -> str:
        """URL of the server; the first access starts the server if it has to be started."""
        with self._opening:
            if self._url is None:
                self._url = self._connect if isinstance(self._connect, str) else self._connect()
            return self._url

    @property
    def address(self) -> str:
        """The URL without its password, for messages."""
        return self.url

    @property
    def is_open(self) -> bool:
        """True once a server was contacted."""
        return self._url is not None

    @abstractmethod
    def open(self) -> None:
        """Connect now, in this thread; do nothing if connected.

        Raises:
            StoreUnavailable: no server answers.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all connections; the next operation connects again."""

    def collection_name(self, trust: TrustLevel) -> str:
        """Return the name of a trust level's collection, without connecting."""
        return f"{self.prefix}-{trust.value}"

    def names(self) -> list[str]:
        """Return the names of our collections that exist."""
        ours = {self.collection_name(trust) for trust in TrustLevel}
        return sorted(ours & set(self._all_names()))

    def terms(self) -> Mapping[str, CollectionTerms]:
        """Return the terms of every collection that is ours or looks like it, by name."""
        levels = "|".join(level.value for level in TrustLevel)
        # `corpus-b-open` belongs to the deployment whose prefix is `corpus-b`.
        others = re.compile(rf"{re.escape(self.prefix)}-.+-({levels})")
        return {
            name: terms
            for name, terms in self._all_terms()
            if name.startswith(f"{self.prefix}-") and not others.fullmatch(name)
        }

    def foreign_collections(self) -> Mapping[str, ForeignCollection]:
        """Return, for each of our collections' names that another deployment's collection has, what is wrong."""
        foreign: dict[str, ForeignCollection] = {}
        for name in self.names():
            try:
                self.require_own(name)
            except ForeignCollection as error:
                foreign[name] = error
        return foreign

    @abstractmethod
    def require_own(self, collection: str) -> None:
        """Check that an existing collection belongs to the deployment.

        Raises:
            ForeignCollection: it belongs to another one.
        """

    def upsert(self, collection: str, records: Sequence[ChunkRecord], model: str, *, anew: bool = False) -> None:
        """Write records and read them back by id.

        Args:
            collection: created if it does not exist.
            records: all made by the embedder `model`, whose identity is given without its number format.

        Raises:
            ForeignCollection: the collection belongs to another deployment.
            Inconsistent: it belongs to another embedder, or what came back is not what was written.
            StoreUnavailable: the server does not answer.
        """
        for start in range(0, len(records), RECORDS_PER_REQUEST):
            batch = records[start : start + RECORDS_PER_REQUEST]
            chunk_ids = [record.chunk_id for record in batch]
            self._write(collection, batch, model, anew=anew)
            stored = {record.chunk_id: record for record in self.get(collection, chunk_ids)}
            for record in batch:
                back = stored.get(record.chunk_id)
                if back is None or back.fingerprint != record.fingerprint:
                    difference = "nothing" if back is None else "another text, vector or metadata"
                    raise Inconsistent(
                        f"chunk {record.chunk_id} in {collection} at {self.address}: wrote it, read back {difference}. "
                        "Run again; if the error stays, the collection is damaged and must be rebuilt"
                    )

    def delete(self, collection: str, chunk_ids: Sequence[str]) -> None:
        """Delete records and check that they are gone.

        Raises:
            Inconsistent: a record is still there.
        """
        if collection not in self.names():
            return
        for start in range(0, len(chunk_ids), RECORDS_PER_REQUEST):
            batch = list(chunk_ids[start : start + RECORDS_PER_REQUEST])
            self._remove(collection, batch)
            remaining = [record.chunk_id for record in self.get(collection, batch)]
            if remaining:
                raise Inconsistent(
                    f"{len(remaining)} deleted chunks are still in {collection} at {self.address}, first "
                    f"{remaining[0]}; run again"
                )

    @abstractmethod
    def delete_collection(self, collection: str) -> None:
        """Delete a collection with all it holds; do nothing if there is none.

        Raises:
            ForeignCollection: it belongs to another deployment.
        """

    @abstractmethod
    def get(self, collection: str, chunk_ids: Sequence[str]) -> list[ChunkRecord]:
        """Return records by id, in the store's order; missing ids are left out."""

    @abstractmethod
    def scan(self, collection: str, page_size: int = RECORDS_PER_REQUEST) -> Iterator[ChunkRecord]:
        """Yield every record of a collection, page by page."""

    @abstractmethod
    def ids(self, collection: str) -> Iterator[Sequence[str]]:
        """Yield every id of a collection, page by page, whoever made it: to report one, it is counted."""

    def count(self, collection: str) -> int:
        """Return the number of records in a collection; 0 where it does not exist."""
        return self._count(collection) if collection in self.names() else 0

    def read(self, collection: str, chunk_ids: Sequence[str]) -> tuple[dict[str, ChunkRecord], list[str]]:
        """Return readable records by id, and the ids of records that are stored and cannot be read.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            return {record.chunk_id: record for record in self.get(collection, chunk_ids)}, []
        except StoreRefused:
            if not self.count(collection):
                raise
        if len(chunk_ids) == 1:
            return {}, list(chunk_ids)
        middle = len(chunk_ids) // 2
        first, broken = self.read(collection, chunk_ids[:middle])
        second, more_broken = self.read(collection, chunk_ids[middle:])
        return first | second, broken + more_broken

    def query(
        self,
        collections: Iterable[str],
        vector: NDArray[np.float32],
        count: int,
        where: Mapping[str, str | int | float | bool] | None = None,
    ) -> list[Match]:
        """Return the `count` nearest records over several collections, nearest first.

        Args:
            vector: of length 1.
            where: values that a record's metadata must have; None: any.
        """
        matches = [
            match for collection in collections for match in self._nearest_records(collection, vector, count, where)
        ]
        return sorted(matches, key=lambda match: (-match.similarity, match.record.chunk_id))[:count]

    def nearest_texts(
        self, collection: str, vectors: NDArray[np.float32], count: int
    ) -> list[list[tuple[str, str, float]]]:
        """Return (document id, text, cosine) of the `count` nearest records to each vector, nearest first.

        The records are not compared with the ledger; a record that somebody else wrote without a document id
        or a text has an empty one.
        """
        return [
            [(str(record.metadata.get("doc_id", "")), record.text, record.similarity) for record in nearest]
            for nearest in self.nearest_chunks(collection, vectors, count)
        ]

    def nearest_chunks(self, collection: str, vectors: NDArray[np.float32], count: int) -> Iterator[list[NearChunk]]:
        """Yield the `count` nearest records to each vector, nearest first; none is compared with the ledger."""
        for start in range(0, len(vectors), VECTORS_PER_QUERY):
            yield from self._nearest_chunks(collection, vectors[start : start + VECTORS_PER_QUERY], count)

    def nearest_ids(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, float]]]:
        """Return (id, distance) of the `count` nearest records to each vector, nearest first.

        A vector's list is empty where the index is too damaged to answer.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            return self._nearest_ids(collection, vectors, count)
        except StoreRefused:
            if not self.count(collection):
                raise
            return [[] for _ in vectors]

    @abstractmethod
    def sample_vectors(self, collection: str, count: int) -> list[tuple[str, NDArray[np.float32]]]:
        """Return (document id, vector) of the first `count` records; they are not compared with the ledger."""

    def forget_collections(self) -> None:  # noqa: B027 - a store that looks a collection up each time keeps nothing
        """Look collections up again on next use: another process may have replaced one under its name."""

    @abstractmethod
    def _all_names(self) -> Iterable[str]: ...

    @abstractmethod
    def _all_terms(self) -> Iterable[tuple[str, CollectionTerms]]: ...

    @abstractmethod
    def _write(self, collection: str, records: Sequence[ChunkRecord], model: str, *, anew: bool) -> None: ...

    @abstractmethod
    def _remove(self, collection: str, chunk_ids: Sequence[str]) -> None: ...

    @abstractmethod
    def _count(self, collection: str) -> int: ...

    @abstractmethod
    def _nearest_records(
        self,
        collection: str,
        vector: NDArray[np.float32],
        count: int,
        where: Mapping[str, str | int | float | bool] | None,
    ) -> Iterable[Match]: ...

    @abstractmethod
    def _nearest_chunks(
        self, collection: str, vectors: NDArray[np.float32], count: int
    ) -> Iterable[list[NearChunk]]: ...

    @abstractmethod
    def _nearest_ids(
        self, collection: str, vectors: NDArray[np.float32], count: int
    ) -> list[list[tuple[str, float]]]: ...

    def _require_model(self, collection: str, actual: str | None, model: str) -> None:
        if actual != model:
            raise Inconsistent(
                f"collection {collection} at {self.address} holds vectors of {actual}, these are of {model}; the two "
                "cannot be compared. Set CORPUS_GUARD_EMBEDDER back; to change it, refresh into a CORPUS_GUARD_HOME of "
                "its own"
            )
