"""`guard evaluate drift` prints rates with intervals, and writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from corpus_guard.cli import evaluate
from corpus_guard.errors import Misuse
from corpus_guard.settings import Settings

LINE = "Shed {0} of the {1} harbour was closed in week {0}, and the key number {2} hangs behind the door of office {3} since then."
PLACES = ("old", "new", "inner", "outer", "small", "great", "east", "west")


@pytest.fixture
def files(tmp_path: Path, models_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models").symlink_to(models_home / "models")
    settings = Settings(home=tmp_path)
    monkeypatch.setattr("corpus_guard.settings.load_settings", lambda: settings)
    monkeypatch.setenv("COLUMNS", "160")
    texts = [LINE.format(number, PLACES[number % 8], number * 7, number * 3) for number in range(120)]
    (tmp_path / "clean.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    row = {
        "question": "who?",
        "adversarial_texts": ["It is Mallory who winds the clock, says everybody in the village."],
    }
    (tmp_path / "poison.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def test_it_prints_and_writes_the_figures(files: Path) -> None:
    app = typer.Typer()
    app.command()(evaluate.drift)
    options = ["--poison", str(files / "poison.jsonl"), "--clean", str(files / "clean.jsonl"), "--texts", "8"]

    shown = CliRunner().invoke(app, [*options, "--json", str(files / "out.json")], catch_exceptions=False)
    told = CliRunner().invoke(app, [*options, "--json", "-"], catch_exceptions=False)

    figures = json.loads((files / "out.json").read_text())
    assert json.loads(told.stdout) == figures
    assert [(one["edit"], one["drift"]) for one in figures["lines"][:3]] == [
        ("words", 0.0),
        ("words", 0.3),
        ("words", 0.5),
    ]
    assert figures["lines"][0]["rate"] == 1.0
    assert "1.000 (0.610–1.000)" in shown.stdout
    with pytest.raises(Misuse, match="cannot be read"):
        CliRunner().invoke(app, ["--poison", "nowhere.jsonl", "--clean", "x"], catch_exceptions=False)
