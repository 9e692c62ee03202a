"""Islands in the space of embeddings: found whatever lies around them, and nothing else is.

Vectors are made, not embedded: an island is some directions near one another, its background is directions at random.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpus_guard.models.weights import builtin_embedder
from corpus_guard.screening import learned_scores
from corpus_guard.screening.survey import agreement as _agreement
from corpus_guard.screening.survey.agreement import (
    FEATURES,
    MAX_NAMED_DOCUMENTS,
    MIN_BACKGROUND_CHUNKS,
    VERSION,
    Agreement,
    GroupingModel,
    NoServedChunks,
    Passage,
    ServedChunks,
    agreement_features,
    find_groups,
    find_surroundings,
    passage_origin,
)
from corpus_guard.screening.survey.semantics import survey_semantics
from corpus_guard.screening.wording import load_wording

GROUPING = GroupingModel(
    learned_scores.load_score(
        learned_scores.Network, learned_scores.PARAMETERS_FOLDER / "coordination.yaml", VERSION, FEATURES
    ),
    0.975,
    0.8,
)
VOCABULARY = builtin_embedder().folder / "tokenizer.json"
WIDTH = 384
WORDS = re.findall(
    r"\w+",
    "gauge lamp pump winch crane ferry sluice buoy anchor chart kettle ladder pier quay office island basin dyke village mast "
    "chapel mill reads mends lights paints carries counts follows leaves brings notes early slowly often seldom together",
)

Vectors = NDArray[np.float32]


def unit(vectors: NDArray[np.float64]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def at_random(count: int, seed: int = 0) -> Vectors:
    return unit(np.random.default_rng(seed).standard_normal((count, WIDTH)))


def around(center: Vectors, count: int, cosine: float, seed: int = 1) -> Vectors:
    """Directions that have about this cosine to each other."""
    noise = at_random(count, seed)
    return unit(np.sqrt(cosine) * center[None, :] + np.sqrt(1 - cosine) * noise)


def passages(count: int, **fields: object) -> list[Passage]:
    """One a document."""
    return [replace(Passage(f"v{number}", f"d{number}", 0, True), **fields) for number in range(count)]


class Shelf:
    """Texts by position: of one length, each in words of its own."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, positions: Sequence[int]) -> list[str]:
        self.asked += positions
        return [self.text(position) for position in positions]

    @staticmethod
    def text(position: int) -> str:
        return f"The {' '.join(random.Random(position).choices(WORDS, k=30))} in the morning."


def found(
    made: Sequence[Passage],
    vectors: Vectors,
    served: ServedChunks | None = None,
    shelf: Shelf | None = None,
    grouping: GroupingModel = GROUPING,
) -> dict[int, Agreement]:
    return dict(
        find_groups(made, vectors, shelf or Shelf(), load_wording(VOCABULARY), grouping, served or NoServedChunks())
    )


ISLAND = np.concatenate([at_random(200), around(at_random(1, 99)[0], 5, 0.85)])
"""200 chunks at random, then five that agree."""
FIVE = {200, 201, 202, 203, 204}


class Kept:
    """A collection of a few chunks."""

    def __init__(self, rows: Sequence[tuple[str, str]], vectors: Vectors) -> None:
        self.rows, self.vectors = rows, vectors

    def near(self, vectors: Vectors) -> list[list[tuple[str, str, float]]]:
        cosines = vectors @ self.vectors.T
        return [
            [(*self.rows[index], float(row[index])) for index in np.argsort(-row, kind="stable")[:24]]
            for row in cosines
        ]


def test_an_island_of_five_voices_is_found_whole_and_nothing_else() -> None:
    agreements = found(passages(205), ISLAND)

    assert agreements.keys() == FIVE
    for position, agreement in agreements.items():
        assert agreement.ordinal == 0
        assert agreement.documents == 5
        assert set(agreement.others) == {f"d{other}" for other in FIVE - {position}}
        assert 0.75 < agreement.similarity < 0.95
        assert agreement.score >= GROUPING.member


