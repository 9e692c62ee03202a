"""Muting a rule for a source: what it finds there is kept, marked, and counts no longer.

Rules
    * one person proposes, and names why; another confirms; until then nothing is muted;
    * proposing, confirming and lifting are decisions: kept for good, chained into the event log, each with its reviewer and reason;
    * a mute holds for one code in one source. It can be lifted by one person, at once;
    * that a check failed, what parsing found and what the policy rejects cannot be muted;
    * what was judged already keeps its verdict until `guard rescreen`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Misuse, NotAllowed, Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import acts, documents, findings
from corpus_guard.review._marks import act
from corpus_guard.review.reviewer import Reviewer, reason_of
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.runner import is_mutable

Standing = Literal["proposed", "active", "lifted"]


@dataclass(frozen=True, slots=True)
class Mute:
    """A code that means nothing in a source, or is proposed to."""

    mute_id: str
    source: str
    code: str
    state: Standing
    proposed_by: Reviewer
    proposed_at: datetime
    reason: str
    confirmed_by: Reviewer | None
    confirmed_at: datetime | None
    lifted_by: Reviewer | None
    lifted_at: datetime | None
    version_id: str | None  # the item it came up with

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "mute_id": self.mute_id,
            "source": self.source,
            "code": self.code,
            "state": self.state,
            "proposed_by": self.proposed_by.name,
            "proposed_at": self.proposed_at.isoformat(),
            "reason": self.reason,
            "confirmed_by": self.confirmed_by.name if self.confirmed_by else None,
            "confirmed_at": self.confirmed_at.isoformat() if self.confirmed_at else None,
            "lifted_by": self.lifted_by.name if self.lifted_by else None,
            "lifted_at": self.lifted_at.isoformat() if self.lifted_at else None,
            "version_id": self.version_id,
        }


def propose(
    ledger: Ledger,
    policy: Policy,
    source: str,
    code: str,
    *,
    reviewer: Reviewer,
    reason: str,
    policy_digest: str,
    version_id: str | None = None,
) -> Mute:
    """Propose that a code means nothing in a source. Nothing is muted until somebody else confirms.

    Args:
        ledger: the ledger.
        policy: the one in force.
        source: as sources.yaml names it; the ledger must know it.
        code: of a finding: ``instructions.override``.
        reviewer: who proposes.
        reason: why; required.
        policy_digest: the policy in force.
        version_id: the released item it came up with, if any.

    Raises:
        Misuse: no reason, or such a finding may not be muted.
        UnknownSubject: no such source, or no check ever found this.
        Stale: it is proposed or muted already.
    """
    kept = reason_of(reason)
    if not is_mutable(code) or code in policy.reject:
        raise Misuse(
            f"findings {code[:80]!r} cannot be muted: they say that something was not looked at, or is refused"
        )
    with ledger.write() as connection:
        _one_at_a_time(ledger, connection)
        known = sa.select(sa.exists().where(documents.c.source == source.replace("\x00", "")))
        if not connection.scalar(known):
            raise UnknownSubject(f"source {source[:64]!r} has no document in the ledger")
        if not connection.scalar(sa.select(sa.exists().where(findings.c.code == code.replace("\x00", "")))):
            raise UnknownSubject(f"no check ever found {code[:80]!r}; see the findings of an item")
        for one in _mutes(connection):
            if (one.source, one.code) == (source, code) and one.state != "lifted":
                raise Stale(f"{code} is {one.state} for {source} already, by {one.proposed_by.name}: {one.mute_id}")
        made = act(
            ledger, connection, "mute", reviewer, kept, policy_digest, now(),
            source=source, code=code, version_id=version_id,
        )  # fmt: skip
        return _named(connection, made)


def confirm(ledger: Ledger, mute_id: str, *, reviewer: Reviewer, reason: str, policy_digest: str) -> Mute:
    """Agree to a mute somebody else proposed; it holds from the next screening of its source on.

    Raises:
        Misuse: no reason.
        UnknownSubject: no such mute.
        NotAllowed: the same person proposed it.
        Stale: it holds already, or was lifted.
    """
    kept = reason_of(reason)
    with ledger.write() as connection:
        _one_at_a_time(ledger, connection)
        mute = _named(connection, mute_id)
        if mute.state != "proposed":
            raise Stale(f"mute {mute.mute_id} is {mute.state}; nothing was changed")
        if mute.proposed_by.is_same(reviewer):
            raise NotAllowed(
                f"mute {mute.mute_id} was proposed by {mute.proposed_by.name}; another person must confirm it"
            )
        act(ledger, connection, "confirm", reviewer, kept, policy_digest, now(), subject=mute.mute_id)
        return _named(connection, mute.mute_id)


def lift(ledger: Ledger, mute_id: str, *, reviewer: Reviewer, reason: str, policy_digest: str) -> Mute:
    """End a mute, or a proposal; one person suffices, because it makes the guard see more.

    Raises:
        Misuse: no reason.
        UnknownSubject: no such mute.
        Stale: it was lifted already.
    """
    kept = reason_of(reason)
    with ledger.write() as connection:
        _one_at_a_time(ledger, connection)
        mute = _named(connection, mute_id)
        if mute.state == "lifted":
            raise Stale(f"mute {mute.mute_id} was lifted already; nothing was changed")
        act(ledger, connection, "lift", reviewer, kept, policy_digest, now(), subject=mute.mute_id)
        return _named(connection, mute.mute_id)


def mutes(ledger: Ledger) -> list[Mute]:
    """Every mute there ever was, newest first."""
    with ledger.read() as connection:
        return _mutes(connection)[::-1]


def active_mutes(ledger: Ledger) -> Mapping[str, frozenset[str]]:
    """Source → codes that are muted now."""
    found: dict[str, set[str]] = {}
    for one in mutes(ledger):
        if one.state == "active":
            found.setdefault(one.source, set()).add(one.code)
    return {source: frozenset(codes) for source, codes in found.items()}


def worth_muting(found: tuple[Finding, ...]) -> list[str]:
    """Codes of an item's findings that may be muted, the worst first."""
    ranked = sorted(found, key=lambda one: (-one.severity.rank, -one.score, one.code))
    kept = (one.code for one in ranked if is_mutable(one.code) and not one.muted and one.severity is not Severity.INFO)
    return list(dict.fromkeys(kept))


