"""`guard train activations` and `guard evaluate activations` as people and scripts meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activation_samples import as_if_answered
from corpus_guard.detectors.probe_prompts import build_prompts, build_table_prompts
from corpus_guard.models import Models
from corpus_guard.settings import PROJECT
from corpus_guard.traceback.activations import probe
from deploying import Typed

SAMPLE = PROJECT / "include" / "sample_corpus" / "questions.jsonl"


@pytest.fixture
def home(tmp_path: Path, models_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose models are converted already."""
    found = tmp_path / "home"
    found.mkdir()
    (found / "models").symlink_to(models_home / "models")
    monkeypatch.setenv("CORPUS_GUARD_HOME", str(found))
    return found


@pytest.fixture
def recorded(tmp_path: Path, home: Path, models: Models) -> Path:
    """A folder in which all that is asked for was recorded."""
    folder = tmp_path / "recordings"
    as_if_answered(models.language_model.digest, [*build_prompts([SAMPLE]), *build_table_prompts([SAMPLE], [])], folder)
    return folder


@pytest.mark.slow
def test_a_probe_is_trained_written_and_read_again(tmp_path: Path, recorded: Path, typed: Typed) -> None:
    arguments = (
        "train",
        "activations",
        SAMPLE,
        "--kind",
        "linear",
        "--recordings",
        recorded,
        "--out",
        tmp_path / "probe",
    )
    code, said, errors = typed(*arguments, "--json")

    assert code == 0, errors
    told = json.loads(said)
    read = probe.load_probe(tmp_path / "probe")
    assert (told["digest"], told["kind"], told["broken"]) == (read.digest, "linear", False)
    assert told["figures"] == dict(read.figures)
    assert told["figures"]["auc"] > 0.95
    assert told["counts"] is (not told["shortfalls"])
    code, said, errors = typed(*arguments)
    assert code == 0, errors
    assert "linear: trained on" in said
    assert f"written to {tmp_path / 'probe'}" in said
    assert "questions.jsonl" not in said, "a data set, not a file"
    assert json.loads((tmp_path / "probe" / "probe.json").read_text()) == json.loads(read.files["probe.json"])


@pytest.mark.slow
def test_unless_told_otherwise_each_kind_is_trained_and_the_best_is_written(
    tmp_path: Path, recorded: Path, typed: Typed
) -> None:
    code, said, errors = typed(
        "train", "activations", SAMPLE, "--epochs", 1, "--recordings", recorded, "--out", tmp_path / "probe", "--json"
    )

    assert code == 0, errors
    told = json.loads(said)
    found = told["figures_by_kind"]
    assert set(found) == {"linear", "weighed", "cnn"}
    assert told["kind"] == "linear", "what these answers differ in is linear, and one epoch is short"
    assert told["figures"] == found["linear"]
    written = probe.load_probe(tmp_path / "probe")
    assert written.kind == told["kind"]
    assert told["counts"] is (not written.shortfalls) is True
    assert told["figures"]["auc"] == max(figures["auc"] for figures in found.values())


@pytest.mark.slow
def test_the_tables_of_the_paper_from_what_was_recorded(tmp_path: Path, recorded: Path, typed: Typed) -> None:
    code, said, errors = typed(
        "evaluate", "activations", SAMPLE, "--table", "--epochs", 1, "--recordings", recorded, "--json", tmp_path / "all.json",
        "--no-mlflow",
    )  # fmt: skip

    assert code == 0, errors
    found = json.loads((tmp_path / "all.json").read_text())
    tested = {one["tested"] for one in found["cells"]}
    assert {
        "all",
        "questions, noisy clean texts",
        "questions",
        "1 of 5 planted",
        "4 of 5 planted",
        "5 of 5 planted",
    } <= tested
    assert {one.rpartition(" ")[2] for one in tested if "support samples" in one} == {"50", "100", "150", "200", "250"}
    assert not found["broken"]
    assert "trained on random labels" in said
    assert "linear: trained on " in said
    assert "ms of CPU per sample" in said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("no-such.jsonl",), "no-such.jsonl"),
        ((SAMPLE, "--passages", "no-such.jsonl"), "no-such.jsonl"),
        ((SAMPLE, "--recordings", "empty", "--collected"), "none of prompt"),
        ((SAMPLE, "--limit", 2), "expected"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: tuple[object, ...],
    told: str,
    tmp_path: Path,
    recorded: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    more = () if "--recordings" in arguments else ("--recordings", recorded)
    code, _, errors = typed("evaluate", "activations", *arguments, *more, "--kind", "linear")

    assert code != 0
    assert told in errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.hours
def test_a_probe_is_trained_on_what_the_model_answers(tmp_path: Path, home: Path, typed: Typed) -> None:
    arguments = ("train", "activations", SAMPLE, "--limit", 18, "--epochs", 2, "--out", tmp_path / "probe", "--json")
    code, said, errors = typed(*arguments)

    assert code == 0, errors
    told = json.loads(said)
    assert told["figures"]["samples"] > 0
    assert not told["broken"]
    code, again, errors = typed(*arguments)
    assert code == 0, errors
    assert json.loads(again)["digest"] == told["digest"], "nothing is read twice, and the same is learned from it"