def test_two_seeds_make_a_group_and_draw_in_their_neighbours() -> None:
    near = find_surroundings(passages(205), ISLAND, NoServedChunks())
    scores = sorted(GROUPING.model.score(agreement_features(near, Shelf(), load_wording(VOCABULARY))), reverse=True)

    def size(seed: float, member: float) -> int:
        made = find_groups(
            passages(205),
            ISLAND,
            Shelf(),
            load_wording(VOCABULARY),
            GroupingModel(GROUPING.model, seed, member),
            NoServedChunks(),
        )
        return len(list(made))

    between = [(higher + lower) / 2 for higher, lower in pairwise(scores)]
    assert all(higher > lower for higher, lower in pairwise(scores))
    assert size(seed=between[0], member=0.0) == 0  # one seed is not enough
    assert size(seed=between[1], member=0.0) == 5
    assert size(seed=between[1], member=between[2]) == 3
    assert size(seed=between[1], member=between[1]) == 0  # two documents are no group


def test_a_gradual_neighbourhood_is_no_island() -> None:
    # A topic: a hundred texts as near to each other as the five of an island are, and no gap behind the third.
    topic = around(at_random(1, 5)[0], 100, 0.85)

    assert found(passages(300), np.concatenate([at_random(200), topic])) == {}


def test_an_island_beside_a_topic_is_found_all_the_same() -> None:
    topic = around(at_random(1, 5)[0], 100, 0.6)

    agreements = found(passages(305), np.concatenate([at_random(200), topic, ISLAND[200:]]))

    assert agreements.keys() == {300, 301, 302, 303, 304}


def test_two_islands_are_two_groups() -> None:
    other = around(at_random(1, 7)[0], 4, 0.85, seed=8)

    agreements = found(passages(209), np.concatenate([ISLAND, other]))

    assert {position: one.documents for position, one in agreements.items()} == {
        **dict.fromkeys(FIVE, 5), **dict.fromkeys(range(205, 209), 4),
    }  # fmt: skip


def test_pairs_and_single_texts_are_no_group() -> None:
    for size in (1, 2):
        assert found(passages(200 + size), ISLAND[: 200 + size]) == {}


def test_the_chunks_of_one_document_are_one_voice() -> None:
    made = passages(205)
    for ordinal, position in enumerate(sorted(FIVE)):
        made[position] = Passage("v200", "d200", ordinal, True)
    assert found(made, ISLAND) == {}

    made[200] = Passage("another", "another", 0, True)  # hears four times the same
    made[201] = Passage("a third", "a third", 0, True)
    assert found(made, ISLAND) == {}


def test_equal_texts_are_one_voice() -> None:
    vectors = ISLAND.copy()
    vectors[[201, 202, 203, 204]] = vectors[201]

    assert found(passages(205), vectors) == {}

    vectors[[201, 202]] = ISLAND[[201, 202]]  # three texts of five are left apart: 200, 201, 202 and twice 203
    vectors[[203, 204]] = ISLAND[203]
    assert {*found(passages(205), vectors)} == FIVE


def test_a_copy_is_no_voice_for_its_original() -> None:
    vectors = ISLAND[:204].copy()
    vectors[201] = vectors[200]

    assert find_surroundings(passages(204), vectors, NoServedChunks()) == {}


def test_a_voice_is_nearest_first_and_one_of_each_document_and_text() -> None:
    made = passages(205)
    made[201] = Passage("v202", "d202", 1, True)
    vectors = ISLAND.copy()
    vectors[204] = vectors[203]

    near = find_surroundings(
        made, vectors, Kept([("old", "told before"), ("copy", "told before")], ISLAND[[200, 200]] * 0.97)
    )

    cosines = [cosine for cosine, _ in near[200].voices]
    assert cosines == sorted(cosines, reverse=True)
    heard = [voice for _, voice in near[200].voices]
    assert heard.count("told before") == 1
    assert len({203, 204} & {*heard}) == 1
    assert len({201, 202} & {*heard}) == 1
    assert near[200].served_voices == 1


