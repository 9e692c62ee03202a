"""Everything one command or task needs, opened when it is first used.

An unchanged corpus costs hash comparisons: nothing here loads a model, opens Chroma or imports Great Expectations until a step asks.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from corpus_guard.batches import Storage
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SettingsError, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.settings import Settings, load_settings

if TYPE_CHECKING:
    from corpus_guard.corpus.retriever import GuardedRetriever
    from corpus_guard.corpus.store import Store
    from corpus_guard.intake.blobs import BlobStore
    from corpus_guard.intake.chunking import Chunker
    from corpus_guard.intake.sources import Source
    from corpus_guard.intake.sources.connections import Connections
    from corpus_guard.screening.policy import Policy
    from corpus_guard.screening.runner import Screening


class Guard:
    """A deployment: its settings, ledger, storage, models, policy, sources and store.

    Use it as a context manager: a Chroma server that had to be started is stopped at the end.
    """

    def __init__(self, settings: Settings | None = None, connections: Connections | None = None) -> None:
        """
        Args:
            settings: None: those of the environment.
            connections: where sources' credentials come from; None: the environment.
        """
        self.settings = settings or load_settings()
        self._connections = connections
        self.models = Models(self.settings)
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, migrated."""
        ledger = Ledger(self.settings.ledger)
        self._closing.callback(ledger.close)
        return ledger

    @cached_property
    def storage(self) -> Storage:
        """Where batches, vectors and manifests lie.

        Raises:
            SettingsError: CORPUS_GUARD_STORAGE_URL is of a kind that nothing here can open.
        """
        try:
            return Storage(self.settings.storage)
        except (ValueError, ImportError) as error:
            kind = self.settings.storage.partition("://")[0]
            raise SettingsError(
                f"environment variable CORPUS_GUARD_STORAGE_URL: {kind}:// cannot be opened ({type(error).__name__}); "
                "give a folder or another fsspec URL, or install the package for it"
            ) from error

    @cached_property
    def blobs(self) -> BlobStore:
        """Raw bytes by hash."""
        from corpus_guard.intake.blobs import BlobStore

        return BlobStore(f"{self.settings.storage}/raw")

    @cached_property
    def chunker(self) -> Chunker:
        """Cuts texts in tokens of the embedder."""
        from corpus_guard.intake.chunking import Chunker

        return Chunker(self.models.tokenizer_file, self.settings.chunk_tokens)

    @cached_property
    def policy(self) -> Policy:
        """policy.yaml."""
        from corpus_guard.screening.policy import load_policy

        return load_policy(self.settings.policy_file)

    @cached_property
    def screening(self) -> Screening:
        """The policy's checks, with what was muted when this was first asked; slow results are kept in the ledger.

        Raises:
            SettingsError: the policy has a threshold for a source that is not in sources.yaml: a misspelt one would loosen
                the source it was meant for, unseen.
        """
        from corpus_guard.review.muting import active_mutes
        from corpus_guard.screening.history import LedgerCache
        from corpus_guard.screening.registry import build_screening

        stray = sorted(set(self.policy.sources) - set(self.sources)) if self.policy.sources else []
        if stray:
            raise SettingsError(
                f"{self.settings.policy_file}: sources.{stray[0]}: not in {self.settings.sources_file}; "
                f"known: {', '.join(self.sources) or 'none'}"
            )
        return build_screening(self.policy, self.models, LedgerCache(self.ledger), active_mutes(self.ledger))

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """sources.yaml, by name."""
        from corpus_guard.intake.sources import load_sources
        from corpus_guard.intake.sources.connections import from_environment

        found = load_sources(
            self.settings.sources_file,
            max_bytes=self.settings.max_document_bytes,
            connections=self._connections or from_environment,
            cache=self.settings.home / "cache",
        )
        return {source.name: source for source in found}

    def source(self, name: str) -> Source:
        """A source by name.

        Raises:
            UnknownSubject: sources.yaml has no such source.
        """
        if name not in self.sources:
            raise UnknownSubject(
                f"source {name!r} is not in {self.settings.sources_file}; known: {', '.join(self.sources) or 'none'}"
            )
        return self.sources[name]

    @cached_property
    def store(self) -> Store:
        """Chroma; a local server is started for the time of this guard when none answers."""
        from corpus_guard.corpus.server import serving
        from corpus_guard.corpus.store import Store

        url = self._closing.enter_context(serving(self.settings))
        return Store(url, self.settings.collection_prefix)

    @cached_property
    def retriever(self) -> GuardedRetriever:
        """Queries over the collections, with the filter and the log that the settings ask for.

        Raises:
            SettingsError: the filter's model is not the expected one.
            Inconsistent: the promoted one is gone, or has other bytes.
        """
        from corpus_guard.corpus.filterrag import make_filter
        from corpus_guard.corpus.retrieval_log import RetrievalLog
        from corpus_guard.corpus.retriever import GuardedRetriever

        logging = self.settings.retrieval_log == "on"
        return GuardedRetriever(
            self.ledger,
            self.store,
            self.models.embedder,
            make_filter(self.settings, self.models, self.ledger, self.storage),
            RetrievalLog(self.ledger, self.settings.retrieval_days) if logging else None,
        )

    def collection(self, trust: TrustLevel) -> str:
        """The collection of a trust level; known without Chroma."""
        return f"{self.settings.collection_prefix}-{trust.value}"


def new_run_id(kind: str) -> str:
    """A name for a run that no scheduler named."""
    return f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
