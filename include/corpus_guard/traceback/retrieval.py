"""Complaints, and the corpora that are searched for the texts behind them.

Rules
    * every text that a question retrieves is a suspect. This includes records in Chroma that the ledger never
      published: a RAG application that reads Chroma directly is served them;
    * nothing is filtered and nothing is logged: an investigation must not change what it investigates;
    * the corpus of an earlier day is what the event log says was published then, with vectors and texts from
      the Parquet files.

What it does not do: bring back texts that a purge erased. Only their number is known
(`SearchableCorpus.missing`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import TrustLevel, sha256_text
from corpus_guard.models import TextEmbedder


@dataclass(frozen=True, slots=True)
class Complaint:
    """Question and the wrong answer to it."""

    query: str
    output: str  # the wrong answer: a phrase or whole sentences
    correct: str | None = None  # the right answer, where somebody knew it
    report_id: str = ""  # in the ledger; empty: none


@dataclass(frozen=True, slots=True)
class RetrievedText:
    """Text that a question retrieves."""

    chunk_id: str
    text: str
    similarity: float  # cosine to the question, -1..1
    vector: NDArray[np.float32] = field(repr=False, compare=False)  # shape (dimensions,), length 1
    collection: str = ""
    version_id: str = ""  # empty: the ledger never published it
    source: str = ""
    uri: str = ""

    @property
    def trust(self) -> TrustLevel:
        """Trust in its source, by the collection it lies in; open where the ledger does not vouch for the text."""
        level = self.collection.rpartition("-")[2]
        return TrustLevel(level) if self.version_id and level in set(TrustLevel) else TrustLevel.OPEN

    @property
    def text_sha256(self) -> str:
        """SHA-256 of the exact UTF-8 bytes, hex."""
        return sha256_text(self.text)


class SearchableCorpus(Protocol):
    """Corpus that a question can be put to."""

    missing: int
    """Texts that were served at the time and have been erased since."""

    def retrieve(self, query: str, k: int, excluded_ids: Collection[str] = ()) -> list[RetrievedText]:
        """Return the `k` nearest texts without `excluded_ids`, nearest first; fewer if there are no more."""


class InMemoryCorpus:
    """Texts and their vectors in memory, searched exhaustively."""

    def __init__(
        self, texts: Sequence[RetrievedText], vectors: NDArray[np.float32], embedder: TextEmbedder, missing: int = 0
    ) -> None:
        """Hold texts and vectors.

        Args:
            texts: their similarity is ignored.
            vectors: shape (len(texts), dimensions), rows of length 1.
            embedder: embeds questions; the one that made `vectors`.
        """
        self.missing = missing
        self._texts = texts
        self._vectors = vectors
        self._embedder = embedder
        self._last_query: tuple[str, NDArray[np.float32]] | None = None  # with its similarities

    def retrieve(self, query: str, k: int, excluded_ids: Collection[str] = ()) -> list[RetrievedText]:
        """Return the `k` nearest texts whose ids are not in `excluded_ids`, nearest first."""
        if not self._texts:
            return []
        if self._last_query is None or self._last_query[0] != query:
            self._last_query = query, self._vectors @ self._embedder.embed([query])[0]
        similarities = self._last_query[1]
        nearest: list[RetrievedText] = []
        for index in np.lexsort((np.arange(len(similarities)), -similarities)):
            text = self._texts[index]
            if text.chunk_id not in excluded_ids:
                nearest.append(replace(text, similarity=float(similarities[index])))
                if len(nearest) == k:
                    break
        return nearest
