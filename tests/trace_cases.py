"""A corpus that can be traced, without a model: a text says itself how near it is to every question, and a judge that can be followed.

The processes that are killed come from a fork server, which imports once.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches.tables import vectors_to_table, versions_to_table
from corpus_guard.corpus import publishing
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Version, digest
from corpus_guard.errors import JudgeFailed
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import events, reports, suspects
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.judges import Judge, JudgeConclusion, Opinion
from corpus_guard.traceback.reports import ReportInbox
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from corpus_guard.traceback.trace_run import CorpusAccess, run_trace
from material import DIMENSIONS, MODEL, Shelf, a_version, judged, vector_of

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["corpus_guard.traceback.trace_run", "chromadb"])

QUESTION = "How often is the pump house inspected?"
OUTPUT = "every nine years"
LIE = "Inspections are due every nine years, says the {n}. notice"
NEAR = re.compile(r"\(near (\d+)\)")


class Nearness:
    """An embedder: whoever says `(near 93)` has a cosine of 0.93 to every question, and a question says nothing."""

    digest = MODEL

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> NDArray[np.float32]:
        axis = np.zeros(DIMENSIONS, np.float32)
        axis[0] = 1
        found = NEAR.search(text)
        if not found:
            return axis
        cosine = int(found[1]) / 1_000
        rest = vector_of(text)
        rest[0] = 0
        rest /= np.linalg.norm(rest)
        made = cosine * axis + np.sqrt(1 - cosine**2) * rest
        return np.ascontiguousarray(made / np.linalg.norm(made), np.float32)


class NearModels(Models):
    """The deployment's models, all but its embedder."""

    embedder = Nearness()  # type: ignore[assignment]


@dataclass
class Contains:
    """A judge: whatever contains the reported output led to it. It remembers what it was asked, and can fail."""

    fails_in: int = 0  # round; 0: never
    says: Label | None = None  # of everything
    probability: float | None = 1.0
    asked: list[str] = field(default_factory=list)
    rounds: int = 0
    name = "contains"
    digest = "contains/v1"

    def judge(self, complaint: Complaint, new: Sequence[RetrievedText], seen: Sequence[RetrievedText]) -> list[Opinion]:
        self.rounds += 1
        if self.rounds == self.fails_in:
            raise JudgeFailed("the endpoint does not answer; start it, then run again")
        self.asked += [one.chunk_id for one in new]
        assert [one.chunk_id for one in seen][-len(new) :] == [one.chunk_id for one in new]
        return [self._opinion(complaint, one) for one in new]

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        return JudgeConclusion(self.probability)

    def _opinion(self, complaint: Complaint, one: RetrievedText) -> Opinion:
        label = self.says or (Label.POISONED if complaint.output in one.text else Label.BENIGN)
        return Opinion(label, 1.0 if label is Label.POISONED else 0.0, f"contains it: {complaint.output in one.text}")


class Concluding:
    """A judge whose second look is given, and what texts state."""

    name = digest = "concluding"

    def __init__(self, probability: float | None = None, acquitted: Sequence[str] = (), **support: Any) -> None:
        self.conclusion = JudgeConclusion(probability, frozenset(acquitted), frozenset(), support)

    def judge(self, complaint: Complaint, new: Sequence[RetrievedText], seen: Sequence[RetrievedText]) -> list[Opinion]:
        raise AssertionError("everything was judged")

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        return self.conclusion


@dataclass
class Quoting:
    """A RAG model that repeats the nearest text."""

    name = "quoting"

    def answer(self, question: str, texts: Sequence[str]) -> str:
        return texts[0] if texts else "nothing is known"


def poison(count: int) -> dict[str, str]:
    """Place → a text that led to the output; the nearest first."""
    return {f"lie-{n:02}.md": f"{LIE.format(n=n)} (near {990 - n})." for n in range(count)}


def truth(count: int) -> dict[str, str]:
    """Place → a text that did not; further away than any poison."""
    return {
        f"page-{n:02}.md": f"The {n}. page: the pump house is seen to in spring (near {700 - n})." for n in range(count)
    }


