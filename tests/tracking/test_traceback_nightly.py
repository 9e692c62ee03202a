"""A night in a real MLflow: counts, canaries, drift against the week before, and plots; of texts nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from mlflow import MlflowClient

from corpus_guard.deployment import Deployment
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import traces
from corpus_guard.traceback.canaries import JudgeCanaryResult
from corpus_guard.tracking.traceback_nightly import EXPERIMENT, log_night, night_metrics, read_night, read_past_week
from material import Shelf
from trace_cases import Contains, poison, report, run, serve, told, truth

SEEN = JudgeCanaryResult(poisoned=20, found=19, benign=30, accused=1, undecided=1, honest=4, honest_accused=0)
NIGHTS = tuple(f"traceback_nightly/night-{number}" for number in range(4))


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    """Three nights: one too long ago, one in the week before, and tonight; and a trace by hand."""
    serve(lite_shelf, {**poison(2), **truth(6)})
    guard = Deployment(lite_shelf.settings(tmp_path))
    for night, days in zip(NIGHTS[:2], (9, 2), strict=True):
        run(guard, report(lite_shelf), Contains(says=Label.UNDECIDED), night)
        then = {"started_at": now() - timedelta(days=days), "finished_at": now() - timedelta(days=days)}
        guard.ledger.execute(traces.update().where(traces.c.run_id == night).values(then))
    run(guard, report(lite_shelf), Contains(), "trace-by-hand")
    run(guard, report(lite_shelf), Contains(), NIGHTS[2])
    run(guard, report(lite_shelf, output="in the kitchen"), Contains(), NIGHTS[2])
    return guard


def test_tonight_is_compared_with_the_nights_of_the_past_week_alone(guard: Deployment) -> None:
    tonight, week = read_night(guard.ledger, NIGHTS[2]), read_past_week(guard.ledger, NIGHTS[2])

    assert [trace["run_id"] for trace in week.traces] == [NIGHTS[1]]
    metrics = night_metrics(tonight, week, 7, SEEN)
    assert (metrics["reports"], metrics["traced"], metrics["not_poisoning"], metrics["left"]) == (2, 1, 1, 7)
    assert (metrics["texts_poisoned"], metrics["texts_benign"]) == (2, 10)
    assert (metrics["share_traced"], metrics["drift_share_traced"], metrics["drift_share_undecided"]) == (
        0.5,
        0.5,
        -1.0,
    )
    assert (metrics["canary_dacc"], metrics["canary_fpr"], metrics["canary_fnr"]) == pytest.approx((0.94, 1 / 30, 0.05))
    assert metrics["seconds_per_suspect"] > 0


def test_activation_votes_are_counted(guard: Deployment) -> None:
    skipped = night_metrics(read_night(guard.ledger, NIGHTS[2]), read_past_week(guard.ledger, NIGHTS[2]), 0, None)
    vote = {"vote": "clean", "margin": -0.9, "probe": "p", "counts": True, "reason": "counts"}
    of_tonight = traces.c.run_id == NIGHTS[2]
    guard.ledger.execute(
        traces.update().where(of_tonight, traces.c.outcome == "traced").values(activations=vote, outcome="undecided")
    )
    heard = night_metrics(read_night(guard.ledger, NIGHTS[2]), read_past_week(guard.ledger, NIGHTS[2]), 0, None)

    assert (skipped["activations_skipped"], skipped["activations_counted"]) == (2, 0)
    assert (heard["activations_skipped"], heard["activations_clean"], heard["activations_poisoned"]) == (1, 1, 0)
    assert (heard["activations_counted"], heard["activations_contradicted"]) == (1, 1)


def test_the_first_night_drifts_from_nothing_and_an_empty_one_is_no_fault(guard: Deployment) -> None:
    first = night_metrics(read_night(guard.ledger, NIGHTS[0]), read_past_week(guard.ledger, NIGHTS[0]), 0, None)
    empty = night_metrics(read_night(guard.ledger, NIGHTS[3]), read_past_week(guard.ledger, NIGHTS[3]), 0, None)

    assert not [name for name in first if name.startswith(("drift_", "canary_", "judge_endpoint_"))]
    assert (empty["reports"], empty["seconds"]) == (0, 0)


def test_a_night_is_logged_with_plots_and_without_texts(
    guard: Deployment, lite_shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = guard.settings.home
    used = {"requests": 12, "prompt_tokens": 132, "completion_tokens": 36, "seconds": 1.5}
    number = log_night(
        guard.settings,
        guard.ledger,
        NIGHTS[2],
        open_reports=0,
        canaries=SEEN,
        endpoint_usage=used,
        note="On the review pages: x",
    )

    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    (kept,) = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    assert kept.info.run_id == number
    assert kept.data.tags["mlflow.note.content"] == "On the review pages: x"
    assert kept.data.metrics["traced"] == 1
    assert kept.data.metrics["replays_still_wrong"] == 1
    assert kept.info.run_name == f"{now():%Y-%m-%d}: 2 reports, 1 traced"
    assert {name: kept.data.metrics[f"judge_endpoint_{name}"] for name in used} == used
    assert kept.data.params["judge"] == "contains/v1"
    files = {path.name: path for path in (home / "mlflow" / "artifacts").rglob("*") if path.is_file()}
    assert files.keys() == {"night.json", "outcomes.png", "scores.png", "history.png"}
    for name in ("outcomes.png", "scores.png"):
        assert files[name].read_bytes().startswith(b"\x89PNG")
        assert files[name].stat().st_size > 5_000
    text = files["night.json"].read_text()
    assert {one["outcome"] for one in json.loads(text)["traces"]} == {"traced", "not_poisoning"}
    assert "pump house" not in text
    assert "nine years" not in text
    assert len(told(lite_shelf, "traced")) == 5
