"""Servers past the guard: what anyone can do who reaches Chroma's port, or has the password of PostgreSQL."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Protocol

import chromadb
import sqlalchemy as sa

from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.pgvector_store import SCHEMA, PgvectorStore
from corpus_guard.corpus.store import Store
from corpus_guard.ledger import Ledger
from deploying import plain_client

PASSWORD = "not-to-be-shown"


class SideDoor(Protocol):
    """A server of one kind."""

    def open(self, prefix: str, ledger: Ledger | None = None) -> Store:
        """Return the guard's store there."""

    def at(self, port: int, prefix: str) -> Store:
        """Return one for a server at another port."""

    def make(self, name: str) -> None:
        """Make a collection as a stranger does, without a word about whose it is."""

    def drop(self, name: str) -> None:
        """Delete a collection."""

    def change_metadata(self, name: str, chunk_id: str, metadata: Any) -> None:
        """Set the metadata of a record."""

    def links(self, name: str) -> int:
        """Return how many links the index of a collection has for each vector."""


class ChromaDoor:
    """Chroma."""

    fixture: ClassVar[str] = "chroma_url"

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: chromadb.ClientAPI = plain_client(int(url.rpartition(":")[2]))

    def open(self, prefix: str, ledger: Ledger | None = None) -> Store:
        return ChromaStore(self.url, prefix, (lambda: ledger) if ledger else None)

    def at(self, port: int, prefix: str) -> Store:
        return ChromaStore(f"http://127.0.0.1:{port}", prefix)

    def make(self, name: str) -> None:
        self.client.create_collection(name, embedding_function=None)

    def drop(self, name: str) -> None:
        self.client.delete_collection(name)

    def change_metadata(self, name: str, chunk_id: str, metadata: Any) -> None:
        self.client.get_collection(name).update(ids=[chunk_id], metadatas=[metadata])

    def links(self, name: str) -> int:
        return int(self.client.get_collection(name).configuration["hnsw"]["max_neighbors"])


class PostgresDoor:
    """PostgreSQL."""

    fixture: ClassVar[str] = "vectors_url"

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)

    def open(self, prefix: str, ledger: Ledger | None = None) -> Store:
        return PgvectorStore(self.url, prefix, (lambda: ledger) if ledger else None)

    def at(self, port: int, prefix: str) -> Store:
        return PgvectorStore(f"postgresql+psycopg2://postgres:{PASSWORD}@127.0.0.1:{port}/vectors", prefix)

    def make(self, name: str) -> None:
        self.execute(
            f'CREATE TABLE {SCHEMA}."{name}" (chunk_id text PRIMARY KEY, text text, embedding vector(16), metadata jsonb)'
        )

    def drop(self, name: str) -> None:
        self.execute(f'DROP TABLE {SCHEMA}."{name}"')

    def change_metadata(self, name: str, chunk_id: str, metadata: Any) -> None:
        statement = f'UPDATE {SCHEMA}."{name}" SET metadata = CAST(:metadata AS jsonb) WHERE chunk_id = :chunk_id'
        self.execute(statement, chunk_id=chunk_id, metadata=json.dumps(metadata))

    def links(self, name: str) -> int:
        options = sa.text("SELECT unnest(reloptions) FROM pg_class WHERE relname LIKE :index")
        with self.engine.connect() as connection:
            given = dict(option.split("=") for option in connection.scalars(options, {"index": f"{name}_embedding%"}))
        return int(given["m"])

    def execute(self, statement: str, **values: Any) -> None:
        """Run a statement, and see that it changed something if it is to."""
        with self.engine.begin() as connection:
            assert connection.execute(sa.text(statement), values).rowcount, "nothing was tampered with"


SIDE_DOORS: dict[str, type[ChromaDoor | PostgresDoor]] = {"chroma": ChromaDoor, "pgvector": PostgresDoor}