def _one_at_a_time(ledger: Ledger, connection: sa.Connection) -> None:
    if ledger.engine.dialect.name == "postgresql":  # SQLite has one writer anyway
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('corpus-guard/mutes'))"))


def _named(connection: sa.Connection, mute_id: str) -> Mute:
    for one in _mutes(connection):
        if one.mute_id == mute_id:
            return one
    raise UnknownSubject(f"mute {mute_id[:64]!r} is not in the ledger; see `guard quarantine mutes`")


def _mutes(connection: sa.Connection) -> list[Mute]:
    """Oldest first."""
    statement = (
        sa.select(acts).where(acts.c.kind.in_(("mute", "confirm", "lift"))).order_by(acts.c.done_at, acts.c.act_id)
    )
    proposed: dict[str, Any] = {}
    later: dict[tuple[str, str], Any] = {}
    for row in connection.execute(statement):
        if row.kind == "mute":
            proposed[row.act_id] = row
        else:
            later.setdefault((row.kind, row.subject), row)
    return [_mute(row, later.get(("confirm", name)), later.get(("lift", name))) for name, row in proposed.items()]


def _mute(row: Any, confirmed: Any, lifted: Any) -> Mute:
    return Mute(
        mute_id=row.act_id,
        source=row.source,
        code=row.code,
        state="lifted" if lifted else "active" if confirmed else "proposed",
        proposed_by=_by(row),
        proposed_at=row.done_at,
        reason=row.reason,
        confirmed_by=_by(confirmed) if confirmed else None,
        confirmed_at=confirmed.done_at if confirmed else None,
        lifted_by=_by(lifted) if lifted else None,
        lifted_at=lifted.done_at if lifted else None,
        version_id=row.version_id,
    )


def _by(row: Any) -> Reviewer:
    return Reviewer(row.reviewer_id, row.reviewer, row.auth)
