"""The Chroma collections behind the few operations the guard needs.

Rules
    * nothing is connected before the first operation, or before `Store.open`;
    * every write is read back and compared whole;
    * a collection is used only if it belongs to the deployment (`corpus_guard.corpus.ownership`), which is
      checked each time it is looked up;
    * an error of the client names the server's address and never quotes Chroma's message, which can hold ids
      and texts.

Facts this rests on (chromadb 1.5.9, each was measured)
    * ``space="ip"`` with unit vectors ranks like cosine and returns vectors bit-equal; ``cosine`` alters
      them;
    * `get` gives float64: cast to little-endian float32 before hashing;
    * `upsert` merges metadata, so a stale key survives: ids come from content, and what is read back is
      compared whole;
    * `update` and `delete` of a missing id do nothing, silently: every write is read back;
    * a request for ids alone is answered from SQLite, whatever the state of the vector index;
    * a `get` fails as a whole where one of its records has no vector: `read` finds such records by halving;
    * a query returns what the index finds: a record that is stored and cannot be reached is noticed only by a
      query for it (#7678, #7758), as `corpus_guard.corpus.reach` does.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.ownership import OWNER_KEY, require_own
from corpus_guard.domain import TrustLevel, canonical_json, sha256_bytes, sha256_text
from corpus_guard.errors import ForeignCollection, Inconsistent, StoreUnavailable

if TYPE_CHECKING:
    from chromadb import ClientAPI, Collection

    from corpus_guard.ledger import Ledger

MODEL_KEY = "corpus_guard_embedder"
IDS_PER_REQUEST = 5_000
RECORDS_PER_REQUEST = 1_000  # Chroma allows 5,461
VECTORS_PER_QUERY = 200  # with 24 answers each, some 5 MB of texts


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
        return hashlib.sha256(np.ascontiguousarray(self.vector, dtype="<f4").tobytes()).hexdigest()

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
    """What a collection answers about a record near a vector."""

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


class Store:
    """The collections of one Chroma server, one for each trust level.

    Threads may share a store. It connects on first use; call `open` where a particular thread has to do it.
    """

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
        self._chroma: ClientAPI | None = None
        self._collections: dict[str, Collection] = {}
        self._opening = threading.RLock()

    @property
    def url(self) -> str:
        """URL of the server; the first access starts the server if it has to be started."""
        with self._opening:
            if self._url is None:
                self._url = self._connect if isinstance(self._connect, str) else self._connect()
            return self._url

    @property
    def is_open(self) -> bool:
        """True once a server was contacted."""
        return self._url is not None and self._chroma is not None

    def open(self) -> None:
        """Connect now, in this thread; do nothing if connected.

        Raises:
            StoreUnavailable: no Chroma server answers.
        """
        _ = self._client

    def collection_name(self, trust: TrustLevel) -> str:
        """Return the name of a trust level's collection, without connecting."""
        return f"{self.prefix}-{trust.value}"

    def names(self) -> list[str]:
        """Return the names of our collections that exist."""
        with self._translated_errors():
            ours = {self.collection_name(trust) for trust in TrustLevel}
            return sorted(ours & {collection.name for collection in self._client.list_collections()})

    def terms(self) -> Mapping[str, CollectionTerms]:
        """Return the terms of every collection that is ours or looks like it, by name."""
        levels = "|".join(level.value for level in TrustLevel)
        # `corpus-b-open` belongs to the deployment whose prefix is `corpus-b`.
        others = re.compile(rf"{re.escape(self.prefix)}-.+-({levels})")
        with self._translated_errors():
            return {
                collection.name: CollectionTerms(
                    str((collection.configuration.get("hnsw") or {}).get("space")),
                    str((collection.metadata or {}).get(MODEL_KEY)),
                )
                for collection in self._client.list_collections()
                if collection.name.startswith(f"{self.prefix}-") and not others.fullmatch(collection.name)
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

    def require_own(self, collection: str) -> None:
        """Check that an existing collection belongs to the deployment.

        Raises:
            ForeignCollection: it belongs to another one.
        """
        with self._translated_errors():
            self._existing(collection)

    def upsert(self, collection: str, records: Sequence[ChunkRecord], model: str, *, anew: bool = False) -> None:
        """Write records and read them back by id.

        Args:
            collection: created if it does not exist.
            records: all made by the embedder `model`.
            model: identity of the embedder, without its number format.
            anew: delete the records first.

        Raises:
            ForeignCollection: the collection belongs to another deployment.
            Inconsistent: it belongs to another embedder, or what came back is not what was written.
            StoreUnavailable: the server does not answer.
        """
        target = self._collection(collection, model)
        for start in range(0, len(records), RECORDS_PER_REQUEST):
            batch = records[start : start + RECORDS_PER_REQUEST]
            chunk_ids = [record.chunk_id for record in batch]
            with self._translated_errors():
                # nothing is read in between: the index takes both as one step (`corpus_guard.corpus.reach`)
                if anew:
                    target.delete(ids=chunk_ids)
                target.upsert(
                    ids=chunk_ids,
                    embeddings=np.stack([record.vector for record in batch]),
                    documents=[record.text for record in batch],
                    metadatas=[dict(record.metadata) for record in batch],
                )
            stored = {record.chunk_id: record for record in self.get(collection, chunk_ids)}
            for record in batch:
                back = stored.get(record.chunk_id)
                if back is None or back.fingerprint != record.fingerprint:
                    difference = "nothing" if back is None else "another text, vector or metadata"
                    raise Inconsistent(
                        f"chunk {record.chunk_id} in {collection} at {self.url}: wrote it, read back {difference}. "
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
            with self._translated_errors():
                self._existing(collection).delete(ids=batch)
            remaining = [record.chunk_id for record in self.get(collection, batch)]
            if remaining:
                raise Inconsistent(
                    f"{len(remaining)} deleted chunks are still in {collection} at {self.url}, first {remaining[0]}; "
                    "run again"
                )

    def get(self, collection: str, chunk_ids: Sequence[str]) -> list[ChunkRecord]:
        """Return records by id, in the store's order; missing ids are left out."""
        with self._translated_errors():
            page = self._existing(collection).get(ids=list(chunk_ids), include=["documents", "embeddings", "metadatas"])
        return list(_records(page))

    def scan(self, collection: str, page_size: int = RECORDS_PER_REQUEST) -> Iterator[ChunkRecord]:
        """Yield every record of a collection, page by page."""
        offset = 0
        while True:
            with self._translated_errors():
                page = self._existing(collection).get(
                    limit=page_size, offset=offset, include=["documents", "embeddings", "metadatas"]
                )
            yield from _records(page)
            if len(page["ids"]) < page_size:
                return
            offset += page_size

    def ids(self, collection: str) -> Iterator[Sequence[str]]:
        """Yield every id of a collection, page by page, whoever made it: to report one, it is counted."""
        offset = 0
        while True:
            with self._translated_errors():
                existing = self._collections.get(collection) or self._client.get_collection(
                    collection, embedding_function=None
                )
                page = existing.get(limit=IDS_PER_REQUEST, offset=offset, include=[])["ids"]
            yield page
            if len(page) < IDS_PER_REQUEST:
                return
            offset += IDS_PER_REQUEST

    def count(self, collection: str) -> int:
        """Return the number of records in a collection; 0 where it does not exist."""
        if collection not in self.names():
            return 0
        with self._translated_errors():
            return int(self._existing(collection).count())

    def read(self, collection: str, chunk_ids: Sequence[str]) -> tuple[dict[str, ChunkRecord], list[str]]:
        """Return readable records by id, and the ids of records that are stored and cannot be read.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            return {record.chunk_id: record for record in self.get(collection, chunk_ids)}, []
        except StoreUnavailable as error:
            if not was_refused(error) or not self.count(collection):
                raise
        if len(chunk_ids) == 1:
            return {}, list(chunk_ids)
        middle = len(chunk_ids) // 2
        first, broken = self.read(collection, chunk_ids[:middle])
        second, more_broken = self.read(collection, chunk_ids[middle:])
        return first | second, broken + more_broken

    def query(self, collections: Iterable[str], vector: NDArray[np.float32], count: int) -> list[Match]:
        """Return the `count` nearest records over several collections, nearest first."""
        matches = []
        for collection in collections:
            with self._translated_errors():
                answer = self._existing(collection).query(
                    query_embeddings=[vector],
                    n_results=count,
                    include=["documents", "embeddings", "metadatas", "distances"],
                )
            rows = {key: value[0] if value else value for key, value in answer.items() if isinstance(value, list)}
            matches += [
                Match(record, collection, 1.0 - float(distance))
                for record, distance in zip(_records(rows), rows["distances"], strict=True)
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
            [(str(found.metadata.get("doc_id", "")), found.text, found.similarity) for found in nearest]
            for nearest in self.nearest_chunks(collection, vectors, count)
        ]

    def nearest_chunks(self, collection: str, vectors: NDArray[np.float32], count: int) -> Iterator[list[NearChunk]]:
        """Yield the `count` nearest records to each vector, nearest first; none is compared with the ledger."""
        for start in range(0, len(vectors), VECTORS_PER_QUERY):
            with self._translated_errors():
                answer = self._existing(collection).query(
                    query_embeddings=list(vectors[start : start + VECTORS_PER_QUERY]),
                    n_results=count,
                    include=["documents", "metadatas", "distances"],
                )
            for columns in zip(
                answer["ids"], answer["documents"], answer["metadatas"], answer["distances"], strict=True
            ):
                yield [
                    NearChunk(chunk_id, text or "", metadata or {}, 1.0 - float(distance))
                    for chunk_id, text, metadata, distance in zip(*columns, strict=True)
                ]

    def nearest_ids(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, float]]]:
        """Return (id, distance) of the `count` nearest records to each vector, nearest first.

        A vector's list is empty where the index is too damaged to answer.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            with self._translated_errors():
                answer = self._existing(collection).query(
                    query_embeddings=list(vectors), n_results=count, include=["distances"]
                )
        except StoreUnavailable as error:
            if not was_refused(error) or not self.count(collection):
                raise
            return [[] for _ in vectors]
        return [
            list(zip(ids, map(float, distances), strict=True))
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]

    def sample_vectors(self, collection: str, count: int) -> list[tuple[str, NDArray[np.float32]]]:
        """Return (document id, vector) of the first `count` records; they are not compared with the ledger."""
        with self._translated_errors():
            page = self._existing(collection).get(limit=count, include=["embeddings", "metadatas"])
        return [
            (str((metadata or {}).get("doc_id", "")), np.asarray(vector, np.float32))
            for metadata, vector in zip(page["metadatas"], page["embeddings"], strict=True)
        ]

    def forget_collections(self) -> None:
        """Look collections up again on next use: another process may have replaced one under its name."""
        self._collections.clear()

    @property
    def _client(self) -> ClientAPI:
        with self._opening:
            if self._chroma is None:
                self._chroma = self._connected()
            return self._chroma

    def _connected(self) -> ClientAPI:
        import chromadb
        from chromadb.config import Settings as ChromaSettings

        parts = urlsplit(self.url)
        try:
            return chromadb.HttpClient(
                host=parts.hostname or "",
                port=parts.port or (443 if parts.scheme == "https" else 80),
                ssl=parts.scheme == "https",
                settings=ChromaSettings(
                    anonymized_telemetry=False,
                    # Plain HTTP needs no certificates; reading them takes 40 ms a client.
                    chroma_server_ssl_verify=None if parts.scheme == "https" else False,
                ),
            )
        except Exception as error:  # chromadb raises ValueError and bare httpx errors alike
            raise self._unavailable(error) from error

    def _collection(self, name: str, model: str) -> Collection:
        """Return a collection to write to; make it if it is missing, and write our id into it if it has none."""
        owner = {OWNER_KEY: self._ledger().deployment_id} if self._ledger else {}
        with self._translated_errors():
            if name not in self._collections:
                # An existing collection keeps its metadata (chromadb 1.5.9).
                opened = self._client.get_or_create_collection(
                    name,
                    embedding_function=None,
                    metadata={MODEL_KEY: model, **owner},
                    configuration={"hnsw": {"space": "ip"}},
                )
                self._collections[name] = self._owned(opened)
            collection = self._collections[name]
            metadata = collection.metadata or {}
            if owner and OWNER_KEY not in metadata and metadata.get(MODEL_KEY) == model:
                collection.modify(metadata={**metadata, **owner})
        actual = metadata.get(MODEL_KEY)
        if actual != model:
            raise Inconsistent(
                f"collection {name} at {self.url} holds vectors of {actual}, these are of {model}; the two cannot be "
                "compared. Set CORPUS_GUARD_EMBEDDER back; to change it, refresh into a CORPUS_GUARD_HOME of its own"
            )
        return collection

    def _existing(self, name: str) -> Collection:
        if name not in self._collections:
            self._collections[name] = self._owned(self._client.get_collection(name, embedding_function=None))
        return self._collections[name]

    def _owned(self, collection: Collection) -> Collection:
        if self._ledger:
            require_own(self._ledger(), collection, self.url)
        return collection

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        import httpx
        from chromadb.errors import ChromaError

        try:
            yield
        except StoreUnavailable:
            raise
        except (httpx.TransportError, ConnectionError) as error:
            raise self._unavailable(error) from error
        except Exception as error:
            # The client raises a bare Exception for a response it does not understand (chromadb 1.5.9).
            if not isinstance(error, ChromaError) and type(error) is not Exception:
                raise
            self.forget_collections()
            raise StoreUnavailable(
                f"Chroma at {self.url} refused a request ({type(error).__name__}); its log says why. Running again "
                "creates a missing collection and repeats what was not done"
            ) from error

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        return StoreUnavailable(
            f"Chroma at {self.url} does not answer ({type(error).__name__}); start it with `make up`, or correct "
            "CORPUS_GUARD_CHROMA_URL, then run again"
        )


def _records(page: Mapping[str, Any]) -> Iterator[ChunkRecord]:
    for chunk_id, text, vector, metadata in zip(
        page["ids"], page["documents"], page["embeddings"], page["metadatas"], strict=True
    ):
        yield ChunkRecord(chunk_id, text or "", np.asarray(vector, dtype="<f4"), metadata or {})


def was_refused(error: BaseException) -> bool:
    """Return whether Chroma answered and refused, rather than not answering."""
    from chromadb.errors import ChromaError

    return isinstance(error.__cause__, ChromaError)
