"""A trace from its beginning to its record: the loop, the verdict, and what the ledger keeps of them.

Rules
    * killed anywhere and started again with the same run id, a trace goes on with what it kept and judges no text twice; finished, it is
      read and not run;
    * what was kept counts as long as the collections hold the very same text under the same id;
    * whatever a judge or a model library raises is a failure of the judge: the trace says so, and can be gone on with;
    * an investigation, a complaint that is no report in the ledger, leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.ledger import now
from corpus_guard.traceback import records
from corpus_guard.traceback._failing import as_failure
from corpus_guard.traceback.activations.witness import told
from corpus_guard.traceback.judges import Conclusion, Opinion
from corpus_guard.traceback.live import LiveCorpus
from corpus_guard.traceback.loop import Ended, Followed, Judged, follow
from corpus_guard.traceback.past import corpus_as_of
from corpus_guard.traceback.records import Line, Trace
from corpus_guard.traceback.verdict import Outcome, Verdict, decide

if TYPE_CHECKING:
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.asking import Answers
    from corpus_guard.traceback.attribution import Attribution
    from corpus_guard.traceback.judges import Judge
    from corpus_guard.traceback.suspects import Complaint, Embeds, Suspect, Suspects

LOOKED_FOR = 20  # accused texts of an earlier day that are looked for in the corpus of now


def trace(
    guard: Guard,
    complaint: Complaint,
    run_id: str,
    *,
    judge: Judge,
    answers: Answers | None = None,
    k: int | None = None,
    as_of: datetime | None = None,
    embedder: Embeds | None = None,
    hear_always: bool = False,
) -> Trace:
    """Follow a complaint to the texts that led to it.

    Args:
        guard: the deployment.
        complaint: what was asked and wrongly answered; with the id of a report everything is kept in the ledger.
        run_id: who traces; the same id goes on with the same trace.
        judge: says of each text whether it leads to the output.
        answers: the RAG model, asked before and after; None: nothing is asked again.
        k: how many texts the RAG application retrieves; as the settings say unless given.
        as_of: the corpus of this moment; None: of now.
        embedder: of the question; the deployment's own unless given.
        hear_always: let the activations speak of a complaint that accuses nobody, too, where their word counts.

    Raises:
        Misuse: `as_of` lies in the future.
        StoreUnavailable, LedgerUnavailable: they do not answer; started again it goes on.
        Inconsistent: a file with texts or vectors of then is gone.
    """
    began = time.monotonic()
    judge = _Reported(judge)
    k = k or guard.settings.traceback_k
    if complaint.report_id:
        known = records.begin(guard.ledger, complaint.report_id, run_id, judge.digest, k, as_of)
    else:
        known = Trace("", "", run_id, judge.digest, k, as_of, now())
    if known.outcome not in {None, Outcome.JUDGE_FAILED}:
        return known
    corpus = corpus_of(guard, complaint.query, as_of, embedder)
    before = _kept(corpus, complaint, known.judged, k)
    if complaint.report_id:
        followed = follow(
            complaint, corpus, judge, k=k, before=before, keep=partial(records.keep, guard.ledger, known.trace_id)
        )
    else:
        followed = follow(complaint, corpus, judge, k=k)
    ended = _ended(known, followed, _decided(complaint, followed, judge, answers, hear_always), corpus.missing)
    ended = replace(ended, seconds=time.monotonic() - began)
    return records.finish(guard.ledger, ended) if complaint.report_id else ended


def corpus_of(guard: Guard, query: str, as_of: datetime | None, embedder: Embeds | None = None) -> Suspects:
    """What `query` is asked of: the live store, or the corpus of an earlier moment."""
    return LiveCorpus(guard, embedder) if as_of is None else corpus_as_of(guard, as_of, query, embedder)


def where_now(
    guard: Guard, query: str, done: Trace, embedder: Embeds | None = None, most: int = LOOKED_FOR
) -> dict[str, list[Attribution]]:
    """Where the texts that a trace of an earlier day accuses lie today: they may have been edited or cut anew since.

    Args:
        guard: the deployment.
        query: the question that was traced.
        done: a trace of the corpus of an earlier moment.
        embedder: of the question; the deployment's own unless given.
        most: accused texts that are looked for; the first ones.

    Returns:
        Accused chunk → chunks of now, the most confident first; none where it is served no longer in any form.

    Raises:
        StoreUnavailable, LedgerUnavailable: they do not answer.
    """
    from corpus_guard.traceback.attribution import find_now

    corpus = corpus_of(guard, query, done.as_of, embedder)
    there = {one.chunk_id: one for one in corpus.retrieve(query, len(done.judged) + done.k)}
    return {
        line.chunk_id: find_now(guard, there[line.chunk_id].text)
        for line in done.accused[:most]
        if line.chunk_id in there and there[line.chunk_id].text_sha256 == line.text_sha256
    }


class _Reported:
    """A judge whose failures, whatever a model library raises, are failures of a judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.digest = judge.digest

    def judge(self, complaint: Complaint, new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Opinion]:
        """An opinion of each new text."""
        with as_failure(f"judge {self.name}"):
            return self._judge.judge(complaint, new, seen)

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[Suspect, Opinion]]) -> Conclusion:
        """What all opinions together amount to."""
        with as_failure(f"judge {self.name}"):
            return self._judge.conclude(complaint, judged)


def _kept(corpus: Suspects, complaint: Complaint, lines: Sequence[Line], k: int) -> list[Judged]:
    """What an earlier attempt judged, with its texts; none where the corpus no longer holds the same."""
    if not lines:
        return []
    there = {one.chunk_id: one for one in corpus.retrieve(complaint.query, len(lines) + k)}
    return [
        Judged(there[line.chunk_id], Opinion(line.label, line.score, line.explanation), line.iteration)
        for line in lines
        if line.chunk_id in there and there[line.chunk_id].text_sha256 == line.text_sha256
    ]


def _decided(
    complaint: Complaint, followed: Followed, judge: Judge, answers: Answers | None, hear_always: bool
) -> tuple[Verdict, str]:
    """The verdict, and what the judge died of."""
    try:
        verdict = decide(complaint, followed, judge, answers, ask_always=True, hear_always=hear_always)
    except JudgeFailed as error:
        return Verdict(Outcome.JUDGE_FAILED, followed.judged, None), str(error)
    silent = verdict.outcome is Outcome.JUDGE_FAILED and not followed.failure
    return verdict, "the RAG model gave no answer" if silent else followed.failure


def _ended(known: Trace, followed: Followed, decided: tuple[Verdict, str], missing: int) -> Trace:
    verdict, failure = decided
    lines = tuple(map(Line.of, verdict.judged))
    return replace(
        known,
        outcome=verdict.outcome,
        ended=Ended.JUDGE_FAILED if verdict.outcome is Outcome.JUDGE_FAILED else followed.ended,
        probability=verdict.probability,
        iterations=followed.iterations,
        missing=missing,
        answer_before=verdict.before,
        answer_after=verdict.after,
        activations=told(verdict.heard),
        failure=failure or None,
        finished_at=now(),
        counts=records.counted(lines),
        judged=lines,
    )
