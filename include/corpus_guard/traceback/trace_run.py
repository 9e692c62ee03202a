"""Run of a trace: the loop, the conclusion, and what the ledger stores of them.

Rules
    * a trace that was killed anywhere and is started again with the same run id resumes from what it saved,
      and judges no text twice; a finished trace is read and not run;
    * a saved opinion counts as long as the collections hold exactly the same text under the same id;
    * whatever a judge or a model library raises is a failure of the judge: the trace records it, and can be
      resumed;
    * what a person cleared of a report is not accused of it again (`corpus_guard.traceback.cleared`);
    * an investigation, whose complaint is no report in the ledger, leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from corpus_guard.batches import Storage
from corpus_guard.corpus.store import Store
from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import TraceOutcome
from corpus_guard.models import Models, TextEmbedder
from corpus_guard.traceback import records
from corpus_guard.traceback.activations.witness import as_testimony_record
from corpus_guard.traceback.attribution import Attribution, find_in_live_store
from corpus_guard.traceback.cleared import ClearedTextsJudge
from corpus_guard.traceback.conclusion import Mask, Prior, TraceConclusion, decide
from corpus_guard.traceback.historical_corpus import corpus_as_of
from corpus_guard.traceback.judges import Judge, JudgeConclusion, Opinion, report_as_judge_failure
from corpus_guard.traceback.live_corpus import LiveCorpus
from corpus_guard.traceback.loop import JudgedText, LoopResult, StopReason, follow
from corpus_guard.traceback.rag_model import RagModel
from corpus_guard.traceback.records import CarrierRecord, JudgedTextRow, Trace
from corpus_guard.traceback.retrieval import Complaint, RetrievedText, SearchableCorpus

MAX_LOCATED_TEXTS = 20  # accused texts of a historical corpus that are looked up in the live one


@dataclass(frozen=True, slots=True)
class CorpusAccess:
    """Places that the live corpus and earlier ones are read from."""

    ledger: Ledger
    storage: Storage  # batches and vectors
    store: Store  # collections
    models: Models  # for the embedder, which is loaded when a corpus is opened
    embedder: TextEmbedder | None = None  # of questions; None: the one of `models`

    def open(self, query: str, as_of: datetime | None = None) -> SearchableCorpus:
        """Return the corpus that `query` is put to: the live one, or that of an earlier moment.

        Raises:
            Misuse: `as_of` lies in the future, or nothing was served then.
            Inconsistent: a file with texts or vectors of that time is gone.
        """
        embedder = self.embedder or self.models.embedder
        if as_of is None:
            return LiveCorpus(self.ledger, self.store, embedder)
        return corpus_as_of(self.ledger, self.storage, embedder, as_of, query)


def run_trace(
    access: CorpusAccess,
    complaint: Complaint,
    run_id: str,
    *,
    judge: Judge,
    k: int,
    rag_model: RagModel | None = None,
    as_of: datetime | None = None,
    use_activations_always: bool = False,
) -> Trace:
    """Follow a complaint to the texts that led to it.

    Args:
        complaint: the question and its wrong answer; with the id of a report, everything is stored in the
            ledger.
        run_id: id of the run; the same id resumes the same trace.
        rag_model: asked before and after; None: nothing is asked again.
        as_of: trace in the corpus of this moment; None: in the live one.
        use_activations_always: also ask the model about complaints that accuse nobody, if its activations can count.

    Raises:
        Misuse: `as_of` lies in the future, or nothing was served then.
        StoreUnavailable, LedgerUnavailable: the store or the ledger does not answer; started again, the trace
            resumes.
        Inconsistent: a file with texts or vectors of that time is gone.
    """
    began = time.monotonic()
    ledger = access.ledger
    judge = _FailureReportingJudge(ClearedTextsJudge(judge, ledger, complaint.report_id))
    corpus = access.open(complaint.query, as_of)  # first: what is refused here leaves no unfinished trace behind
    if complaint.report_id:
        trace = records.begin_trace(ledger, complaint.report_id, run_id, judge.digest, k, as_of)
    else:
        trace = Trace("", "", run_id, judge.digest, k, as_of, now())
    if trace.outcome not in {None, TraceOutcome.JUDGE_FAILED}:
        return trace
    before = _restore_judged_texts(corpus, complaint, trace.judged, k)
    if complaint.report_id:
        save = partial(records.save_judged_texts, ledger, trace.trace_id)
        loop_result = follow(complaint, corpus, judge, k=k, before=before, save=save)
    else:
        loop_result = follow(complaint, corpus, judge, k=k)
    conclusion, failure = _conclude(
        complaint,
        loop_result,
        judge,
        rag_model,
        use_activations_always,
        records.find_priors(ledger, {text.suspect.text_sha256 for text in loop_result.judged}),
        partial(_retrieve_masked, corpus, access.embedder or access.models.embedder, complaint.query),
    )
    finished = replace(
        _finished_trace(trace, loop_result, conclusion, failure),
        missing=corpus.missing,
        seconds=time.monotonic() - began,
    )
    return records.finish_trace(ledger, finished) if complaint.report_id else finished


def locate_accused_texts(access: CorpusAccess, query: str, trace: Trace) -> dict[str, list[Attribution]]:
    """Locate in the live corpus the texts that a trace of an earlier one accuses.

    They may have been edited or chunked anew since.

    Returns:
        Chunks of the live corpus by accused chunk, the most confident first; empty if the text is no longer
        served in any form.

    Raises:
        StoreUnavailable, LedgerUnavailable: the store or the ledger does not answer.
    """
    unchanged = _unchanged_texts(access.open(query, trace.as_of), query, trace.judged, trace.k)
    embedder = access.models.embedder
    return {
        row.chunk_id: find_in_live_store(access.ledger, access.store, embedder, unchanged[row.chunk_id].text)
        for row in trace.accused[:MAX_LOCATED_TEXTS]
        if row.chunk_id in unchanged
    }


class _FailureReportingJudge:
    """Judge whose failures, whatever a model library raises, are raised as `JudgeFailed`."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.digest = judge.digest

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text."""
        with report_as_judge_failure(f"judge {self.name}"):
            return self._judge.judge(complaint, new, retrieved)

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        """Weigh all opinions together."""
        with report_as_judge_failure(f"judge {self.name}"):
            return self._judge.conclude(complaint, judged)


def _restore_judged_texts(
    corpus: SearchableCorpus, complaint: Complaint, rows: Sequence[JudgedTextRow], k: int
) -> list[JudgedText]:
    """Return what an earlier attempt judged, without texts that have changed since."""
    unchanged = _unchanged_texts(corpus, complaint.query, rows, k)
    return [
        JudgedText(unchanged[row.chunk_id], Opinion(row.label, row.score, row.explanation), row.iteration)
        for row in rows
        if row.chunk_id in unchanged
    ]


def _unchanged_texts(
    corpus: SearchableCorpus, query: str, rows: Sequence[JudgedTextRow], k: int
) -> dict[str, RetrievedText]:
    """Return the judged texts that the corpus holds unchanged, by chunk id."""
    if not rows:
        return {}
    retrieved = {text.chunk_id: text for text in corpus.retrieve(query, len(rows) + k)}
    return {
        row.chunk_id: retrieved[row.chunk_id]
        for row in rows
        if row.chunk_id in retrieved and retrieved[row.chunk_id].text_sha256 == row.text_sha256
    }


def _retrieve_masked(
    corpus: SearchableCorpus, embedder: TextEmbedder, query: str, masked: RetrievedText, k: int
) -> list[RetrievedText]:
    """Return the `k` texts that a question retrieves where one text reads differently."""
    others = corpus.retrieve(query, k, {masked.chunk_id})
    if not masked.text.strip():
        return others
    question, vector = embedder.embed([query, masked.text])
    text = replace(masked, similarity=float(question @ vector), vector=vector)
    return sorted([*others, text], key=lambda retrieved: -retrieved.similarity)[:k]


def _conclude(
    complaint: Complaint,
    loop_result: LoopResult,
    judge: Judge,
    rag_model: RagModel | None,
    use_activations_always: bool,
    priors: Mapping[str, Prior],
    mask: Mask,
) -> tuple[TraceConclusion, str]:
    """Return the conclusion, and why the judge or the RAG model failed; empty: neither did."""
    try:
        conclusion = decide(
            complaint,
            loop_result,
            judge,
            rag_model,
            ask_always=True,
            use_activations_always=use_activations_always,
            priors=priors,
            mask=mask,
        )
    except JudgeFailed as error:
        return TraceConclusion(TraceOutcome.JUDGE_FAILED, loop_result.judged, None), str(error)
    if conclusion.outcome is TraceOutcome.JUDGE_FAILED and not loop_result.failure:
        return conclusion, "the RAG model gave no answer"
    return conclusion, loop_result.failure


def _finished_trace(trace: Trace, loop_result: LoopResult, conclusion: TraceConclusion, failure: str) -> Trace:
    failed = conclusion.outcome is TraceOutcome.JUDGE_FAILED
    carriers = {
        chunk_id: CarrierRecord(carrier.span.start, carrier.span.end, carrier.changes_answer)
        for chunk_id, carrier in conclusion.carriers.items()
    }
    rows = tuple(
        JudgedTextRow.from_judged(judged, carriers.get(judged.suspect.chunk_id)) for judged in conclusion.judged
    )
    return replace(
        trace,
        outcome=conclusion.outcome,
        ended=StopReason.JUDGE_FAILED if failed else loop_result.ended,
        probability=conclusion.probability,
        iterations=loop_result.iterations,
        answer_before=conclusion.before,
        answer_after=conclusion.after,
        reproduced=conclusion.reproduced,
        activations=as_testimony_record(conclusion.testimony),
        failure=failure or None,
        finished_at=now(),
        counts=records.count_labels(rows),
        judged=rows,
    )
