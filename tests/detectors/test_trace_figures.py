"""Truth and arithmetic on games that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attacked_questions import a_row
from corpus_guard.detectors.target_questions import TargetQuestion
from corpus_guard.detectors.trace_figures import count_figures
from corpus_guard.detectors.traced_questions import TracedQuestion, planted_ids
from corpus_guard.domain import sha256_text
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.screening.calibration import wilson_interval
from corpus_guard.traceback.conclusion import TraceConclusion
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.loop import JudgedText, LoopResult, StopReason
from corpus_guard.traceback.retrieval import RetrievedText

P, B, U = Label.POISONED, Label.BENIGN, Label.UNDECIDED


def a_target(number: int = 0, **changes: object) -> TargetQuestion:
    row = a_row(number) | changes
    return TargetQuestion(row["id"], row["question"], (row["correct_answer"],), (row["incorrect_answer"],), (), ())


def a_game(
    *labels: tuple[bool, Label],
    outcome: TraceOutcome = TraceOutcome.TRACED,
    iterations: int = 1,
    number: int = 0,
    answer: str = "red",
) -> TracedQuestion:
    """One judged text a (poisoned in truth, label); all are retrieved first, the accused no longer."""
    suspects = [RetrievedText(f"t{n}", f"text {n}", 0.5, np.zeros(2, np.float32)) for n in range(len(labels))]
    judged = tuple(
        JudgedText(one, Opinion(label, 0.123456789, "because"), 1)
        for one, (_, label) in zip(suspects, labels, strict=True)
    )
    standing = tuple(one.suspect for one in judged if one.opinion.label is not P)
    followed = LoopResult(judged, tuple(suspects), standing, iterations, StopReason.STANDS)
    truth = frozenset(one.chunk_id for one, (poisoned, _) in zip(suspects, labels, strict=True) if poisoned)
    target = a_target(id=f"q{number}", question=f"What colour is lamp {number}?", incorrect_answer=answer)
    return TracedQuestion(target, truth, followed, TraceConclusion(outcome, judged, None), standing, 0.5)


GAMES = (
    a_game((True, P), (True, P), (True, B), (False, B), (False, P), iterations=3),
    a_game((True, U), (False, U), (False, B), outcome=TraceOutcome.UNDECIDED, number=1),
    a_game((True, P), (False, B), (False, B), iterations=2, number=2),
)


def test_rates_are_shares_of_what_is_so_in_truth() -> None:
    found = count_figures(GAMES).as_dict(honest=False)

    assert (found["judged"], found["poisoned"], found["benign"]) == (11, 5, 6)
    assert found["counts"] == {"tp": 3, "fp": 1, "tn": 4, "fn": 1, "undecided_poisoned": 1, "undecided_benign": 1}
    assert found["dacc"] == pytest.approx(7 / 11)
    assert found["fpr"] == pytest.approx(1 / 6)  # the undecided one is no accusation
    assert found["fnr"] == pytest.approx(2 / 5)  # the undecided one is missed
    assert found["intervals"]["fnr"] == [0.0, 1.0]  # one of three questions: all missed; of another: 1 of 3
    assert found["intervals_drawn_by"] == {"unit": "question", "draws": 4_000}


def test_the_intervals_are_drawn_by_question_and_reports_of_one_question_are_one() -> None:
    questions = [a_game(*[(True, P)] * 5, number=number) for number in range(14)]
    missed = a_game(*[(True, B)] * 5, number=14)
    again = a_game(*[(True, B)] * 5, number=14, answer="crimson")

    figures = count_figures([*questions, missed])
    both = count_figures([*questions, missed, again])

    assert figures.fnr.questions == ((0, 5),) * 14 + ((5, 5),)
    assert both.fnr.questions == ((0, 5),) * 14 + ((10, 10),)
    low, high = figures.fnr.interval
    assert low == 0.0
    assert high == pytest.approx(3 / 15)  # in a draw, the missed question comes up to three times
    assert high > wilson_interval(5, 75)[1] + 0.04  # which takes the texts for independent cases


def test_questions_are_counted_beside_texts() -> None:
    found = count_figures(GAMES).as_dict(honest=False)

    assert found["queries"] == 3
    assert found["iterations_mean"] == 2.0
    assert found["seconds_per_suspect"] == pytest.approx(1.5 / 11)
    assert found["outcomes"] == {"traced": 2, "not_poisoning": 0, "exhausted": 0, "undecided": 1, "judge_failed": 0}
    assert found["honest_reports"] == {"reports": 0, "accused": 0}
    assert (found["queries_reached"], found["queries_still_reached"]) == (3, 2)


def test_honest_reports_are_the_questions_and_those_that_accuse() -> None:
    games = [a_game((False, P), (False, P), (False, B)), a_game((False, B)), a_game((False, U))]

    found = count_figures(games).as_dict(honest=True)

    assert found["honest_reports"] == {"reports": 3, "accused": 1}
    assert (found["poisoned"], found["fnr"], found["fpr"], found["dacc"]) == (0, 0.0, 2 / 5, 2 / 5)


def test_nothing_played_is_no_division_by_nothing() -> None:
    found = count_figures([]).as_dict(honest=False)

    assert (found["dacc"], found["iterations_mean"], found["seconds_per_suspect"], found["queries"]) == (0, 0, 0, 0)


def test_what_poisons_a_question_is_what_was_planted_for_it_in_any_row() -> None:
    same = a_target(0, question="What colour is the LAMP of the north pier?")
    other = a_target(0, incorrect_answer="red")

    found = planted_ids([(a_target(0), ["a", "b"]), (same, ["c"]), (other, ["d"]), (a_target(1), ["b"])])

    assert found[a_target(0).key] == found[same.key] == {sha256_text(text) for text in "abc"}
    assert found[other.key] == {sha256_text("d")}
    assert found[a_target(1).key] == {sha256_text("b")}


def test_rows_hold_the_judged_texts_in_order() -> None:
    lines = list(GAMES[1].rows())

    assert [line["label"] for line in lines] == ["undecided", "undecided", "benign"]
    assert lines[0] == {"query_id": "q1", "text": "text 0", "label": "undecided", "score": 0.123457, "iteration": 1}


def test_the_labels_that_hold_in_the_end_count_and_not_those_of_the_first_look() -> None:
    first, final = a_game((False, P), (True, P)), a_game((False, B), (True, P))
    game = TracedQuestion(first.target, first.poisoned, first.loop, final.conclusion, final.remaining, 0.0)

    assert [line["label"] for line in game.rows()] == ["benign", "poisoned"]
    assert count_figures([game]).as_dict(honest=False)["counts"]["fp"] == 0
