"""Reopening: served versions that later documents show in another light, brought before a person.

Rules
    * a version is reopened when a later version waits because the two, with others, state the same: what it is
      served with was judged before the others came;
    * it stays served until a person decides. A release closes the matter for good; a rejection takes it out of
      service, as it does what is refused when judged again;
    * only what is served and newest of its document is reopened, and only what the policy alone accepted: bytes
      that a person released are not asked about again;
    * finding, row and event are written in one transaction; repeated, it changes nothing.

Not done here: finding the groups; `corpus_guard.screening.survey.agreement` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from corpus_guard.corpus.publishing import JUDGEMENT_EVENT_FIELDS, REOPENED
from corpus_guard.domain import Finding, Judgement, Severity
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.states import ReviewAction, VersionState
from corpus_guard.ledger.tables import decision_stands, decisions, documents, findings, versions
from corpus_guard.ledger.triage import Triage
from corpus_guard.review.queue import load_findings
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.survey.agreement import Agreement
from corpus_guard.screening.tags import tag_ids

REOPENED_EVENT: Final = "reopened"
MAX_NAMED_VERSIONS: Final = 3  # in a message
_CHECK: Final = REOPENED.partition(".")[0]


@dataclass(frozen=True, slots=True)
class CompletedGroup:
    """Served documents that state what a version states that waits."""

    version_id: str  # of the version that waits
    documents: tuple[str, ...]  # ids of the served ones
    score: float  # of the finding for which it waits, 0..1


def completed_groups(
    policy: Policy, judgements: Iterable[Judgement], agreements: Callable[[str], Sequence[Agreement]]
) -> list[CompletedGroup]:
    """Return the groups that versions complete which wait because of them.

    Args:
        policy: says which findings count.
        judgements: of a run.
        agreements: returns a version's groups, by its id.
    """
    groups = []
    for judgement in judgements:
        scores = [
            finding.score
            for finding in policy.weighed(judgement.findings)
            if finding.check == _CHECK and finding.severity.rank >= Severity.MEDIUM.rank
        ]
        if scores:
            served = dict.fromkeys(doc for group in agreements(judgement.version_id) for doc in group.served)
            if served:
                groups.append(CompletedGroup(judgement.version_id, tuple(served), max(scores)))
    return groups


def reopen(connection: sa.Connection, run_id: str, policy: Policy, groups: Iterable[CompletedGroup]) -> int:
    """Reopen the served members of groups.

    Args:
        connection: of a `Ledger.write`.
        run_id: the run that completed the groups.
        policy: weighs the new finding.
        groups: from `completed_groups`.

    Returns:
        The number of versions that were reopened now.
    """
    by_document: dict[str, list[CompletedGroup]] = {}
    for group in groups:
        for doc_id in group.documents:
            by_document.setdefault(doc_id, []).append(group)
    rows = _reopenable(connection, by_document)
    campaigns = _campaigns(connection, {by_document[row.doc_id][0].version_id for row in rows})
    known = load_findings(connection, [row.version_id for row in rows])
    when = now()
    for row in rows:
        completing = by_document[row.doc_id]
        finding = _describe(completing)
        counted = [*known[row.version_id], finding]
        triage = Triage.from_findings(
            row.stamp, [(each.check, each.severity.value) for each in counted if not each.muted]
        )
        values = {
            "risk": max(row.risk, policy.risk(counted)),
            "severity": triage.severity,
            "checks": triage.checks,
            "campaign": campaigns.get(completing[0].version_id) or triage.campaign,
            "waits_since": when,
            "reopened_at": when,
        }
        connection.execute(versions.update().where(versions.c.version_id == row.version_id).values(**values))
        connection.execute(
            findings.insert().values(
                version_id=row.version_id,
                ordinal=len(known[row.version_id]),
                check_name=finding.check,
                code=finding.code,
                severity=finding.severity.value,
                score=finding.score,
                message=finding.message,
                tags=list(finding.tags),
            )
        )
        event = {name: row._mapping[name] for name in JUDGEMENT_EVENT_FIELDS} | {"risk": values["risk"]}
        by = [group.version_id for group in completing]
        append_event(connection, REOPENED_EVENT, row.version_id, run_id, **event, code=finding.code, completed_by=by)
    return len(rows)


def _reopenable(connection: sa.Connection, doc_ids: Iterable[str]) -> list[Row]:
    released = sa.exists().where(
        decisions.c.version_id == versions.c.version_id,
        decisions.c.verdict == ReviewAction.RELEASE,
        decision_stands(),
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


def _campaigns(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, str]:
    """Return the campaigns of the versions that wait: what they reopened waits beside them."""
    statement = sa.select(versions.c.version_id, versions.c.campaign)
    return {
        row.version_id: row.campaign
        for row in select_in_batches(connection, statement, versions.c.version_id, version_ids)
    }


def _describe(completing: Sequence[CompletedGroup]) -> Finding:
    named = ", ".join(group.version_id for group in completing[:MAX_NAMED_VERSIONS])
    more = len(completing) - MAX_NAMED_VERSIONS
    return Finding(
        _CHECK,
        REOPENED,
        Severity.MEDIUM,
        max(group.score for group in completing),
        f"Versions that came later state the same as this one and wait because of it: {named}"
        f"{f' and {more} more' if more > 0 else ''}. This one was accepted before they came and stays served until a "
        "person decides",
        tags=tag_ids(("poisoning", "rag_poisoning", "retrieval_content")),
    )
