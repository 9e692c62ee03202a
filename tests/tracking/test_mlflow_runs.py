"""Runs in a real MLflow store."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.errors import Infrastructure
from corpus_guard.settings import Settings
from corpus_guard.traceback.importers.mlflow_traces import tracking_uri
from corpus_guard.tracking.mlflow_runs import log_run


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_a_run_keeps_params_metrics_and_files_below_the_home(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    settings = Settings(home=tmp_path / "home")
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "figures.json").write_text("{}")
    metrics = {f"recall/{number}": number / 2_000 for number in range(1_500)}

    runs = [
        log_run(settings, "corpus-guard/test", params={"seed": 3, "policy": "abc"}, metrics=metrics, artifacts=folder)
        for _ in range(2)
    ]

    client = MlflowClient(f"sqlite:///{tmp_path / 'home' / 'mlflow' / 'mlflow.db'}")
    kept = client.get_run(runs[0])
    assert len(set(runs)) == 2
    assert kept.info.status == "FINISHED"
    assert kept.data.params == {"seed": "3", "policy": "abc"}
    assert kept.data.metrics == pytest.approx(metrics)
    assert [file.path for file in client.list_artifacts(runs[0])] == ["figures.json"]
    assert list((tmp_path / "home" / "mlflow" / "artifacts").rglob("figures.json"))


def test_the_configured_server_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'other.db'}")

    assert tracking_uri(Settings(home=tmp_path)) == f"sqlite:///{tmp_path / 'other.db'}"


def test_an_unreachable_server_is_named_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://somebody:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    with pytest.raises(Infrastructure, match=r"MLflow at http://\*\*\*@127\.0\.0\.1:9.*--no-mlflow") as error:
        log_run(Settings(home=tmp_path), "corpus-guard/test", params={}, metrics={}, artifacts=tmp_path)

    assert "secret" not in str(error.value)


def test_a_run_that_could_not_be_logged_is_failed_and_does_not_look_at_work(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    settings = Settings(home=tmp_path / "home")
    too_long = {"p" * 1_000: 1}

    with pytest.raises(Infrastructure, match="INVALID_PARAMETER_VALUE"):
        log_run(settings, "corpus-guard/test", params=too_long, metrics={}, artifacts=tmp_path)

    client = MlflowClient(f"sqlite:///{tmp_path / 'home' / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("corpus-guard/test")
    assert experiment is not None
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["FAILED"]
