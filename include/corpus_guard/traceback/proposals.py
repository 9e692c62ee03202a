"""Proposed withdrawals, one document each, with what a person needs to answer for it.

Rules
    * a proposal is one accused version with all that has equal content: they leave together, and all are named;
    * it tells source, trust, score, why, since when it is served, and how often an application retrieved it;
    * it is ticked only where every document of it is open: what is trusted or reviewed, a person ticks;
    * what people cleared of its report is not proposed again, nor what is withdrawn or about to be.

Not done here: withdrawing (`corpus_guard.traceback.withdrawal_plan`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import sqlalchemy as sa

from corpus_guard.domain import JsonRecord, TrustLevel
from corpus_guard.errors import Stale
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, record_from_row, select_in_batches, values_by_id
from corpus_guard.ledger.states import SERVABLE_STATES, Label, PublicationState, Purpose, VersionState
from corpus_guard.ledger.tables import chunks, documents, publications, retrieved_chunks, suspects, traces, versions
from corpus_guard.removal.purge_targets import group_by_content
from corpus_guard.removal.withdrawal import withdrawal_id
from corpus_guard.review.decisions import Decision, decide
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.records import current_revisions, load_versions
from corpus_guard.screening.policy import ReviewRules
from corpus_guard.traceback.cleared import cleared_versions
from corpus_guard.traceback.records import find_not_reproduced
from corpus_guard.traceback.withdrawal_plan import versions_with_decided_withdrawal


@dataclass(frozen=True, slots=True)
class ProposedDocument(JsonRecord):
    """A document that would be withdrawn."""

    version_id: str
    source: str
    uri: str  # hostile text
    trust: str
    state: str
    served_since: datetime | None  # None: not served now
    retrievals: int  # searches of applications that returned it


@dataclass(frozen=True, slots=True)
class WithdrawalProposal(JsonRecord):
    """An accused version with its copies: withdrawn together, or not at all."""

    json_properties: ClassVar = ("versions", "ticked")

    proposal_id: str  # of its versions; the id of the withdrawal it would be
    version_id: str  # the accused one
    chunk_id: str  # its text with the highest score
    documents: tuple[ProposedDocument, ...]  # the accused one first
    traces: tuple[str, ...]  # ids
    reports: tuple[str, ...]  # ids
    score: float  # how likely the text is poisoned, 0..1
    explanation: str  # the judge's
    reproduced: bool  # the RAG model, asked again, gave a reported answer

    @property
    def versions(self) -> tuple[str, ...]:
        """Ids of all versions that would be withdrawn."""
        return tuple(document.version_id for document in self.documents)

    @property
    def ticked(self) -> bool:
        """True if it may be chosen by default: every document of it is open."""
        return self.reproduced and all(document.trust == TrustLevel.OPEN for document in self.documents)


def divide_by_answer(
    proposals: Iterable[WithdrawalProposal], switches: Mapping[str, bool]
) -> tuple[list[WithdrawalProposal], list[WithdrawalProposal]]:
    """Return the proposals that a person wants withdrawn, and those that they want kept.

    A proposal that arose after the question was shown has no switch: nobody saw it, and it is in neither list.

    Args:
        switches: what was shown, by `proposal_id`, and whether it was left on.
    """
    shown = [proposal for proposal in proposals if proposal.proposal_id in switches]
    return (
        [proposal for proposal in shown if switches[proposal.proposal_id]],
        [proposal for proposal in shown if not switches[proposal.proposal_id]],
    )


def list_proposals(ledger: Ledger, trace_ids: Collection[str]) -> list[WithdrawalProposal]:
    """Return what these traces propose to withdraw and nobody has decided, the highest score first.

    A trace whose RAG model did not give the reported answer proposes too; `WithdrawalProposal.reproduced` tells.
    """
    with ledger.read() as connection:
        accusing = _accusations(connection, trace_ids)
        groups: dict[frozenset[str], list[Row]] = defaultdict(list)
        copies = group_by_content(connection, {row.version_id for row in accusing})
        for row in accusing:
            groups[copies[row.version_id]].append(row)
        refuted = find_not_reproduced(connection, {row.trace_id for row in accusing})
        proposals = [_proposal(connection, group, rows, refuted) for group, rows in groups.items()]
    return sorted(proposals, key=lambda proposal: (-proposal.score, proposal.proposal_id))


def _accusations(connection: sa.Connection, trace_ids: Collection[str]) -> list[Row]:
    """Return the accused texts of versions that may be served, and that nobody cleared or decided to withdraw."""
    statement = (
        sa.select(suspects, traces.c.report_id)
        .join(traces, traces.c.trace_id == suspects.c.trace_id)
        .join(versions, versions.c.version_id == suspects.c.version_id)
        .where(suspects.c.label == Label.POISONED, versions.c.state.in_(SERVABLE_STATES))
    )
    cleared, decided = cleared_versions(connection), versions_with_decided_withdrawal(connection)
    return [
        row
        for row in select_in_batches(connection, statement, suspects.c.trace_id, trace_ids)
        if (row.report_id, row.version_id) not in cleared and row.version_id not in decided
    ]


def _proposal(
    connection: sa.Connection, group: frozenset[str], rows: list[Row], refuted: set[str]
) -> WithdrawalProposal:
    worst = max(rows, key=lambda row: (row.score, row.chunk_id))
    return WithdrawalProposal(
        proposal_id=withdrawal_id(group),
        version_id=worst.version_id,
        chunk_id=worst.chunk_id,
        documents=tuple(sorted(_documents(connection, group), key=lambda each: each.version_id != worst.version_id)),
        traces=tuple(sorted({row.trace_id for row in rows})),
        reports=tuple(sorted({row.report_id for row in rows})),
        score=worst.score,
        explanation=worst.explanation,
        reproduced=not {row.trace_id for row in rows} <= refuted,
    )


def _documents(connection: sa.Connection, version_ids: Iterable[str]) -> list[ProposedDocument]:
    columns = (versions.c.version_id, versions.c.state, documents.c.source, documents.c.uri, documents.c.trust)
    statement = sa.select(*columns).join(documents, documents.c.doc_id == versions.c.doc_id)
    rows = list(select_in_batches(connection, statement, versions.c.version_id, version_ids))
    since = (
        sa.select(publications.c.version_id, sa.func.min(publications.c.changed_at).label("since"))
        .where(publications.c.state == PublicationState.PUBLISHED)
        .group_by(publications.c.version_id)
    )
    served = values_by_id(connection, since, version_ids)
    counts = _count_retrievals(connection, version_ids)
    return [
        record_from_row(
            ProposedDocument,
            row,
            served_since=served.get(row.version_id),
            retrievals=counts.get(row.version_id, 0),
        )
        for row in sorted(rows, key=lambda row: (row.source, row.uri))
    ]


def _count_retrievals(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, int]:
    """Return how many searches, as far as the retrieval log goes back, returned a chunk of each version."""
    searches = sa.func.count(sa.distinct(retrieved_chunks.c.retrieval_id)).label("searches")
    statement = (
        sa.select(chunks.c.version_id, searches)
        .join(retrieved_chunks, retrieved_chunks.c.chunk_id == chunks.c.chunk_id)
        .group_by(chunks.c.version_id)
    )
    return values_by_id(connection, statement, version_ids)


def decide_proposal(
    ledger: Ledger,
    rules: ReviewRules,
    trace_id: str,
    proposal_id: str,
    act: ReviewAct,
) -> list[Decision]:
    """Decide to withdraw what a trace proposes.

    It takes effect with the next run of `quarantine_release`, and can be undone until then.

    Args:
        proposal_id: as the person saw it: other versions of the same content that came since change it.

    Raises:
        Stale: the trace does not propose this, or no longer.
    """
    proposal = find_proposal(ledger, trace_id, proposal_id)
    with ledger.read() as connection:
        rows = load_versions(connection, proposal.versions).values()
        items = current_revisions(connection, [row for row in rows if row.state != VersionState.REJECTED])
    return decide(ledger, rules, items, "reject", act, purpose=Purpose.WITHDRAW)


def find_proposal(ledger: Ledger, trace_id: str, proposal_id: str) -> WithdrawalProposal:
    """Return a proposal of a trace.

    Raises:
        Stale: the trace does not propose this, or no longer.
    """
    proposals = {proposal.proposal_id: proposal for proposal in list_proposals(ledger, [trace_id])}
    if proposal_id not in proposals:
        raise Stale(
            "this is no longer proposed: it was decided, or more documents with this content arrived; load the page again, "
            "nothing was changed"
        )
    return proposals[proposal_id]
