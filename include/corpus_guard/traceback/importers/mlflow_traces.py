"""Assessments of MLflow traces: the feedback that people gave on the answers of a RAG application.

Fields (MLflow 3.17): traces with a feedback of the mark's name and value; question and answer are inputs and
outputs of the root span, the right answer the expectation ``expected_response``, the reporter the
assessment's source, the time the assessment's; the served chunks are what spans of type RETRIEVER returned
(``metadata.chunk_id``, or the document's id). An assessment that was overridden does not count.

The server is the one that ``MLFLOW_TRACKING_URI`` names, else the SQLite file below the guard's home. It is
queried page by page, and only for traces that carry the feedback; an assessment may be made long after its
trace, so the window of time is applied here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict, cast

from corpus_guard.errors import Misuse, SourceUnavailable
from corpus_guard.settings import Settings
from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark, Record

if TYPE_CHECKING:
    from mlflow.entities import Trace

TRACES_PER_PAGE = 100  # traces, with their spans
EXPECTATION_NAME = "expected_response"
# Set before mlflow is imported: no telemetry, no pickle is read, and a dead server is given up on within
# seconds.
QUIET_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}
_NAME = re.compile(r"[\w .-]{1,250}")


class _Feedback(TypedDict):
    """Assessment of a trace by its name."""

    value: object
    at: datetime
    source: object


class _TraceValues(TypedDict):
    """Values of a trace's record."""

    inputs: object
    outputs: object
    session: object
    expected: object
    feedback: list[_Feedback]
    retrieved: list[object]  # outputs of retriever spans


class MlflowTraces:
    """Dialect of the records below (`Dialect`)."""

    name = "mlflow"

    def knows(self, values: Mapping[str, object]) -> bool:
        """Return False: no file holds these records."""
        return False

    def filings(self, values: Mapping[str, object], mark: Mark) -> list[Filing]:
        """Return one filing per valid assessment that is the mark."""
        trace = cast("_TraceValues", values)
        marked = [feedback for feedback in trace["feedback"] if mark.fits(feedback["value"])]
        if not marked:
            return []
        query, output = fields.extract_question(trace["inputs"]), fields.extract_answer(trace["outputs"])
        chunk_ids = [chunk_id for documents in trace["retrieved"] for chunk_id in fields.extract_chunk_ids(documents)]
        return [
            Filing(
                query=query,
                output=output,
                reported_at=fields.parse_time(feedback["at"]),
                correct=None if trace["expected"] is None else fields.extract_answer(trace["expected"]),
                reporter=fields.text_or_empty(feedback["source"]),
                session=fields.text_or_empty(trace["session"]),
                served=tuple(dict.fromkeys(chunk_ids)),
            )
            for feedback in marked
        ]


def tracking_uri(settings: Settings) -> str:
    """Return the address of the MLflow server."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{settings.home / 'mlflow' / 'mlflow.db'}"


def without_password(uri: str) -> str:
    """Return the address without user and password, as a message may show it."""
    before, at, after = uri.rpartition("@")
    return f"{before.partition('//')[0]}//***@{after}" if at else uri


def quieten_mlflow() -> None:
    """Set what mlflow reads as it is imported."""
    for name, value in QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def trace_records(settings: Settings, experiment: str, mark: Mark) -> Iterator[Record]:
    """Yield the traces of an experiment that carry the mark, the oldest first.

    Args:
        settings: its home holds the traces if no server is named.
        mark: the feedback's name and value.

    Raises:
        Misuse: there is no such experiment, or MLflow cannot be queried for the mark's name.
        SourceUnavailable: MLflow does not answer.
    """
    if not _NAME.fullmatch(mark.name) or not _NAME.fullmatch(mark.value):
        raise Misuse("mlflow: the mark must be NAME=VALUE of letters, digits, spaces, dots and hyphens")
    quieten_mlflow()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    uri = tracking_uri(settings)
    try:
        client = MlflowClient(uri)
        stored = client.get_experiment_by_name(experiment)
        if stored is None:
            raise Misuse(f"mlflow:{experiment}: there is no such experiment at {without_password(uri)}; check its name")
        number, token = 0, None
        while True:
            page = client.search_traces(
                locations=[stored.experiment_id],
                filter_string=f"feedback.`{mark.name}` = '{mark.value}'",
                max_results=TRACES_PER_PAGE,
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
            f"MLflow at {without_password(uri)}: {type(error).__name__}; check that it runs and that "
            "MLFLOW_TRACKING_URI is right"
        ) from error


def _values(trace: Trace, mark: Mark) -> _TraceValues:
    spans = list(trace.data.spans)
    root = next((span for span in spans if span.parent_id is None), None)
    valid = [assessment for assessment in trace.info.assessments or () if assessment.valid is not False]
    expectations = [
        assessment.expectation.value
        for assessment in valid
        if assessment.expectation and assessment.name == EXPECTATION_NAME
    ]
    return _TraceValues(
        inputs=root.inputs if root else trace.info.request_preview,
        outputs=root.outputs if root else trace.info.response_preview,
        session=(trace.info.trace_metadata or {}).get("mlflow.trace.session"),
        expected=expectations[0] if expectations else None,
        feedback=[
            _Feedback(
                value=assessment.feedback.value,
                at=_time(assessment.last_update_time_ms or assessment.create_time_ms),
                source=assessment.source.source_id if assessment.source else "",
            )
            for assessment in valid
            if assessment.feedback and assessment.name == mark.name
        ],
        retrieved=[span.outputs for span in spans if span.span_type == "RETRIEVER"],
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
