"""Which prompts are made of a question, and that no question is on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.activations.material import extras_of, is_tested, prompts_of
from corpus_guard.settings import PROJECT

SAMPLE = PROJECT / "include" / "sample_corpus" / "questions.jsonl"


def test_the_sample_gives_every_kind_and_splits_by_question() -> None:
    prompts = prompts_of([SAMPLE])
    tested = {one.key for one in prompts if is_tested(one.key)}

    assert {one.kind for one in prompts} == {"clean", "planted", "look-alike", "mixed"}
    assert 0.15 < len(tested) / len({one.key for one in prompts}) < 0.5
    planted = {
        half: {text for one in prompts if is_tested(one.key) is half for text in one.texts[: one.planted]}
        for half in (True, False)
    }
    assert not planted[True] & planted[False]
    assert {len(one.texts) for one in prompts if one.kind == "planted"} == {1, 2, 3, 4, 5}
    for one in prompts:
        assert all(one.incorrect[0].casefold() in text.casefold() for text in one.texts[: one.planted])
        if one.kind in {"clean", "look-alike"}:
            assert one.planted == 0
            assert not any(one.incorrect[0].casefold() in text.casefold() for text in one.texts)
            assert any(one.correct[0].casefold() in text.casefold() for text in one.texts)
    assert prompts == prompts_of([SAMPLE])
    assert len(prompts_of([SAMPLE], limit=3)) < len(prompts) / 5


def test_extras_are_of_questions_that_are_tested_on(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    variants = tmp_path / "variants.jsonl"
    variants.write_text("".join(json.dumps({**row, "attack": "garag_typos", "dataset": "own"}) + "\n" for row in rows))

    extras = extras_of([SAMPLE], [variants])

    assert {one.kind for one in extras} == {"noisy", "garag_typos"}
    assert all(is_tested(one.key) for one in extras)
    clean = {one.key: one for one in prompts_of([SAMPLE]) if one.kind == "clean" and len(one.texts) == 5}
    for one in extras:
        if one.kind == "noisy":
            assert one.texts != clean[one.key].texts
            assert any(one.correct[0] in text for text in one.texts)


def test_a_file_without_what_is_needed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": 1, "question": "Who?", "incorrect_answer": "Ada"}) + "\n")
    with pytest.raises(Misuse, match="no question with a correct_answer"):
        prompts_of([path])
    assert {one.kind for one in extras_of([SAMPLE], [path])} == {"noisy"}, "no right answer: left out"
    path.write_text(json.dumps({"question": 1, "incorrect_answer": "Ada", "correct_answer": "Ben"}) + "\n")
    with pytest.raises(Misuse, match="expected question, correct_answer"):
        extras_of([SAMPLE], [path])
