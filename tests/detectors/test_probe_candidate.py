"""A candidate from recorded answers to the registry and into use; no pickle on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from activation_samples import as_if_answered
from corpus_guard.deployment import Deployment
from corpus_guard.detectors import probe_comparison
from corpus_guard.detectors.probe_candidate import train_probe_candidate
from corpus_guard.detectors.probe_prompts import build_prompts
from corpus_guard.errors import Inconsistent
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector
from corpus_guard.settings import PROJECT, Settings
from corpus_guard.traceback.activations import champion
from corpus_guard.tracking import model_registry as registry
from corpus_guard.tracking.mlflow_runs import mlflow_client

SAMPLE = PROJECT / "include" / "sample_corpus" / "questions.jsonl"


@pytest.fixture
def guard(models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """All prompts of the sample are recorded already, as if they had been answered: states of led answers lean one way."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    opened = Deployment(Settings(home=tmp_path, detector_questions=str(SAMPLE)))
    opened.models = models
    as_if_answered(models.language_model.digest, build_prompts([SAMPLE]), tmp_path / "evaluation" / "activations")
    return opened


@pytest.mark.slow
def test_it_is_measured_registered_and_promoted(
    guard: Deployment, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(models.language_model, "answer_with_states", lambda *told: asked.append(1))
    with guard:
        first = train_probe_candidate(guard.ledger, guard.storage, guard.models, guard.settings, epochs=1)
        client = mlflow_client(guard.settings)
        challenger = client.get_model_version_by_alias(registry.MODEL_NAMES[Detector.PROBE], registry.CHALLENGER_ALIAS)
        folder = Path(client.download_artifacts(first.run, registry.ARTIFACT_FOLDERS[Detector.PROBE]))
        drawn = {one.path for one in client.list_artifacts(first.run)}
        losses = {kind: client.get_metric_history(first.run, f"loss/{kind}") for kind in ("weighed", "cnn")}
        promoted = champion.promote_probe(
            guard.ledger, guard.storage, first.digest, run_id="r", by="ada", version=first.version
        )
        registry.set_champion_alias(guard.settings, Detector.PROBE, first.version)
        again = train_probe_candidate(guard.ledger, guard.storage, guard.models, guard.settings, epochs=1)
        crowned = client.get_model_version_by_alias(registry.MODEL_NAMES[Detector.PROBE], registry.CHAMPION_ALIAS)

    assert asked == [], "what was recorded is not asked again"
    assert first.better
    assert "in_use/auc" not in first.figures
    assert first.figures["auc"] > 0.95
    assert (int(challenger.version), challenger.tags["digest"]) == (first.version, first.digest)
    assert int(crowned.version) == first.version
    assert sorted(path.name for path in folder.iterdir()) == ["probe.json", "probe.safetensors"]
    assert champion.read_candidate(guard.storage, first.digest).digest == promoted.digest == first.digest
    assert {"confusion.png", "tsne.png", "loss.png", "figures.json", "probe"} <= drawn
    assert {kind: len(steps) for kind, steps in losses.items()} == {"weighed": 1, "cnn": 1}, "one epoch each"
    assert again.figures["in_use/auc"] == pytest.approx(first.figures["auc"])
    assert not again.better, "the same probe is not asked about twice"
    kept = {path.suffix for path in guard.settings.home.rglob("*") if path.is_file()}
    assert not kept & {".pkl", ".pickle", ".pt", ".pth", ".bin", ".joblib"}


@pytest.mark.slow
def test_a_control_that_scores_registers_nothing(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    real = probe_comparison.compare_probes

    def leaking(*told: object, **more: object) -> object:
        found = real(*told, **{**more, "kinds": ["linear"]})  # type: ignore[arg-type]
        return replace(found, random_labels={"linear": {"auc": 0.99, "by_chance": False}})

    monkeypatch.setattr(probe_comparison, "compare_probes", leaking)
    with guard, pytest.raises(Inconsistent, match="random labels score"):
        train_probe_candidate(guard.ledger, guard.storage, guard.models, guard.settings)
    assert mlflow_client(guard.settings).search_registered_models() == []