def test_what_is_trusted_is_background_and_never_a_member() -> None:
    trusted = [replace(one, open=one.version_id not in {f"v{number}" for number in FIVE}) for one in passages(205)]
    assert found(trusted, ISLAND) == {}

    mixed = passages(205)
    mixed[204] = replace(mixed[204], open=False)
    assert found(mixed, ISLAND).keys() == FIVE - {204}

    mixed[203] = replace(mixed[203], open=False)  # three open ones are left, each with two open voices
    assert found(mixed, ISLAND) == {}

    # Trusted chunks around them make a topic of it, whoever wrote them.
    topic = around(at_random(1, 99)[0], 60, 0.85, seed=3)
    crowd = [*passages(205), *(Passage(f"t{number}", f"t{number}", 0, False) for number in range(60))]
    assert found(crowd, np.concatenate([ISLAND, topic])) == {}


@pytest.mark.parametrize("background", range(MIN_BACKGROUND_CHUNKS + 6))
def test_a_small_background_says_nothing(background: int) -> None:
    vectors = ISLAND[200 - background :]
    agreements = found(passages(background + 5), vectors)

    assert bool(agreements) == (background + 4 >= MIN_BACKGROUND_CHUNKS)


def test_the_rest_of_a_long_document_is_no_background() -> None:
    # 30 chunks of one document and 12 of others: 11 others than itself for each of these, and nothing stands out from them.
    long = [Passage("long", "long", ordinal, True) for ordinal in range(30)]
    made = [*long, *passages(12)]
    topic = around(at_random(1, 3)[0], 42, 0.6)
    assert found(made, topic) == {}
    assert find_surroundings(made, topic, NoServedChunks()).keys() == set()

    # Three chunks on one matter in a small folder of long documents: a gradual topic, not an island above "-1".
    made = [Passage(f"v{number % 3}", f"d{number % 3}", number // 3, True) for number in range(60)]
    assert found(made, around(at_random(1, 3)[0], 60, 0.6)) == {}


def test_a_long_document_has_only_the_others_for_a_background() -> None:
    made = [*(Passage("long", "long", ordinal, True) for ordinal in range(30)), *passages(MIN_BACKGROUND_CHUNKS)]
    vectors = at_random(30 + MIN_BACKGROUND_CHUNKS)
    vectors[[0, 30, 31, 32]] = ISLAND[200:204]

    assert find_surroundings(made, vectors, NoServedChunks()).keys() == {0, 30, 31, 32}
    assert find_surroundings(made[:-1], vectors[:-1], NoServedChunks()).keys() == {30, 31, 32}


def test_copies_of_a_text_are_no_background_either() -> None:
    copied = np.repeat(around(at_random(1, 3)[0], 5, 0.6), 10, axis=0)

    assert find_surroundings(passages(50), copied, NoServedChunks()) == {}


def test_nothing_gives_nothing() -> None:
    assert found([], np.empty((0, WIDTH), np.float32)) == {}


def test_one_new_text_whose_voices_are_served_is_found() -> None:
    served = Kept([(f"old{number}", Shelf.text(number)) for number in range(4)], ISLAND[200:204])
    new = np.concatenate([ISLAND[:50], ISLAND[204:]])

    assert found(passages(51), new) == {}
    ((position, agreement),) = found(passages(51), new, served).items()
    assert position == 50
    assert agreement.documents == 4  # no claim can be told from a topic: only its three nearest voices are members
    assert set(agreement.others) == set(agreement.served) < {"old0", "old1", "old2", "old3"}


@pytest.mark.parametrize(
    ("origins", "counted"),
    [
        (("a", "a", "b", "b", "c"), 3),
        (("a", "b", "c", "d", "e"), 5),
        (("a", "a", "a", "b", "c"), 1),  # one origin has most of the group
        (("a", "a", "a", "a", "a"), 1),
        (("a", "b", "c", "", ""), 3),
        (("a", "b", "", "", ""), 1),  # of most, nothing is known
    ],
)
def test_a_group_has_as_many_origins_as_it_is_spread_over(origins: tuple[str, ...], counted: int) -> None:
    made = passages(205)
    for position, origin in zip(sorted(FIVE), origins, strict=True):
        made[position] = replace(made[position], origin=origin)

    agreements = found(made, ISLAND)

    assert {agreement.origins for agreement in agreements.values()} == {counted}


def test_served_members_have_no_known_origin() -> None:
    served = Kept([(f"old{number}", Shelf.text(number)) for number in range(4)], ISLAND[200:204])
    new = np.concatenate([ISLAND[:50], ISLAND[204:]])

    ((_, agreement),) = found([replace(one, origin=one.doc_id) for one in passages(51)], new, served).items()

    assert agreement.origins == 1


@pytest.mark.parametrize(
    ("source", "uri", "origin"),
    [
        ("pages", "news/one.md", "pages"),
        ("web", "https://www.harbour.example/one?two", "web harbour.example"),
        ("web", "https://a.b.harbour.example:8443/", "web harbour.example"),
        ("web", "https://[::1]/", "web ::1"),
        ("web", "https:///", "web"),
    ],
)
def test_the_origin_of_a_passage_is_its_source_and_its_site(source: str, uri: str, origin: str) -> None:
    assert passage_origin(source, uri) == origin


def test_members_say_which_words_they_share_and_how_much_they_repeat() -> None:
    agreements = found(passages(205), ISLAND)

    for position, agreement in agreements.items():
        words = {Shelf.text(position)[span.start : span.end].lower() for span in agreement.shared}
        assert all(sum(word in Shelf.text(other).lower() for other in FIVE) >= 3 for word in words)
        assert 0 <= agreement.repeated <= 1


def test_what_is_served_is_no_background() -> None:
    # Of a large collection the nearest are always near: a hundred served texts on the topic do not hide five new ones.
    crowd = around(at_random(1, 99)[0], 100, 0.7, seed=4)
    served = Kept([(f"old{number}", Shelf.text(number)) for number in range(100)], crowd)

    assert found(passages(205), ISLAND, served).keys() >= FIVE


def test_an_older_version_of_what_arrives_is_no_voice() -> None:
    older = Kept([(f"d{number}", Shelf.text(number)) for number in range(4)], ISLAND[200:204])
    new = np.concatenate([ISLAND[:50], ISLAND[204:]])

    assert found(passages(51), new, older) == {}


def test_a_served_copy_is_no_voice() -> None:
    copies = Kept(
        [(f"old{number}", "the same" + " " * number) for number in range(4)], np.repeat(ISLAND[204:], 4, axis=0)
    )

    assert find_surroundings(passages(51), np.concatenate([ISLAND[:50], ISLAND[204:]]), copies) == {}


def test_texts_are_fetched_for_candidates_only() -> None:
    shelf = Shelf()

    found(passages(205), ISLAND, shelf=shelf)

    assert set(shelf.asked) == FIVE


def test_many_documents_are_counted_and_a_few_named() -> None:
    flood = around(at_random(1, 99)[0], 20, 0.85)

    # So many texts might be honest passages on one question: at the shipped threshold they are no group.
    agreements = found(
        passages(220), np.concatenate([at_random(200), flood]), grouping=replace(GROUPING, seed=0.85, member=0.5)
    )

    assert agreements
    for agreement in agreements.values():
        assert agreement.documents == len(agreements)
        assert len(agreement.others) == MAX_NAMED_DOCUMENTS


def test_measures_have_their_order_and_their_limits() -> None:
    near = find_surroundings(passages(205), ISLAND, NoServedChunks())
    table = dict(zip(FEATURES, agreement_features(near, Shelf(), load_wording(VOCABULARY)).T, strict=True))

    assert near.keys() == FIVE
    assert (table["third"] >= table["fourth"]).all()
    assert (table["gap"] > 0.5).all()
    assert ((table["mutual"] > 0.7) & (table["mutual"] < 1)).all()
    assert (table["covered"] >= table["shared"]).all()
    assert ((table["common"] >= 0) & (table["common"] <= 1)).all()
    assert ((table["opening"] >= 0) & (table["opening"] <= 3)).all()
    assert (table["prominence"] > 0.5).all()
    assert ((table["shared"] > 0) & (table["shared"] < 1)).all()
    assert (table["copied"] == 0).all()
    assert ((table["length"] >= 3) & (table["length"] <= 6)).all()
    assert ((table["prose"] >= 0.7) & (table["prose"] <= 1)).all()


def test_templates_share_phrases_and_are_no_group() -> None:
    def template(positions: Sequence[int]) -> list[str]:
        filled = [f"{WORDS[position % 30]}{position}" for position in positions]
        return [
            f"The village of {name} lies in the district of Orrin on the northern bank of the river. It has a church, a mill and "
            f"a school. At the last count {name} had some hundred houses, and most of those who live there keep sheep."
            for name in filled
        ]

    near = find_surroundings(passages(205), ISLAND, NoServedChunks())
    table = dict(zip(FEATURES, agreement_features(near, template, load_wording(VOCABULARY)).T, strict=True))

    assert (table["copied"] > 0.1).all()
    assert (
        list(find_groups(passages(205), ISLAND, template, load_wording(VOCABULARY), GROUPING, NoServedChunks())) == []
    )


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "a" * 100_000, "?!" * 1_000, "\u0301" * 500])
def test_any_text_can_be_measured(text: str) -> None:
    near = find_surroundings(passages(205), ISLAND, NoServedChunks())

    table = agreement_features(near, lambda positions: [text] * len(positions), load_wording(VOCABULARY))

    assert np.isfinite(table).all()


