"""Assets and pools: the names that several DAGs share."""

from __future__ import annotations

from typing import Final

from airflow.sdk import Asset

CORPUS: Final = Asset(name="corpus", uri="x-guard://corpus")
"""The collections: an event for each refresh and each release."""
QUARANTINE: Final = Asset(name="quarantine", uri="x-guard://quarantine")
"""The quarantine: an event for each refresh."""
MODELS_POOL: Final = "models"
"""Pool of the tasks that load a model: one slot a machine, because a model takes all cores."""
