"""Traces in the ledger: which texts were judged for a report, how, and what was concluded.

Rules
    * a trace has an id from its report, run, judge and point in time: a run that is started again finds what
      it saved;
    * the judged texts of a round are written in one transaction, each text once; of two runs at once the
      first opinion stands;
    * the first run to finish writes the outcome, the report's state and the event in one transaction; a trace
      whose judge failed may be finished again;
    * a judged text stays in the record, whatever becomes of it in the collections.

No text is stored, only its hash: a withdrawn or purged text must not live on here. What a judge, a model or a
record in Chroma says is bounded and made storable; it is shown, never believed. The event holds hashes, counts, and the
places of the sentences that carry the accusations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.reading import read_chunk_texts
from corpus_guard.domain import JsonRecord, digest, to_storable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import insert_missing, select_in_batches
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.ledger.tables import events, reports, suspects, traces
from corpus_guard.traceback.activations.witness import TestimonyRecord
from corpus_guard.traceback.conclusion import Prior
from corpus_guard.traceback.loop import JudgedText, StopReason
from corpus_guard.traceback.rag_model import repeats
from corpus_guard.traceback.reports import close_report
from corpus_guard.traceback.retrieval import Complaint

MAX_EXPLANATION_LENGTH = 1_000  # characters stored of a judge's explanation
MAX_ANSWER_LENGTH = 8_000  # characters stored of an answer of the RAG model
MAX_LOCATION_LENGTH = 4_096  # characters stored of a source or URI
MAX_FAILURE_LENGTH = 500  # characters stored of a judge's failure
HASHES_PER_EVENT = 500


@dataclass(frozen=True, slots=True)
class CarrierRecord:
    """Sentence of a judged text that states the reported claim; the text itself is not stored."""

    start: int  # in the text, in characters
    end: int
    changes_answer: bool | None  # the model no longer gives the output without it; None: not asked


@dataclass(frozen=True, slots=True)
class JudgedTextRow:
    """Judged text as the ledger stores it."""

    chunk_id: str
    label: Label
    score: float  # how likely the text is poisoned, 0..1
    iteration: int  # 1-based: the round it was first retrieved in
    explanation: str
    similarity: float  # cosine to the question, -1..1
    text_sha256: str
    collection: str
    version_id: str  # empty: the ledger does not vouch for it, and `uri` says why
    source: str
    uri: str
    carrier: CarrierRecord | None = None  # of accused and undecided texts; kept in the event

    @classmethod
    def from_judged(cls, judged: JudgedText, carrier: CarrierRecord | None = None) -> JudgedTextRow:
        """Make a judged text storable."""
        text = judged.suspect
        return cls(
            chunk_id=text.chunk_id,
            label=judged.opinion.label,
            score=float(judged.opinion.score),
            iteration=judged.iteration,
            explanation=to_storable(judged.opinion.explanation, MAX_EXPLANATION_LENGTH),
            similarity=float(text.similarity),
            text_sha256=text.text_sha256,
            collection=text.collection,
            version_id=text.version_id,
            source=to_storable(text.source, MAX_LOCATION_LENGTH),
            uri=to_storable(text.uri, MAX_LOCATION_LENGTH),
            carrier=carrier,
        )


@dataclass(frozen=True, slots=True)
class Trace(JsonRecord):
    """Trace of a report to texts, or as far as a run has come."""

    trace_id: str  # empty: an investigation that is not stored
    report_id: str
    run_id: str
    judge: str  # its digest
    k: int
    as_of: datetime | None  # the corpus at this time; None: the live one
    started_at: datetime
    outcome: TraceOutcome | None = None  # None: still running
    ended: StopReason | None = None  # why the loop stopped
    probability: float | None = None  # that the report is an attack; None: the judge cannot say
    iterations: int = 0
    missing: int = 0  # chunks that were served then and have been erased since
    answer_before: str | None = None  # of the RAG model, from what was retrieved first; None: not asked
    answer_after: str | None = None  # with the traced texts set aside
    # The model, asked again, made the reported claim; None: not asked, or an older trace.
    reproduced: bool | None = None
    activations: TestimonyRecord | None = None  # vote on the first answer; None: an older trace
    failure: str | None = None  # why the judge failed
    seconds: float = 0.0  # of the attempt that finished it
    finished_at: datetime | None = None
    counts: dict[str, int] = field(default_factory=dict)  # texts by label
    judged: tuple[JudgedTextRow, ...] = ()  # in the order they were judged; empty if only the summary was read

    @property
    def accused(self) -> tuple[JudgedTextRow, ...]:
        """Texts that led to the output."""
        return tuple(row for row in self.judged if row.label is Label.POISONED)

    def as_dict(self) -> dict[str, object]:
        """Return the trace as JSON-ready values."""
        return {**JsonRecord.as_dict(self), "seconds": round(self.seconds, 3)}


def count_labels(rows: Sequence[JudgedTextRow]) -> dict[str, int]:
    """Return the number of texts by label."""
    return {label.value: sum(row.label is label for row in rows) for label in Label}


def begin_trace(ledger: Ledger, report_id: str, run_id: str, judge: str, k: int, as_of: datetime | None) -> Trace:
    """Return the trace of this report in this run: a new one, or what an earlier attempt saved."""
    when = as_of.astimezone(UTC).isoformat(timespec="microseconds") if as_of else ""
    trace_id = digest("trace/v1", [report_id, run_id, judge, when])[:32]
    row = {
        "trace_id": trace_id,
        "report_id": report_id,
        "run_id": run_id,
        "judge": judge[:200],
        "k": k,
        "as_of": as_of,
        "iterations": 0,
        "missing": 0,
        "counts": {},
        "seconds": 0.0,
        "started_at": now(),
    }
    with ledger.write() as connection:
        insert_missing(connection, traces, [row])
    return find_trace(ledger, trace_id)


def save_judged_texts(ledger: Ledger, trace_id: str, judged: Sequence[JudgedText]) -> None:
    """Write the judged texts of a round."""
    with ledger.write() as connection:
        last = connection.scalar(sa.select(sa.func.max(suspects.c.ordinal)).where(suspects.c.trace_id == trace_id))
        rows = [
            {
                **{name: value for name, value in asdict(JudgedTextRow.from_judged(text)).items() if name != "carrier"},
                "label": text.opinion.label.value,
                "trace_id": trace_id,
                "ordinal": ordinal,
            }
            for ordinal, text in enumerate(judged, 0 if last is None else last + 1)
        ]
        insert_missing(connection, suspects, rows)


def finish_trace(ledger: Ledger, trace: Trace) -> Trace:
    """Write how a trace ended, close its report, and log both; a repeated call changes nothing.

    Returns:
        The trace as stored: this one, or what another run at the same time had finished before.
    """
    finished_at = now()
    values = {
        "outcome": str(trace.outcome),
        "ended": str(trace.ended),
        "probability": trace.probability,
        "iterations": trace.iterations,
        "missing": trace.missing,
        "answer_before": _storable_answer(trace.answer_before),
        "answer_after": _storable_answer(trace.answer_after),
        "activations": trace.activations,
        "failure": to_storable(trace.failure, MAX_FAILURE_LENGTH) if trace.failure else None,
        "seconds": trace.seconds,
        "finished_at": finished_at,
    }
    this_trace = traces.c.trace_id == trace.trace_id
    unfinished = sa.or_(traces.c.outcome.is_(None), traces.c.outcome == TraceOutcome.JUDGE_FAILED)
    with ledger.write() as connection:
        if connection.execute(traces.update().where(this_trace, unfinished).values(values)).rowcount:
            # Texts may be acquitted in the end; a trace that will be resumed needs the opinions as they were.
            for text in trace.judged if trace.outcome is not TraceOutcome.JUDGE_FAILED else ():
                connection.execute(
                    suspects.update()
                    .where(suspects.c.trace_id == trace.trace_id, suspects.c.chunk_id == text.chunk_id)
                    .values(label=text.label.value, explanation=text.explanation)
                )
            rows = _judged_text_rows(connection, trace.trace_id)
            counts = count_labels(rows)
            connection.execute(traces.update().where(this_trace).values(counts=counts))
            close_report(connection, trace.report_id, str(trace.outcome))
            _log_traced(connection, trace, rows, counts)
    return find_trace(ledger, trace.trace_id)


def _log_traced(connection: sa.Connection, trace: Trace, rows: Sequence[JudgedTextRow], counts: dict[str, int]) -> None:
    accused = sorted({row.text_sha256 for row in rows if row.label is Label.POISONED})
    append_event(
        connection,
        "traced",
        trace.report_id,
        trace.run_id,
        trace_id=trace.trace_id,
        outcome=str(trace.outcome),
        ended=str(trace.ended),
        judge=trace.judge,
        k=trace.k,
        as_of=trace.as_of.isoformat() if trace.as_of else None,
        probability=trace.probability,
        iterations=trace.iterations,
        missing=trace.missing,
        counts=counts,
        accused=accused[:HASHES_PER_EVENT],
        reproduced=trace.reproduced,
        carriers={
            row.text_sha256: [row.carrier.start, row.carrier.end, row.carrier.changes_answer]
            for row in [row for row in trace.judged if row.carrier is not None][:HASHES_PER_EVENT]
            if row.carrier is not None
        },
        activations=trace.activations["vote"] if trace.activations else None,
    )


def find_trace(ledger: Ledger, prefix: str) -> Trace:
    """Return a trace, by its id or the beginning of it, with everything it judged.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    with ledger.read() as connection:
        trace_id = find_id(connection, sa.select(traces.c.trace_id), prefix, "trace", "see `guard trace list`")
        row = connection.execute(sa.select(traces).where(traces.c.trace_id == trace_id)).one()
        trace = replace(_trace_from_row(row), judged=_judged_text_rows(connection, trace_id))
        return _with_carriers(connection, trace)


