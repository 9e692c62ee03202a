"""The bank holds what is most worth checking, and costs no model while it stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import QueryOrigin
from corpus_guard.models.weights import Weights
from material import START, TextHashes, add_question, vector_of


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
            add_question(ledger, text, QueryOrigin.LOG, START + timedelta(minutes=minute))
    add_question(ledger, "reported")


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

    add_question(
        sqlite_ledger, "once, early", QueryOrigin.LOG, START + timedelta(hours=1)
    )  # another order, the same questions
    again = load(sqlite_ledger, storage, models)

    assert models.embedded == []
    assert again.questions != first.questions
    assert np.array_equal(again.vectors, np.stack([vector_of(text) for text in again.questions]))
    add_question(sqlite_ledger, "new", QueryOrigin.LOG)
    assert "new" in load(sqlite_ledger, storage, models).questions
    assert models.embedded
    other = CountingModels(digest="1" * 64)
    load(sqlite_ledger, storage, other)
    assert other.embedded  # vectors of another embedder are not taken


def test_an_empty_bank_works(sqlite_ledger: Ledger, storage: Storage, models: CountingModels) -> None:
    for bank in (load(sqlite_ledger, storage, models), QueryBank.from_questions([], models)):
        assert (len(bank), len(bank.vectors), bank.asked_count) == (0, 0, 0)
    assert models.embedded == []


def test_only_new_questions_are_embedded_and_forgotten_ones_leave_the_file(
    sqlite_ledger: Ledger, storage: Storage, models: CountingModels
) -> None:
    fill(sqlite_ledger)
    load(sqlite_ledger, storage, models)
    models.embedded.clear()

    add_question(sqlite_ledger, "new")
    bank = load(sqlite_ledger, storage, models, max_questions=2)

    assert models.embedded == ["new"]
    assert set(bank.questions) == {"new", "reported"}
    (file,) = (name for name in storage.names() if name.startswith("query-bank/"))
    assert len(storage.read_table(file)) == 2


def test_damaged_vectors_are_computed_again(sqlite_ledger: Ledger, storage: Storage, models: CountingModels) -> None:
    fill(sqlite_ledger)
    first = load(sqlite_ledger, storage, models)
    (file,) = (name for name in storage.names() if name.startswith("query-bank/"))
    storage.write(file, b"not a table")

    assert np.array_equal(load(sqlite_ledger, storage, models).vectors, first.vectors)


def test_a_bank_of_questions_holds_equal_ones_once_in_their_order(models: CountingModels) -> None:
    assert QueryBank.from_questions(["Who?", "What?", "who"], models).questions == ("Who?", "What?")


def test_generated_questions_follow_those_that_people_ask(models: CountingModels) -> None:
    bank = QueryBank.from_questions(["Who?"], models, generated=["who", "OX-12: Cleaning?"])

    assert (bank.questions, bank.asked_count) == (("Who?", "OX-12: Cleaning?"), 1)
