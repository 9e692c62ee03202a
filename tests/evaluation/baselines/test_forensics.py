"""Two groups, and the one that gives the reported output."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.talking import COMPLAINT, LIE, PAGE, TRUTH, Talker, a_suspect, labels
from corpus_guard.evaluation.baselines.forensics import PoiFor, two_means
from corpus_guard.ledger.states import Label

P, B, U = Label.POISONED, Label.BENIGN, Label.UNDECIDED
LIES = [a_suspect(f"{LIE} {number}", number) for number in range(3)]
TRUTHS = [a_suspect(f"{TRUTH} {number}", 60 + number) for number in range(2)]
MIXED = [LIES[0], TRUTHS[0], LIES[1], TRUTHS[1], LIES[2]]


def test_without_a_model_that_sorts_the_embeddings_do() -> None:
    talker = Talker("Group A: 1\nGroup B: 2, 3, 4, 5", splits=False)

    assert labels(PoiFor(talker).judge(COMPLAINT, MIXED, MIXED)) == [P, B, P, B, P]
    assert talker.requests == []
    assert sorted(len(texts) for _, texts in talker.asked) == [2, 3]


def test_a_model_sorts_by_what_is_claimed_and_not_by_the_embeddings() -> None:
    crossed = [a_suspect(LIE, 0), a_suspect(TRUTH, 1), a_suspect(f"{LIE} Still.", 80), a_suspect(f"{TRUTH} Still.", 81)]
    talker = Talker("Group A: 1, 3\nGroup B: 2, 4")

    assert labels(PoiFor(talker).judge(COMPLAINT, crossed, crossed)) == [P, B, P, B]
    assert COMPLAINT.query in talker.requests[0][1]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot.",
        "Group A: 1, 2\nGroup B: 2, 3, 4, 5",
        "Group A: 1, 2, 3, 4, 5\nGroup B:",
        "Group A: 1, 2\nGroup B: 9, 4, 5",
        "group a" + " " * 15_000,
    ],
)
def test_a_sorting_that_cannot_be_read_is_left_to_the_embeddings(reply: str) -> None:
    assert labels(PoiFor(Talker(reply)).judge(COMPLAINT, MIXED, MIXED)) == [P, B, P, B, P]


def test_one_text_is_a_group_and_a_later_round_knows_the_earlier_ones() -> None:
    talker = Talker(splits=False)

    assert labels(PoiFor(talker).judge(COMPLAINT, LIES[:1], [])) == [P]
    assert labels(PoiFor(talker).judge(COMPLAINT, [a_suspect(PAGE)], [])) == [U]
    assert labels(PoiFor(talker).judge(COMPLAINT, TRUTHS, MIXED)) == [B, B]
    assert sorted(len(texts) for _, texts in talker.asked[2:]) == [2, 3]
    assert PoiFor(talker).judge(COMPLAINT, [], []) == []
    assert PoiFor(talker).digest.endswith("/talker")


def test_two_means_finds_two_heaps() -> None:
    chance = np.random.default_rng(4)
    heaps = np.concatenate([centre + 0.1 * chance.standard_normal((6, 8)) for centre in np.eye(8)[:2]]).astype(
        np.float32
    )
    heaps /= np.linalg.norm(heaps, axis=1, keepdims=True)

    sides = two_means(heaps)

    assert len(set(sides[:6])) == len(set(sides[6:])) == 1
    assert sides[0] != sides[6]
    assert set(two_means(np.ones((4, 1), np.float32))) == {0}
    assert two_means(np.ones((1, 1), np.float32)).tolist() == [0]
