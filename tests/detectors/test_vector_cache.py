"""Vectors kept by text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from corpus_guard.detectors.vector_cache import CachingModels
from corpus_guard.models import Models
from corpus_guard.settings import Settings

TEXTS = [
    "The pump house is inspected every spring.",
    "A lone \ud800 surrogate.",
    "The pump house is inspected every spring.",
]


def test_a_text_has_the_vector_it_would_have_and_is_embedded_once(
    tmp_path: Path, models: Models, models_home: Path
) -> None:
    settings = Settings(home=models_home)
    remembering = CachingModels(settings)
    remembering.__dict__["_folder"] = tmp_path

    first = remembering.embedder.embed(TEXTS)

    assert np.allclose(first, models.embedder.embed(TEXTS), atol=1e-2)
    assert np.array_equal(first[0], first[2])
    assert remembering.embedder.digest == models.embedder.digest

    again = CachingModels(settings)
    again.__dict__["_folder"] = tmp_path
    embedder = again.embedder
    assert np.array_equal(embedder.embed(TEXTS), first)
    assert "embedder" not in again.__dict__["_plain"].__dict__  # nothing was loaded for texts that are known


def test_no_texts(tmp_path: Path, models_home: Path) -> None:
    remembering = CachingModels(Settings(home=models_home))
    remembering.__dict__["_folder"] = tmp_path

    assert remembering.embedder.embed([]).shape[0] == 0
