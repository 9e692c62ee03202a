"""Queries over the collections that trust the ledger, not Chroma.

Rules
    * a record that Chroma returns is compared with the ledger before it is served: one that was never
      published, or whose text, vector or metadata is not the published one, is withheld and named. Anyone who
      can reach Chroma's port can write to it without the guard; their records are stopped here;
    * a published text may still be poisoned: a filter (FilterRAG, ML-FilterRAG) looks at each text before it
      is served. What it drops is named, with score and reason;
    * when the filter fails nothing is served: the query ends with an error. A `Retrieval` names the filter
      that checked it;
    * an enhancement (`corpus_guard.corpus.trigger`) is served only while the ledger says it is active, is
      marked as one, and is not filtered: a person vouched for it, and filters take a text that answers its
      question for poison. In every other text the trigger is defused, so that no text passes for an
      enhancement by its words;
    * each query is logged, if there is a log.

At least 2k records are retrieved for k answers. A text is filtered by itself, so only as many are read as it
takes to find k that pass: the answers are the same as if all had been filtered first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.corpus import trigger
from corpus_guard.corpus.filterrag.filters import FilterOpinion, RetrievalFilter
from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.corpus.sketches import sketch
from corpus_guard.corpus.spans import traced
from corpus_guard.corpus.store import Match, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import FilterFailed, GuardError, Misuse, require_one_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import rows_by_id, select_in_batches
from corpus_guard.ledger.states import EnhancementState, PublicationState
from corpus_guard.ledger.tables import chunks, documents, enhancements, publications
from corpus_guard.models import TextEmbedder

CANDIDATES_PER_ANSWER = 2  # times k: the s of FilterRAG
MAX_CANDIDATES_PER_ANSWER = 8  # times k: where so many were read and dropped, fewer than k are served
MAX_REQUESTED = (
    5_000  # records that a query reads: whoever reaches the store's port may have planted millions near the question
)


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A chunk that may be served."""

    chunk_id: str
    text: str
    similarity: float  # cosine, -1..1
    trust: TrustLevel
    source: str
    uri: str
    doc_id: str
    collection: str
    # a right answer that a person published (BTE); its text is wrapped in the trigger
    enhancement: bool = False
    defused: int = 0  # forged triggers in the text, which now have round brackets
    title: str = ""  # that the document claims, or its heading; empty: it has none


@dataclass(frozen=True, slots=True)
class WithheldChunk:
    """A record that Chroma returned and the ledger does not vouch for."""

    chunk_id: str
    collection: str
    reason: str


@dataclass(frozen=True, slots=True)
class FilteredChunk:
    """A published chunk that the filter takes for poisoned."""

    chunk_id: str
    collection: str
    similarity: float  # cosine, -1..1
    score: float  # of the filter
    reason: str
    source: str
    uri: str


