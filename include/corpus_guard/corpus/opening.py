"""The choice of a vector store by the settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from corpus_guard.corpus.ownership import require_served_prefix
from corpus_guard.corpus.server import find_server, running_server
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.corpus.store import Store
    from corpus_guard.ledger import Ledger


def open_store(settings: Settings, ledger: Callable[[], Ledger], closing: ExitStack) -> Store:
    """Return the store of a deployment; it connects on first use.

    The first use raises SettingsError where the ledger serves collections of another prefix.

    Args:
        closing: ends connections, and the Chroma server that had to be started.
    """

    def connect() -> str:
        require_served_prefix(ledger(), settings.collection_prefix)
        return settings.pgvector if settings.store == "pgvector" else closing.enter_context(running_server(settings))

    if settings.store == "pgvector":
        from corpus_guard.corpus.pgvector_store import PgvectorStore

        store = PgvectorStore(connect, settings.collection_prefix, ledger)
        closing.callback(store.close)
        return store
    from corpus_guard.corpus.chroma_store import ChromaStore

    return ChromaStore(connect, settings.collection_prefix, ledger)


def store_answers(settings: Settings) -> bool:
    """Return whether the server of the store answers now; nothing is started."""
    if settings.store == "chroma":
        return find_server(settings) is not None
    from corpus_guard.corpus.pgvector_store import PgvectorStore
    from corpus_guard.errors import StoreUnavailable

    store = PgvectorStore(settings.pgvector, settings.collection_prefix)
    try:
        store.open()
    except StoreUnavailable:
        return False
    finally:
        store.close()
    return True
