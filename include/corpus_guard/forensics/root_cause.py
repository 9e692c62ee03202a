"""Root cause: how each accused version came to be served, and what could have stopped it.

Rules
    * how a version came in is its first judgement in the signed log: that it came again after a purge, and was refused,
      changes nothing of it;
    * facts only, each from the ledger: the run, the source, who stands behind the document, the decision, and every
      finding that was there and did not count, with the reason: muted, shadowed, or below the threshold;
    * whether the source itself changed: a new document, or another version of one that was accepted before;
    * a check that did not run on the version is named with its reason; "no finding" and "not checked" are different things.

Not done here: who wrote a document. What a document says of its author is its own claim.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import sqlalchemy as sa

from corpus_guard.domain import EMPTY_TEXT_SHA256, Finding, JsonRecord, plural
from corpus_guard.forensics.scope import AccusedVersion, Scope
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, rows_by_id, select_in_batches
from corpus_guard.ledger.states import SERVABLE_STATES, ReviewAction, VersionState
from corpus_guard.ledger.tables import decision_stands, decisions, documents, events, versions
from corpus_guard.review.muting import list_mutes
from corpus_guard.review.queue import load_findings
from corpus_guard.screening.policy import Policy


@dataclass(frozen=True, slots=True)
class UncountedFinding:
    """A finding that was there and did not hold the version back."""

    code: str
    severity: str
    score: float  # 0..1
    reason: str  # muted, shadowed, below the threshold


@dataclass(frozen=True, slots=True)
class VersionCause:
    """Origin of one accused version."""

    version_id: str
    place: str  # source and URI; hostile text
    run_id: str
    fetched_at: str  # ISO 8601
    admitted: str  # in words: by the policy, by whom, or not at all
    change: str  # new document, or changed document and what it replaced
    replaced: str  # version that it replaced; empty: none
    risk: float  # 0..1
    threshold: float  # risk from which a version of this source waits, 0..1
    uncounted: tuple[UncountedFinding, ...]
    not_checked: Mapping[str, str]  # check → why it did not run
    findings_erased: bool  # by a purge: which findings there were is not known any more


@dataclass(frozen=True, slots=True)
class RootCause(JsonRecord):
    """Explanation of how the accused versions of a case came in, one by one and together."""

    json_properties: ClassVar = ("sentences",)

    versions: tuple[VersionCause, ...]
    sources: Mapping[str, int]  # accused versions by source
    authors: Mapping[str, int]  # by what the documents declare, else the source's owner; hostile text
    runs: Mapping[str, int]
    first: str  # fetch time of the earliest, ISO 8601; empty: no version is accused
    last: str
    mutes: tuple[str, ...]  # codes that are muted in these sources now
    served_documents: Mapping[str, int]  # documents served from each of these sources: how large it is

    @property
    def sentences(self) -> tuple[str, ...]:
        """The cause in a few sentences."""
        if not self.versions:
            return ("No text is accused yet: trace a report, or add a document to the case.",)
        admitted = Counter(cause.admitted.partition(" by ")[0] for cause in self.versions)
        first, last = (at[:16].replace("T", " ") for at in (self.first, self.last))
        when = f"at {first}" if first == last else f"between {first} and {last}"
        lines = [
            f"{plural(len(self.versions), 'version')} of {plural(len(self.sources), 'source')} came in {when} UTC, in "
            f"{plural(len(self.runs), 'run')}: " + ", ".join(f"{n} {what}" for what, n in admitted.items()) + "."
        ]
        changed = sum(bool(cause.replaced) for cause in self.versions)
        if changed:
            lines.append(
                f"{changed} of {len(self.versions)} changed a document that was accepted before: the source itself was changed."
            )
        for reason in ("muted", "shadowed", "below the threshold"):
            codes = Counter(
                finding.code for cause in self.versions for finding in cause.uncounted if finding.reason == reason
            )
            if codes:
                lines.append(
                    f"Findings that did not count ({reason}): "
                    + ", ".join(f"{code} ×{n}" for code, n in codes.items())
                    + "."
                )
        erased = sum(cause.findings_erased for cause in self.versions)
        if erased:
            lines.append(f"What was found in {erased} of {len(self.versions)} was erased with them.")
        silent = sum(
            not cause.uncounted and not cause.findings_erased and cause.admitted.startswith("accepted")
            for cause in self.versions
        )
        if silent:
            lines.append(f"{silent} of {len(self.versions)} had no finding at all.")
        return tuple(lines)


def root_cause(ledger: Ledger, policy: Policy, scope: Scope) -> RootCause:
    """Return how the accused versions of a case came in.

    Args:
        policy: in force now; a version judged under another one is weighed by this one, and its own digest is in the case.
    """
    mutes = [mute for mute in list_mutes(ledger) if mute.source in scope.sources and mute.state == "active"]
    with ledger.read() as connection:
        rows = rows_by_id(connection, sa.select(versions), scope.versions)
        findings = load_findings(connection, scope.versions)
        released = _releases(connection, scope)
        earlier = _earlier_versions(connection, scope)
        earlier_ids = {each.version_id for listed in earlier.values() for each in listed}
        arrivals = _first_judgements(connection, earlier_ids | set(scope.versions))
        served = (
            sa.select(documents.c.source, sa.func.count().label("size"))
            .where(documents.c.target_version.is_not(None), documents.c.source.in_(scope.sources))
            .group_by(documents.c.source)
        )
        sizes = {row.source: row.size for row in connection.execute(served)}
    causes = tuple(
        _cause(policy, version, rows[version.version_id], findings[version.version_id], released, earlier, arrivals)
        for version in scope.accused
    )
    fetched = [cause.fetched_at for cause in causes]
    return RootCause(
        versions=causes,
        sources=dict(Counter(version.source for version in scope.accused)),
        authors=dict(Counter(version.author for version in scope.accused)),
        runs=dict(Counter(cause.run_id for cause in causes)),
        first=min(fetched, default=""),
        last=max(fetched, default=""),
        mutes=tuple(sorted({f"{mute.source}: {mute.code}" for mute in mutes})),
        served_documents=sizes,
    )


def _cause(
    policy: Policy,
    version: AccusedVersion,
    row: Row,
    findings: list[Finding],
    released: Mapping[str, Row],
    earlier: Mapping[str, list[Row]],
    arrivals: Mapping[str, Row],
) -> VersionCause:
    def judged_at(each: Row) -> datetime:
        moment: datetime = arrivals[each.version_id].at if each.version_id in arrivals else each.judged_at
        return moment

    predecessors = [
        each
        for each in sorted(earlier[version.doc_id], key=judged_at)
        if judged_at(each) < judged_at(row) and each.state in SERVABLE_STATES and each.version_id != version.version_id
    ]
    replaced = predecessors[-1].version_id if predecessors else ""
    arrival = arrivals.get(version.version_id)
    came_again = arrival is not None and arrival.run_id != row.run_id
    verdict = arrival.body["verdict"] if arrival is not None else row.verdict
    findings_erased = row.text_sha256 == EMPTY_TEXT_SHA256 and version.state == VersionState.REJECTED
    return VersionCause(
        version_id=version.version_id,
        place=version.place,
        run_id=arrival.run_id if arrival is not None else version.run_id,
        fetched_at=arrival.at.isoformat() if arrival is not None and came_again else version.fetched_at,
        admitted=_admitted(verdict, released.get(version.version_id)),
        change=f"changed document: it replaced version {replaced[:8]}" if replaced else "new document",
        replaced=replaced,
        risk=float(arrival.body["risk"]) if arrival is not None else row.risk,
        threshold=policy.threshold(row.stamp["trust"], version.source).risk,
        uncounted=tuple(
            UncountedFinding(finding.code, finding.severity.value, finding.score, reason)
            for finding in findings
            if not findings_erased and (reason := _why_uncounted(policy, finding, verdict))
        ),
        not_checked={} if findings_erased else dict(row.skipped),
        findings_erased=findings_erased,
    )


def _admitted(verdict: str, release: Row | None) -> str:
    if release is not None:
        return f"released by {release.reviewer}"
    return {"accept": "accepted by the policy", "reject": "rejected by the policy"}.get(verdict, "held in quarantine")


def _why_uncounted(policy: Policy, finding: Finding, verdict: str) -> str:
    if finding.muted:
        return "muted"
    if {finding.check, finding.code} & policy.shadow:
        return "shadowed"
    return "below the threshold" if verdict == "accept" else ""


def _releases(connection: sa.Connection, scope: Scope) -> dict[str, Row]:
    statement = sa.select(decisions).where(decisions.c.verdict == ReviewAction.RELEASE, decision_stands())
    rows = select_in_batches(connection, statement, decisions.c.version_id, scope.versions)
    return {row.version_id: row for row in sorted(rows, key=lambda row: row.decided_at)}


def _first_judgements(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, Row]:
    """Return the event of the first judgement of each version that the log knows."""
    first: dict[str, Row] = {}
    statement = sa.select(events).where(events.c.kind == "judged")
    for row in select_in_batches(connection, statement, events.c.subject, version_ids):
        earliest = first.get(row.subject)
        if earliest is None or row.seq < earliest.seq:
            first[row.subject] = row
    return first


def _earlier_versions(connection: sa.Connection, scope: Scope) -> dict[str, list[Row]]:
    columns = sa.select(versions.c.version_id, versions.c.doc_id, versions.c.state, versions.c.judged_at)
    by_document: dict[str, list[Row]] = defaultdict(list)
    for row in select_in_batches(connection, columns, versions.c.doc_id, scope.documents):
        by_document[row.doc_id].append(row)
    return {doc_id: sorted(rows, key=lambda row: row.judged_at) for doc_id, rows in by_document.items()}