def list_traces(ledger: Ledger, *, limit: int = 50, report_id: str | None = None) -> list[Trace]:
    """Return traces without their texts, the newest first."""
    statement = sa.select(traces).order_by(traces.c.started_at.desc(), traces.c.trace_id).limit(limit)
    if report_id is not None:
        statement = statement.where(traces.c.report_id == report_id)
    return [_trace_from_row(row) for row in ledger.rows(statement)]


def find_not_reproduced(connection: sa.Connection, trace_ids: Collection[str]) -> set[str]:
    """Return the traces whose RAG model, asked again, did not give the reported answer.

    The event of the trace says it. Traces of older releases are compared by their claims. A model that was not asked
    refutes nothing.
    """
    bodies = _traced_events(connection, trace_ids)
    columns = (traces.c.trace_id, traces.c.answer_before, reports.c.query, reports.c.output, reports.c.correct)
    statement = sa.select(*columns).join(reports, reports.c.report_id == traces.c.report_id)
    refuted = set()
    for row in select_in_batches(connection, statement, traces.c.trace_id, trace_ids):
        reproduced = bodies.get(row.trace_id, {}).get("reproduced")
        if reproduced is None:
            complaint = Complaint(row.query, row.output, row.correct)
            reproduced = row.answer_before is None or repeats(row.answer_before, complaint)
        if not reproduced:
            refuted.add(row.trace_id)
    return refuted


