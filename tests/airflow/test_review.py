"""The hourly watch sends what waits and what was interrupted as metrics."""

from __future__ import annotations

import pytest

from corpus_guard.airflow import review
from corpus_guard.ledger.runs import at_work, begin_run
from deploying import Workspace


def test_gauges(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges: dict[str, int] = {}
    monkeypatch.setattr(review, "gauge", gauges.__setitem__)
    monkeypatch.setattr("corpus_guard.deployment.Deployment", deployment.guard)
    with deployment.guard() as guard, at_work(guard.ledger, "r1"):
        begin_run(guard.ledger, "r1", "refresh", "", ["pages"])
        review.expire_waiting()
        assert gauges == {"quarantine.waiting": 0, "runs.interrupted": 0}

    review.expire_waiting()
    assert gauges["runs.interrupted"] == 1
