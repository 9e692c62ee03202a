"""The loop judges each text once, goes on until what stands is benign, and always ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.states import Label
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.loop import JudgedText, StopReason, follow
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

COMPLAINT = Complaint("Who built the lighthouse?", "Ada Moss")


class Shelf:
    """Texts in the order they are near the question; those that begin with "!" are poisoned."""

    missing = 0

    def __init__(self, *texts: str) -> None:
        self.suspects = [
            RetrievedText(f"c{number:03}", text, 1 - number / 1000, np.array([1.0], np.float32))
            for number, text in enumerate(texts)
        ]
        self.asked: list[int] = []

    def retrieve(self, query: str, k: int, without: Collection[str] = ()) -> list[RetrievedText]:
        self.asked.append(k)
        return [one for one in self.suspects if one.chunk_id not in without][:k]


class Honest:
    """Says what is true, and remembers what it was shown."""

    name = digest = "honest"

    def __init__(self, fails_at: int | None = None) -> None:
        self.shown: list[str] = []
        self.seen: list[int] = []
        self.calls = 0
        self.fails_at = fails_at

    def judge(self, complaint: Complaint, new: Sequence[RetrievedText], seen: Sequence[RetrievedText]) -> list[Opinion]:
        self.calls += 1
        if self.calls == self.fails_at:
            raise JudgeFailed("the endpoint does not answer")
        self.shown += [one.chunk_id for one in new]
        self.seen.append(len(seen))
        assert set(new) <= set(seen)
        return [self.opinion(one) for one in new]

    def opinion(self, one: RetrievedText) -> Opinion:
        if one.text.startswith("?"):
            return Opinion(Label.UNDECIDED, 0.5, "")
        poisoned = one.text.startswith("!")
        return Opinion(Label.POISONED if poisoned else Label.BENIGN, float(poisoned), "")

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        return JudgeConclusion()


@pytest.mark.parametrize("depth", [0, 1, 4, 5, 12, 40])
def test_it_digs_until_five_benign_texts_stand(depth: int) -> None:
    shelf, judge = Shelf(*[f"! lie {n}" for n in range(depth)], *[f"honest {n}" for n in range(30)]), Honest()

    found = follow(COMPLAINT, shelf, judge, k=5)

    assert len(found.labelled(Label.POISONED)) == depth
    assert [one.text for one in found.standing] == [f"honest {n}" for n in range(5)]
    assert found.ended is StopReason.STANDS
    assert len(judge.shown) == len(set(judge.shown)) == depth + 5


def test_poison_below_honest_texts_is_reached_when_others_are_set_aside() -> None:
    shelf = Shelf(
        "! a", "honest 1", "! b", "honest 2", "honest 3", "! c", "honest 4", "! d", "honest 5", "! e", "honest 6"
    )

    found = follow(COMPLAINT, shelf, Honest(), k=5)

    assert [one.suspect.text for one in found.labelled(Label.POISONED)] == ["! a", "! b", "! c", "! d"]
    assert [one.iteration for one in found.judged] == [1] * 5 + [2] * 2 + [3] + [4]


def test_benign_texts_are_not_judged_again_in_later_rounds() -> None:
    judge = Honest()

    follow(COMPLAINT, Shelf("honest 0", "! a", "honest 1", "! b", *(f"honest {n}" for n in range(2, 9))), judge, k=5)

    assert len(judge.shown) == len(set(judge.shown))


def test_an_undecided_text_stands_and_is_not_taken_for_benign() -> None:
    found = follow(COMPLAINT, Shelf("? odd", "! a", *(f"honest {n}" for n in range(9))), Honest(), k=3)

    assert "? odd" in [one.text for one in found.standing]
    assert [one.suspect.text for one in found.labelled(Label.UNDECIDED)] == ["? odd"]


@pytest.mark.parametrize(
    ("texts", "standing"), [([], 0), (["honest"], 1), (["! a", "! b", "honest"], 1), (["! a", "! b"], 0)]
)
def test_a_corpus_that_runs_dry_ends_the_loop(texts: list[str], standing: int) -> None:
    found = follow(COMPLAINT, Shelf(*texts), Honest(), k=5)

    assert found.ended is StopReason.RAN_DRY
    assert len(found.standing) == standing
    assert len(found.judged) == len(texts)


def test_a_judge_that_always_says_yes_is_stopped_at_the_bound() -> None:
    found = follow(COMPLAINT, Shelf(*(f"! lie {n}" for n in range(300))), Honest(), k=5, max_texts=50)

    assert found.ended is StopReason.BOUND
    assert len(found.judged) == 50


def test_a_judge_that_fails_ends_the_loop_and_loses_nothing() -> None:
    kept: list[JudgedText] = []
    shelf = Shelf(*(f"! lie {n}" for n in range(7)), *(f"honest {n}" for n in range(9)))

    failed = follow(COMPLAINT, shelf, Honest(fails_at=2), k=5, save=kept.extend)

    assert (failed.ended, failed.failure) == (StopReason.JUDGE_FAILED, "the endpoint does not answer")
    assert [one.suspect.text for one in kept] == [f"! lie {n}" for n in range(5)]

    judge = Honest()
    again = follow(COMPLAINT, shelf, judge, k=5, before=kept, save=kept.extend)

    assert again.ended is StopReason.STANDS
    assert not set(judge.shown) & {f"c{n:03}" for n in range(5)}, "what was kept is not judged again"
    assert list(again.judged) == kept
    whole = follow(COMPLAINT, shelf, Honest(), k=5)
    assert [(one.suspect.chunk_id, one.iteration) for one in again.judged] == [
        (one.suspect.chunk_id, one.iteration) for one in whole.judged
    ]


def test_a_judge_sees_all_that_was_retrieved_so_far() -> None:
    judge = Honest()

    follow(COMPLAINT, Shelf("! a", "! b", *(f"honest {n}" for n in range(9))), judge, k=3)

    assert judge.seen == [3, 5]
