"""Muting a rule for a source: its findings there are still recorded, but no longer affect the verdict.

Rules
    * one person proposes a mute and gives a reason; another person confirms it; until then nothing is muted. Who counts as
      two people is in `corpus_guard.review.identities`;
    * proposing, confirming and lifting are recorded for good in the event log, each with its reviewer and
      reason;
    * a mute covers one code in one source; one person can lift it, with immediate effect;
    * failed checks, findings of parsing, and codes that the policy rejects cannot be muted;
    * existing verdicts stay until `guard rescreen`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Misuse, NotAllowed, Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, is_sqlite
from corpus_guard.ledger.states import MuteState, ReviewAction
from corpus_guard.ledger.tables import acts, documents, findings
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.records import record_act
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.runner import is_mutable


@dataclass(frozen=True, slots=True)
class Mute:
    """Rule that is muted for a source, was muted there, or is proposed to be."""

    mute_id: str
    source: str
    code: str
    state: MuteState
    proposed_by: Reviewer
    proposed_at: datetime
    reason: str
    confirmed_by: Reviewer | None
    confirmed_at: datetime | None
    lifted_by: Reviewer | None
    lifted_at: datetime | None
    version_id: str | None  # the item that gave rise to it

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "mute_id": self.mute_id,
            "source": self.source,
            "code": self.code,
            "state": self.state.value,
            "proposed_by": self.proposed_by.name,
            "proposed_at": self.proposed_at.isoformat(),
            "reason": self.reason,
            "confirmed_by": self.confirmed_by.name if self.confirmed_by else None,
            "confirmed_at": self.confirmed_at.isoformat() if self.confirmed_at else None,
            "lifted_by": self.lifted_by.name if self.lifted_by else None,
            "lifted_at": self.lifted_at.isoformat() if self.lifted_at else None,
            "version_id": self.version_id,
        }


def propose_mute(
    ledger: Ledger,
    policy: Policy,
    source: str,
    code: str,
    act: ReviewAct,
    *,
    version_id: str | None = None,
) -> Mute:
    """Propose to mute a code in a source. Nothing is muted until another person confirms.

    Args:
        source: name of a source that has documents in the ledger.
        code: code of a finding, such as ``instructions.override``.

    Raises:
        Misuse: this code cannot be muted.
        NotAllowed: this reviewer cannot be one of the two people.
        UnknownSubject: no such source, or no check ever reported this code.
        Stale: the code is already muted in this source, or proposed to be.
    """
    if not is_mutable(code) or code in policy.reject:
        raise Misuse(
            f"findings {code[:80]!r} cannot be muted: a check failed, the document was not read completely, "
            "or the policy rejects them"
        )
    if problem := act.pair_problem(None, "proposed"):
        raise NotAllowed(f"a mute {problem}")
    with ledger.write() as connection:
        _lock_mutes(connection)
        has_documents = sa.exists().where(documents.c.source == source.replace("\x00", ""))
        if not connection.scalar(sa.select(has_documents)):
            raise UnknownSubject(f"source {source[:64]!r} has no document in the ledger")
        has_findings = sa.exists().where(findings.c.code == code.replace("\x00", ""))
        if not connection.scalar(sa.select(has_findings)):
            raise UnknownSubject(f"no check ever found {code[:80]!r}; see the findings of an item")
        for mute in _load_mutes(connection):
            if (mute.source, mute.code) == (source, code) and mute.state is not MuteState.LIFTED:
                raise Stale(f"{code} is already {mute.state} for {source}, by {mute.proposed_by.name}: {mute.mute_id}")
        mute_id = record_act(connection, ReviewAction.MUTE, act, now(), source=source, code=code, version_id=version_id)
        return _find_mute(connection, mute_id)


def confirm_mute(ledger: Ledger, mute_id: str, act: ReviewAct) -> Mute:
    """Confirm a mute that another person proposed. It applies from the next screening of its source.

    Raises:
        UnknownSubject: no such mute.
        NotAllowed: the same person proposed it, or this reviewer cannot be one of the two people.
        Stale: it is already active, or was lifted.
    """
    with ledger.write() as connection:
        _lock_mutes(connection)
        mute = _find_mute(connection, mute_id)
        if mute.state is not MuteState.PROPOSED:
            raise Stale(f"mute {mute.mute_id} is {mute.state}; nothing was changed")
        if problem := act.pair_problem(mute.proposed_by, "proposed"):
            raise NotAllowed(f"mute {mute.mute_id} {problem}")
        record_act(connection, ReviewAction.CONFIRM, act, now(), subject=mute.mute_id)
        return _find_mute(connection, mute.mute_id)


def lift_mute(ledger: Ledger, mute_id: str, act: ReviewAct) -> Mute:
    """End a mute, or a proposal. One person suffices, because more findings count afterwards.

    Raises:
        UnknownSubject: no such mute.
        Stale: it was already lifted.
    """
    with ledger.write() as connection:
        _lock_mutes(connection)
        mute = _find_mute(connection, mute_id)
        if mute.state is MuteState.LIFTED:
            raise Stale(f"mute {mute.mute_id} was already lifted; nothing was changed")
        record_act(connection, ReviewAction.LIFT, act, now(), subject=mute.mute_id)
        return _find_mute(connection, mute.mute_id)


def list_mutes(ledger: Ledger) -> list[Mute]:
    """Return all mutes, past ones included, newest first."""
    with ledger.read() as connection:
        return _load_mutes(connection)[::-1]


def active_mutes(ledger: Ledger) -> Mapping[str, frozenset[str]]:
    """Return the muted codes of each source."""
    codes_by_source: dict[str, set[str]] = {}
    for mute in list_mutes(ledger):
        if mute.state is MuteState.ACTIVE:
            codes_by_source.setdefault(mute.source, set()).add(mute.code)
    return {source: frozenset(codes) for source, codes in codes_by_source.items()}


def mutable_codes(item_findings: tuple[Finding, ...]) -> list[str]:
    """Return the codes of an item's findings that may be muted, most severe first."""
    ranked = sorted(item_findings, key=lambda finding: (-finding.severity.rank, -finding.score, finding.code))
    codes = (
        finding.code
        for finding in ranked
        if is_mutable(finding.code) and not finding.muted and finding.severity is not Severity.INFO
    )
    return list(dict.fromkeys(codes))


