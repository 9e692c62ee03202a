"""Assessments of MLflow traces: the feedback that people gave on the answers of a RAG application.

Read here (MLflow 3.17): traces with a feedback of the mark's name and value; question and answer are inputs and outputs of the root span,
the right answer the expectation ``expected_response``, the reporter the assessment's source, the time the assessment's; the chunks served
are what spans of type RETRIEVER gave back (``metadata.chunk_id``, or the document's id). An assessment that was overridden counts no more.

The server is the one that ``MLFLOW_TRACKING_URI`` names, else the SQLite file below the guard's home. It is asked a page at a time, and
only for traces that carry the feedback; an assessment may come long after its trace, so the window of time is looked at here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from corpus_guard.errors import Misuse, SourceUnavailable
from corpus_guard.settings import Settings
from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark, Record
from corpus_guard.traceback.reports import Filing

PAGE = 100  # traces, with their spans
EXPECTED = "expected_response"
# Before mlflow is imported: nothing is reported to its makers, a dead server is given up on in seconds.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}
_NAME = re.compile(r"[\w .-]{1,250}")


class MlflowTraces:
    """A dialect (`Dialect`) of the records below."""

    name = "mlflow"

    def knows(self, values: Mapping[str, Any]) -> bool:
        """No file holds them."""
        return False

    def filings(self, values: Mapping[str, Any], mark: Mark) -> list[Filing]:
        """One a valid assessment that is the mark."""
        feedback = [one for one in values["feedback"] if mark.fits(one["value"])]
        if not feedback:
            return []
        query, output = fields.question(values["inputs"]), fields.answer(values["outputs"])
        return [
            Filing(
                query=query,
                output=output,
                reported_at=fields.moment(one["at"]),
                correct=None if values["expected"] is None else fields.answer(values["expected"]),
                reporter=fields.text(one["source"]),
                session=fields.text(values["session"]),
                served=tuple(dict.fromkeys(found for one in values["retrieved"] for found in fields.chunk_ids(one))),
            )
            for one in feedback
        ]


def tracking_uri(settings: Settings) -> str:
    """Where traces are looked for."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{settings.home / 'mlflow' / 'mlflow.db'}"


def trace_records(settings: Settings, experiment: str, mark: Mark) -> Iterator[Record]:
    """Traces of an experiment that carry the mark, the oldest first.

    Args:
        settings: whose home holds the traces where no server is named.
        experiment: its name.
        mark: the feedback's name and value.

    Raises:
        Misuse: there is no such experiment, or the mark's name cannot be asked for.
        SourceUnavailable: MLflow does not answer.
    """
    if not _NAME.fullmatch(mark.name) or not _NAME.fullmatch(mark.value):
        raise Misuse("mlflow: the mark must be NAME=VALUE of letters, digits, spaces, dots and hyphens")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    uri = tracking_uri(settings)
    try:
        client = MlflowClient(uri)
        found = client.get_experiment_by_name(experiment)
        if found is None:
            raise Misuse(
                f"mlflow:{experiment}: there is no such experiment at {_without_password(uri)}; check its name"
            )
        number, token = 0, None
        while True:
            page = client.search_traces(
                locations=[found.experiment_id],
                filter_string=f"feedback.`{mark.name}` = '{mark.value}'",
                max_results=PAGE,
                order_by=["timestamp_ms ASC"],
                page_token=token,
            )
            for trace in page:
                number += 1
                yield Record(number, _values(trace, mark), place=trace.info.trace_id)
            token = page.token
            if not token:
                return
    except (MlflowException, OSError) as error:
        raise SourceUnavailable(
            f"MLflow at {_without_password(uri)}: {type(error).__name__}; see that it runs and that MLFLOW_TRACKING_URI is right"
        ) from error


def _values(trace: Any, mark: Mark) -> dict[str, Any]:
    spans = list(trace.data.spans)
    root = next((span for span in spans if span.parent_id is None), None)
    assessments = [one for one in trace.info.assessments or () if one.valid is not False]
    return {
        "inputs": root.inputs if root else trace.info.request_preview,
        "outputs": root.outputs if root else trace.info.response_preview,
        "session": (trace.info.trace_metadata or {}).get("mlflow.trace.session"),
        "expected": next(
            (one.expectation.value for one in assessments if one.expectation and one.name == EXPECTED), None
        ),
        "feedback": [
            {
                "value": one.feedback.value,
                "at": datetime.fromtimestamp((one.last_update_time_ms or one.create_time_ms) / 1000, UTC),
                "source": one.source.source_id if one.source else "",
            }
            for one in assessments
            if one.feedback and one.name == mark.name
        ],
        "retrieved": [span.outputs for span in spans if span.span_type == "RETRIEVER"],
    }


def _without_password(uri: str) -> str:
    before, at, after = uri.rpartition("@")
    return f"{before.partition('//')[0]}//***@{after}" if at else uri
