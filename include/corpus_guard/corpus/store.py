"""The Chroma collections behind the few verbs the guard needs.

Facts this rests on (chromadb 1.5.9, each was measured)
    * ``space="ip"`` with unit vectors ranks like cosine and returns vectors bit-equal; ``cosine`` alters them;
    * `get` gives float64: cast to little-endian float32 before hashing;
    * `upsert` merges metadata, so a stale key survives: ids come from content, and what is read back is compared whole;
    * `update` and `delete` of a missing id do nothing, silently: every write is read back;
    * ids alone are answered from SQLite, whatever the vector index is worth;
    * a `get` fails as a whole where one of its records has no vector: `read` finds such records by halving;
    * a query answers what the index finds: what lies in it and cannot be reached is seen only by asking for it (#7678, #7758), as
      `corpus_guard.corpus.reach` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import TrustLevel, canonical_json, sha256_bytes, sha256_text
from corpus_guard.errors import Inconsistent, StoreUnavailable

MODEL_KEY = "corpus_guard_embedder"
IDS = 5_000  # ids a request
BATCH = 1_000  # records a request; Chroma allows 5,461
NEAR_BATCH = 200  # vectors a request: with 24 answers each, some 5 MB of texts


@dataclass(frozen=True, slots=True)
class Record:
    """A chunk as a collection holds it."""

    chunk_id: str
    text: str
    vector: NDArray[np.float32]  # shape (dimensions,), length 1
    metadata: Mapping[str, str | int | float | bool]

    @property
    def text_sha256(self) -> str:
        """Of the exact UTF-8 bytes."""
        return sha256_text(self.text)

    @property
    def vector_sha256(self) -> str:
        """Of the little-endian float32 bytes."""
        return hashlib.sha256(np.ascontiguousarray(self.vector, dtype="<f4").tobytes()).hexdigest()

    @property
    def metadata_sha256(self) -> str:
        """Of the canonical JSON."""
        return sha256_bytes(canonical_json(dict(self.metadata)))

    @property
    def fingerprint(self) -> tuple[str, str, str]:
        """Everything that may not change unseen."""
        return self.text_sha256, self.vector_sha256, self.metadata_sha256


@dataclass(frozen=True, slots=True)
class Match:
    """A record found by a query."""

    record: Record
    collection: str
    similarity: float  # cosine, -1..1


class Store:
    """The collections of one Chroma server, one a trust level."""

    def __init__(self, url: str, prefix: str) -> None:
        """Connect.

        Raises:
            StoreUnavailable: nothing answers at `url`.
        """
        import chromadb
        from chromadb.config import Settings as ChromaSettings

        self.url = url
        self.prefix = prefix
        parts = urlsplit(url)
        try:
            self._client = chromadb.HttpClient(
                host=parts.hostname or "",
                port=parts.port or (443 if parts.scheme == "https" else 80),
                ssl=parts.scheme == "https",
                settings=ChromaSettings(anonymized_telemetry=False),
            )
        except Exception as error:  # chromadb raises ValueError and bare httpx errors alike
            raise self._unavailable(error) from error
        self._open: dict[str, Any] = {}

    def collection_name(self, trust: TrustLevel) -> str:
        """Each trust level has a collection of its own."""
        return f"{self.prefix}-{trust.value}"

    def names(self) -> list[str]:
        """Our collections that exist."""
        with self._errors():
            ours = {self.collection_name(trust) for trust in TrustLevel}
            return sorted(ours & {collection.name for collection in self._client.list_collections()})

    def upsert(self, collection: str, records: Sequence[Record], model: str, *, anew: bool = False) -> None:
        """Write records made by the embedder `model`, and read them back by id; `anew` deletes them first.

        Raises:
            Inconsistent: the collection belongs to another embedder, or what came back is not what was written.
            StoreUnavailable: the server does not answer.
        """
        target = self._collection(collection, model)
        for start in range(0, len(records), BATCH):
            part = records[start : start + BATCH]
            with self._errors():
                if anew:  # nothing is read in between: the index takes both as one step (`corpus_guard.corpus.reach`)
                    target.delete(ids=[record.chunk_id for record in part])
                target.upsert(
                    ids=[record.chunk_id for record in part],
                    embeddings=np.stack([record.vector for record in part]),
                    documents=[record.text for record in part],
                    metadatas=[dict(record.metadata) for record in part],
                )
            stored = {record.chunk_id: record for record in self.get(collection, [record.chunk_id for record in part])}
            for record in part:
                back = stored.get(record.chunk_id)
                if back is None or back.fingerprint != record.fingerprint:
                    found = "nothing" if back is None else "another text, vector or metadata"
                    raise Inconsistent(
                        f"chunk {record.chunk_id} in {collection} at {self.url}: wrote it, read back {found}. Run again; "
                        "if it stays, the collection is damaged and must be rebuilt"
                    )

    def delete(self, collection: str, chunk_ids: Sequence[str]) -> None:
        """Remove records and see that they are gone.

        Raises:
            Inconsistent: a record is still there.
        """
        if collection not in self.names():
            return
        for start in range(0, len(chunk_ids), BATCH):
            part = list(chunk_ids[start : start + BATCH])
            with self._errors():
                self._existing(collection).delete(ids=part)
            left = [record.chunk_id for record in self.get(collection, part)]
            if left:
                raise Inconsistent(
                    f"{len(left)} deleted chunks are still in {collection} at {self.url}, first {left[0]}; run again"
                )

    def get(self, collection: str, chunk_ids: Sequence[str]) -> list[Record]:
        """Records by id; missing ids are missing from the result, order is the store's."""
        with self._errors():
            found = self._existing(collection).get(
                ids=list(chunk_ids), include=["documents", "embeddings", "metadatas"]
            )
        return list(_records(found))

    def scan(self, collection: str, page: int = BATCH) -> Iterator[Record]:
        """Every record of a collection, page by page."""
        offset = 0
        while True:
            with self._errors():
                found = self._existing(collection).get(
                    limit=page, offset=offset, include=["documents", "embeddings", "metadatas"]
                )
            yield from _records(found)
            if len(found["ids"]) < page:
                return
            offset += page

    def count(self, collection: str) -> int:
        """How many records a collection holds; 0 where it does not exist."""
        if collection not in self.names():
            return 0
        with self._errors():
            return int(self._existing(collection).count())

    def query(self, collections: Iterable[str], vector: NDArray[np.float32], count: int) -> list[Match]:
        """The `count` nearest records over several collections, nearest first."""
        matches = []
        for collection in collections:
            with self._errors():
                found = self._existing(collection).query(
                    query_embeddings=[vector],
                    n_results=count,
                    include=["documents", "embeddings", "metadatas", "distances"],
                )
            rows = {key: value[0] if value else value for key, value in found.items() if isinstance(value, list)}
            matches += [
                Match(record, collection, 1.0 - float(distance))
                for record, distance in zip(_records(rows), rows["distances"], strict=True)
            ]
        return sorted(matches, key=lambda match: (-match.similarity, match.record.chunk_id))[:count]

    def sample(self, collection: str, count: int) -> list[tuple[str, NDArray[np.float32]]]:
        """(document id, vector) of `count` records, whichever come first; not compared with the ledger."""
        with self._errors():
            found = self._existing(collection).get(limit=count, include=["embeddings", "metadatas"])
        return [
            (str((metadata or {}).get("doc_id", "")), np.asarray(vector, np.float32))
            for metadata, vector in zip(found["metadatas"], found["embeddings"], strict=True)
        ]

    def near(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, str, float]]]:
        """(document id, text, cosine) of the `count` nearest records to each vector, nearest first.

        Not compared with the ledger; what somebody else wrote there, without id or text, comes with empty ones.
        """
        found: list[list[tuple[str, str, float]]] = []
        for start in range(0, len(vectors), NEAR_BATCH):
            with self._errors():
                answer = self._existing(collection).query(
                    query_embeddings=list(vectors[start : start + NEAR_BATCH]),
                    n_results=count,
                    include=["documents", "metadatas", "distances"],
                )
            found += [
                [
                    (str((metadata or {}).get("doc_id", "")), text or "", 1.0 - float(distance))
                    for text, metadata, distance in zip(texts, metadatas, distances, strict=True)
                ]
                for texts, metadatas, distances in zip(
                    answer["documents"], answer["metadatas"], answer["distances"], strict=True
                )
            ]
        return found

    def ids(self, collection: str) -> Iterator[Sequence[str]]:
        """Every id, page by page."""
        offset = 0
        while True:
            with self._errors():
                page = self._existing(collection).get(limit=IDS, offset=offset, include=[])["ids"]
            yield page
            if len(page) < IDS:
                return
            offset += IDS

    def read(self, collection: str, chunk_ids: Sequence[str]) -> tuple[dict[str, Record], list[str]]:
        """The records that can be read, by id, and the ids of those that are there and cannot.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            return {record.chunk_id: record for record in self.get(collection, chunk_ids)}, []
        except StoreUnavailable as error:
            if not _refused(error) or not self.count(collection):
                raise
        if len(chunk_ids) == 1:
            return {}, list(chunk_ids)
        middle = len(chunk_ids) // 2
        left, broken = self.read(collection, chunk_ids[:middle])
        right, more = self.read(collection, chunk_ids[middle:])
        return left | right, broken + more

    def nearest(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, float]]]:
        """(id, distance) of the `count` nearest records to each vector, nearest first; none where the index is too damaged to answer.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            with self._errors():
                answer = self._existing(collection).query(
                    query_embeddings=list(vectors), n_results=count, include=["distances"]
                )
        except StoreUnavailable as error:
            if not _refused(error) or not self.count(collection):
                raise
            return [[] for _ in vectors]
        return [
            list(zip(ids, map(float, distances), strict=True))
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]

    def _collection(self, name: str, model: str) -> Any:
        if name not in self._open:
            with self._errors():
                self._open[name] = self._client.get_or_create_collection(
                    name, embedding_function=None, metadata={MODEL_KEY: model}, configuration={"hnsw": {"space": "ip"}}
                )
        found = (self._open[name].metadata or {}).get(MODEL_KEY)
        if found != model:
            raise Inconsistent(
                f"collection {name} at {self.url} holds vectors of {found}, these are of {model}; the two cannot be compared. "
                "Set CORPUS_GUARD_EMBEDDER back; to change it, refresh into a CORPUS_GUARD_HOME of its own"
            )
        return self._open[name]

    def _existing(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = self._client.get_collection(name, embedding_function=None)
        return self._open[name]

    def forget(self) -> None:
        """Open collections anew: another process may have made one again under its name."""
        self._open.clear()

    def _errors(self) -> _Translated:
        return _Translated(self)

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        return StoreUnavailable(
            f"Chroma at {self.url} does not answer ({type(error).__name__}); start it with `make up`, or correct CORPUS_GUARD_CHROMA_URL. "
            "Running again converges"
        )


class _Translated:
    """Turns an error of the client into one that names the address. Chroma's own message is left out: it can hold ids and texts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        import httpx
        from chromadb.errors import ChromaError

        if isinstance(error, httpx.TransportError | ConnectionError):
            raise self._store._unavailable(error) from error
        # The client raises a bare Exception for an answer it does not understand (chromadb 1.5.9, base_http_client.py).
        if isinstance(error, ChromaError) or type(error) is Exception:
            self._store.forget()
            raise StoreUnavailable(
                f"Chroma at {self._store.url} refused a request ({type(error).__name__}); its log says why. Running again "
                "makes a collection that is missing, and repeats what was not done"
            ) from error


def _records(found: Mapping[str, Any]) -> Iterator[Record]:
    for chunk_id, text, vector, metadata in zip(
        found["ids"], found["documents"], found["embeddings"], found["metadatas"], strict=True
    ):
        yield Record(chunk_id, text or "", np.asarray(vector, dtype="<f4"), metadata or {})


def _refused(error: BaseException) -> bool:
    """Whether Chroma answered, and would not do it."""
    from chromadb.errors import ChromaError

    return isinstance(error.__cause__, ChromaError)
