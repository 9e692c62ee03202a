"""What a traced text gets once somebody approved: it is taken out of service, and its evidence is kept.

Rules
    * only what a trace that ended as *traced* accuses is withdrawn, and only what was planned and approved: the plan is made again, and
      another one is refused;
    * with a version goes every version of any document that has the same bytes or the same text; all of them are rejected by a decision
      in the approver's name, blocked by hash so that they come back by no road, retired through the outbox, and the corpus is sealed;
    * what waits is asked for every night until somebody approves or refuses it; a refusal is kept, and the same traces are not asked
      about again;
    * then the question is asked again, and the answer is kept beside the one from before;
    * killed anywhere, running again converges.

What it does not do: erase. Raw bytes, batches and vectors stay on disk as evidence; `guard purge` takes them out for good. A record that
somebody wrote past the guard is not in the ledger: it is named, and `guard verify` and `guard incident heal` remove it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.corpus import outbox
from corpus_guard.domain import digest, sha256_text
from corpus_guard.errors import JudgeFailed, Misuse
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import begin, end
from corpus_guard.ledger.tables import blocked, events, reports, suspects, traces, versions
from corpus_guard.proof import out_of_service
from corpus_guard.proof._purge_plan import doomed_of, in_parts, with_equals
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.traceback import records
from corpus_guard.traceback.asking import agrees
from corpus_guard.traceback.judges import Label
from corpus_guard.traceback.live import LiveCorpus
from corpus_guard.traceback.verdict import Outcome

if TYPE_CHECKING:
    from corpus_guard.guard import Guard
    from corpus_guard.ledger import Ledger
    from corpus_guard.traceback.asking import Answers
    from corpus_guard.traceback.suspects import Embeds

MEMORY = timedelta(days=30)  # a trace that waits for longer is no longer asked about by itself
MOST = 1_000  # traces in one plan
AT_ONCE = 500  # ids in one statement
SERVABLE = ("accepted", "released")


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be taken out of service."""

    traces: tuple[str, ...]  # ids
    versions: tuple[str, ...]  # ids
    documents: int
    chunks: int
    content_sha256: tuple[str, ...]
    text_sha256: tuple[str, ...]
    unvouched: tuple[str, ...]  # accused records that are in no ledger: not withdrawn here

    @property
    def withdrawal_id(self) -> str:
        """The same versions are the same withdrawal."""
        return digest("withdrawal/v1", self.versions)[:32]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"withdrawal_id": self.withdrawal_id, **asdict(self)}


class Withdrawn(TypedDict):
    """What a withdrawal did."""

    withdrawal_id: str
    run_id: str
    versions: int  # rejected now; those that were before are not counted
    retired: int  # chunks
    manifest_sha256: str


def waiting(ledger: Ledger) -> list[str]:
    """Traces of the last 30 days that accuse a version which may still be served, the oldest first; not those that were refused."""
    statement = (
        sa.select(traces.c.trace_id, traces.c.finished_at)
        .join(suspects, suspects.c.trace_id == traces.c.trace_id)
        .join(versions, versions.c.version_id == suspects.c.version_id)
        .where(
            traces.c.outcome == Outcome.TRACED.value,
            traces.c.finished_at > now() - MEMORY,
            suspects.c.label == Label.POISONED.value,
            versions.c.state.in_(SERVABLE),
        )
        .distinct()
        .order_by(traces.c.finished_at, traces.c.trace_id)
    )
    told = sa.select(events.c.body).where(events.c.kind == "withdrawal_refused", events.c.at > now() - MEMORY)
    with ledger.read() as connection:
        refused = {trace for body in connection.scalars(told) for trace in body["traces"]}
        found = [row.trace_id for row in connection.execute(statement) if row.trace_id not in refused]
    return found[:MOST]


def unvouched(ledger: Ledger, run_id: str) -> list[str]:
    """Records in no ledger that the traces of a run accuse, by collection and id: nothing here removes them."""
    statement = (
        sa.select(suspects.c.chunk_id)
        .join(traces, traces.c.trace_id == suspects.c.trace_id)
        .where(
            traces.c.run_id == run_id,
            traces.c.outcome == Outcome.TRACED.value,
            suspects.c.label == Label.POISONED.value,
            suspects.c.version_id == "",
        )
        .distinct()
    )
    with ledger.read() as connection:
        return sorted(connection.scalars(statement))


def plan(guard: Guard, trace_ids: Collection[str]) -> Plan:
    """What these traces would take out of service. Changes nothing.

    Raises:
        Misuse: one of them is unknown, or did not end as *traced*.
    """
    with guard.ledger.read() as connection:
        known = in_parts(connection, sa.select(traces.c.trace_id, traces.c.outcome), traces.c.trace_id, trace_ids)
        outcomes = {row.trace_id: row.outcome for row in known}
        for trace in trace_ids:
            if outcomes.get(trace) != Outcome.TRACED:
                raise Misuse(
                    f"trace {trace}: ended as {outcomes.get(trace, 'nothing known')}; only a trace that ended as traced accuses a text"
                )
        accused = list(
            in_parts(
                connection,
                sa.select(suspects.c.chunk_id, suspects.c.version_id).where(suspects.c.label == Label.POISONED.value),
                suspects.c.trace_id,
                trace_ids,
            )
        )
        ids = with_equals(connection, {row.version_id for row in accused if row.version_id})
        doomed = doomed_of(connection, ids)
        owners = in_parts(connection, sa.select(versions.c.doc_id), versions.c.version_id, ids)
        documents = len({row.doc_id for row in owners})
    return Plan(
        traces=tuple(sorted(trace_ids)),
        versions=tuple(sorted(doomed.versions)),
        documents=documents,
        chunks=len(doomed.chunks),
        content_sha256=tuple(sorted(doomed.content_sha256)),
        text_sha256=tuple(sorted(doomed.text_sha256)),
        unvouched=tuple(sorted({row.chunk_id for row in accused if not row.version_id})),
    )


