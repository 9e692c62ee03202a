"""Rates against values from the literature, curves against counting by hand."""

from __future__ import annotations

import pytest

from corpus_guard.tracking.measures import BINS, ScreeningOutcome, histogram, risk_curve, tally_outcomes


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
