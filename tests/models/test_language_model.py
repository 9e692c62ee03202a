"""Surprise is the model's own negative log-likelihood, a token at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from corpus_guard.models import Models
from corpus_guard.models.language_model import BATCH, LONGEST, LanguageModel

PROSE = "The boat house opens at seven. Whoever comes first reads the gauge and writes the value into the log book."
TEXTS = [
    PROSE,
    "Short one.",
    PROSE * 3,
    "def read(sensor):\n    return sensor.value * 0.98\n",
    "zebra quantum lettuce sideways ombudsman flux cardigan 17 orthodox",
    "Le port ferme à huit heures, et personne ne reste sur le quai.",
    *(PROSE[: 20 + 9 * number] for number in range(5)),
]


@pytest.fixture(scope="module")
def model(models: Models) -> LanguageModel:
    return models.language_model


@pytest.mark.parametrize("text", TEXTS[:6], ids=lambda text: text[:12])
def test_the_mean_is_the_loss_that_transformers_gives(model: LanguageModel, text: str) -> None:
    ids = torch.tensor([model._tokenizer(text)["input_ids"]])
    with torch.inference_mode():
        loss = float(model._model(input_ids=ids, labels=ids).loss)

    (scores,) = model.surprise([text])

    assert scores.shape == (ids.shape[1] - 1,)
    assert scores.dtype == np.float32
    assert float(scores.mean()) == pytest.approx(loss, abs=0.03)


def test_neither_order_nor_company_changes_the_scores(model: LanguageModel) -> None:
    assert len(TEXTS) > BATCH
    together = model.surprise(TEXTS)
    mixed = dict(zip(TEXTS[::-2] + TEXTS[-2::-2], model.surprise(TEXTS[::-2] + TEXTS[-2::-2]), strict=True))

    for text, one in zip(TEXTS, together, strict=True):
        assert one.shape == mixed[text].shape
        assert float(one.mean()) == pytest.approx(float(mixed[text].mean()), abs=0.03)
    (alone,) = model.surprise(TEXTS[1:2])
    assert float(alone.mean()) == pytest.approx(float(together[1].mean()), abs=0.03)


def test_too_short_to_score_is_empty_and_keeps_its_place(model: LanguageModel) -> None:
    assert model.surprise([]) == []

    scores = model.surprise(["", PROSE, "a", PROSE])

    assert [len(one) for one in scores] == [0, len(scores[1]), 0, len(scores[1])]
    assert len(scores[1]) > 10


def test_only_the_beginning_of_a_long_text_is_scored(model: LanguageModel) -> None:
    (scores,) = model.surprise(["pump " * 5_000])

    assert len(scores) == LONGEST - 1


def test_prose_surprises_less_than_a_list_of_words(model: LanguageModel) -> None:
    prose, words = model.surprise([PROSE, TEXTS[4]])

    assert prose.mean() < 6 < 8 < words.mean()


def test_the_digest_names_weights_and_number_format(model: LanguageModel, models: Models) -> None:
    assert model.digest == f"{models.language_model_weights}/{model.dtype}"
