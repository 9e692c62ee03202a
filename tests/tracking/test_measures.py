"""Rates against values from the literature, curves against counting by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.tracking.measures import (
    BINS,
    ScreeningOutcome,
    histogram,
    risk_curve,
    tally_outcomes,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_gives_the_published_intervals(hits: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(hits, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_rate_and_stays_within_bounds(counts: tuple[int, int]) -> None:
    hits, n = counts
    low, high = wilson_interval(hits, n)

    assert 0 <= low <= hits / n <= high <= 1
    assert wilson_interval(n - hits, n) == pytest.approx((1 - high, 1 - low))


def test_a_tally_counts_each_code_once_a_text_and_only_of_what_was_caught() -> None:
    counted = tally_outcomes(
        [
            ScreeningOutcome(True, 0.9, ("unicode.bidi", "unicode.bidi", "instructions.override")),
            ScreeningOutcome(True, 0.6, ("unicode.bidi",)),
            ScreeningOutcome(False, 0.1, ("instructions.weak",)),
        ]
    )

    assert (counted.n, counted.caught, counted.rate) == (3, 2, pytest.approx(2 / 3))
    assert counted.codes == {"unicode.bidi": 2, "instructions.override": 1}
    assert counted.as_dict()["codes"] == {"unicode.bidi": 2, "instructions.override": 1}
    assert tally_outcomes([]).rate == 0


def test_every_risk_falls_into_one_bin_the_ends_included() -> None:
    counts = histogram([0.0, 0.049, 0.05, 0.999, 1.0])

    assert len(counts) == BINS
    assert (counts[0], counts[1], counts[-1]) == (2, 1, 2)


def test_the_curve_is_that_of_counting_pairs() -> None:
    attacks, clean = [0.9, 0.8, 0.4, 0.4], [0.7, 0.4, 0.1]
    pairs = [1.0 if a > c else 0.5 if a == c else 0.0 for a in attacks for c in clean]

    curve = risk_curve(attacks, clean)

    assert curve is not None
    assert curve.auc == pytest.approx(sum(pairs) / len(pairs), abs=1e-5)
    assert (curve.false_positives[0], curve.true_positives[-1]) == (0.0, 1.0)
    assert risk_curve([], clean) is None
    assert risk_curve(attacks, []) is None