def read_carrying_sentences(ledger: Ledger, storage: Storage, trace: Trace) -> dict[str, str]:
    """Return the sentences that carry the accusations of a trace, by chunk id, of the texts that are still stored."""
    carriers = {row.chunk_id: row.carrier for row in trace.judged if row.carrier is not None}
    return {
        chunk_id: text[carriers[chunk_id].start : carriers[chunk_id].end]
        for chunk_id, text in read_chunk_texts(ledger, storage, carriers)
    }


def list_carriers(ledger: Ledger, trace_ids: Collection[str]) -> list[dict[str, object]]:
    """Return the places of the sentences that carry the accusations of traces, and the answer of the masked replay."""
    with ledger.read() as connection:
        bodies = _traced_events(connection, trace_ids)
    return [
        {"trace_id": trace_id, "text_sha256": sha256, **asdict(CarrierRecord(*carrier))}
        for trace_id, body in sorted(bodies.items())
        for sha256, carrier in sorted(body.get("carriers", {}).items())
    ]


def find_priors(ledger: Ledger, hashes: Collection[str]) -> dict[str, Prior]:
    """Return what people decided about texts before, by SHA-256: the newest withdrawal or restore of each."""
    statement = sa.select(events.c.kind, events.c.body).where(events.c.kind.in_(("withdrawn", "restored")))
    priors: dict[str, Prior] = {}
    with ledger.read() as connection:
        for kind, body in connection.execute(statement.order_by(events.c.seq)):
            for sha256 in set(hashes) & set(body.get("text_sha256", ())):
                priors[sha256] = Prior(withdrawn=kind == "withdrawn", restored=kind == "restored")
    return priors


def _traced_events(connection: sa.Connection, trace_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the newest event of each trace that ended, by trace id."""
    traced = select_in_batches(connection, sa.select(traces.c.report_id).distinct(), traces.c.trace_id, trace_ids)
    statement = sa.select(events.c.seq, events.c.body).where(events.c.kind == "traced")
    rows = select_in_batches(connection, statement, events.c.subject, {row.report_id for row in traced})
    bodies = {row.body["trace_id"]: row.body for row in sorted(rows, key=lambda row: row.seq)}
    return {trace_id: bodies[trace_id] for trace_id in trace_ids if trace_id in bodies}


def _with_carriers(connection: sa.Connection, trace: Trace) -> Trace:
    """Return a trace with what only its event holds."""
    body = _traced_events(connection, [trace.trace_id]).get(trace.trace_id, {})
    carriers = {sha256: CarrierRecord(*carrier) for sha256, carrier in body.get("carriers", {}).items()}
    judged = tuple(
        replace(row, carrier=carriers.get(row.text_sha256)) if row.label is not Label.BENIGN else row
        for row in trace.judged
    )
    return replace(trace, reproduced=body.get("reproduced"), judged=judged)


def _judged_text_rows(connection: sa.Connection, trace_id: str) -> tuple[JudgedTextRow, ...]:
    columns = [suspects.c[column.name] for column in fields(JudgedTextRow) if column.name != "carrier"]
    statement = sa.select(*columns).where(suspects.c.trace_id == trace_id)
    return tuple(
        JudgedTextRow(**{**row, "label": Label(row["label"])})
        for row in connection.execute(statement.order_by(suspects.c.ordinal, suspects.c.chunk_id)).mappings()
    )


def _trace_from_row(row: sa.Row[tuple[object, ...]]) -> Trace:
    values = dict(row._mapping)
    values["outcome"] = TraceOutcome(values["outcome"]) if values["outcome"] else None
    values["ended"] = StopReason(values["ended"]) if values["ended"] else None
    return Trace(**values)


def _storable_answer(answer: str | None) -> str | None:
    return None if answer is None else to_storable(answer, MAX_ANSWER_LENGTH)
