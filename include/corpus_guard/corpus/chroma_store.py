"""The vector store in Chroma.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.ownership import OWNER_KEY, HeldChunk, require_own
from corpus_guard.corpus.store import (
    IDS_PER_REQUEST,
    LINKS_PER_VECTOR,
    MODEL_KEY,
    RECORDS_PER_REQUEST,
    ChunkRecord,
    CollectionTerms,
    Match,
    NearChunk,
    Store,
)
from corpus_guard.errors import StoreRefused, StoreUnavailable
from corpus_guard.ledger import Ledger

if TYPE_CHECKING:
    from chromadb import ClientAPI, Collection

_ADVICE = "Unset CORPUS_GUARD_CHROMA_URL, so that this home has a server of its own, or set it to the server of this deployment"


class ChromaStore(Store):
    """The collections of one Chroma server."""

    system: ClassVar[str] = "Chroma"

    def __init__(
        self, connect: str | Callable[[], str], prefix: str, ledger: Callable[[], Ledger] | None = None
    ) -> None:
        """Describe a store, without connecting; see `Store`."""
        super().__init__(connect, prefix, ledger)
        self._chroma: ClientAPI | None = None
        self._collections: dict[str, Collection] = {}

    def open(self) -> None:
        _ = self._client

    def close(self) -> None:
        self._chroma = None
        self.forget_collections()

    def require_own(self, collection: str) -> None:
        with self._translated_errors():
            self._existing(collection)

    def delete_collection(self, collection: str) -> None:
        if collection not in self.names():
            return
        self.require_own(collection)
        with self._translated_errors():
            self._client.delete_collection(collection)
        self.forget_collections()

    def get(self, collection: str, chunk_ids: Sequence[str]) -> list[ChunkRecord]:
        with self._translated_errors():
            page = self._existing(collection).get(ids=list(chunk_ids), include=["documents", "embeddings", "metadatas"])
        return list(_records(page))

    def scan(self, collection: str, page_size: int = RECORDS_PER_REQUEST) -> Iterator[ChunkRecord]:
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

    def sample_vectors(self, collection: str, count: int) -> list[tuple[str, NDArray[np.float32]]]:
        with self._translated_errors():
            page = self._existing(collection).get(limit=count, include=["embeddings", "metadatas"])
        return [
            (str((metadata or {}).get("doc_id", "")), np.asarray(vector, np.float32))
            for metadata, vector in zip(page["metadatas"], page["embeddings"], strict=True)
        ]

    def forget_collections(self) -> None:
        self._collections.clear()

    def _all_names(self) -> list[str]:
        with self._translated_errors():
            return [collection.name for collection in self._client.list_collections()]

    def _all_terms(self) -> list[tuple[str, CollectionTerms]]:
        with self._translated_errors():
            return [
                (
                    collection.name,
                    CollectionTerms(
                        str((collection.configuration.get("hnsw") or {}).get("space")),
                        str((collection.metadata or {}).get(MODEL_KEY)),
                    ),
                )
                for collection in self._client.list_collections()
            ]

    def _write(self, collection: str, records: Sequence[ChunkRecord], model: str, *, anew: bool) -> None:
        target = self._collection(collection, model)
        chunk_ids = [record.chunk_id for record in records]
        with self._translated_errors():
            # nothing is read in between: the index takes both as one step (`corpus_guard.corpus.reach`)
            if anew:
                target.delete(ids=chunk_ids)
            target.upsert(
                ids=chunk_ids,
                embeddings=np.stack([record.vector for record in records]),
                documents=[record.text for record in records],
                metadatas=[dict(record.metadata) for record in records],
            )

    def _remove(self, collection: str, chunk_ids: Sequence[str]) -> None:
        with self._translated_errors():
            self._existing(collection).delete(ids=list(chunk_ids))

    def _count(self, collection: str) -> int:
        with self._translated_errors():
            return int(self._existing(collection).count())

    def _nearest_records(
        self,
        collection: str,
        vector: NDArray[np.float32],
        count: int,
        where: Mapping[str, str | int | float | bool] | None,
    ) -> Iterator[Match]:
        conditions: list[Any] = [{key: {"$eq": value}} for key, value in (where or {}).items()]
        with self._translated_errors():
            answer = self._existing(collection).query(
                query_embeddings=[vector],
                n_results=count,
                where={"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None,
                include=["documents", "embeddings", "metadatas", "distances"],
            )
        rows = {key: value[0] if value else value for key, value in answer.items() if isinstance(value, list)}
        for record, distance in zip(_records(rows), rows["distances"], strict=True):
            yield Match(record, collection, 1.0 - float(distance))

    def _nearest_chunks(self, collection: str, vectors: NDArray[np.float32], count: int) -> Iterator[list[NearChunk]]:
        with self._translated_errors():
            answer = self._existing(collection).query(
                query_embeddings=list(vectors), n_results=count, include=["documents", "metadatas", "distances"]
            )
        for columns in zip(answer["ids"], answer["documents"], answer["metadatas"], answer["distances"], strict=True):
            yield [
                NearChunk(chunk_id, text or "", metadata or {}, 1.0 - float(distance))
                for chunk_id, text, metadata, distance in zip(*columns, strict=True)
            ]

    def _nearest_ids(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, float]]]:
        with self._translated_errors():
            answer = self._existing(collection).query(
                query_embeddings=list(vectors), n_results=count, include=["distances"]
            )
        return [
            list(zip(ids, map(float, distances), strict=True))
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]

    @property
    def _client(self) -> ClientAPI:
        with self._opening:
            if self._chroma is None:
                self._chroma = self._connected()
            return self._chroma

    def _connected(self) -> ClientAPI:
        try:
            return connect_to_chroma(self.url)
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
                    configuration={"hnsw": {"space": "ip", "max_neighbors": LINKS_PER_VECTOR}},
                )
                self._collections[name] = self._owned(opened)
            collection = self._collections[name]
            metadata = collection.metadata or {}
            if owner and OWNER_KEY not in metadata and metadata.get(MODEL_KEY) == model:
                collection.modify(metadata={**metadata, **owner})
        self._require_model(name, metadata.get(MODEL_KEY), model)
        return collection

    def _existing(self, name: str) -> Collection:
        if name not in self._collections:
            self._collections[name] = self._owned(self._client.get_collection(name, embedding_function=None))
        return self._collections[name]

    def _owned(self, collection: Collection) -> Collection:
        if self._ledger:
            owner = (collection.metadata or {}).get(OWNER_KEY)
            require_own(self._ledger(), collection.name, owner, lambda ids: _held(collection, ids), self.url, _ADVICE)
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
            refusal = StoreRefused if isinstance(error, ChromaError) else StoreUnavailable
            raise refusal(
                f"Chroma at {self.url} refused a request ({type(error).__name__}); its log says why. Running again "
                "creates a missing collection and repeats what was not done"
            ) from error

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        return StoreUnavailable(
            f"Chroma at {self.url} does not answer ({type(error).__name__}); start it with `make up`, or correct "
            "CORPUS_GUARD_CHROMA_URL, then run again"
        )


def connect_to_chroma(url: str) -> ClientAPI:
    """Return a client of the server at `url`. It raises ValueError, ChromaError and bare httpx errors alike."""
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return chromadb.HttpClient(
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        ssl=secure,
        settings=ChromaSettings(
            anonymized_telemetry=False,
            # Plain HTTP needs no certificates; reading them takes 40 ms a client.
            chroma_server_ssl_verify=None if secure else False,
        ),
    )


def _records(page: Mapping[str, Any]) -> Iterator[ChunkRecord]:
    for chunk_id, text, vector, metadata in zip(
        page["ids"], page["documents"], page["embeddings"], page["metadatas"], strict=True
    ):
        yield ChunkRecord(chunk_id, text or "", np.asarray(vector, dtype="<f4"), metadata or {})


def _held(collection: Collection, chunk_ids: Sequence[str]) -> Iterator[HeldChunk] | None:
    """Yield those of the chunks that the collection holds; None where it holds nothing at all."""
    if not collection.count():
        return None
    page = collection.get(ids=list(chunk_ids), include=["documents", "metadatas"]) if chunk_ids else {}
    return (
        HeldChunk(chunk_id, text or "", metadata or {})
        for chunk_id, text, metadata in zip(
            page.get("ids", ()), page.get("documents") or (), page.get("metadatas") or (), strict=True
        )
    )