class RetrievalStatus(StrEnum):
    """Outcome of a query: answered, or why not; stable names, for programs."""

    SERVED = "served"
    FILTERED = "filtered"  # the filter dropped every text that the ledger vouches for
    WITHHELD = "withheld"  # the ledger vouches for no record of the store: the store was changed
    MISSING = "missing"  # chunks are published, and the store returned nothing: it was changed
    EMPTY = "empty"  # nothing is published at these trust levels, or nothing has what a filter asks for


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Result of a query."""

    answers: tuple[RetrievedChunk, ...]  # nearest first
    withheld: tuple[WithheldChunk, ...]
    filtered: tuple[FilteredChunk, ...]  # nearest first
    checked_by: str  # the filter that let the answers pass; "off" where there is none
    filter_digest: str = ""  # SHA-256 of the filter's model; empty: it has none
    status: RetrievalStatus = RetrievalStatus.SERVED
    retrieval_id: int | None = None  # in the retrieval log; None: not logged


class GuardedRetriever:
    """Queries over the collections of some trust levels."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        embedder: TextEmbedder,
        poison_filter: RetrievalFilter | None = None,
        log: RetrievalLog | None = None,
    ) -> None:
        """Query `store` and trust `ledger`; `Deployment.retriever` is the one that the settings describe.

        Args:
            ledger: vouches for what may be served.
            embedder: of questions.
            poison_filter: None: everything the ledger vouches for is served, and every `Retrieval` says
                "off".
            log: None: no log is written.
        """
        self._ledger = ledger
        self._store = store
        self._embedder = embedder
        self._filter = poison_filter
        self._log = log

    @traced
    def query(
        self,
        text: str,
        k: int = 5,
        trust: Sequence[TrustLevel | str] = tuple(TrustLevel),
        *,
        where: Mapping[str, str | int | float | bool] | None = None,
        session: str = "",
        user_id: str | None = None,
    ) -> Retrieval:
        """Return the `k` nearest chunks that the ledger vouches for and the filter lets pass.

        Args:
            text: the question.
            k: number of chunks at most.
            trust: levels to search, also by name (``["trusted", "reviewed"]``).
            where: values that a chunk's metadata must have, such as ``{"source": "handbook"}``; None: any.
            session: name of the conversation or run, for the log.
            user_id: who asks, as the application names them, for the log; None: not known.

        Raises:
            Misuse: `k` is less than 1, or `trust` holds what is no level.
            FilterFailed: the filter failed; nothing is served.
            StoreUnavailable: the vector store does not answer.
            LedgerUnavailable: the ledger does not answer.
        """
        if k < 1:
            raise Misuse(f"k: expected 1 or more chunks, got {k}")
        levels = _trust_levels(trust)
        existing = set(self._store.names())
        collections = [name for level in levels if (name := self._store.collection_name(level)) in existing]
        vector = self._embedder.embed([text])[0]
        passed: list[RetrievedChunk] = []
        filtered: list[FilteredChunk] = []
        judged: set[tuple[str, str]] = set()
        count = CANDIDATES_PER_ANSWER * k
        while True:
            candidates, withheld = self._vouched_for(collections, vector, count, where)
            waiting = [chunk for chunk in candidates if (chunk.chunk_id, chunk.collection) not in judged]
            while waiting and len(passed) < k:
                batch, waiting = waiting[: k - len(passed)], waiting[k - len(passed) :]
                for answer, opinion in self._judge(text, batch):
                    judged.add((answer.chunk_id, answer.collection))
                    if opinion is None or not opinion.poisoned:
                        passed.append(answer)
                    else:
                        filtered.append(_filtered(answer, opinion))
            if len(passed) >= k or len(candidates) < count or count >= MAX_CANDIDATES_PER_ANSWER * k:
                break
            count *= 2
        passed.sort(key=lambda answer: (-answer.similarity, answer.chunk_id))
        filtered.sort(key=lambda chunk: (-chunk.similarity, chunk.chunk_id))
        checked_by = self._filter.name if self._filter else "off"
        digest = self._filter.digest if self._filter else ""
        if passed:
            status = RetrievalStatus.SERVED
        elif filtered or withheld:
            status = RetrievalStatus.FILTERED if filtered else RetrievalStatus.WITHHELD
        else:
            is_missing = not where and self._has_published(levels)  # a filter may leave nothing
            status = RetrievalStatus.MISSING if is_missing else RetrievalStatus.EMPTY
        retrieval = Retrieval(tuple(passed), tuple(withheld), tuple(filtered), checked_by, digest, status)
        return replace(retrieval, retrieval_id=self._write_log(text, vector, session, user_id, retrieval))

    def _has_published(self, trust: Sequence[TrustLevel]) -> bool:
        """Return whether the ledger says that a collection of these trust levels holds anything."""
        names = [self._store.collection_name(level) for level in trust]
        statement = sa.select(publications.c.chunk_id).where(
            publications.c.collection.in_(names), publications.c.state == PublicationState.PUBLISHED
        )
        return self._ledger.first(statement.limit(1)) is not None

    def _vouched_for(
        self,
        collections: Sequence[str],
        vector: NDArray[np.float32],
        count: int,
        where: Mapping[str, str | int | float | bool] | None,
    ) -> tuple[list[RetrievedChunk], list[WithheldChunk]]:
        """Return the `count` nearest records that the ledger vouches for, fewer beyond `MAX_REQUESTED`, and those that were withheld."""
        withheld: dict[tuple[str, str], WithheldChunk] = {}
        requested = count
        while True:  # as often as planted records crowd out real ones
            matches = self._store.query(collections, vector, requested, where)
            answers = []
            for match, reason in zip(matches, reasons_to_withhold(self._ledger, matches), strict=True):
                if reason is None:
                    answers.append(_answer(match))
                else:
                    chunk = WithheldChunk(match.record.chunk_id, match.collection, reason)
                    withheld[chunk.chunk_id, chunk.collection] = chunk
            if len(answers) >= count or len(matches) < requested or requested >= MAX_REQUESTED:
                return answers[:count], list(withheld.values())
            requested = min(2 * requested, MAX_REQUESTED)

    def _judge(
        self, question: str, answers: Sequence[RetrievedChunk]
    ) -> list[tuple[RetrievedChunk, FilterOpinion | None]]:
        unfiltered: list[tuple[RetrievedChunk, FilterOpinion | None]] = [
            (answer, None) for answer in answers if answer.enhancement or self._filter is None
        ]
        answers = [answer for answer in answers if not answer.enhancement]
        if self._filter is None or not answers:
            return unfiltered
        try:
            opinions = self._filter.judge(question, [answer.text for answer in answers])
            return [*unfiltered, *zip(answers, opinions, strict=True)]
        except GuardError:
            raise
        except Exception as error:  # of a model library; its message may quote the text
            raise FilterFailed(
                f"filter {self._filter.name} failed on {len(answers)} retrieved chunks ({type(error).__name__}), so nothing is "
                "served. Run `guard models prepare` and see that there is enough memory; "
                "CORPUS_GUARD_RETRIEVAL_FILTER=off serves without a filter"
            ) from error

    def record_use(self, retrieval: Retrieval, shown: Sequence[str] | None = None, answer: str | None = None) -> None:
        """Record in the log what became of a retrieval, so that `guard exposure` can tell who saw a text.

        Args:
            retrieval: result of `query`.
            shown: ids of the chunks that the user saw or that the answer cites; the others were not. None: not known.
            answer: that was given; stored where questions are.
        """
        if self._log is not None and retrieval.retrieval_id is not None:
            self._log.record_use(retrieval.retrieval_id, shown, answer)

    def _write_log(
        self, text: str, vector: NDArray[np.float32], session: str, user_id: str | None, retrieval: Retrieval
    ) -> int | None:
        if self._log is None:
            return None
        record = LoggedRetrieval(
            text,
            tuple(LoggedChunk(chunk.chunk_id, round(chunk.similarity, 6)) for chunk in retrieval.answers),
            session=session,
            user_id=user_id,
            sketch=sketch(vector[np.newaxis])[0],
            checked_by=retrieval.checked_by,
            filter_digest=retrieval.filter_digest,
            filtered=tuple(
                {"chunk_id": chunk.chunk_id, "score": round(chunk.score, 6)} for chunk in retrieval.filtered
            ),
            withheld=tuple(
                {"chunk_id": chunk.chunk_id, "collection": chunk.collection} for chunk in retrieval.withheld
            ),
        )
        return self._log.add([record])[0]


