"""The bank holds what is most worth checking, and costs no model while it stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.corpus.query_bank import QueryBank, add_question
from corpus_guard.ledger import Ledger
from corpus_guard.models.weights import Weights
from material import START, TextHashes, vector_of


class CountingModels:
    """Models whose embedder counts what it embeds."""

    def __init__(self, digest: str = "0" * 64) -> None:
        self.embedder_weights = Weights("hashes", None, digest)  # type: ignore[arg-type]
        self.embedded: list[str] = []

    @property
    def embedder(self) -> CountingModels:
        return self

    digest = "hashes/float32"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded += texts
        return TextHashes().embed(texts)


@pytest.fixture
def models() -> CountingModels:
    return CountingModels()


def load(ledger: Ledger, storage: Storage, models: CountingModels, **options: int) -> QueryBank:
    return QueryBank.load(ledger, storage, models, **options)  # type: ignore[arg-type]


def fill(ledger: Ledger) -> None:
    for minute, (text, times) in enumerate({"often": 3, "once, early": 1, "once, late": 1}.items()):
        for _ in range(times):
            add_question(ledger, text, "log", START + timedelta(minutes=minute))
    add_question(ledger, "reported", at=START)


def test_reports_come_first_then_what_is_asked_most_then_last(
    ledger: Ledger, storage: Storage, models: CountingModels
) -> None:
    fill(ledger)

    bank = load(ledger, storage, models)

    assert bank.questions == ("reported", "often", "once, late", "once, early")
    assert np.array_equal(bank.vectors, np.stack([vector_of(text) for text in bank.questions]))
    assert load(ledger, storage, models, max_questions=2).questions == ("reported", "often")


def test_an_unchanged_bank_embeds_nothing(sqlite_ledger: Ledger, storage: Storage, models: CountingModels) -> None:
    fill(sqlite_ledger)
    first = load(sqlite_ledger, storage, models)
    models.embedded.clear()

    add_question(sqlite_ledger, "once, early", "log", START + timedelta(hours=1))  # another order, the same questions
    again = load(sqlite_ledger, storage, models)

    assert models.embedded == []
    assert again.questions != first.questions
    assert np.array_equal(again.vectors, np.stack([vector_of(text) for text in again.questions]))
    add_question(sqlite_ledger, "new", "log")
    assert "new" in load(sqlite_ledger, storage, models).questions
    assert models.embedded
    other = CountingModels(digest="1" * 64)
    load(sqlite_ledger, storage, other)
    assert other.embedded  # vectors of another embedder are not taken


def test_an_empty_bank_works(sqlite_ledger: Ledger, storage: Storage, models: CountingModels) -> None:
    for bank in (load(sqlite_ledger, storage, models), QueryBank.from_questions([], models)):
        indices, cosines = bank.nearest(np.stack([vector_of("a"), vector_of("b")]), 3)

        assert len(bank) == 0
        assert indices.shape == cosines.shape == (2, 0)
    assert models.embedded == []


def test_the_nearest_questions_come_first(models: CountingModels) -> None:
    bank = QueryBank.from_questions(["alpha", "bravo", "charlie"], models)
    chunks = np.stack([vector_of("charlie"), vector_of("alpha")])

    indices, cosines = bank.nearest(chunks, 2)

    assert indices[:, 0].tolist() == [2, 0]
    assert cosines[:, 0] == pytest.approx([1, 1], abs=1e-6)
    assert (cosines[:, 0] >= cosines[:, 1]).all()
    expected = chunks @ bank.vectors.T
    assert np.allclose(cosines, np.take_along_axis(expected, indices, axis=1))
    assert bank.nearest(chunks, 9)[0].shape == (2, 3)
    assert bank.nearest(chunks[:0], 2)[0].shape == (0, 2)


def test_many_chunks_are_compared_in_parts(models: CountingModels) -> None:
    bank = QueryBank.from_questions(["alpha", "bravo"], models)
    chunks = np.stack([vector_of("alpha"), vector_of("bravo")] * 1_250)

    assert bank.nearest(chunks, 1)[0].ravel().tolist() == [0, 1] * 1_250


def test_a_bank_of_questions_holds_equal_ones_once_in_their_order(models: CountingModels) -> None:
    assert QueryBank.from_questions(["Who?", "What?", "who"], models).questions == ("Who?", "What?")
