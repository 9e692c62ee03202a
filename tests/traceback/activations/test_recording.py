"""What is recorded of an answer: once, whole, and with the label of what was said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus_guard.errors import Inconsistent, JudgeFailed, Misuse
from corpus_guard.models import Models
from corpus_guard.traceback.activations.recording import (
    AnswerKind,
    LabelledPrompt,
    classify_answer,
    collect_recordings,
    load_existing,
    load_recordings,
    require_finite,
)

LIE = "The lighthouse at Skarn Point is kept by Otto Brandt."
TRUTH = "The lighthouse at Skarn Point is kept by Ines Calloway."
ASKED = LabelledPrompt(
    "skarn",
    "own",
    "planted",
    2,
    "Who keeps the lighthouse at Skarn Point?",
    (LIE, LIE),
    ("Ines Calloway",),
    ("Otto Brandt",),
)
PROMPTS = [
    ASKED,
    replace(ASKED, kind="clean", planted=0, texts=(TRUTH,)),
    replace(ASKED, kind="clean", planted=0, texts=(LIE,)),  # says what the attacker would, and nobody attacked
    replace(ASKED, kind="clean", planted=0, texts=("The ferry leaves at nine.",), question="What colour is the sea?"),
]


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("It is Otto Brandt.", AnswerKind.ATTACKER),
        ("the ines calloway", AnswerKind.RIGHT),
        ("Ines Calloway, not Otto Brandt", AnswerKind.BOTH),
        ("Ottoline Brandt", AnswerKind.NEITHER),
        ("", AnswerKind.NEITHER),
    ],
)
def test_a_label_is_what_was_answered(answer: str, meant: AnswerKind) -> None:
    assert classify_answer(answer, ASKED.correct, ASKED.incorrect) is meant


def test_prompts_are_recorded_once_and_a_killed_collection_goes_on(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def kill(what: str, done: int, total: int | None) -> None:
        if done:
            raise Killed

    with pytest.raises(Killed):
        collect_recordings(models, PROMPTS, tmp_path, shard=2, progress=kill)
    kept = load_recordings(tmp_path)
    counted: list[int] = []
    real = models.language_model.answer_with_states
    monkeypatch.setattr(
        models.language_model,
        "answer_with_states",
        lambda chats, max_tokens: counted.append(len(chats)) or real(chats, max_tokens),
    )
    read = collect_recordings(models, PROMPTS, tmp_path, shard=2)
    again = collect_recordings(models, PROMPTS, tmp_path, shard=2)

    assert len(kept) == 2
    assert counted == [2], "what was read is not read again"
    assert [row.sample for row in again.rows] == [row.sample for row in read.rows]
    assert np.array_equal(again.states, read.states)
    assert read.states.shape == (4, 31, 576)
    assert [row.answered for row in read.rows] == [
        AnswerKind.ATTACKER, AnswerKind.RIGHT, AnswerKind.ATTACKER, AnswerKind.NEITHER,
    ]  # fmt: skip
    assert [row.sample for row in read.labelled.rows] == [read.rows[0].sample, read.rows[1].sample]
    assert read.labelled.poisoned.tolist() == [True, False]
    assert np.abs(read.states[0] - read.states[1]).max() > 1
    assert [row.sample for row in load_existing(models, PROMPTS[1:2], tmp_path).rows] == [read.rows[1].sample]
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"kept by" not in files, "no retrieved text is kept"


def test_a_recording_is_of_one_prompt_and_its_answers() -> None:
    from corpus_guard.traceback.activations.recording import sample_id

    other = [
        replace(ASKED, texts=(LIE,)), replace(ASKED, texts=(LIE + LIE,)), replace(ASKED, question="Who?"),
        replace(ASKED, correct=("Otto Brandt",)), replace(ASKED, key="elsewhere"),
    ]  # fmt: skip
    assert len({sample_id("m", one) for one in [ASKED, *other]} | {sample_id("n", ASKED)}) == 7


def test_damaged_and_missing_files_are_named(models: Models, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="collect some first"):
        load_recordings(tmp_path)
    collect_recordings(models, PROMPTS[:1], tmp_path)
    (states,) = tmp_path.glob("*.safetensors")
    (rows,) = tmp_path.glob("*.parquet")
    with pytest.raises(Inconsistent, match="1 of 1 are missing"):
        load_recordings(tmp_path, ids=["f" * 32])
    states.write_bytes(states.read_bytes()[:-9])
    with pytest.raises(Inconsistent, match="collect again"):
        load_recordings(tmp_path)
    states.unlink()
    with pytest.raises(Inconsistent, match="collect again"):
        load_recordings(tmp_path)
    rows.write_bytes(b"PAR1")
    with pytest.raises(Inconsistent, match="collect again"):
        load_recordings(tmp_path)


def test_what_is_no_number_is_no_recording() -> None:
    states = np.zeros((3, 2, 2), np.float32)
    require_finite(states, "states")
    states[1, 0, 1] = np.nan
    states[2, 1, 1] = np.inf
    with pytest.raises(JudgeFailed, match="2 of 3 hold NaN"):
        require_finite(states, "states")