def reasons_to_withhold(ledger: Ledger, matches: Sequence[Match]) -> list[str | None]:
    """Return for each match the reason why it may not be served; None where the ledger vouches for it."""
    statement = (
        sa.select(publications, chunks.c.text_sha256, documents.c.source, documents.c.target_version)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(documents, documents.c.doc_id == publications.c.doc_id)
    )
    chunk_ids = {match.record.chunk_id for match in matches}
    with ledger.read() as connection:
        rows = select_in_batches(connection, statement, publications.c.chunk_id, chunk_ids)
        published = {(row.chunk_id, row.collection): row for row in rows}
        enhanced = {row.doc_id for row in published.values() if row.source == trigger.SOURCE}
        active = _active_enhancements(connection, enhanced, now())
    reasons: list[str | None] = []
    for match in matches:
        row = published.get((match.record.chunk_id, match.collection))
        if row is None:
            reasons.append("the ledger never published it")
            continue
        if row.state != PublicationState.PUBLISHED:
            reasons.append(f"the ledger does not serve it (state {row.state})")
            continue
        if row.source == trigger.SOURCE and (row.doc_id not in active or row.version_id != row.target_version):
            reasons.append("the enhancement has expired, or was replaced or withdrawn")
            continue
        expected = (row.text_sha256, row.vector_sha256, row.metadata_sha256)
        hashes = zip(("text", "vector", "metadata"), match.record.fingerprint, expected, strict=True)
        changed = [name for name, actual, published_hash in hashes if actual != published_hash]
        reasons.append(f"its {' and '.join(changed)} changed since it was published" if changed else None)
    return reasons


def _active_enhancements(connection: sa.Connection, doc_ids: set[str], when: datetime) -> set[str]:
    """Return the documents that are an active enhancement."""
    statement = sa.select(enhancements.c.doc_id).where(
        enhancements.c.state == EnhancementState.ACTIVE,
        sa.or_(enhancements.c.expires_at.is_(None), enhancements.c.expires_at > when),
    )
    return set(rows_by_id(connection, statement, doc_ids))


def _answer(match: Match) -> RetrievedChunk:
    """Return a match that the ledger vouches for, metadata included, as it is served."""
    metadata = match.record.metadata
    enhancement = metadata["source"] == trigger.SOURCE
    text, defused = (match.record.text, 0) if enhancement else trigger.defuse(match.record.text)
    return RetrievedChunk(
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
        title=str(metadata["title"]),
    )


def _trust_levels(names: Sequence[TrustLevel | str]) -> list[TrustLevel]:
    levels = [names] if isinstance(names, str) else list(names)  # a text would be read letter by letter
    for name in levels:
        require_one_of("trust", name, tuple(TrustLevel))
    return [TrustLevel(name) for name in levels]


def _filtered(answer: RetrievedChunk, opinion: FilterOpinion) -> FilteredChunk:
    return FilteredChunk(
        chunk_id=answer.chunk_id,
        collection=answer.collection,
        similarity=answer.similarity,
        score=opinion.score,
        reason=opinion.reason,
        source=answer.source,
        uri=answer.uri,
    )
