"""Asking the collections without believing them.

Rules
    * what Chroma returns is compared with the ledger before it is handed on: a record that nobody published, or whose text, vector
      or metadata is not the published one, is withheld and named. Anyone who can reach Chroma's port can write past the guard; they
      cannot get past this;
    * what the ledger vouches for may still be poisoned: a filter (FilterRAG, ML-FilterRAG) looks at each text before it is served.
      What it drops is named, with score and reason;
    * a filter that fails serves nothing: the query ends with an error. An answer says which filter looked at it;
    * an enhancement (`corpus_guard.corpus.trigger`) is served only while the ledger says it is in force, is marked as one, and is not
      filtered: a person vouched for it, and a text that answers its question is what filters take for poison. In every other text
      the trigger is defused, so that nothing passes for an enhancement by what it says;
    * each query is logged, when there is a log.

At least 2k records are retrieved for k answers. A text is filtered by itself, so only as many are read as it takes to find k that
pass: the answers are the same as if all had been filtered first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches.tables import split
from corpus_guard.corpus import trigger
from corpus_guard.corpus.filterrag import Filter, Opinion
from corpus_guard.corpus.retrieval_log import RetrievalLog
from corpus_guard.corpus.store import Match, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import FilterFailed, GuardError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, documents, enhancements, publications
from corpus_guard.models.embedder import Embedder

AT_ONCE = 500  # ids a statement
CANDIDATES = 2  # times k: the s of FilterRAG
MOST_CANDIDATES = 8  # times k: where so many were read and dropped, fewer than k answers are served
SAME_QUESTION = 0.95  # cosine from which two questions are one; with all-MiniLM-L6-v2 another year in it leaves 0.94


@dataclass(frozen=True, slots=True)
class Answer:
    """A chunk that may be served."""

    chunk_id: str
    text: str
    similarity: float  # cosine, -1..1
    trust: TrustLevel
    source: str
    uri: str
    doc_id: str
    collection: str
    enhancement: bool = False  # a right answer that a person put there (BTE); its text is wrapped in the trigger
    defused: int = 0  # triggers in the text that are none: it was served with round brackets in their place


@dataclass(frozen=True, slots=True)
class Withheld:
    """A record that Chroma returned and the ledger does not vouch for."""

    chunk_id: str
    collection: str
    reason: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """A published chunk that the filter takes for poisoned."""

    chunk_id: str
    collection: str
    similarity: float  # cosine, -1..1
    score: float  # of the filter
    reason: str
    source: str
    uri: str


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a query found."""

    answers: tuple[Answer, ...]  # nearest first
    withheld: tuple[Withheld, ...]
    filtered: tuple[Filtered, ...]  # nearest first
    checked_by: str  # the filter that let the answers pass; "off" where none looked
    filter_digest: str = ""  # SHA-256 of the model it judged by; empty: by none


class GuardedRetriever:
    """Queries over the collections of some trust levels."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        embedder: Embedder,
        poison_filter: Filter | None = None,
        log: RetrievalLog | None = None,
    ) -> None:
        """Ask `store`, believe `ledger`. `Guard.retriever` makes the one that the settings describe.

        Args:
            ledger: vouches for what may be served.
            store: the collections.
            embedder: of the question.
            poison_filter: None serves whatever the ledger vouches for; every `Retrieval` then says "off".
            log: None writes no log.
        """
        self._ledger = ledger
        self._store = store
        self._embedder = embedder
        self._filter = poison_filter
        self._log = log

    def query(
        self, text: str, k: int = 5, trust: Sequence[TrustLevel] = tuple(TrustLevel), *, session: str = ""
    ) -> Retrieval:
        """The `k` nearest chunks that the ledger vouches for and the filter lets pass.

        Args:
            text: the question.
            k: how many answers at most.
            trust: levels to search.
            session: what the log calls the conversation or run that asks.

        Raises:
            FilterFailed: the filter broke; nothing is served.
            StoreUnavailable, LedgerUnavailable: they do not answer.
        """
        existing = set(self._store.names())
        collections = [name for level in trust if (name := self._store.collection_name(level)) in existing]
        vector = self._embedder.embed([text])[0]
        passed: list[Answer] = []
        filtered: list[Filtered] = []
        judged: set[tuple[str, str]] = set()
        wanted = CANDIDATES * k
        while True:
            candidates, withheld = self._vouched_for(collections, vector, wanted)
            waiting = [one for one in candidates if (one.chunk_id, one.collection) not in judged]
            while waiting and len(passed) < k:
                part, waiting = waiting[: k - len(passed)], waiting[k - len(passed) :]
                for answer, opinion in self._judge(text, part):
                    judged.add((answer.chunk_id, answer.collection))
                    if opinion is None or not opinion.poisoned:
                        passed.append(answer)
                    else:
                        filtered.append(_filtered(answer, opinion))
            if len(passed) >= k or len(candidates) < wanted or wanted >= MOST_CANDIDATES * k:
                break
            wanted *= 2
        passed.sort(key=lambda answer: (-answer.similarity, answer.chunk_id))
        filtered.sort(key=lambda one: (-one.similarity, one.chunk_id))
        checked_by = self._filter.name if self._filter else "off"
        digest = self._filter.digest if self._filter else ""
        found = Retrieval(tuple(passed), tuple(withheld), tuple(filtered), checked_by, digest)
        self._note(text, session, found)
        return found

    def _vouched_for(
        self, collections: Sequence[str], vector: NDArray[np.float32], count: int
    ) -> tuple[list[Answer], list[Withheld]]:
        """The `count` nearest records that the ledger vouches for, fewer where there are no more; and what was withheld."""
        withheld: dict[tuple[str, str], Withheld] = {}
        asked = count
        while True:  # as often as planted records crowd out real ones
            matches = self._store.query(collections, vector, asked)
            answers = []
            for match, reason in zip(matches, unvouched(self._ledger, matches), strict=True):
                if reason is None:
                    answers.append(_answer(match))
                else:
                    found = Withheld(match.record.chunk_id, match.collection, reason)
                    withheld[found.chunk_id, found.collection] = found
            if len(answers) >= count or len(matches) < asked:
                return answers[:count], list(withheld.values())
            asked *= 2

    def _judge(self, question: str, answers: Sequence[Answer]) -> list[tuple[Answer, Opinion | None]]:
        vouched: list[tuple[Answer, Opinion | None]] = [
            (answer, None) for answer in answers if answer.enhancement or self._filter is None
        ]
        answers = [answer for answer in answers if not answer.enhancement]
        if self._filter is None or not answers:
            return vouched
        try:
            opinions = self._filter.judge(question, [answer.text for answer in answers])
            return [*vouched, *zip(answers, opinions, strict=True)]
        except GuardError:
            raise
        except Exception as error:  # whatever a model library raises; its message may quote the text
            raise FilterFailed(
                f"filter {self._filter.name}: failed on {len(answers)} retrieved chunks ({type(error).__name__}), so nothing is served. "
                "Run `guard models prepare`; see that there is memory; CORPUS_GUARD_RETRIEVAL_FILTER=off serves unfiltered"
            ) from error

    def _note(self, text: str, session: str, found: Retrieval) -> None:
        if self._log is None:
            return
        self._log.write(
            text,
            session=session,
            checked_by=found.checked_by,
            filter_digest=found.filter_digest,
            served=[
                {"chunk_id": one.chunk_id, "rank": rank, "similarity": round(one.similarity, 6)}
                for rank, one in enumerate(found.answers, 1)
            ],
            filtered=[{"chunk_id": one.chunk_id, "score": round(one.score, 6)} for one in found.filtered],
            withheld=[{"chunk_id": one.chunk_id, "collection": one.collection} for one in found.withheld],
        )


def settled(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers as `trigger.system_prompt` asks a model to read them, for models that follow no prompt.

    Where enhancements of this very question are among them, the one that stands first alone; otherwise all.
    """
    own = [one for one in answers if one.enhancement and one.similarity >= SAME_QUESTION]
    return tuple(own[:1]) or tuple(answers)


