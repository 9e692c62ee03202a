"""What a verification found, as a run in MLflow: one a night, so that a trend can be seen."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from corpus_guard.evaluation.tracking import log_run
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.proof.verification import Verification

EXPERIMENT = "corpus-guard/integrity"


def track(settings: Settings, found: Verification) -> str:
    """Log a verification; its counts become metrics, its deviations a file. Returns the run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    told = found.as_dict()
    metrics = {name: float(value) for name, value in told.items() if isinstance(value, int | float)}
    kinds = Counter(one.kind.value for one in found.deviations)
    metrics |= {f"deviations_{kind}": float(count) for kind, count in kinds.items()}
    metrics["deviations"] = float(sum(kinds.values()))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "verification.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
        return log_run(settings, EXPERIMENT, params={"holds": found.holds}, metrics=metrics, artifacts=Path(folder))