def _lock_mutes(connection: sa.Connection) -> None:
    if not is_sqlite(connection):  # SQLite has one writer at a time
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('corpus-guard/mutes'))"))


def _find_mute(connection: sa.Connection, mute_id: str) -> Mute:
    for mute in _load_mutes(connection):
        if mute.mute_id == mute_id:
            return mute
    raise UnknownSubject(f"mute {mute_id[:64]!r} is not in the ledger; see `guard quarantine mutes`")


def _load_mutes(connection: sa.Connection) -> list[Mute]:
    """Return all mutes, oldest first."""
    kinds = (ReviewAction.MUTE.value, ReviewAction.CONFIRM.value, ReviewAction.LIFT.value)
    statement = sa.select(acts).where(acts.c.kind.in_(kinds)).order_by(acts.c.done_at, acts.c.act_id)
    proposals: list[Row] = []
    later: dict[tuple[str, str], Row] = {}
    for row in connection.execute(statement):
        if row.kind == ReviewAction.MUTE:
            proposals.append(row)
        else:
            later.setdefault((row.kind, row.subject), row)
    return [
        _build_mute(row, later.get((ReviewAction.CONFIRM, row.act_id)), later.get((ReviewAction.LIFT, row.act_id)))
        for row in proposals
    ]


def _build_mute(row: Row, confirmed: Row | None, lifted: Row | None) -> Mute:
    return Mute(
        mute_id=row.act_id,
        source=row.source,
        code=row.code,
        state=MuteState.LIFTED if lifted else MuteState.ACTIVE if confirmed else MuteState.PROPOSED,
        proposed_by=_reviewer(row),
        proposed_at=row.done_at,
        reason=row.reason,
        confirmed_by=_reviewer(confirmed) if confirmed else None,
        confirmed_at=confirmed.done_at if confirmed else None,
        lifted_by=_reviewer(lifted) if lifted else None,
        lifted_at=lifted.done_at if lifted else None,
        version_id=row.version_id,
    )


def _reviewer(row: Row) -> Reviewer:
    return Reviewer(row.reviewer_id, row.reviewer, row.auth)
