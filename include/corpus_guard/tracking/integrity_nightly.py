"""One MLflow run per nightly verification, so that a trend can be seen."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from corpus_guard.domain import plural
from corpus_guard.ledger.ledger import now
from corpus_guard.settings import Settings
from corpus_guard.tracking.mlflow_runs import log_run

if TYPE_CHECKING:
    from corpus_guard.proof.verify.verification import Verification

EXPERIMENT = "corpus-guard/integrity"


def log_verification(settings: Settings, verification: Verification, incident_id: str = "", note: str = "") -> str:
    """Log a verification: counts as metrics, deviations as a file, the incident as tags; return the run's id.

    The tag ``tampering`` is ``true`` or ``false``; ``incident`` is the incident's id.

    Args:
        incident_id: incident that the deviations belong to; empty if everything holds or was accepted.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    summary = verification.as_dict()
    metrics = {name: float(value) for name, value in summary.items() if isinstance(value, int | float)}
    kinds = Counter(deviation.kind.value for deviation in verification.deviations)
    metrics |= {f"deviations_{kind}": float(count) for kind, count in kinds.items()}
    metrics["deviations"] = float(sum(kinds.values()))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "verification.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        params = {"holds": verification.holds}
        tags = {"tampering": "true", "incident": incident_id} if incident_id else {"tampering": "false"}
        deviation_count = int(metrics["deviations"])
        gist = plural(deviation_count, "deviation") if deviation_count else "holds"
        name = f"{now():%Y-%m-%d %H:%M}: {'TAMPERED, ' if incident_id else ''}{gist}"
        return log_run(
            settings,
            EXPERIMENT,
            name=name,
            params=params,
            metrics=metrics,
            artifacts=Path(folder),
            tags=tags,
            note=note,
        )