def test_islands_lie_whole_in_the_cells_of_a_large_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # As embeddings lie: in topics, not evenly at random.
    topics = np.concatenate([around(at_random(1, 40 + seed)[0], 100, 0.3, seed=seed) for seed in range(6)])
    vectors = np.concatenate([topics, ISLAND[200:]])
    whole = found(passages(605), vectors)
    monkeypatch.setattr(_agreement, "MAX_CELL_CHUNKS", 300)

    cells = found(passages(605), vectors)

    parts = list(_agreement._cells(vectors))
    assert len(parts) > 1
    assert sorted(np.concatenate(parts).tolist()) == [*range(605)]
    assert whole.keys() == cells.keys() == {600, 601, 602, 603, 604}
    assert {p: (one.documents, one.others) for p, one in whole.items()} == {
        p: (one.documents, one.others) for p, one in cells.items()
    }


def test_blocks_give_what_one_table_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.concatenate([ISLAND, around(at_random(1, 7)[0], 5, 0.85, seed=8)])
    whole = found(passages(210), vectors)
    monkeypatch.setattr(
        _agreement, "_COSINES_PER_BLOCK", 20
    )  # a row of the comparison, two of the links between members

    blocks = found(passages(210), vectors)

    assert whole.keys() == {*range(200, 210)}
    assert {p: (one.documents, one.others) for p, one in blocks.items()} == {
        p: (one.documents, one.others) for p, one in whole.items()
    }


