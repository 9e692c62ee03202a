"""Rows as they may come, and as they may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attacked_questions import a_row, write_rows
from corpus_guard.detectors.target_questions import (
    MAX_ANSWER_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    RequiredField,
    read_targets,
)
from corpus_guard.errors import Misuse


def test_a_row_is_read_and_answers_may_be_lists(tmp_path: Path) -> None:
    rows = [
        a_row(0),
        a_row(1, id=7, incorrect_answer=["Piet Holm", "Holm"], correct_answer=["Ada Moss", " "], note="ignored"),
        {"id": "bare", "question": "q?", "incorrect_answer": "x"},
    ]

    read = read_targets(write_rows(tmp_path / "t.jsonl", rows))

    one, other, bare = read.targets
    assert (one.id, one.correct, one.incorrect) == ("q0", ("green",), ("violet",))
    assert list(one.adversarial) == rows[0]["adversarial_texts"]
    assert list(one.clean) == rows[0]["clean_texts"]
    assert (other.id, other.incorrect, other.correct) == ("7", ("Piet Holm", "Holm"), ("Ada Moss",))
    assert (bare.correct, bare.adversarial, bare.clean) == ((), (), ())


def test_a_whole_number_answers_how_many(tmp_path: Path) -> None:
    (one,) = read_targets(write_rows(tmp_path / "t.jsonl", [a_row(0, correct_answer=23, incorrect_answer=20)])).targets

    assert (one.correct, one.incorrect) == (("23",), ("20",))


def test_the_limit_takes_the_first_and_blank_texts_are_counted(tmp_path: Path) -> None:
    rows = [a_row(0, clean_texts=["a", " ", ""], adversarial_texts=["b", "\n"]), a_row(1), "not looked at"]

    read = read_targets(write_rows(tmp_path / "t.jsonl", rows), limit=2)

    assert [one.id for one in read.targets] == ["q0", "q1"]
    assert (read.targets[0].clean, read.targets[0].adversarial, read.blank) == (("a",), ("b",), 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"id": None}, "'id' is missing or null"),
        ({"id": True}, "'id' is a bool"),
        ({"id": " "}, "'id' is a str"),
        ({"question": ""}, "'question' is empty"),
        ({"question": ["q"]}, "'question' is a list"),
        ({"question": "q" * (MAX_ANSWER_CHARACTERS + 1)}, "'question' holds 8,001 characters"),
        ({"incorrect_answer": None}, "'incorrect_answer' is missing or null"),
        ({"incorrect_answer": []}, "'incorrect_answer' is empty"),
        ({"incorrect_answer": [3]}, "'incorrect_answer' is a list with other values or none"),
        ({"incorrect_answer": 24.5}, "'incorrect_answer' is a float"),
        ({"correct_answer": True}, "'correct_answer' is a bool"),
        ({"correct_answer": {"a": 1}}, "'correct_answer' is a dict"),
        ({"correct_answer": []}, "'correct_answer' is empty"),
        ({"adversarial_texts": "one"}, "'adversarial_texts' is a str"),
        ({"adversarial_texts": [None]}, "'adversarial_texts' is a list with other values or none"),
        ({"adversarial_texts": [" "]}, "'adversarial_texts' is a list with other values or none"),
        ({"clean_texts": [["nested"]]}, "'clean_texts' is a list with other values or none"),
        ({"clean_texts": ["x" * (MAX_TEXT_CHARACTERS + 1)]}, "'clean_texts' holds 1,000,001 characters"),
        ({"clean_texts": ["half \ud800"]}, "'clean_texts' holds half a surrogate pair"),
    ],
)
def test_an_odd_row_is_named_by_file_line_and_key(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    path = write_rows(tmp_path / "t.jsonl", [a_row(0), a_row(1, **changes)])

    with pytest.raises(Misuse) as error:
        read_targets(path, set(RequiredField))

    assert str(error.value).startswith(f"{path}:2: {told}")
    assert len(str(error.value)) < 400  # never the text itself


def test_what_is_not_needed_may_be_missing(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.jsonl", [{"id": "1", "question": "q", "incorrect_answer": "x"}])

    assert read_targets(path).targets
    for need in RequiredField:
        with pytest.raises(Misuse, match=f":1: '{need.value}' is missing"):
            read_targets(path, {need})


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "odd.jsonl").write_text(json.dumps(["list"]) + "\n")

    with pytest.raises(Misuse, match="holds no row"):
        read_targets(tmp_path / "empty.jsonl")
    with pytest.raises(Misuse, match=r"odd\.jsonl:1: a list"):
        read_targets(tmp_path / "odd.jsonl")
    with pytest.raises(Misuse, match="cannot be read"):
        read_targets(tmp_path / "missing.jsonl")


def test_the_same_question_and_answer_spelt_otherwise_are_one_attack(tmp_path: Path) -> None:
    rows = [a_row(0), a_row(0, question="What colour is the lamp of the North Pier?"), a_row(0, incorrect_answer="red")]

    one, same, other = read_targets(write_rows(tmp_path / "t.jsonl", rows)).targets

    assert one.key == same.key != other.key
