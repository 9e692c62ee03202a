"""Reopening: served versions that later documents show in another light, brought before a person.

Rules
    * a version is reopened when a later version waits because the two, with others, state the same: what it is
      served with was judged before the others came;
    * so is one that a later trusted document contradicts: when it arrives or, where it waits itself, when it is released;
    * it stays served until a person decides. A release closes the matter for good; a rejection takes it out of
      service, as it does what is refused when judged again;
    * only what is served and newest of its document is reopened, and only what the policy alone accepted: bytes
      that a person released are not asked about again;
    * finding, row and event are written in one transaction; repeated, it changes nothing.

Not done here: finding the groups and the contradictions; `corpus_guard.screening.survey` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import vectors_from_table
from corpus_guard.claims.outcome import Outcome
from corpus_guard.corpus.publishing import CONTRADICTED, JUDGEMENT_EVENT_FIELDS, REOPENED, finding_rows
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Counterstatement, Finding, Judgement, Severity, TrustLevel, Verdict, Version
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, select_in_batches, values_by_id
from corpus_guard.ledger.states import ReviewAction, VersionState
from corpus_guard.ledger.tables import decision_stands, decisions, documents, findings, versions
from corpus_guard.ledger.triage import Triage
from corpus_guard.models import Models
from corpus_guard.review.queue import load_findings
from corpus_guard.screening.checks.conflict import Conflict
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.survey.agreement import Agreement
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.survey.served_collections import ServedCollections
from corpus_guard.screening.survey.statement_search import find_contradicted
from corpus_guard.screening.tags import tag_ids
from corpus_guard.screening.wording import load_wording

if TYPE_CHECKING:
    from corpus_guard.screening.runner import Screening

REOPENED_EVENT: Final = "reopened"
MAX_NAMED_VERSIONS: Final = 3  # in a message
MAX_CONTRADICTIONS: Final = 5  # findings of a version: a reviewer reads no more
WEIGHTS_OF_CONTRADICTIONS: Final = {Outcome.CONFLICT: (Severity.HIGH, 0.8), Outcome.LIKELY: (Severity.MEDIUM, 0.5)}
"""Severity and score, as of an arriving text that contradicts a trusted one."""
_CHECK: Final = REOPENED.partition(".")[0]


@dataclass(frozen=True, slots=True)
class CompletedGroup:
    """Served documents that state what a version states that waits."""

    version_id: str  # of the version that waits
    documents: tuple[str, ...]  # ids of the served ones
    score: float  # of the finding for which it waits, 0..1


@dataclass(frozen=True, slots=True)
class LateContradiction:
    """A sentence of a served version that a trusted version contradicts which arrived later."""

    version_id: str  # of the trusted version
    statement: RelatedStatement  # of the trusted version, and of the served one


def late_contradictions(
    judgements: Iterable[Judgement], contradicted: Mapping[str, Sequence[RelatedStatement]]
) -> list[LateContradiction]:
    """Return what accepted versions contradict that is served.

    Args:
        contradicted: what a trusted version contradicts, by its id.
    """
    return [
        LateContradiction(judgement.version_id, statement)
        for judgement in judgements
        if judgement.verdict is Verdict.ACCEPT
        for statement in contradicted.get(judgement.version_id, ())
    ]


def contradictions_of_released(
    released: Iterable[Version], vectors: str, storage: Storage, store: Store, screening: Screening, models: Models
) -> list[LateContradiction]:
    """Return what released or restored trusted versions contradict that is served. All are compared, without a budget.

    Args:
        released: versions of any trust level; those that are not trusted contradict nothing.
        vectors: storage name of the table of their vectors; empty where they have none.
        screening: nothing is compared where its policy has no check `conflict`.
        models: the trained reader reads, and no other model is asked: a release waits for no endpoint.
    """
    conflict = screening.check(Conflict.name)
    if not vectors or not isinstance(conflict, Conflict):
        return []
    chunks = [
        (version, chunk)
        for version in released
        if version.stamp.trust is TrustLevel.TRUSTED
        for chunk in version.chunks
    ]
    if not chunks:
        return []
    import numpy as np

    by_chunk = vectors_from_table(storage.read_table(vectors))
    contradicted = find_contradicted(
        [PlacedChunk.of(version, chunk) for version, chunk in chunks],
        np.stack([by_chunk[chunk.chunk_id] for _, chunk in chunks]),
        lambda positions: [chunks[position][1].text for position in positions],
        ServedCollections(store),
        load_wording(models.frequency_vocabulary).rarity,
        conflict.likely(models, may_ask=False),
    )
    return [
        LateContradiction(version, statement)
        for version, statements in contradicted.items()
        for statement in statements
    ]


def completed_groups(
    policy: Policy, judgements: Iterable[Judgement], agreements: Mapping[str, Sequence[Agreement]]
) -> list[CompletedGroup]:
    """Return the groups that versions complete which wait because of them.

    Args:
        policy: says which findings count.
        agreements: a version's groups, by its id.
    """
    groups = []
    for judgement in judgements:
        if scores := _scores_of_groups(policy.weighed(judgement.findings)):
            served = dict.fromkeys(doc for group in agreements.get(judgement.version_id, ()) for doc in group.served)
            if served:
                groups.append(CompletedGroup(judgement.version_id, tuple(served), max(scores)))
    return groups


def waits_for_group(judgement: Judgement) -> bool:
    """Return whether a version waits because other documents state the same."""
    return judgement.verdict is not Verdict.ACCEPT and bool(_scores_of_groups(judgement.findings))


def groups_of(waiting: Iterable[Judgement], agreements: Mapping[str, Sequence[Agreement]]) -> dict[str, set[str]]:
    """Return the ids of the documents that state the same as each version, by its id."""
    return {
        judgement.version_id: {
            doc_id for group in agreements.get(judgement.version_id, ()) for doc_id in (*group.others, *group.served)
        }
        for judgement in waiting
    }


def reopen(
    connection: sa.Connection,
    run_id: str,
    policy: Policy,
    groups: Iterable[CompletedGroup],
    contradictions: Iterable[LateContradiction] = (),
    case_id: str = "",
) -> int:
    """Reopen the served members of groups, and what trusted documents contradict; return how many are reopened now.

    Args:
        policy: weighs the new findings; one that it shadows reopens nothing.
        groups: from `completed_groups`, or of a case.
        contradictions: from `late_contradictions`.
        case_id: of the case whose accused versions the groups name; empty: later versions completed the groups.
    """
    by_document: defaultdict[str, list[CompletedGroup]] = defaultdict(list)
    for group in groups:
        for doc_id in group.documents:
            by_document[doc_id].append(group)
    by_version: defaultdict[str, list[LateContradiction]] = defaultdict(list)
    for contradiction in contradictions:
        by_version[contradiction.statement.other.version_id].append(contradiction)
    contradicted = {contradiction.statement.other.doc_id for each in by_version.values() for contradiction in each}
    contradicting = {contradiction.version_id for each in by_version.values() for contradiction in each}
    sources = values_by_id(connection, sa.select(versions.c.version_id, versions.c.doc_id), contradicting)
    rows = _reopenable(connection, {*by_document, *contradicted})
    # What versions that wait have reopened waits beside them.
    waiting = {by_document[row.doc_id][0].version_id for row in rows if row.doc_id in by_document}
    campaigns = values_by_id(connection, sa.select(versions.c.version_id, versions.c.campaign), waiting)
    stored_findings = load_findings(connection, [row.version_id for row in rows])
    when, count = now(), 0
    for row in rows:
        completing, opposing = by_document[row.doc_id], by_version[row.version_id]
        new_findings = [_describe(completing, case_id)] if completing else []
        new_findings = policy.weighed([*new_findings, *_describe_contradictions(opposing, sources)])
        if not new_findings:
            continue
        counted = [*stored_findings[row.version_id], *new_findings]
        triage = Triage.from_findings(
            row.stamp, [(each.check, each.severity.value) for each in counted if not each.muted]
        )
        values = {
            "risk": max(row.risk, policy.risk(counted)),
            "severity": triage.severity,
            "checks": triage.checks,
            "campaign": (campaigns.get(completing[0].version_id) if completing else "") or triage.campaign,
            "waits_since": when,
            "reopened_at": when,
        }
        connection.execute(versions.update().where(versions.c.version_id == row.version_id).values(**values))
        connection.execute(
            findings.insert(), finding_rows(row.version_id, new_findings, first=len(stored_findings[row.version_id]))
        )
        event = {name: row._mapping[name] for name in JUDGEMENT_EVENT_FIELDS} | {"risk": values["risk"]}
        by = list(dict.fromkeys([*(group.version_id for group in completing), *(late.version_id for late in opposing)]))
        cause = {"case": case_id} if case_id else {}
        append_event(
            connection,
            REOPENED_EVENT,
            row.version_id,
            run_id,
            **event,
            code=new_findings[0].code,
            completed_by=by,
            **cause,
        )
        count += 1
    return count


def _scores_of_groups(findings: Iterable[Finding]) -> list[float]:
    return [
        finding.score
        for finding in findings
        if finding.check == _CHECK and finding.severity.rank >= Severity.MEDIUM.rank and not finding.muted
    ]


def _reopenable(connection: sa.Connection, doc_ids: Iterable[str]) -> list[Row]:
    released = sa.exists().where(
        decisions.c.version_id == versions.c.version_id, decisions.c.verdict == ReviewAction.RELEASE, decision_stands()
    )
    statement = (
        sa.select(versions)
        .join(documents, documents.c.target_version == versions.c.version_id)
        .where(
            documents.c.latest_version == versions.c.version_id,
            versions.c.state == VersionState.ACCEPTED,
            versions.c.reopened_at.is_(None),
            sa.not_(released),
        )
        .order_by(versions.c.version_id)
    )
    return list(select_in_batches(connection, statement, documents.c.doc_id, doc_ids))


def _describe_contradictions(
    contradictions: Sequence[LateContradiction], sources: Mapping[str, str]
) -> Iterator[Finding]:
    for contradiction in contradictions[:MAX_CONTRADICTIONS]:
        statement, doc_id = contradiction.statement, sources[contradiction.version_id]
        severity, score = WEIGHTS_OF_CONTRADICTIONS[statement.outcome]
        states = "states" if statement.outcome is Outcome.CONFLICT else "seems to state, in other words,"
        yield Finding(
            CONTRADICTED.partition(".")[0],
            CONTRADICTED,
            severity,
            score,
            f"A trusted document that came later {states} something else: document {doc_id}, version "
            f"{contradiction.version_id}. This one was accepted before and stays served until a person decides",
            span=statement.other.span,
            tags=tag_ids(("poisoning", "misinformation")),
            counterstatement=Counterstatement(
                doc_id,
                contradiction.version_id,
                statement.span,
                statement.other.span,
                statement.values,
                statement.other.values,
            ),
        )


def _describe(completing: Sequence[CompletedGroup], case_id: str) -> Finding:
    named = ", ".join(group.version_id for group in completing[:MAX_NAMED_VERSIONS])
    more = len(completing) - MAX_NAMED_VERSIONS
    named += f" and {more} more" if more > 0 else ""
    message = f"Versions that came later state the same as this one and wait because of it: {named}"
    if case_id:
        message = f"It came the same road as versions that case {case_id[:8]} accuses: {named}"
    return Finding(
        _CHECK,
        REOPENED,
        Severity.MEDIUM,
        max(group.score for group in completing),
        f"{message}. This one was accepted before and stays served until a person decides",
        tags=tag_ids(("poisoning", "rag_poisoning", "retrieval_content")),
    )