def test_twice_is_the_same() -> None:
    assert found(passages(205), ISLAND) == found(passages(205), ISLAND)


@settings(max_examples=25)
@given(st.permutations(range(80)))
def test_the_order_of_arrival_does_not_matter(order: list[int]) -> None:
    vectors, made = ISLAND[125:], passages(205)[125:]
    texts = Shelf()

    def shuffled(positions: Sequence[int]) -> list[str]:
        return texts([order[position] for position in positions])

    there = found(made, vectors)
    here = dict(
        find_groups(
            [made[place] for place in order],
            vectors[order],
            shuffled,
            load_wording(VOCABULARY),
            GROUPING,
            NoServedChunks(),
        )
    )

    assert {order[position] for position in here} == there.keys() == {*range(75, 80)}
    for position, agreement in here.items():
        before = there[order[position]]
        assert set(agreement.others) == set(before.others)
        assert agreement.documents == before.documents
        assert (agreement.score, agreement.similarity) == pytest.approx((before.score, before.similarity), abs=2e-4)


def test_without_a_grouping_nobody_is_compared() -> None:
    semantics = survey_semantics(passages(205), ISLAND, Shelf(), vocabulary=VOCABULARY, grouping=None)

    assert semantics.agreements == {}


def test_every_chunk_of_a_version_has_its_own_agreement() -> None:
    made = passages(210)
    for offset in range(5):  # the same five documents agree a second time, on something else
        made[205 + offset] = Passage(f"v{200 + offset}", f"d{200 + offset}", 1, True)
    other = around(at_random(1, 7)[0], 5, 0.85, seed=8)

    semantics = survey_semantics(
        made, np.concatenate([ISLAND, other]), Shelf(), vocabulary=VOCABULARY, grouping=GROUPING
    )

    assert semantics.agreements.keys() == {f"v{number}" for number in FIVE}
    assert all([one.ordinal for one in agreed] == [0, 1] for agreed in semantics.agreements.values())
