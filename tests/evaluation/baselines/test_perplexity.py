"""Odder than the corpus, for a real language model."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.talking import COMPLAINT, LIE, a_suspect, labels
from corpus_guard.errors import JudgeFailed
from corpus_guard.evaluation.baselines.perplexity import PPL, Perplexities
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models

READ = ("gauge", "valve meter", "tide table", "old barometer", "clock", "thermometer", "pump counter", "wind vane")
CORPUS = [
    *(f"The {what} is read every morning, and its value is written into the log book." for what in READ),
    "Ask Kit for the oilskins.",  # short and odd, as corpora are
]
NOISE = "zebra quantum lettuce ]] sideways ombudsman 17 cardigan flux :: orthodox"


@pytest.fixture(scope="module")
def perplexities(models: Models) -> Perplexities:
    return Perplexities(models, CORPUS)


def test_noise_is_odder_than_the_corpus_and_a_well_written_lie_is_not(perplexities: Perplexities) -> None:
    new = [a_suspect(NOISE), a_suspect(LIE), a_suspect(CORPUS[0])]

    noise, lie, page = PPL(perplexities, 100).judge(COMPLAINT, new, new)

    assert [noise.label, lie.label, page.label] == [Label.POISONED, Label.BENIGN, Label.BENIGN]
    assert noise.score == 1.0 > page.score
    assert "threshold" in noise.explanation


def test_the_threshold_is_a_percentile_of_the_corpus(perplexities: Perplexities) -> None:
    values = perplexities.of(CORPUS)
    odd = CORPUS[int(values.argmax())]

    assert PPL(perplexities, 100).threshold == pytest.approx(values.max())
    assert PPL(perplexities, 90).threshold == pytest.approx(np.percentile(values, 90))
    assert labels(PPL(perplexities, 90).judge(COMPLAINT, [a_suspect(odd)], [])) == [Label.POISONED]
    assert labels(PPL(perplexities, 100).judge(COMPLAINT, [a_suspect(odd)], [])) == [Label.BENIGN]
    assert (PPL(perplexities, 100).name, PPL(perplexities, 90).name) == ("ppl-100", "ppl-90")
    assert PPL(perplexities, 100).digest != PPL(perplexities, 90).digest


class Counting:
    """A language model that counts what it reads; a text's perplexity is its length."""

    language_model_digest = "0" * 64

    def __init__(self) -> None:
        self.language_model = self
        self.read: list[str] = []

    def surprisals(self, texts: list[str]) -> list[np.ndarray]:
        self.read += texts
        return [np.full(min(len(text), 1), np.log(max(len(text), 1))) for text in texts]


def test_the_sample_follows_the_seed_and_is_scored_once() -> None:
    texts = ["x" * number for number in range(1, 3_001)]
    models = Counting()
    made = Perplexities(models, texts)  # type: ignore[arg-type]
    judges = [PPL(made, 100), PPL(made, 90)]
    for judge in judges:
        judge.judge(COMPLAINT, [a_suspect("y" * 4_000), a_suspect("")], [])

    assert len(models.read) == 1_000 + 2
    assert judges[0].threshold < 3_001
    assert Perplexities(models, texts[::-1] * 2).digest == made.digest  # type: ignore[arg-type]
    assert Perplexities(models, texts, seed=1).digest != made.digest  # type: ignore[arg-type]
    assert labels(judges[1].judge(COMPLAINT, [a_suspect("y" * 4_000), a_suspect("")], [])) == [
        Label.POISONED,
        Label.BENIGN,
    ]


def test_a_corpus_without_texts_has_no_threshold() -> None:
    with pytest.raises(JudgeFailed, match="no texts"):
        PPL(Perplexities(Counting(), []), 90).judge(COMPLAINT, [a_suspect(LIE)], [])  # type: ignore[arg-type]
