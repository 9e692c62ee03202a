"""Incidents: what a verification found wrong, kept until somebody answers for it.

Rules
    * the same deviations, found again, are the same incident: a nightly run does not open one each night;
    * what was found is kept whole in storage and counted in the ledger; hashes and ids, never texts;
    * healed: everything was undone and a later verification found nothing of it; accepted: a person took the remaining
      deviations for the new baseline, with a reason; closed: nothing was accepted, somebody repaired it by other means;
    * a deviation that was accepted is not reported again, as long as what is found stays the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import orjson
import sqlalchemy as sa

from corpus_guard.domain import digest
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import incidents
from corpus_guard.proof._found import Progress
from corpus_guard.proof.deviations import Deviation
from corpus_guard.proof.heads import Memory, newest_head
from corpus_guard.proof.verification import Verification, verify

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

Ending = Literal["healed", "accepted", "closed"]
AT_LEAST = 4  # letters of an id that name an incident


@dataclass(frozen=True, slots=True)
class Incident:
    """One, as the ledger holds it."""

    incident_id: str
    state: str  # open, healed, accepted, closed
    opened_at: datetime  # UTC
    run_id: str
    counts: Mapping[str, int]  # kind of deviation → how many
    deviations: str  # storage name
    closed_at: datetime | None
    closed_by: str | None
    reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "incident_id": self.incident_id,
            "state": self.state,
            "opened_at": self.opened_at.isoformat(),
            "run_id": self.run_id,
            "counts": dict(self.counts),
            "closed_at": self.closed_at.isoformat() if self.closed_at else None,
            "closed_by": self.closed_by,
            "reason": self.reason,
        }


def open_incident(guard: Guard, run_id: str, deviations: Sequence[Deviation]) -> Incident:
    """Keep what was found; the open incident of the same deviations where there is one.

    Raises:
        Misuse: there is nothing to keep.
    """
    if not deviations:
        raise Misuse("an incident without a deviation; nothing was opened")
    identity = digest("deviations/v1", sorted("\n".join(_key(one)) for one in deviations))
    known = next((one for one in listed(guard.ledger, "open") if one.deviations.endswith(f"{identity}.jsonl")), None)
    if known:
        return known
    name = f"incidents/{identity}.jsonl"
    guard.storage.write(name, b"".join(orjson.dumps(one.as_dict()) + b"\n" for one in deviations), keep_first=True)
    when = now()
    incident_id = digest("incident/v1", [identity, when.isoformat()])[:32]
    counts = dict(sorted(Counter(one.kind.value for one in deviations).items()))
    with guard.ledger.write() as connection:
        connection.execute(
            incidents.insert().values(
                incident_id=incident_id, state="open", opened_at=when, run_id=run_id, counts=counts, deviations=name
            )
        )
        guard.ledger.event(connection, "incident_opened", incident_id, run_id, counts=counts, deviations=identity)
    return find(guard.ledger, incident_id)


def listed(ledger: Ledger, state: str | None = None) -> list[Incident]:
    """Newest first; all, or those of a state."""
    statement = sa.select(incidents).order_by(incidents.c.opened_at.desc())
    with ledger.read() as connection:
        rows = connection.execute(statement.where(incidents.c.state == state) if state else statement)
        return [Incident(**row._mapping) for row in rows]


def find(ledger: Ledger, name: str) -> Incident:
    """By id or the beginning of it.

    Raises:
        UnknownSubject: none, or several, begin like that.
    """
    found = [one for one in listed(ledger) if len(name) >= AT_LEAST and one.incident_id.startswith(name)]
    if len(found) != 1:
        raise UnknownSubject(
            f"incident {name}: {len(found)} incidents begin like that; `guard incident list` shows them"
        )
    return found[0]


def deviations_of(guard: Guard, incident: Incident) -> list[Deviation]:
    """What was found."""
    return [Deviation.from_dict(orjson.loads(line)) for line in guard.storage.lines(incident.deviations)]


@dataclass(frozen=True, slots=True)
class Examined:
    """A verification, and what of it nobody answered for yet."""

    found: Verification
    unanswered: tuple[Deviation, ...]

    @property
    def clean(self) -> bool:
        """Whether all was checked, and holds or was accepted."""
        return not self.unanswered and not self.found.more


def examine(
    guard: Guard, progress: Progress = lambda what, done, total: None, max_age_hours: float | None = None
) -> Examined:
    """Verify, and leave out what was accepted; errors are those of `corpus_guard.proof.verification.verify`."""
    found = verify(guard, progress, max_age_hours=max_age_hours)
    return Examined(found, tuple(not_accepted(guard, found.deviations)))


def not_accepted(guard: Guard, deviations: Iterable[Deviation]) -> list[Deviation]:
    """Those that nobody accepted as a baseline."""
    known = {_key(one) for incident in listed(guard.ledger, "accepted") for one in deviations_of(guard, incident)}
    return [one for one in deviations if _key(one) not in known]


def end(guard: Guard, name: str, state: Ending, *, by: str, reason: str, run_id: str = "") -> Incident:
    """End an incident.

    Accepting makes the newest head of the ledger the one this machine remembers, and lets the next seal begin a new baseline.

    Raises:
        Misuse: it is not open, or nobody and no reason is named.
        UnknownSubject: no such incident.
    """
    if not by.strip() or not reason.strip():
        raise Misuse(f'ending incident {name} needs a name and a reason; give --reason "..."')
    incident = find(guard.ledger, name)
    if incident.state != "open":
        raise Misuse(f"incident {incident.incident_id} is {incident.state} already; nothing was changed")
    with guard.ledger.write() as connection:
        values = {"state": state, "closed_at": now(), "closed_by": by.strip(), "reason": reason.strip()}
        connection.execute(
            incidents.update()
            .where(incidents.c.incident_id == incident.incident_id, incidents.c.state == "open")
            .values(**values)
        )
        kind = "baseline_accepted" if state == "accepted" else f"incident_{state}"
        guard.ledger.event(connection, kind, incident.incident_id, run_id, by=by.strip(), reason=reason.strip())
    if state == "accepted":
        head = newest_head(guard.ledger)
        if head is not None:
            Memory(guard.settings.home).write(head.note)
    return find(guard.ledger, incident.incident_id)


def _key(deviation: Deviation) -> tuple[str, str, str, str]:
    return deviation.kind.value, deviation.subject, deviation.collection, deviation.found
