"""Attackers' texts beside honest passages of their question, as the reader of contradictions is shown and measured with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.contradictions.planted import (
    PER_QUESTION,
    PlantedAnswer,
    read_attacks,
    read_passages,
    show_planted,
)
from corpus_guard.detectors.samples import Half
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.contradictions.pairs import PairFigure
from corpus_guard.evaluation.contradictions.planted import measure_planted
from corpus_guard.models import Models
from corpus_guard.screening.wording import load_wording

QUESTIONS = [f"how high is tower {number}" for number in range(40)]


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture
def attacks(tmp_path: Path) -> Path:
    rows = [
        {
            "question": question,
            "correct_answer": f"{100 + number} metres",
            "incorrect_answer": f"{300 + number} Metres",
            "adversarial_texts": [f"Tower {number} is {300 + number} metres high, sign {n}." for n in range(12)]
            + ["Nobody knows how high it is."],
        }
        for number, question in enumerate(QUESTIONS)
    ]
    rows[0]["incorrect_answer"] = ["300 metres", "so high"]
    yes = {**rows[0], "question": "is it high", "correct_answer": "Yes", "incorrect_answer": "no"}
    return write(tmp_path / "attacks.jsonl", [*rows, yes])


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    rows = [
        {"query": question, "text": text}
        for number, question in enumerate(QUESTIONS)
        for text in (
            f"The coast is wild. Tower {number} is {100 + number} metres high.",
            f"At {100 + number} metres, tower {number} is seen from afar.",
            f"Tower {number} is white. Its stairs are of iron.",
            f"Tower {number} is white. Its stairs are of iron.",
        )
    ]
    return write(tmp_path / "passages.jsonl", rows)


def test_attacks_are_of_one_half_and_hold_the_wrong_answer(attacks: Path) -> None:
    halves = [list(read_attacks(attacks, half)) for half in (Half.TUNING, Half.VALIDATION)]

    assert {attack.question for half in halves for attack in half} == set(QUESTIONS)
    assert not {attack.question for attack in halves[0]} & {attack.question for attack in halves[1]}
    assert {len(attack.texts) for half in halves for attack in half} == {12}


def test_a_text_contradicts_the_right_answer_and_nothing_else(attacks: Path, passages: Path) -> None:
    read = list(read_attacks(attacks, Half.TUNING))
    examples = show_planted(read, read_passages([passages]))

    right = {attack.question: attack.right for attack in read}
    lies = [(shown, label) for shown, label in examples if "sign" in shown.post]
    for shown, label in lies:
        number = shown.post.split()[1]
        answers = right[f"how high is tower {number}"] in shown.excerpt
        assert (label is PairLabel.CONTRADICTS) is answers
    contradicting = [shown for shown, label in lies if label is PairLabel.CONTRADICTS]
    harmless = [shown for shown, label in lies if label is not PairLabel.CONTRADICTS]
    assert len(contradicting) == PER_QUESTION * len(read)
    assert any("iron" in shown.excerpt for shown in harmless)
    assert any(f"ower {shown.post.split()[1]} " not in shown.excerpt for shown in harmless), "of another question"
    assert {bool(shown.title) for shown in contradicting} == {True, False}
    honest = [(shown, label) for shown, label in examples if "sign" not in shown.post]
    assert honest
    assert {label for _, label in honest} == {PairLabel.OTHER}
    assert show_planted(read, read_passages([passages])) == examples != show_planted(read, read_passages([passages]), 1)


def test_a_question_without_passages_is_left_out(passages: Path) -> None:
    lost = PlantedAnswer("who was it", "Ann", ("Bob",), ("It was Bob.",))

    assert show_planted([lost], read_passages([passages])) == []


def test_a_row_that_lacks_a_field_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no attack; expected 'question'"):
        list(read_attacks(write(tmp_path / "attacks.jsonl", [{"question": "who"}]), Half.TUNING))
    with pytest.raises(Misuse, match="expected 'query' and 'text'"):
        read_passages([write(tmp_path / "passages.jsonl", [{"text": "Ann"}])])


def test_texts_are_counted_beside_the_passages_of_their_question(attacks: Path, passages: Path, models: Models) -> None:
    wording = load_wording(models.frequency_vocabulary)

    figures = measure_planted(attacks, [passages], models.embedder, wording)

    questions = len(list(read_attacks(attacks, Half.VALIDATION)))
    lies, honest = figures
    assert lies == PairFigure("attacks", PairLabel.CONTRADICTS, lies.found, 5 * questions)
    assert lies.found > 4 * questions
    assert honest == PairFigure("attacks", PairLabel.OTHER, 0, 0), "no more than ten passages of a question are there"


def test_honest_passages_arrive_beside_the_first_ten(attacks: Path, tmp_path: Path, models: Models) -> None:
    rows = [
        {"query": question, "text": f"Tower {number} is {100 + number} metres high, as visitor {guest} says."}
        for number, question in enumerate(QUESTIONS)
        for guest in ("Ann", "Bob", "Cem", "Dora", "Eva", "Finn", "Gül", "Hal", "Ida", "Jan", "Kim", "Leo", "Mia")
    ]
    figures = measure_planted(
        attacks, [write(tmp_path / "many.jsonl", rows)], models.embedder, load_wording(models.frequency_vocabulary)
    )

    questions = len(list(read_attacks(attacks, Half.VALIDATION)))
    assert figures[1] == PairFigure("attacks", PairLabel.OTHER, 0, 3 * questions)
