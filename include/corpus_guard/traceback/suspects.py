"""What is asked about, and where suspects come from: the live store, the corpus of an earlier day, or texts in memory.

Rules
    * a suspect is whatever a question retrieves. What Chroma holds and the ledger never published is a suspect, too: a RAG application
      that asks Chroma past the guard is served it;
    * nothing is filtered or logged here: an investigation must not change what it looks at;
    * the corpus of an earlier day is what the event log says was published then, with vectors and texts from the Parquet files.

What it does not do: bring back what was erased by a purge. How many such texts there were is said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import sha256_text


@dataclass(frozen=True, slots=True)
class Complaint:
    """What was asked and wrongly answered."""

    query: str
    output: str  # the wrong answer: a phrase or whole sentences
    correct: str | None = None  # the right one, where somebody knew it
    report_id: str = ""  # in the ledger; empty: none


@dataclass(frozen=True, slots=True)
class Suspect:
    """A text that the question retrieves."""

    chunk_id: str
    text: str
    similarity: float  # cosine to the question, -1..1
    vector: NDArray[np.float32] = field(repr=False, compare=False)  # shape (dimensions,), length 1
    collection: str = ""
    version_id: str = ""  # empty: the ledger never published it
    source: str = ""
    uri: str = ""

    @property
    def text_sha256(self) -> str:
        """Of the exact UTF-8 bytes."""
        return sha256_text(self.text)


class Suspects(Protocol):
    """A corpus that can be asked."""

    missing: int
    """Texts that were served then and are erased now."""

    def retrieve(self, query: str, k: int, without: Collection[str] = ()) -> list[Suspect]:
        """The `k` nearest texts whose ids are not among `without`, nearest first; fewer where there are no more."""


class Embeds(Protocol):
    """Texts to unit vectors, as `corpus_guard.models.embedder.Embedder` does."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dimensions), rows of length 1."""


class TextsInMemory:
    """Texts and their vectors, searched exhaustively: for the corpus of an earlier day."""

    def __init__(
        self, suspects: Sequence[Suspect], vectors: NDArray[np.float32], embedder: Embeds, missing: int = 0
    ) -> None:
        """Hold them.

        Args:
            suspects: with any similarity.
            vectors: shape (len(suspects), dimensions), rows of length 1.
            embedder: of questions; the one that made `vectors`.
            missing: see `Suspects`.
        """
        self.missing = missing
        self._suspects = suspects
        self._vectors = vectors
        self._embedder = embedder
        self._asked: tuple[str, NDArray[np.float32]] | None = None

    def retrieve(self, query: str, k: int, without: Collection[str] = ()) -> list[Suspect]:
        """The `k` nearest."""
        if not self._suspects:
            return []
        if self._asked is None or self._asked[0] != query:
            self._asked = query, self._vectors @ self._embedder.embed([query])[0]
        similarities = self._asked[1]
        found: list[Suspect] = []
        for index in np.lexsort((np.arange(len(similarities)), -similarities)):
            one = self._suspects[index]
            if one.chunk_id not in without:
                found.append(_at(one, float(similarities[index])))
                if len(found) == k:
                    break
        return found


def _at(one: Suspect, similarity: float) -> Suspect:
    return Suspect(one.chunk_id, one.text, similarity, one.vector, one.collection, one.version_id, one.source, one.uri)
