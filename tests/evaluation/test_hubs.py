"""The measurement of hubs: real texts, a real attack against the real embedder, and figures that add up."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpus_guard.cli.main import app
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.hubs import FLIPS, measure_hubs
from corpus_guard.models import Models
from corpus_guard.screening.survey.hub_reach import MIN_SERVED

PLACES = ("mole", "quay", "jetty", "slip", "dock", "pier", "berth", "lock", "wharf", "basin", "ramp", "gate")
THINGS = ("lamp", "crane", "rope", "buoy", "valve", "pump", "winch", "bell", "chart", "hoist", "anchor", "net")
NAMES = ("Osric", "Hilda", "Benno", "Tamsin", "Ivo", "Maud", "Sorley", "Greta", "Anselm", "Petra", "Wulf", "Edda")


def pages(count: int) -> list[str]:
    draw = random.Random(3)
    return [
        f"{draw.choice(NAMES)} repaired the {draw.choice(THINGS)} of the {draw.choice(PLACES)} in week {number}."
        for number in range(count)
    ]


def questions() -> list[str]:
    return [f"who repaired the {thing} of the {place}" for thing in THINGS for place in PLACES]


def test_too_little_to_measure_is_refused(models: Models) -> None:
    with pytest.raises(Misuse, match=rf"50 texts, \d+ and \d+ questions: expected {MIN_SERVED + 30:,} texts"):
        measure_hubs(models, pages(50), questions())


@pytest.mark.slow
def test_the_command_counts_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FLIPS > 2
    monkeypatch.setattr("corpus_guard.evaluation.hubs.FLIPS", 2)
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path / "home"))
    clean, asked = tmp_path / "clean.jsonl", tmp_path / "questions.jsonl"
    clean.write_text("".join(json.dumps({"text": text}) + "\n" for text in pages(1_100)))
    asked.write_text("".join(json.dumps({"question": text}) + "\n" for text in questions()))
    files = ["--clean", str(clean), "--questions", str(asked)]

    done = CliRunner().invoke(
        app, ["evaluate", "hubs", *files, "--planted", "2", "--served", "1000", "--arriving", "80", "--json"]
    )

    assert done.exit_code == 0, done.output
    figures = {each["kind"]: each for each in json.loads(done.stdout)["figures"]}
    assert figures["arriving texts"]["texts"] == 80
    assert {kind for kind, each in figures.items() if each["is_attack"]} == {
        "HotFlip, any questions",
        "HotFlip, one topic",
        "HotFlip, one question",
        "questions listed, any",
        "questions listed, one topic",
    }
    assert all(
        each["effective_named"] <= each["effective"] <= each["texts"] == 2
        for each in figures.values()
        if each["is_attack"]
    )
    assert all(each["named"] <= each["texts"] for each in figures.values())
    assert figures["HotFlip, one question"]["named"] == 0
