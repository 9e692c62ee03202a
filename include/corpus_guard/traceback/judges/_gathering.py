"""Gathering evidence: embeds complaints, reads texts, remembers both. Part of `corpus_guard.traceback.judges.embedded`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.traceback.judges._evidence import EVIDENCE_VERSION, Asked, Evidence, Read, company
from corpus_guard.traceback.suspects import Complaint, Suspect

if TYPE_CHECKING:
    from corpus_guard.models import Models

KEPT: Final = 256  # complaints whose texts stay read


class Gatherer:
    """What is known of the texts that complaints retrieve. Loads the embedder when it is first asked."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.embedding_seconds = 0.0
        self._asked: dict[tuple[str, str], tuple[Asked, NDArray[np.float32]]] = {}
        self._read: dict[tuple[str, str], dict[str, tuple[Read, NDArray[np.float32]]]] = {}

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self._models.frequency_vocabulary)

    def prepare(self, complaints: Sequence[Complaint]) -> None:
        """Read many complaints at once: one batch for the embedder instead of one each."""
        new = [one for one in complaints if (one.query, one.output) not in self._asked]
        texts = [text for one in new for text in (one.query, f"{one.query} {one.output}", one.output)]
        vectors = (
            self._models.word_embedder.embed(texts).reshape(len(new), 3, -1) if new else np.empty((0, 3, 0), np.float32)
        )
        for one, asked in zip(new, vectors, strict=True):
            self._asked[one.query, one.output] = self._evidence.ask(one.query, one.output), asked

    def answerable(self, complaint: Complaint) -> bool:
        """Whether the output could be an answer to the question at all: "yes" is none to "who"."""
        self.prepare([complaint])
        asked, _ = self._asked[complaint.query, complaint.output]
        return asked.askable or not asked.polar

    def evidence(self, complaint: Complaint, seen: Sequence[Suspect]) -> NDArray[np.float64]:
        """What is known of texts that a complaint retrieved, shape (seen, len(NAMES))."""
        key = complaint.query, complaint.output
        self.prepare([complaint])
        asked, vectors = self._asked[key]
        if key not in self._read and len(self._read) >= KEPT:
            self._read.pop(next(iter(self._read)))
        known = self._read.setdefault(key, {})
        vectors_seen = self._vectors(seen)
        unread = [(one, vector) for one, vector in zip(seen, vectors_seen, strict=True) if one.chunk_id not in known]
        if unread:
            known.update(self._learned(asked, *zip(*unread, strict=True)))
        read, passages = zip(*(known[one.chunk_id] for one in seen), strict=True)
        return company(read, vectors_seen, np.stack(passages), vectors)

    def _learned(
        self, asked: Asked, unread: Sequence[Suspect], vectors: Sequence[NDArray[np.float32]]
    ) -> dict[str, tuple[Read, NDArray[np.float32]]]:
        """What each text says and the vector of its passage: the text's own where that is all of it."""
        read = self._evidence.read(asked, [one.text for one in unread])
        parts = [one for one, suspect in zip(read, unread, strict=True) if not _whole(one, suspect)]
        made = iter(self._embed([one.passage for one in parts]))
        return {
            suspect.chunk_id: (one, vector if _whole(one, suspect) else next(made))
            for one, suspect, vector in zip(read, unread, vectors, strict=True)
        }

    def _vectors(self, seen: Sequence[Suspect]) -> NDArray[np.float32]:
        if self._models.embedder_weights == self._models.word_weights:
            return np.stack([one.vector for one in seen])
        return self._embed([one.text for one in seen])

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        began = time.perf_counter()
        try:
            return self._models.word_embedder.embed(texts)
        finally:
            self.embedding_seconds += time.perf_counter() - began


def _whole(read: Read, suspect: Suspect) -> bool:
    return read.passage.split() == suspect.text.split()


def version(models: Models) -> str:
    """Which evidence: its definition and the embedder it comes from."""
    return f"{EVIDENCE_VERSION}/{models.word_weights.digest[:12]}"