def unvouched(ledger: Ledger, matches: Sequence[Match]) -> list[str | None]:
    """For each match, why it may not be served; None where the ledger vouches for it."""
    statement = (
        sa.select(publications, chunks.c.text_sha256, documents.c.source, documents.c.target_version)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(documents, documents.c.doc_id == publications.c.doc_id)
    )
    known = {}
    with ledger.read() as connection:
        for ids in split((match.record.chunk_id for match in matches), AT_ONCE):
            rows = connection.execute(statement.where(publications.c.chunk_id.in_(ids)))
            known.update({(row.chunk_id, row.collection): row for row in rows})
        own = {row.doc_id for row in known.values() if row.source == trigger.SOURCE}
        in_force = _in_force(connection, own, now()) if own else set()
    reasons: list[str | None] = []
    for match in matches:
        row = known.get((match.record.chunk_id, match.collection))
        if row is None:
            reasons.append("the ledger never published it")
            continue
        if row.state != "published":
            reasons.append(f"the ledger does not serve it (state {row.state})")
            continue
        if row.source == trigger.SOURCE and (row.doc_id not in in_force or row.version_id != row.target_version):
            reasons.append("the enhancement has expired, or was replaced or withdrawn")
            continue
        expected = (row.text_sha256, row.vector_sha256, row.metadata_sha256)
        wrong = [
            name
            for name, found, right in zip(
                ("text", "vector", "metadata"), match.record.fingerprint, expected, strict=True
            )
            if found != right
        ]
        reasons.append(f"its {' and '.join(wrong)} changed since it was published" if wrong else None)
    return reasons


def _in_force(connection: sa.Connection, doc_ids: set[str], when: datetime) -> set[str]:
    """Those of these documents that are an enhancement in force."""
    statement = sa.select(enhancements.c.doc_id).where(
        enhancements.c.state == "active",
        sa.or_(enhancements.c.expires_at.is_(None), enhancements.c.expires_at > when),
    )
    return {
        one
        for part in split(sorted(doc_ids), AT_ONCE)
        for one in connection.scalars(statement.where(enhancements.c.doc_id.in_(part)))
    }


def _answer(match: Match) -> Answer:
    """What the ledger vouches for, metadata included, as it is served."""
    metadata = match.record.metadata
    enhancement = metadata["source"] == trigger.SOURCE
    text, defused = (match.record.text, 0) if enhancement else trigger.defuse(match.record.text)
    return Answer(
        chunk_id=match.record.chunk_id,
        text=text,
        similarity=match.similarity,
        trust=TrustLevel(str(metadata["trust"])),
        source=str(metadata["source"]),
        uri=str(metadata["uri"]),
        doc_id=str(metadata["doc_id"]),
        collection=match.collection,
        enhancement=enhancement,
        defused=defused,
    )


def _filtered(answer: Answer, opinion: Opinion) -> Filtered:
    return Filtered(
        chunk_id=answer.chunk_id,
        collection=answer.collection,
        similarity=answer.similarity,
        score=opinion.score,
        reason=opinion.reason,
        source=answer.source,
        uri=answer.uri,
    )
