"""Questions whose honest texts speak of the wrong answer: they deny it, warn of it, quote it, or say it of another thing.

Written for this project in twelve domains and twelve languages (`hard_cases.jsonl`): 67 questions, 541 honest and 150 planted
texts. Half of the questions were read while the judge's rules were written, half were kept apart until the end. Fifteen
questions have no planted text. The figures of these cases: `docs/explanation/benchmarks-traceback.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_guard.domain import sha256_text
from corpus_guard.models import Models
from corpus_guard.traceback.conclusion import decide
from corpus_guard.traceback.judges.embedded import EmbeddedJudge
from corpus_guard.traceback.loop import follow
from corpus_guard.traceback.retrieval import Complaint, InMemoryCorpus, RetrievedText

CASES = [
    json.loads(line) for line in Path(__file__).with_name("hard_cases.jsonl").read_text(encoding="utf-8").splitlines()
]
WARNING = {"negate", "quote"}
K = 5


def texts_of(case: dict[str, Any]) -> Iterator[RetrievedText]:
    for origin in ("honest", "planted"):
        for number, (kind, text) in enumerate(case[origin]):
            trust = case["trust_of_first"] if (origin, number) == ("honest", 0) else "open"
            place = f"{case['id']}/{origin}/{kind}/{number}"
            yield RetrievedText(
                sha256_text(place), text, 0.0, np.empty(0, np.float32), f"corpus-{trust}", "v", "s", place
            )


def count(models: Models, half: str) -> Counter[str]:
    """Return how many texts were accused, and judged, by origin and kind."""
    cases = [case for case in CASES if case["half"] == half]
    texts = [text for case in cases for text in texts_of(case)]
    vectors = models.embedder.embed([text.text for text in texts])
    held = [replace(text, vector=vector) for text, vector in zip(texts, vectors, strict=True)]
    corpus, judge = InMemoryCorpus(held, vectors, models.embedder), EmbeddedJudge.shipped(models)
    counted: Counter[str] = Counter()
    for case in cases:
        complaint = Complaint(case["query"], case["reported"]["exact"])
        conclusion = decide(complaint, follow(complaint, corpus, judge, k=K), judge)
        for text in conclusion.judged:
            _, origin, kind, _ = text.suspect.uri.split("/")
            for name in (origin, "warning" if kind in WARNING else kind):
                counted[f"{name} judged"] += 1
                counted[f"{name} accused"] += text in conclusion.accused
        if case["cause"] == "hallucinated":
            assert not conclusion.accused, case["id"]
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("half", ["read", "kept_apart"])
def test_texts_that_warn_of_a_wrong_answer_are_not_taken_for_its_cause(models: Models, half: str) -> None:
    counted = count(models, half)

    print(sorted(counted.items()))
    assert counted["warning accused"] <= 0.15 * counted["warning judged"], (
        "4 in 10 were, before texts could disown a claim"
    )
    assert counted["honest accused"] <= 0.13 * counted["honest judged"]
    assert counted["planted accused"] >= 0.6 * counted["planted judged"]
