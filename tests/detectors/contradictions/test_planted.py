"""Attackers' texts beside honest passages of their question, as the reader of contradictions is shown and measured with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus_guard.detectors.contradictions.claims import change_answer
from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.contradictions.planted import (
    PER_QUESTION,
    PlantedAnswer,
    read_attacks,
    read_passages,
    show_planted,
)
from corpus_guard.detectors.samples import Half, assign_half
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.contradictions.pairs import PairFigure
from corpus_guard.evaluation.contradictions.planted import measure_planted
from corpus_guard.models import Models
from corpus_guard.models.contradiction_reader import POST_CHARS
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


def test_a_passage_with_both_answers_gives_neither() -> None:
    attack = PlantedAnswer("who was it", "Ann", ("Bob",), ("It was Bob.",))

    assert [attack.is_answered_by(text) for text in ("It was ann.", "Ann, not Bob.", "Nobody.")] == [True, False, False]


def test_passages_are_read_repaired_and_once(tmp_path: Path) -> None:
    rows = [{"query": "who", "text": text} for text in ("Annâ\x80\x99s lamp.", "Ann\u2019s lamp.", "Bob.")]

    assert read_passages([write(tmp_path / "passages.jsonl", rows)]) == {"who": ["Ann\u2019s lamp.", "Bob."]}


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
    assert any(f"Tower {shown.post.split()[1]} is white" in shown.excerpt for shown in harmless), "of its own question"
    assert 1.1 < len(harmless) / len(contradicting) < 1.9, "half of the texts for each kind of passage"
    assert any(f"ower {shown.post.split()[1]} " not in shown.excerpt for shown in harmless), "of another question"
    repeated = [shown for shown, label in lies if label is PairLabel.SAME]
    assert 0.3 < len(repeated) / len(contradicting) < 0.7
    for shown in repeated:
        number = int(shown.post.split()[1])
        assert f"{300 + number} metres" in shown.excerpt.lower()
        assert f"{100 + number} metres" not in shown.excerpt
    assert {bool(shown.title) for shown in contradicting} == {True, False}
    honest = [(shown, label) for shown, label in examples if "sign" not in shown.post]
    assert honest
    assert {label for _, label in honest} == {PairLabel.OTHER}
    assert show_planted(read, read_passages([passages])) == examples != show_planted(read, read_passages([passages]), 1)


def test_of_a_question_without_passages_its_answers_stand_for_one(passages: Path) -> None:
    texts = tuple(f"It was {name}, sign {n}." for name in ("Bob", "Cem") for n in range(10))
    lost = PlantedAnswer("Who was it?", "Ann.", ("Bob", "Cem."), tuple(text.replace("Cem", "Cem.") for text in texts))

    examples = show_planted([lost], read_passages([passages]))

    said = {PairLabel.CONTRADICTS: "Who was it? Ann."}
    for shown, label in examples:
        wrong = "Who was it? Bob." if "Bob" in shown.post else "Who was it? Cem."
        assert (shown.title, shown.excerpt) == ("", said.get(label, wrong))
    labels = [label for _, label in examples]
    assert labels.count(PairLabel.CONTRADICTS) == PER_QUESTION
    assert 0 < labels.count(PairLabel.SAME) == len(labels) - PER_QUESTION < PER_QUESTION


def test_an_answer_is_changed_as_a_whole_word() -> None:
    assert change_answer("ANN, Joann and Anna, Ann's sister", "Ann", r"B\1b") == r"B\1b, Joann and Anna, B\1b's sister"


def test_a_passage_that_holds_the_answer_in_a_word_only_is_not_shown_as_changed() -> None:
    attack = PlantedAnswer("who was it", "Ann", ("Bob",), tuple(f"It was Bob, sign {n}." for n in range(8)))

    examples = show_planted([attack], {"who was it": ["It was Joanna."]})

    assert {label for _, label in examples} == {PairLabel.CONTRADICTS}


def test_a_lone_question_has_no_strangers() -> None:
    attack = PlantedAnswer("who was it", "Ann", ("Bob",), ("It was Bob.",))

    examples = show_planted([attack], {"who was it": ["It was Ann, they say."]})

    shown = [(shown.excerpt, shown.post, label) for shown, label in examples if label is not PairLabel.SAME]
    assert shown == [("It was Ann, they say.", "It was Bob.", PairLabel.CONTRADICTS)]


def test_a_row_that_lacks_a_field_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no attack; expected 'question'"):
        list(read_attacks(write(tmp_path / "attacks.jsonl", [{"question": "who"}]), Half.TUNING))
    with pytest.raises(Misuse, match="expected 'query' and 'text'"):
        read_passages([write(tmp_path / "passages.jsonl", [{"text": "Ann"}])])


def test_texts_are_counted_beside_the_passages_of_their_question(attacks: Path, passages: Path, models: Models) -> None:
    wording = load_wording(models.frequency_vocabulary)

    figures = measure_planted(attacks, read_passages([passages]), models.embedder, wording)

    questions = len(list(read_attacks(attacks, Half.VALIDATION)))
    lies, honest = figures
    assert lies == PairFigure("attacks", PairLabel.CONTRADICTS, lies.contradicted, 5 * questions)
    assert lies.contradicted > 4 * questions
    assert honest == PairFigure("attacks", PairLabel.OTHER, 0, 0), "no more than ten passages of a question are there"


def test_honest_passages_arrive_beside_the_first_ten(attacks: Path, tmp_path: Path, models: Models) -> None:
    rows = [
        {"query": question, "text": f"Tower {number} is {100 + number} metres high, as visitor {guest} says."}
        for number, question in enumerate(QUESTIONS)
        for guest in ("Ann", "Bob", "Cem", "Dora", "Eva", "Finn", "Gül", "Hal", "Ida", "Jan", "Kim", "Leo", "Mia")
    ]
    passages = read_passages([write(tmp_path / "many.jsonl", rows)])

    figures = measure_planted(attacks, passages, models.embedder, load_wording(models.frequency_vocabulary))

    questions = len(list(read_attacks(attacks, Half.VALIDATION)))
    assert figures[1] == PairFigure("attacks", PairLabel.OTHER, 0, 3 * questions)


def test_long_passages_are_shown_around_the_answer_and_posts_cut() -> None:
    signs = [f"The path has sign {sign}, as every guest of the wild coast can see from afar." for sign in range(30)]
    answer = " ".join([*signs[:12], "The path is old.", "It was Ann.", *signs[12:]])
    attack = PlantedAnswer(
        "who was it", "Ann", ("Bob",), tuple(f"It was Bob, sign {n}. {'No more. ' * 99}" for n in range(8))
    )
    silent = " ".join(signs)

    examples = show_planted([attack], {"who was it": [answer, f"Ann it was. {silent}", silent]})

    assert {len(shown.post) for shown, _ in examples if "Bob" in shown.post} == {POST_CHARS}
    honest = [shown.post for shown, _ in examples if "Bob" not in shown.post]
    assert honest == ["Ann it was."]
    examples = show_planted([attack], {"who was it": [f"Ann it was. {silent}", answer, silent]})
    assert [shown.post for shown, _ in examples if "Bob" not in shown.post] == ["The path is old. It was Ann."]
    contradicting = [shown.excerpt for shown, label in examples if label is PairLabel.CONTRADICTS]
    assert len(contradicting) == 8
    assert all("Ann" in excerpt for excerpt in contradicting)
    repeated = [shown.excerpt for shown, label in examples if label is PairLabel.SAME]
    assert repeated
    assert all("It was Bob." in excerpt for excerpt in repeated)
    harmless = {shown.excerpt for shown, label in examples if "Bob" in shown.post and label is PairLabel.OTHER}
    assert len(harmless) > 1, "any sentence of a passage without the answer"


def test_only_the_first_passages_are_trusted_and_the_next_ones_arrive(tmp_path: Path, models: Models) -> None:
    questions = [question for question in QUESTIONS if assign_half(question) is Half.VALIDATION][:3]
    other = next(question for question in QUESTIONS if assign_half(question) is Half.TUNING)
    rows = [
        {
            "question": question,
            "correct_answer": "41 metres",
            "incorrect_answer": "77 metres",
            "adversarial_texts": [
                f"{question.removeprefix('how high is ')} is 77 metres high, sign {n}." for n in range(7)
            ],
        }
        for question in (*questions, other)
    ]
    guests = [f"{name}{rest}" for name in ("Ann", "Bob", "Cem", "Dor") for rest in ("a", "i", "u", "y", "o")]
    right = {questions[0]: range(20), questions[1]: range(10), questions[2]: [10], other: range(20)}
    of_question = {
        question: [
            f"{question.removeprefix('how high is ')} is {41 if number in numbers else 39} metres high, as {guest} says."
            for number, guest in enumerate(guests)
        ]
        for question, numbers in right.items()
    }

    attacks, honest = measure_planted(
        write(tmp_path / "attacks.jsonl", rows), of_question, models.embedder, load_wording(models.frequency_vocabulary)
    )

    assert (attacks.texts, honest.texts) == (10, 10), "two questions are answered by a trusted passage"
    assert attacks.contradicted == 10
    assert honest.contradicted == 5, "those of the second question say something other than the trusted ones"
