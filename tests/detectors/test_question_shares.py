"""Intervals that are drawn by question."""

from __future__ import annotations

import numpy as np
import pytest

from corpus_guard.detectors.question_shares import share_by_question
from corpus_guard.screening.calibration import wilson_interval


def test_a_share_counts_all_texts_and_leaves_out_questions_without_any() -> None:
    share = share_by_question([(1, 4), (0, 0), (0, 6)])

    assert (share.hits, share.n, share.rate) == (1, 10, 0.1)
    assert share.questions == ((1, 4), (0, 6))


def test_the_interval_of_errors_that_come_together_is_wider_than_that_of_texts() -> None:
    together = share_by_question([(5, 5)] * 3 + [(0, 5)] * 27)
    apart = share_by_question([(1, 5)] * 15 + [(0, 5)] * 15)

    wilson = wilson_interval(15, 150)
    assert together.rate == apart.rate == 0.1
    assert together.interval[1] - together.interval[0] > 1.8 * (wilson[1] - wilson[0])
    assert apart.interval[1] - apart.interval[0] < wilson[1] - wilson[0]


def test_with_one_text_a_question_the_interval_is_nearly_wilsons() -> None:
    share = share_by_question([(1, 1)] * 40 + [(0, 1)] * 160)

    assert share.interval == pytest.approx(wilson_interval(40, 200), abs=0.01)
    assert share.interval == share_by_question([(1, 1)] * 40 + [(0, 1)] * 160).interval


def test_the_interval_holds_the_truth_in_most_samples() -> None:
    """Each question's texts are all wrong with a probability of 0.3, so the share of texts is 0.3."""
    draw = np.random.default_rng(7)
    samples = [share_by_question((5 * int(wrong), 5) for wrong in draw.random(60) < 0.3) for _ in range(200)]

    covered = sum(low <= 0.3 <= high for low, high in (share.interval for share in samples))
    by_text = sum(low <= 0.3 <= high for low, high in (wilson_interval(share.hits, share.n) for share in samples))
    assert 180 <= covered <= 199
    assert by_text < 150


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([(0, 5)] * 15, wilson_interval(0, 15)),
        ([(5, 5)] * 15, wilson_interval(15, 15)),
        ([(0, 5)], wilson_interval(0, 1)),
        ([(2, 5)], wilson_interval(2, 5)),
        ([], (0.0, 1.0)),
    ],
)
def test_without_a_difference_between_questions_the_interval_is_wilsons(
    counts: list[tuple[int, int]], expected: tuple[float, float]
) -> None:
    assert share_by_question(counts).interval == expected
