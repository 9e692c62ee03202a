"""The embedder of questions: the embedder's own vectors, without torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from corpus_guard.models import Models
from corpus_guard.models.question_embedder import QuestionEmbedder
from corpus_guard.models.weights import builtin_embedder
from corpus_guard.settings import load_settings

QUESTIONS = [
    "How often must the OX-12 sensor be calibrated?",
    "Wie oft wird der Sensor kalibriert? 日本語 🙂 \u202e",
    "a",
    "",
    "\ud800 a lone surrogate",
    "word " * 600,
]


def test_its_vectors_are_those_of_the_embedder() -> None:
    models = Models(load_settings())
    expected = models.embedder.embed(QUESTIONS)

    vectors = QuestionEmbedder(builtin_embedder()).embed(QUESTIONS)

    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (np.sum(vectors * expected, axis=1) > 0.9995).all()
    assert models.question_embedder is models.embedder, "what is loaded already is used"


def test_no_text_is_no_row() -> None:
    assert QuestionEmbedder(builtin_embedder()).embed([]).shape == (0, 384)


def test_it_does_without_torch() -> None:
    script = (
        "import sys\n"
        "from corpus_guard.models import Models\n"
        "from corpus_guard.settings import load_settings\n"
        "assert Models(load_settings()).question_embedder.embed(['why?']).shape == (1, 384)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
