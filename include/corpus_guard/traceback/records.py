"""Traces in the ledger: which texts were judged for a report, what was said of each, and what it amounted to.

Rules
    * a trace has an id from its report, run, judge and point in time: a run that is started again finds what it kept;
    * what a round judged is written in one transaction, each text once; of two runs at once the first opinion stands;
    * the first to finish writes the outcome, the report's state and the event, in one transaction; a trace whose judge failed may be
      finished again;
    * a text that was judged stays in the record, whatever becomes of it in the collections.

No text is kept, only its hash: a withdrawn or purged text must not live on here. What a judge, a model or somebody's record says is
bounded and storable; it is shown, never believed. The event names hashes and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from corpus_guard.domain import digest
from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import suspects, traces
from corpus_guard.traceback.judges import Label
from corpus_guard.traceback.loop import Ended, Judged
from corpus_guard.traceback.reports import close
from corpus_guard.traceback.verdict import Outcome

if TYPE_CHECKING:
    from corpus_guard.ledger import Ledger

EXPLANATION = 1_000  # characters kept of what a judge says of one text
ANSWER = 8_000  # characters kept of an answer of the RAG model
PLACE = 4_096  # characters kept of a document's place
FAILURE = 500  # characters kept of what a judge died of
TOLD = 500  # hashes in an event
SHORTEST_PREFIX = 6  # characters of a trace's id


@dataclass(frozen=True, slots=True)
class Line:
    """A text that was judged."""

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

    @classmethod
    def of(cls, judged: Judged) -> Line:
        """As it can be stored."""
        one = judged.suspect
        return cls(
            chunk_id=one.chunk_id,
            label=judged.opinion.label,
            score=float(judged.opinion.score),
            iteration=judged.iteration,
            explanation=storable(judged.opinion.explanation, EXPLANATION),
            similarity=float(one.similarity),
            text_sha256=one.text_sha256,
            collection=one.collection,
            version_id=one.version_id,
            source=storable(one.source, PLACE),
            uri=storable(one.uri, PLACE),
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """A report followed back to texts, or as far as a run has come."""

    trace_id: str  # empty: an investigation that is not kept
    report_id: str
    run_id: str
    judge: str  # its digest
    k: int
    as_of: datetime | None  # the corpus of then; None: of now
    started_at: datetime
    outcome: Outcome | None = None  # None: still running
    ended: Ended | None = None  # why the loop stopped
    probability: float | None = None  # that the report is an attack; None: the judge cannot say
    iterations: int = 0
    missing: int = 0  # chunks served then that are erased now
    answer_before: str | None = None  # of the RAG model, from what was retrieved first; None: not asked
    answer_after: str | None = None  # with the traced texts set aside
    activations: dict[str, Any] | None = (
        None  # what the model's activations say of the first answer (`Testimony`); None: of an older trace
    )
    failure: str | None = None  # what the judge died of
    seconds: float = 0.0  # of the attempt that finished it
    finished_at: datetime | None = None
    counts: dict[str, int] = field(default_factory=dict)  # label → texts
    judged: tuple[Line, ...] = ()  # in the order they were judged; empty where only the summary was read

    @property
    def accused(self) -> tuple[Line, ...]:
        """The texts that led to the output."""
        return tuple(one for one in self.judged if one.label is Label.POISONED)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        times = {
            name: when.isoformat() if (when := getattr(self, name)) else None
            for name in ("as_of", "started_at", "finished_at")
        }
        return {**asdict(self), **times, "seconds": round(self.seconds, 3)}


def storable(text: str, most: int) -> str:
    """`text` cut to `most` characters, without what PostgreSQL (NUL) or UTF-8 (lone surrogates) refuses."""
    return text[:most].encode("utf-8", "replace").decode().replace("\x00", "�")


def counted(lines: Sequence[Line]) -> dict[str, int]:
    """Label → texts."""
    return {label.value: sum(one.label is label for one in lines) for label in Label}


def begin(ledger: Ledger, report_id: str, run_id: str, judge: str, k: int, as_of: datetime | None) -> Trace:
    """The trace of this report in this run: a new one, or what an earlier attempt kept."""
    when = as_of.astimezone(UTC).isoformat(timespec="microseconds") if as_of else ""
    trace_id = digest("trace/v1", [report_id, run_id, judge, when])[:32]
    row = {
        "trace_id": trace_id,
        "report_id": report_id,
        "run_id": run_id,
        "judge": judge[:200],
        "k": k,
        "as_of": as_of,
        "outcome": None,
        "ended": None,
        "probability": None,
        "iterations": 0,
        "missing": 0,
        "counts": {},
        "answer_before": None,
        "answer_after": None,
        "activations": None,
        "failure": None,
        "seconds": 0.0,
        "started_at": now(),
        "finished_at": None,
    }
    with ledger.write() as connection:
        ledger.insert_missing(connection, traces, [row])
    return find(ledger, trace_id)


def keep(ledger: Ledger, trace_id: str, judged: Sequence[Judged]) -> None:
    """Write what a round judged."""
    with ledger.write() as connection:
        last = connection.scalar(sa.select(sa.func.max(suspects.c.ordinal)).where(suspects.c.trace_id == trace_id))
        first = 0 if last is None else last + 1
        rows = [
            {**asdict(Line.of(one)), "label": one.opinion.label.value, "trace_id": trace_id, "ordinal": first + place}
            for place, one in enumerate(judged)
        ]
        ledger.insert_missing(connection, suspects, rows)


def finish(ledger: Ledger, trace: Trace) -> Trace:
    """Write how a trace ended, close its report with the outcome, and log both; once.

    Args:
        ledger: the ledger.
        trace: with its outcome, and with the labels that hold in the end.

    Returns:
        The trace as the ledger has it: this one, or what another run at the same time had finished before.
    """
    when = now()
    values = {
        "outcome": str(trace.outcome),
        "ended": str(trace.ended),
        "probability": trace.probability,
        "iterations": trace.iterations,
        "missing": trace.missing,
        "answer_before": _answer(trace.answer_before),
        "answer_after": _answer(trace.answer_after),
        "activations": trace.activations,
        "failure": storable(trace.failure, FAILURE) if trace.failure else None,
        "seconds": trace.seconds,
        "finished_at": when,
    }
    unfinished = sa.or_(traces.c.outcome.is_(None), traces.c.outcome == Outcome.JUDGE_FAILED.value)
    mine = traces.c.trace_id == trace.trace_id
    with ledger.write() as connection:
        if connection.execute(traces.update().where(mine, unfinished).values(values)).rowcount:
            # What was acquitted in the end; a trace that goes on needs the opinions as they were.
            for one in trace.judged if trace.outcome is not Outcome.JUDGE_FAILED else ():
                connection.execute(
                    suspects.update()
                    .where(suspects.c.trace_id == trace.trace_id, suspects.c.chunk_id == one.chunk_id)
                    .values(label=one.label.value, explanation=one.explanation)
                )
            lines = _lines(connection, trace.trace_id)
            counts = counted(lines)
            connection.execute(traces.update().where(mine).values(counts=counts))
            close(connection, trace.report_id, str(trace.outcome))
            _tell(ledger, connection, trace, lines, counts)
    return find(ledger, trace.trace_id)


def _tell(
    ledger: Ledger, connection: sa.Connection, trace: Trace, lines: Sequence[Line], counts: dict[str, int]
) -> None:
    accused = sorted({one.text_sha256 for one in lines if one.label is Label.POISONED})
    ledger.event(
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
        accused=accused[:TOLD],
        activations=(trace.activations or {}).get("vote"),
    )


def find(ledger: Ledger, name: str) -> Trace:
    """A trace with everything it judged.

    Args:
        ledger: the ledger.
        name: its id, or the beginning of it.

    Raises:
        UnknownSubject: no trace, or several, begin so.
    """
    if len(name) < SHORTEST_PREFIX or not name.isalnum():
        raise UnknownSubject(f"trace {name[:64]!r}: give at least {SHORTEST_PREFIX} characters of its id")
    with ledger.read() as connection:
        rows = connection.execute(sa.select(traces).where(traces.c.trace_id.startswith(name)).limit(2)).all()
        if len(rows) != 1:
            found = "several begin so" if rows else "there is none"
            raise UnknownSubject(f"trace {name[:64]!r}: {found}; `guard trace list` names them")
        return replace(_trace(rows[0]), judged=_lines(connection, rows[0].trace_id))


def listed(ledger: Ledger, *, limit: int = 50, report_id: str | None = None, run_id: str | None = None) -> list[Trace]:
    """Traces without their texts, the newest first."""
    statement = sa.select(traces).order_by(traces.c.started_at.desc(), traces.c.trace_id).limit(limit)
    if report_id is not None:
        statement = statement.where(traces.c.report_id == report_id)
    if run_id is not None:
        statement = statement.where(traces.c.run_id == run_id)
    with ledger.read() as connection:
        return [_trace(row) for row in connection.execute(statement)]


def _lines(connection: sa.Connection, trace_id: str) -> tuple[Line, ...]:
    statement = sa.select(suspects).where(suspects.c.trace_id == trace_id)
    return tuple(
        Line(
            **{
                **{name: row[name] for name in Line.__dataclass_fields__},
                "label": Label(row["label"]),
            }
        )
        for row in connection.execute(statement.order_by(suspects.c.ordinal, suspects.c.chunk_id)).mappings()
    )


def _trace(row: sa.Row[Any]) -> Trace:
    values = dict(row._mapping)
    return Trace(
        **{
            **values,
            "outcome": Outcome(values["outcome"]) if values["outcome"] else None,
            "ended": Ended(values["ended"]) if values["ended"] else None,
        }
    )


def _answer(text: str | None) -> str | None:
    return None if text is None else storable(text, ANSWER)
