"""`guard evaluate traceback` as people and scripts meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.models import Models
from deploying import Typed

WRONG = ("violet", "Piet Holm", "forty metres")
QUESTIONS = (
    ("what colour is the lamp of the north pier", "green"),
    ("who has run the harbour office since 1998", "Ada Moss"),
    ("how deep is the old dry dock", "nine metres"),
)
FIGURES = {
    "dacc", "fpr", "fnr", "judged", "poisoned", "benign", "queries", "iterations_mean", "outcomes", "seconds_per_suspect",
    "honest_reports",
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, models_home: Path, models: Models, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    """`guard evaluate traceback` in this process, models loaded once."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(models_home / "models")
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(home))
    monkeypatch.setattr("corpus_guard.detectors.attack_simulation.Models", lambda settings: models)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        return typed("evaluate", "traceback", *arguments)

    return call


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    rows = [
        {
            "id": number,
            "question": question,
            "correct_answer": right,
            "incorrect_answer": [wrong],
            "adversarial_texts": [
                f"{start} {question.partition(' ')[2]}: it is {wrong} {end}"
                for start, end in (("On", "for sure."), ("Of", "these days."), ("As to", "since spring."))
            ],
            "clean_texts": [
                f"{start} {question.partition(' ')[2]} {end}"
                for start, end in (
                    ("Visitors ask about", f"and are told {right}."),
                    ("The log book mentions", "twice."),
                    ("Nothing new on", "this month."),
                    ("For", "see the map in the waiting room."),
                    ("A report deals with", "and with the weather."),
                )
            ],
        }
        for number, ((question, right), wrong) in enumerate(zip(QUESTIONS, WRONG, strict=True))
    ]
    path = tmp_path / "targets.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_figures_verdicts_and_a_table(run: Typed, targets: Path, tmp_path: Path) -> None:
    to, verdicts = tmp_path / "out" / "figures.json", tmp_path / "v.jsonl"

    code, out, err = run(
        targets, "--m", "3", "--judge", "embedded", "--json", to, "--verdicts", verdicts, "--no-mlflow"
    )

    assert code == 0, err
    figures, judged = json.loads(to.read_text()), lines(verdicts)
    assert figures.keys() >= FIGURES
    assert figures["honest_reports"] == {"reports": 0, "accused": 0}
    assert figures["judge"]["name"] == "embedded"
    assert figures["judged"] == figures["poisoned"] + figures["benign"] == len(judged)
    assert figures["queries"] == sum(figures["outcomes"].values()) == 3
    assert figures["poisoned"] == sum(line["text"].startswith(QUESTIONS[int(line["query_id"])][0]) for line in judged)
    assert figures["fnr"] == 0.0
    assert {key for line in judged for key in line} == {"query_id", "text", "label", "score", "iteration"}
    assert [line["query_id"] for line in judged] == sorted(line["query_id"] for line in judged)
    assert "DACC" in out
    assert "poisonedrag-b" in out
    assert str(to) in err


def test_honest_complaints_on_standard_output(run: Typed, targets: Path) -> None:
    code, out, _ = run(targets, "--attack", "none", "--judge", "tkm", "--json", "-", "--no-mlflow", "--limit", "2")

    assert code == 0
    figures = json.loads(out)
    assert figures["honest_reports"]["reports"] == figures["queries"] == 2
    assert figures["poisoned"] == 0


def test_a_wrong_row_stops_before_anything_is_written(run: Typed, targets: Path, tmp_path: Path) -> None:
    with targets.open("a") as file:
        file.write('{"id": "x", "question": "q", "incorrect_answer": "\\u001b[31mred", "adversarial_texts": [1]}\n')

    code, out, err = run(targets, "--json", tmp_path / "f.json", "--verdicts", tmp_path / "v.jsonl", "--no-mlflow")

    assert code == 2
    assert "targets.jsonl:4" in err.replace("\n", "")
    assert "'adversarial_texts'" in err
    assert "\x1b[31m" not in err + out
    assert not (tmp_path / "f.json").exists()
    assert not (tmp_path / "v.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--attack", "none", "--adaptive", "deceive"), "plants nothing"),
        (("--optimise",), "--optimise works with --attack hotflip only"),
        (("--judge", "llm"), "needs an endpoint; set CORPUS_GUARD_CHAT_URL"),
        (("--attack", "poisonedrag-x"), "is no attack; expected one of"),
        (("--events", "rag", "--attack", "none"), "reports what the RAG model answers under an attack"),
        (("--defence", "prayer"), "unknown; expected one of"),
        (("--m", "41"), ""),
    ],
)
def test_what_cannot_be_meant_is_said(run: Typed, targets: Path, options: tuple[str, ...], told: str) -> None:
    code, _, err = run(targets, *options, "--no-mlflow")

    assert code == 2
    assert told in " ".join(err.split())


def test_the_papers_name_of_hotflip_is_accepted(run: Typed, targets: Path) -> None:
    code, out, err = run(targets, "--attack", "poisonedrag-w", "--judge", "tkm", "--limit", "1", "--no-mlflow")

    assert code == 0, err
    assert "hotflip" in out


def test_help_says_what_is_counted(run: Typed) -> None:
    code, out, _ = run("--help")

    assert code == 0
    assert "are true counts" in " ".join(out.split())
