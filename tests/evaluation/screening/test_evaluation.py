"""A whole evaluation through the command: files in, table, JSON, plots and an MLflow run out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corpus_guard.attacks.overrides import CARRIERS, PHRASES, plant_phrase
from deploying import Typed
from labelled import QUESTIONS, attack_row, write


@pytest.fixture
def home(tmp_path: Path, models_home: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(models_home / "models")
    return home


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        return typed("evaluate", "screening", *arguments)

    return call


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    attacks = [{"text": plant_phrase(phrase, CARRIERS[0]), "label": "injection"} for phrase in PHRASES]
    pages = [
        {"text": f"Berth {n} of the old quay is let by the week; ask for it at the office.", "title": f"Berth {n}"}
        for n in range(20)
    ]
    return (
        write(tmp_path / "lies.jsonl", [attack_row(question) for question in QUESTIONS[:6]]),
        write(tmp_path / "orders.jsonl", attacks),
        write(tmp_path / "pages.jsonl", pages),
    )


@pytest.mark.slow
def test_the_command_measures_prints_writes_and_keeps_the_run(
    run: Typed, home: Path, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    lies, orders, pages = files
    to = tmp_path / "out" / "figures.json"

    code, out, err = run(
        "--poison",
        lies,
        orders,
        "--clean",
        pages,
        lies,
        "--json",
        to,
        "--no-own",
        "--timed",
        "5",
        "--prove-cascade",
        "3",
    )

    assert code == 0, err
    for shown in (
        "single: attacks caught",
        "siblings: clean texts held back",
        "lies, rewritten · bare",
        "instructions",
        "of 3 (0, met)",
    ):
        assert shown in out
    figures = json.loads(to.read_text(encoding="utf-8"))
    assert figures["format"] == "screening-evaluation/v1"
    (plain,) = [one for one in figures["lines"] if one["slice"] == "orders" and one["protocol"] == "single"]
    counts = plain["screeners"]["corpus-guard"]["halves"]
    assert sum(half["n"] for half in counts.values()) == len(PHRASES)
    assert sum(half["caught"] for half in counts.values()) >= 10
    assert any(code.startswith("instructions.") for half in counts.values() for code in half["codes"])
    assert figures["roc"]["orders"]["auc"] > 0.7
    assert figures["throughput"]["documents"] == 5
    assert figures["cascade"]["documents"] == 3
    assert not any(word in to.read_text(encoding="utf-8") for word in ("nine metres", "Ignore all", "old quay"))

    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("corpus-guard/screening")
    assert experiment is not None
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.run_id in err
    assert kept.data.params["policy"] == figures["policy"]
    assert kept.data.params["language_model"] == figures["models"]["language_model"]
    assert kept.data.metrics["single/orders/as_is/recall/validation"] == pytest.approx(
        counts["validation"]["rate"], abs=1e-4
    )
    assert kept.data.metrics["chunks_per_second/rule_tier"] > 0
    artifacts = {file.path for file in client.list_artifacts(kept.info.run_id)}
    assert artifacts == {"evaluation.json", "roc.png", "scores.png", "throughput.png"}
    for picture in (home / "mlflow" / "artifacts").rglob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_protocol_one_half_and_figures_on_standard_output(run: Typed, files: tuple[Path, Path, Path]) -> None:
    lies, _, pages = files

    code, out, _ = run(
        "--poison", lies, "--clean", pages, "--json", "-", "--no-own", "--timed", "0", "--no-mlflow",
        "--protocol", "single", "--half", "tuning", "--sample", "5",
    )  # fmt: skip

    figures = json.loads(out)
    assert code == 0
    assert {one["protocol"] for one in figures["lines"]} == {"single"}
    assert {half for one in figures["lines"] for half in one["screeners"]["corpus-guard"]["halves"]} == {"tuning"}
    assert all(one["screeners"]["corpus-guard"]["met"] is None for one in figures["lines"])
    assert all(
        half["n"] <= 5 for one in figures["lines"] for half in one["screeners"]["corpus-guard"]["halves"].values()
    )
    assert figures["throughput"] is None


def test_a_bad_row_ends_the_command_with_two_and_its_place(run: Typed, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", [{"text": "fine"}, {"body": "what?"}])

    code, _, err = run("--poison", bad, "--clean", bad, "--no-mlflow")

    assert code == 2
    assert "bad.jsonl:2: has the keys 'body'; expected 'text'" in err


def test_a_bank_that_cannot_be_read_is_told(run: Typed, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    code, _, err = run("--poison", files[0], "--clean", files[2], "--bank", tmp_path / "none.txt", "--no-mlflow")

    assert code == 2
    assert "--bank" in err
