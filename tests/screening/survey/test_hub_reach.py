"""For how many questions a chunk would be a result: against what is served, and against its own run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpus_guard.domain import TrustLevel
from corpus_guard.screening.survey.hub_reach import (
    FIRST_RESULTS,
    MAX_SENTINELS,
    MIN_CHUNKS,
    MIN_SENTINELS,
    MIN_SERVED,
    HubReach,
    HubScale,
    NothingToSearch,
    measure_hub_reach,
)
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk

WIDTH = 32


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def drawn(seed: int, count: int) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).standard_normal((count, WIDTH)))


class Shelf:
    """Served chunks, searched one by one."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.vectors = vectors
        self.asked = 0
        self.names = [str(number) for number in range(len(vectors))]

    def ids(self) -> Sequence[str]:
        return self.names

    def count(self) -> int:
        return len(self.vectors)

    def first(self, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[tuple[str, float]]]:
        self.asked = len(vectors)
        cosines = vectors @ self.vectors.T
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        return [
            [(self.names[each], float(row[each])) for each in nearest]
            for row, nearest in zip(cosines, order, strict=True)
        ]


QUESTIONS = unit(drawn(1, 200) + 0.6 * np.eye(WIDTH)[0])  # they have something in common, as questions have
SERVED = drawn(2, MIN_SERVED)
HUB = unit(QUESTIONS.mean(axis=0)[None].astype(np.float64))


def named(vectors: NDArray[np.float32]) -> list[str]:
    return [f"new-{number}" for number in range(len(vectors))]


def counted(vector: NDArray[np.float32], there: NDArray[np.float32], questions: NDArray[np.float32]) -> float:
    """The share by its definition: fewer than ten of the others lie nearer to the question."""
    return float(
        np.mean([(there @ question > vector @ question + 1e-6).sum() < FIRST_RESULTS for question in questions])
    )


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_the_share_is_that_of_the_definition(seed: int) -> None:
    arriving = drawn(seed, 5)
    scale = HubScale.make([QUESTIONS], Shelf(SERVED))

    assert scale is not None
    shares = [reach.share for reach in scale.measure(arriving)]
    assert shares == pytest.approx([counted(vector, SERVED, QUESTIONS) for vector in arriving])


def test_a_text_in_the_middle_of_all_questions_stands_out_and_others_do_not() -> None:
    scale = HubScale.make([QUESTIONS], Shelf(SERVED))

    assert scale is not None
    (hub,) = scale.measure(HUB)
    others = scale.measure(drawn(3, 500))
    assert hub.share > 2 * hub.usual
    assert np.mean([reach.share > reach.usual for reach in others]) < 0.03


def test_what_is_usual_is_what_one_served_chunk_in_a_hundred_reaches() -> None:
    scale = HubScale.make([QUESTIONS], Shelf(SERVED))

    assert scale is not None
    usual = scale.measure(HUB)[0].usual
    above = np.mean([counted(vector, SERVED, QUESTIONS) > usual for vector in SERVED])
    assert 0.001 <= above <= 0.01


def test_a_first_load_is_compared_with_itself() -> None:
    run = np.concatenate([drawn(4, MIN_CHUNKS), HUB])
    scale = HubScale.make([QUESTIONS], NothingToSearch(), named(run), run)

    assert scale is not None
    reaches = scale.measure(run)
    assert [reach.share for reach in reaches[-5:]] == pytest.approx([counted(v, run, QUESTIONS) for v in run[-5:]])
    assert max(range(len(run)), key=lambda each: reaches[each].share) == MIN_CHUNKS


def test_where_enough_is_served_a_flood_of_hubs_does_not_hide_itself() -> None:
    flood = unit(HUB + 0.02 * drawn(5, 100).astype(np.float64))

    alone = HubScale.make([QUESTIONS], Shelf(SERVED), named(HUB), HUB)
    flooded = HubScale.make([QUESTIONS], Shelf(SERVED), named(flood), flood)
    together = HubScale.make([QUESTIONS], Shelf(SERVED[: MIN_SERVED - 1]), named(flood), flood)

    assert alone is not None and flooded is not None and together is not None
    assert flooded.measure(HUB) == alone.measure(HUB)
    assert together.measure(HUB)[0].share < alone.measure(HUB)[0].share


def test_who_asks_thousands_of_questions_cannot_dilute_those_from_headings() -> None:
    headings = QUESTIONS
    junk = unit(drawn(6, 600).astype(np.float64) - 2 * HUB)  # the hub is a result of none of them

    scale = HubScale.make([junk, headings], Shelf(SERVED))
    alone = HubScale.make([headings], Shelf(SERVED))

    assert scale is not None and alone is not None
    assert scale.measure(HUB) == alone.measure(HUB)
    assert HubScale.make([junk], Shelf(SERVED)).measure(HUB)[0].share == 0  # type: ignore[union-attr]


def test_the_number_of_questions_is_bounded() -> None:
    shelf = Shelf(SERVED)

    HubScale.make([drawn(7, MAX_SENTINELS + 100)], shelf)

    assert shelf.asked == MAX_SENTINELS


@pytest.mark.parametrize(
    ("questions", "served", "arriving"),
    [(MIN_SENTINELS - 1, MIN_SERVED, 5), (0, MIN_SERVED, 5), (200, MIN_CHUNKS - 6, 5), (200, 0, 5)],
)
def test_too_little_to_compare_with_is_told(questions: int, served: int, arriving: int) -> None:
    run = drawn(8, arriving)
    assert HubScale.make([QUESTIONS[:questions]], Shelf(SERVED[:served]), named(run), run) is None


def test_an_index_that_does_not_answer_is_no_all_clear() -> None:
    class Silent(Shelf):
        def first(self, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[tuple[str, float]]]:
            return [()] * len(vectors)

    scale = HubScale.make([QUESTIONS], Silent(SERVED))

    assert scale is not None
    assert scale.measure(HUB)[0].share == 1


def test_a_run_that_is_served_already_is_not_counted_twice() -> None:
    run = drawn(11, MIN_CHUNKS)
    again = Shelf(run)
    again.names = named(run)

    first = HubScale.make([QUESTIONS], NothingToSearch(), named(run), run)
    second = HubScale.make([QUESTIONS], again, named(run), run)

    assert first is not None and second is not None
    assert first.measure(run) == second.measure(run)


def test_of_each_version_the_chunk_that_stands_out_most_is_kept() -> None:
    vectors = np.concatenate([drawn(9, 2), HUB])
    placed = [
        PlacedChunk(f"d-{version}", version, f"{version}-{ordinal}", ordinal, 0, TrustLevel.OPEN, "")
        for version, ordinal in (("plain", 0), ("hub", 0), ("hub", 1))
    ]
    scale = HubScale.make([QUESTIONS], Shelf(SERVED))

    found = measure_hub_reach(placed, vectors, [QUESTIONS], Shelf(SERVED))

    assert scale is not None and found is not None
    (hub,) = scale.measure(HUB)
    assert found["hub"] == HubReach(hub.share, hub.usual, ordinal=1)
    assert found.keys() <= {"plain", "hub"}
    assert measure_hub_reach(placed, vectors, [QUESTIONS], Shelf(SERVED[:5])) is None
