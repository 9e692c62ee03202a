"""Cache of vectors by text: a text that occurs in many batches is embedded once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import digest
from corpus_guard.models import Models
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.models.embedder import Embedder


UNSAVED_SHARE = 0.05
"""Share of the cached texts that may be new before the file is written again: it is written whole."""


class CachingModels(Models):
    """Models of the deployment, with an embedder that caches vectors in a file below CORPUS_GUARD_HOME."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._plain = Models(settings)
        self._folder = settings.home / "evaluation"

    @cached_property
    def embedder(self) -> Embedder:
        """Return an embedder that gives the same vectors bit for bit.

        The model is loaded for the first new text.
        """
        caching: Any = _CachingEmbedder(self._plain, self._folder)
        embedder: Embedder = caching
        return embedder


class _CachingEmbedder:
    def __init__(self, models: Models, folder: Path) -> None:
        self._models = models
        self._file = folder / f"vectors-{digest('vectors/v1', [str(models.embedder_weights)])[:16]}.npz"
        self._vectors: dict[bytes, NDArray[np.float32]] = {}
        if self._file.exists():
            cached = np.load(self._file, allow_pickle=False)
            self._vectors = dict(zip((bytes(key) for key in cached["keys"]), cached["vectors"], strict=True))
        self._saved = len(self._vectors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._models.embedder, name)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (texts, dimensions)."""
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if new:
            self._vectors.update(zip(new, self._models.embedder.embed(list(new.values())), strict=True))
            if len(self._vectors) - self._saved >= UNSAVED_SHARE * len(self._vectors):
                self._write()
        if not keys:
            empty: NDArray[np.float32] = self._models.embedder.embed([])
            return empty
        return np.stack([self._vectors[key] for key in keys])

    def _write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_name(f".{os.getpid()}.npz")
        keys = np.frombuffer(b"".join(self._vectors), np.uint8).reshape(-1, 32)
        np.savez(draft, keys=keys, vectors=np.stack(list(self._vectors.values())))
        draft.replace(self._file)
        self._saved = len(self._vectors)
