"""The evidence that the shipped judge learned from: trees that were fitted to other numbers judge by chance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from numpy.typing import NDArray

from corpus_guard.domain import sha256_text
from corpus_guard.models import Models
from corpus_guard.traceback.judges.evidence import EVIDENCE_VERSION, FEATURE_NAMES, EvidenceCollector
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from siblings import QUESTION, SIBLINGS, UNRELATED

MEASURED = Path(__file__).with_name("evidence.json")
STRANGERS = "designed library quays tupelo hoax marzipan dredge fjord kiosk vellum gauze pelican sonnet turbine mango lichen ore"


def measure(models: Models) -> NDArray:  # type: ignore[type-arg]
    texts = (*SIBLINGS[:2], UNRELATED[0], STRANGERS)
    vectors = models.embedder.embed(texts)
    suspects = [
        RetrievedText(sha256_text(text), text, 0.0, vector) for text, vector in zip(texts, vectors, strict=True)
    ]
    return EvidenceCollector(models).evidence(Complaint(QUESTION, "Ines Calloway"), suspects)


def test_equal_texts_give_the_evidence_of_its_version(models: Models) -> None:
    """Where this fails, raise `EVIDENCE_VERSION`, train the judge again (`guard train judge`), and measure it anew."""
    measured = json.loads(MEASURED.read_text())

    assert (EVIDENCE_VERSION, list(FEATURE_NAMES)) == (measured["version"], measured["features"])
    for evidence, expected in zip(measure(models), measured["texts"], strict=True):
        assert dict(zip(FEATURE_NAMES, evidence, strict=True)) == pytest.approx(
            dict(zip(FEATURE_NAMES, expected, strict=True)), abs=1e-3
        )
