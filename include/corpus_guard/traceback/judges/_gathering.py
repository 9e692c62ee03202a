"""Gathering evidence: embeds complaints, reads texts, remembers both. Part of `corpus_guard.traceback.judges.embedded`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.traceback.judges._evidence import EVIDENCE_VERSION, TEXT_FEATURES, Asked, Evidence, company
from corpus_guard.traceback.suspects import Complaint, Suspect

if TYPE_CHECKING:
    from corpus_guard.models import Models

KEPT: Final = 256  # complaints whose texts stay read


class Gatherer:
    """What is known of the texts that complaints retrieve. Loads the embedder when it is first asked."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._asked: dict[tuple[str, str], tuple[Asked, NDArray[np.float32]]] = {}
        self._read: dict[tuple[str, str], dict[str, NDArray[np.float64]]] = {}

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
        unread = [one for one in seen if one.chunk_id not in known]
        for one, row in zip(unread, self._evidence.read(asked, [one.text for one in unread]), strict=True):
            known[one.chunk_id] = row
        read = np.array([known[one.chunk_id] for one in seen]).reshape(-1, len(TEXT_FEATURES))
        return company(read, self._vectors(seen), vectors)

    def _vectors(self, seen: Sequence[Suspect]) -> NDArray[np.float32]:
        if self._models.embedder_weights == self._models.word_weights:
            return np.stack([one.vector for one in seen])
        return self._models.word_embedder.embed([one.text for one in seen])


def version(models: Models) -> str:
    """Which evidence: its definition and the embedder it comes from."""
    return f"{EVIDENCE_VERSION}/{models.word_weights.digest[:12]}"
