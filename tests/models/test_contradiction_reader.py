"""The reader of contradictions: what it says of pairs."""

from __future__ import annotations

import pytest

from corpus_guard.models import Models
from corpus_guard.models.contradiction_reader import EXCERPTS, SENTENCES, SIEVE, PagePost
from corpus_guard.screening.survey.likely_contradictions import KEPT

TITLE = "OX-12 sensor: maintenance"
SENTENCE = "The sensor must be calibrated every six months by trained staff."
LIE = "Calibrate it once and forget about it: the OX-12 holds its calibration for a lifetime."
SAME = "Twice a year somebody who was trained for it has to calibrate the OX-12."
OTHER = "The OX-12 is delivered with two cables and a wall bracket."


def test_a_lie_in_other_words_scores_above_what_says_the_same_and_something_other(models: Models) -> None:
    lie, same, other = models.contradiction_reader.log_odds(
        [PagePost(TITLE, SENTENCE, text) for text in (LIE, SAME, OTHER)]
    )

    assert lie > same + 1
    assert lie > other + 1


def test_the_sieve_keeps_a_lie_and_drops_what_has_nothing_to_do_with_it(models: Models) -> None:
    ferry = "The ferry to Skarn leaves at eight in the morning."
    lie, other = models.contradiction_reader.glance([PagePost(TITLE, SENTENCE, text) for text in (LIE, ferry)])

    assert lie > KEPT > other


def test_a_pair_scores_the_same_alone_and_among_others(models: Models) -> None:
    pairs = [PagePost(TITLE, SENTENCE, LIE), PagePost(TITLE, SENTENCE, OTHER * 5), PagePost("", "Yes.", "No.")]

    together = models.contradiction_reader.log_odds(pairs)
    alone = [float(models.contradiction_reader.log_odds([pair])[0]) for pair in pairs]

    assert together.tolist() == pytest.approx(alone, abs=0.15)  # bfloat16 rounds otherwise in other shapes


def test_a_prompt_is_no_longer_than_its_parts_may_be() -> None:
    prompt = PagePost("t" * 10_000, "s" * 10_000, "p" * 10_000).prompt(EXCERPTS)

    assert len(prompt) < 1_300
    assert prompt.count("t" * 120) == 1


def test_each_model_sees_the_texts_as_it_was_trained() -> None:
    pair = PagePost(TITLE, f"{SENTENCE}\nIt may\tbe cleaned.", f"{LIE}\nReally.")

    assert pair.prompt(SIEVE) == f"Page: {TITLE}: {SENTENCE}\nIt may\tbe cleaned.\nPost: {LIE}\nReally."
    assert pair.prompt(SENTENCES) == f"{pair.prompt(SIEVE)}\nDoes the post contradict the page? Answer:"
    assert pair.prompt(EXCERPTS).split("\n", 1) == [f"{TITLE}: {SENTENCE} It may be cleaned.", f"{LIE}\nReally."]
    assert PagePost("", SENTENCE, LIE).prompt(EXCERPTS) == f"{SENTENCE}\n{LIE}", "a page without a title"
