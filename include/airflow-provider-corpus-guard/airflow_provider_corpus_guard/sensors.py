"""Sensor on the asset *corpus*, which the DAG `corpus_refresh` updates with each seal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseSensorOperator, PokeReturnValue

if TYPE_CHECKING:
    from airflow.sdk import Context

CORPUS = Asset(name="corpus", uri="x-guard://corpus")
"""The collections: an event for each refresh and each release."""


class CorpusGuardSealedSensor(BaseSensorOperator):
    """Wait until the corpus was sealed after a time, by default that at which this run began.

    Returns the extra of the event: run, digest of the manifest and counts. To start a DAG with each seal, schedule it
    on the asset instead; the sensor is for a DAG that runs at another time and needs a fresh corpus on its way.
    """

    template_fields = ("after",)
    ui_color = "#dbe7f3"

    def __init__(self, *, after: str | datetime | None = None, **kwargs: Any) -> None:
        """
        Args:
            after: time, ISO 8601 with a zone; None: the start of this run.
        """
        super().__init__(**{**kwargs, "inlets": [CORPUS]})
        self.after = after

    def poke(self, context: Context) -> PokeReturnValue:
        """Return the newest event after the time, if there is one."""
        after = self.after or context["dag_run"].start_date
        moment = after if isinstance(after, datetime) else datetime.fromisoformat(str(after))
        events = context["inlet_events"][CORPUS].after(moment.isoformat()).ascending(False).limit(1)
        newest = next(iter(events), None)
        return PokeReturnValue(newest is not None, dict(newest.extra or {}) if newest else None)
