"""Assets, pools and queues: the names that several DAGs share."""

from __future__ import annotations

from typing import Final

from airflow.sdk import Asset

from corpus_guard.settings import load_settings

CORPUS: Final = Asset(name="corpus", uri="x-guard://corpus")
"""The collections: an event for each refresh and each release."""
QUARANTINE: Final = Asset(name="quarantine", uri="x-guard://quarantine")
"""The quarantine: an event for each refresh."""
MODELS_POOL: Final = "models"
"""Pool of the tasks that load a model: one slot a machine, because a model takes all cores."""


def _in_queue(name: str) -> dict[str, str]:
    return {"queue": name} if load_settings().task_queues else {}


PARSING: Final = _in_queue("parse")
"""Arguments of a task that fetches and parses documents."""
EMBEDDING: Final = {"pool": MODELS_POOL, **_in_queue("embed")}
"""Arguments of a task that loads the embedder."""
LANGUAGE_MODEL: Final = {"pool": MODELS_POOL, **_in_queue("language-model")}
"""Arguments of a task that may load the language model."""
