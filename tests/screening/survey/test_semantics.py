"""Which questions a chunk lies near to, and what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from corpus_guard.models.weights import builtin_embedder
from corpus_guard.screening.survey.agreement import NoServedChunks, Passage
from corpus_guard.screening.survey.semantics import (
    NEAR_COSINE,
    QUESTIONS_PER_CHUNK,
    NearbyQuestion,
    Semantics,
    survey_semantics,
)

VOCABULARY = builtin_embedder().folder / "tokenizer.json"
AXES = np.eye(64, dtype=np.float32)


@dataclass(frozen=True)
class Bank:
    """Questions whose vectors are axes; the last ones were made from headings."""

    questions: tuple[str, ...]
    generated: int = 0

    @property
    def asked_count(self) -> int:
        return len(self.questions) - self.generated

    @property
    def vectors(self) -> NDArray[np.float32]:
        return AXES[: len(self.questions)]


def leaning(*cosines: float) -> NDArray[np.float32]:
    """A vector with these cosines to the first questions."""
    rest = np.sqrt(1 - np.square(cosines).sum())
    vector = np.zeros(64, np.float32)
    vector[: len(cosines)] = cosines
    vector[-1] = rest
    return vector


def asked(
    bank: Bank | None, *vectors: NDArray[np.float32], versions: tuple[str, ...] = (), is_open: bool = True
) -> Semantics:
    names = versions or tuple(f"v{number}" for number in range(len(vectors)))
    ordinals = [names[:place].count(name) for place, name in enumerate(names)]
    passages = [Passage(name, f"d-{name}", ordinal, is_open) for name, ordinal in zip(names, ordinals, strict=True)]
    table = np.stack(vectors) if vectors else np.empty((0, 64), np.float32)
    return survey_semantics(passages, table, _never, vocabulary=VOCABULARY, grouping=None, bank=bank)


def _never(positions: object) -> list[str]:
    raise AssertionError("a text was fetched")


BANK = Bank(("Who?", "When?", "Where?", "Why?", "How?"))


def test_the_nearest_questions_are_kept_nearest_first() -> None:
    semantics = asked(BANK, leaning(0.46, 0.6), leaning(0.1, 0.2, 0.8))

    assert semantics.questions == {
        "v0": (NearbyQuestion(0, "When?", 0.6, rank=1), NearbyQuestion(0, "Who?", 0.46)),
        "v1": (NearbyQuestion(0, "Where?", 0.8, rank=0),),
    }


def test_of_each_chunk_a_few_are_kept_and_a_version_has_those_of_all() -> None:
    semantics = asked(BANK, leaning(0.46, 0.47, 0.48, 0.49), leaning(0.9), versions=("one", "one"))

    assert [(one.ordinal, one.question) for one in semantics.questions["one"]] == [
        (0, "Why?"), (0, "Where?"), (0, "When?"), (1, "Who?"),
    ]  # fmt: skip
    assert QUESTIONS_PER_CHUNK == 3


@pytest.mark.parametrize(("cosine", "near"), [(NEAR_COSINE - 0.001, False), (NEAR_COSINE + 0.001, True)])
def test_what_is_not_near_is_not_kept(cosine: float, near: bool) -> None:
    assert bool(asked(BANK, leaning(cosine)).questions) is near


@pytest.mark.parametrize("bank", [None, Bank(())])
def test_an_empty_bank_says_nothing(bank: Bank | None) -> None:
    assert asked(bank, leaning(0.9)) == Semantics()


def test_no_chunks_have_no_questions() -> None:
    assert asked(BANK) == Semantics()


def test_a_large_run_is_compared_in_parts() -> None:
    semantics = asked(BANK, *[leaning(0.9) if number % 2 else leaning(0.1) for number in range(2_100)])

    assert semantics.questions.keys() == {f"v{number}" for number in range(1, 2_100, 2)}


def test_a_part_knows_its_versions_only() -> None:
    semantics = asked(BANK, leaning(0.9), leaning(0.8))

    assert semantics.of(["v1", "unknown"]).questions.keys() == {"v1"}


GENERATED = Bank(("Who?", "When?", "Harbour?", "Harbour: Depth?", "Harbour: Locks?"), generated=3)


def test_questions_that_people_asked_come_before_generated_ones_and_leave_them_the_other_places() -> None:
    semantics = asked(GENERATED, leaning(0.46, 0.47, 0.5, 0.52), leaning(0.1, 0.1, 0.5, 0.52, 0.51))

    named = {
        version: [(one.question, one.generated) for one in nearby] for version, nearby in semantics.questions.items()
    }
    assert named == {
        "v0": [("When?", False), ("Who?", False), ("Harbour: Depth?", True)],
        "v1": [("Harbour: Depth?", True), ("Harbour: Locks?", True), ("Harbour?", True)],
    }


def test_generated_questions_are_for_open_sources() -> None:
    assert asked(GENERATED, leaning(0, 0, 0.9), is_open=False).questions == {}


def test_pairs_are_read_in_one_order_for_the_whole_run() -> None:
    """Asked before generated, then the nearest; what is not close is not read at all."""
    semantics = asked(GENERATED, leaning(0.56, 0, 0.7), leaning(0.8), leaning(0, 0.5, 0.6))

    ranks = {(version, one.question): one.rank for version, nearby in semantics.questions.items() for one in nearby}
    assert ranks == {
        ("v1", "Who?"): 0,
        ("v0", "Who?"): 1,
        ("v0", "Harbour?"): 2,
        ("v2", "Harbour?"): 3,
        ("v2", "When?"): None,
    }


def test_a_survey_is_read_as_it_was_written() -> None:
    semantics = asked(GENERATED, leaning(0.56, 0, 0.7), leaning(0.8))

    assert Semantics.from_record(orjson.loads(orjson.dumps(semantics.to_record()))) == semantics


def test_nothing_served_is_near_nothing() -> None:
    assert [list(found) for found in NoServedChunks().near(AXES[:3])] == [[], [], []]