def withdraw(guard: Guard, run_id: str, planned: Plan, by: str, reason: str) -> Withdrawn:
    """Take out of service what was planned, and seal. Killed anywhere, the same call goes on.

    Args:
        guard: the deployment.
        run_id: identity of this run.
        planned: from `plan`.
        by: who approved it.
        reason: why; kept for good.

    Raises:
        Misuse: nobody or no reason is named, or the same content came in again since the plan was made.
        StoreUnavailable: Chroma does not answer; what the ledger says stands, running again does the rest.
    """
    if not by.strip() or not reason.strip():
        raise Misuse('a withdrawal needs somebody who approves it and a reason; give --reason "..."')
    begin(guard.ledger, run_id, "withdrawal", guard.screening.digest)
    with guard.ledger.write() as connection:
        if with_equals(connection, set(planned.versions)) != set(planned.versions):
            raise Misuse(
                "the content to be withdrawn came in again since the plan was made; nothing was changed, run it again"
            )
        left = _in_service(connection, planned)
        if left:
            out_of_service.block(
                guard, connection, planned.withdrawal_id, planned.content_sha256, planned.text_sha256, reason
            )
            out_of_service.reject(guard, connection, run_id, left, by.strip(), reason.strip())
            out_of_service.retire(guard, connection, run_id, left, "withdrawn")
            guard.ledger.event(
                connection,
                "withdrawn",
                planned.withdrawal_id,
                run_id,
                versions=left,
                content_sha256=list(planned.content_sha256),
                text_sha256=list(planned.text_sha256),
                traces=list(planned.traces),
                by=by.strip(),
                reason=reason.strip(),
            )
    _, retired = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    done = Withdrawn(
        withdrawal_id=planned.withdrawal_id,
        run_id=run_id,
        versions=len(left),
        retired=retired,
        manifest_sha256=seal_corpus(guard, run_id).manifest.sha256,
    )
    end(guard.ledger, run_id, {"versions": done["versions"], "retired": done["retired"]})
    return done


def refuse(guard: Guard, run_id: str, planned: Plan, by: str) -> None:
    """Keep that somebody refused to withdraw this: the same traces are not asked about again."""
    told = {"traces": list(planned.traces), "versions": list(planned.versions), "by": by}
    with guard.ledger.write() as connection:
        guard.ledger.event(connection, "withdrawal_refused", planned.withdrawal_id, run_id, **told)


def ask_again(
    guard: Guard, run_id: str, trace_ids: Sequence[str], answers: Answers, embedder: Embeds | None = None
) -> dict[str, bool]:
    """Ask the questions of these traces again, now that the texts are gone, and keep the answers.

    Args:
        guard: the deployment.
        run_id: who asks, for the event log; a question that this run asked already is passed over.
        trace_ids: of traces whose texts were withdrawn.
        answers: the RAG model.
        embedder: of the questions; the deployment's own unless given.

    Returns:
        Trace → whether the new answer still agrees with the reported output; traces of which the model gave no answer are missing.
    """
    corpus = LiveCorpus(guard, embedder)
    still: dict[str, bool] = {}
    for row in _to_ask(guard, run_id, trace_ids):
        retrieved = corpus.retrieve(row.query, row.k)
        try:
            answer = records.storable(answers.answer(row.query, [one.text for one in retrieved]), records.ANSWER)
        except JudgeFailed:
            continue
        still[row.trace_id] = agrees(answer, row.output)
        with guard.ledger.write() as connection:
            connection.execute(traces.update().where(traces.c.trace_id == row.trace_id).values(answer_after=answer))
            guard.ledger.event(
                connection,
                "asked_again",
                row.report_id,
                run_id,
                trace_id=row.trace_id,
                answer_sha256=sha256_text(answer),
                agreed_before=None if row.answer_before is None else agrees(row.answer_before, row.output),
                agrees=still[row.trace_id],
            )
    return still


def _to_ask(guard: Guard, run_id: str, trace_ids: Sequence[str]) -> Iterator[Any]:
    columns = (
        traces.c.trace_id,
        traces.c.report_id,
        traces.c.k,
        traces.c.answer_before,
        reports.c.query,
        reports.c.output,
    )
    joined = sa.select(*columns).join(reports, reports.c.report_id == traces.c.report_id)
    told = sa.select(events.c.body).where(events.c.kind == "asked_again", events.c.run_id == run_id)
    with guard.ledger.read() as connection:
        asked = {body["trace_id"] for body in connection.scalars(told)}
        rows = list(in_parts(connection, joined, traces.c.trace_id, set(trace_ids) - asked))
    yield from rows


def _in_service(connection: sa.Connection, planned: Plan) -> list[str]:
    """Versions of the plan that are not rejected and blocked yet."""
    columns = sa.select(versions.c.version_id, versions.c.state, versions.c.content_sha256)
    rows = list(in_parts(connection, columns, versions.c.version_id, planned.versions))
    stopped: set[str] = set()
    for part in split(sorted({row.content_sha256 for row in rows}), AT_ONCE):
        stopped |= set(connection.scalars(sa.select(blocked.c.sha256).where(blocked.c.sha256.in_(part))))
    return [row.version_id for row in rows if row.state != "rejected" or row.content_sha256 not in stopped]