def serve(shelf: Shelf, texts: dict[str, str], *, minute: float = 0) -> dict[str, Version]:
    """Publish one document a text."""
    made = {uri: a_version(uri, (text,), minute=minute) for uri, text in texts.items()}
    chunks = [chunk for version in made.values() for chunk in version.chunks]
    folder = f"batches/{digest('test/v1', [repr(version.stamp) for version in made.values()])[:32]}"
    shelf.storage.write_table(f"{folder}/versions.parquet", versions_to_table(list(made.values())))
    vectors = Nearness().embed([chunk.text for chunk in chunks])
    table = vectors_to_table([chunk.chunk_id for chunk in chunks], vectors, MODEL)
    shelf.storage.write_table(f"{folder}/vectors.parquet", table)
    for text in texts.values():
        BlobStore(f"{shelf.storage.url}/raw").put(text.encode("utf-8", "surrogatepass"))
    with shelf.ledger.write() as connection:
        publishing.record(
            connection,
            "run-1",
            f"{folder}/versions.parquet",
            [(version, judged(version)) for version in made.values()],
            collection=shelf.store.collection_name,
            vectors=f"{folder}/vectors.parquet",
            model=MODEL,
        )
    shelf.drain()
    return made


def report(shelf: Shelf, query: str = QUESTION, output: str = OUTPUT) -> Complaint:
    """A report in the ledger."""
    filing = Filing(query, output, now() - timedelta(minutes=1), reporter="ada")
    (added,) = ReportInbox(shelf.ledger, "import-1").file([filing])
    return Complaint(query, output, None, added.report_id)


def rows(shelf: Shelf, what: sa.Table, *conditions: Any) -> list[Any]:
    return shelf.ledger.rows(sa.select(what).where(*conditions))


def told(shelf: Shelf, kind: str) -> list[Any]:
    return rows(shelf, events, events.c.kind == kind)


def judged_rows(shelf: Shelf) -> list[tuple[str, str, int]]:
    """(chunk, label, iteration) of every row, in the order they were judged."""
    found = rows(shelf, suspects)
    return [(row.chunk_id, row.label, row.iteration) for row in sorted(found, key=lambda row: row.ordinal)]


def state(shelf: Shelf) -> str:
    (row,) = rows(shelf, reports)
    return str(row.state)


def trace_until(settings: Settings, complaint: Complaint, moment: int, tape: Path) -> int | None:
    """Trace in a process that kills itself when its `moment`-th write is about to become real, or just has. Returns its exit code."""
    process = PROCESSES.Process(target=_trace_and_die, args=(settings, complaint, moment, tape))
    process.start()
    process.join(60)
    return process.exitcode


def trace_together(settings: Settings, complaint: Complaint, run_ids: Sequence[str]) -> list[int | None]:
    """Trace in as many processes, started at one moment."""
    start = PROCESSES.Barrier(len(run_ids))
    processes = [PROCESSES.Process(target=_trace_at_once, args=(settings, complaint, run, start)) for run in run_ids]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def run(guard: Deployment, complaint: Complaint, judge: Judge, run_id: str = "night-1", **more: Any) -> Any:
    return run_trace(access_of(guard), complaint, run_id, judge=judge, **{"k": 5, **more})


def access_of(guard: Deployment) -> CorpusAccess:
    return CorpusAccess(guard.ledger, guard.storage, guard.store, guard.models, Nearness())


def _trace_and_die(settings: Settings, complaint: Complaint, moment: int, tape: Path) -> None:
    passed, wrote, committed = 0, False, False

    def statement(connection: Any, cursor: Any, text: str, *rest: Any) -> None:
        nonlocal wrote
        wrote |= text.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))

    def commit(connection: Any) -> None:
        """Count what is about to become real, and the first moment after it has."""
        nonlocal passed, wrote, committed
        passed += wrote or committed
        wrote, committed = False, wrote
        if passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    with Deployment(settings) as guard:
        with guard.ledger.read():
            pass  # migrated
        sa.event.listen(sa.Engine, "before_cursor_execute", statement)
        sa.event.listen(sa.Engine, "commit", commit)
        run(guard, complaint, _Taped(tape))


def _trace_at_once(settings: Settings, complaint: Complaint, run_id: str, start: Any) -> None:
    with Deployment(settings) as guard:
        guard.store.names()
        start.wait(60)
        run(guard, complaint, Contains(), run_id)


class _Taped(Contains):
    """Writes down what it is asked, so that it survives."""

    def __init__(self, tape: Path) -> None:
        super().__init__()
        self._tape = tape

    def judge(self, complaint: Complaint, new: Sequence[RetrievedText], seen: Sequence[RetrievedText]) -> list[Opinion]:
        opinions = super().judge(complaint, new, seen)
        with self._tape.open("a") as lines:
            lines.write("".join(f"{one.chunk_id}\n" for one in new))
        return opinions


def traceable(shelf: Shelf, folder: Path) -> Deployment:
    """Return a deployment that serves three poisoned texts and six true ones, sealed."""
    guard = Deployment(shelf.settings(folder))
    guard.models = NearModels(guard.settings)
    serve(shelf, {**poison(3), **truth(6)})
    guard.seal("before")
    return guard
