"""Incidents: deviations that a verification found, red until a person acknowledges them with a reason.

Rules
    * the same deviations, found again, are the same incident while it is open: a nightly run does not open a
      new one each night;
    * the deviations are kept whole in storage and counted in the ledger; hashes and ids, never texts;
    * *open* and *healed* incidents are red. Healed means that the guard undid the deviations and a later
      verification finds none of them: what caused them is still not explained;
    * only a person ends the alert, with a name and a reason, which are an event in the log; but for an index that lost a
      few of many records (`corpus_guard.pipeline.incident_healing`). *Closed*: the incident is acknowledged, and the
      same deviations open a new one. *Accepted*: the remaining deviations are the new baseline, and are not reported
      again as long as they stay the same;
    * no baseline is what healing or a seal ends (`NEVER_ACCEPTED_KINDS`): once ended, it would come back unseen. Nor is a log
      without a head that can be verified.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import log_files
from corpus_guard.corpus.store import Store
from corpus_guard.domain import JsonRecord, Progress, digest, no_progress, sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse, Stale
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.states import ALERTING_STATES, IncidentState
from corpus_guard.ledger.tables import events, heads, incidents, seals
from corpus_guard.proof.deviations import NEVER_ACCEPTED_KINDS, Deviation, DeviationKind
from corpus_guard.proof.log.heads import RememberedHead, newest_head
from corpus_guard.proof.verify.verification import Verification, verify
from corpus_guard.settings import Settings

_STATES_BEFORE: Final[Mapping[IncidentState, Sequence[IncidentState]]] = {
    IncidentState.HEALED: (IncidentState.OPEN,),
    IncidentState.ACCEPTED: (IncidentState.OPEN,),
    IncidentState.CLOSED: ALERTING_STATES,
}
"""States from which an incident may reach a state."""
_OF_A_NEW_HOME: Final = {DeviationKind.HEAD_MISSING, DeviationKind.MANIFEST_MISSING, DeviationKind.UNKNOWN_KEY}


@dataclass(frozen=True, slots=True)
class Incident(JsonRecord):
    """An incident as the ledger holds it."""

    incident_id: str
    state: str  # open, healed, accepted, closed
    opened_at: datetime  # UTC
    run_id: str
    counts: Mapping[str, int]  # kind of deviation → how many
    deviations: str  # storage name
    closed_at: datetime | None
    closed_by: str | None
    reason: str | None

    @property
    def is_red(self) -> bool:
        """True until a person has acknowledged or accepted it."""
        return self.state in ALERTING_STATES

    @property
    def summary(self) -> str:
        """State and counts in words, such as ``healed, not explained: 1 added, 2 text_changed``."""
        words: Mapping[str, str] = {"open": "open, not healed", "healed": "healed, not explained"}
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items())
        return f"{words.get(self.state, self.state)}: {counts}"

    def as_dict(self) -> dict[str, object]:
        """Return the incident JSON-ready."""
        return {
            "summary": self.summary,
            **{name: value for name, value in JsonRecord.as_dict(self).items() if name != "deviations"},
        }


@dataclass(frozen=True, slots=True)
class IncidentWindow(JsonRecord):
    """The time in which what deviates was changed, and the seal it was compared with."""

    verified_at: datetime | None  # UTC; the last nightly verification before it that found everything right
    verified_seal: int | None  # number of the newest seal then
    seal: int | None  # number of the newest seal when the incident was opened
    sealed_at: datetime | None  # UTC; of that seal
    manifest_sha256: str | None  # of that seal


@dataclass(frozen=True, slots=True)
class Examination:
    """A verification, without the deviations that were accepted before."""

    verification: Verification
    unanswered: tuple[Deviation, ...]  # not accepted by anybody

    @property
    def clean(self) -> bool:
        """True if everything was checked, and holds or was accepted; never without a verified head."""
        has_head = self.verification.unsigned < self.verification.events
        return has_head and not self.unanswered and not self.verification.more


def open_incident(ledger: Ledger, storage: Storage, run_id: str, deviations: Sequence[Deviation]) -> Incident:
    """Keep deviations, and return their incident; an open one with the same deviations is returned as it is.

    Raises:
        Misuse: `deviations` is empty.
    """
    if not deviations:
        raise Misuse("an incident needs at least one deviation; nothing was opened")
    with ledger.exclusive("incidents"):  # two verifications may find the same at once
        return _open_once(ledger, storage, run_id, deviations)


def _open_once(ledger: Ledger, storage: Storage, run_id: str, deviations: Sequence[Deviation]) -> Incident:
    identity = digest("deviations/v1", sorted("\n".join(_key(deviation)) for deviation in deviations))
    for incident in list_incidents(ledger, IncidentState.OPEN):
        if incident.deviations.endswith(f"{identity}.jsonl"):
            return incident
    name = f"incidents/{identity}.jsonl"
    lines = b"".join(orjson.dumps(deviation.as_dict()) + b"\n" for deviation in deviations)
    storage.write(name, lines)
    opened_at = now()
    incident_id = digest("incident/v1", [identity, opened_at.isoformat()])[:32]
    counts = dict(sorted(Counter(deviation.kind.value for deviation in deviations).items()))
    with ledger.write() as connection:
        connection.execute(
            incidents.insert().values(
                incident_id=incident_id,
                state=IncidentState.OPEN,
                opened_at=opened_at,
                run_id=run_id,
                counts=counts,
                deviations=name,
            )
        )
        log_files(connection, run_id, {name: sha256_bytes(lines)})
        append_event(connection, "incident_opened", incident_id, run_id, counts=counts, deviations=identity)
    return find_incident(ledger, incident_id)


def list_incidents(ledger: Ledger, *states: str) -> list[Incident]:
    """Return all incidents, or those in one of these states, the newest first."""
    statement = sa.select(incidents).order_by(incidents.c.opened_at.desc(), incidents.c.incident_id)
    with ledger.read() as connection:
        rows = connection.execute(statement.where(incidents.c.state.in_(states)) if states else statement)
        return [Incident(**row._mapping) for row in rows]


def list_red_incidents(ledger: Ledger) -> list[Incident]:
    """Return the incidents that no person has acknowledged, the newest first."""
    return list_incidents(ledger, *ALERTING_STATES)


def incident_window(ledger: Ledger, incident: Incident) -> IncidentWindow:
    """Return since when the deviations of an incident can have been there."""
    verified = sa.select(sa.func.max(events.c.at)).where(events.c.kind == "verified", events.c.at < incident.opened_at)

    def newest_seal(at: datetime) -> sa.Select[tuple[object, ...]]:
        return sa.select(seals).where(seals.c.sealed_at <= at).order_by(seals.c.number.desc()).limit(1)

    with ledger.read() as connection:
        verified_at = connection.scalar(verified)
        seal = connection.execute(newest_seal(incident.opened_at)).first()
        verified_seal = connection.execute(newest_seal(verified_at)).first() if verified_at else None
    return IncidentWindow(
        verified_at=verified_at,
        verified_seal=verified_seal.number if verified_seal else None,
        seal=seal.number if seal else None,
        sealed_at=seal.sealed_at if seal else None,
        manifest_sha256=seal.manifest_sha256 if seal else None,
    )


def find_incident(ledger: Ledger, prefix: str) -> Incident:
    """Return the incident whose id is `prefix` or begins with it.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    with ledger.read() as connection:
        incident_id = find_id(
            connection, sa.select(incidents.c.incident_id), prefix, "incident", "see `guard incident list`"
        )
        row = connection.execute(sa.select(incidents).where(incidents.c.incident_id == incident_id)).one()
        return Incident(**row._mapping)


def load_deviations(storage: Storage, incident: Incident) -> list[Deviation]:
    """Return the deviations of an incident."""
    return [Deviation.from_dict(orjson.loads(line)) for line in storage.read_lines(incident.deviations)]


def _readable_deviations(storage: Storage, listed_incidents: Iterable[Incident]) -> list[Deviation]:
    """Return the deviations of incidents whose files can be read; `verify` names the others."""
    deviations: list[Deviation] = []
    for incident in listed_incidents:
        with contextlib.suppress(Inconsistent, ValueError, LookupError, TypeError):
            deviations += load_deviations(storage, incident)
    return deviations


def subjects_of_incidents(ledger: Ledger, storage: Storage, *, without: str = "") -> set[str]:
    """Return the files, versions, documents and chunks that incidents name."""
    other_incidents = (incident for incident in list_incidents(ledger) if incident.incident_id != without)
    deviations = _readable_deviations(storage, other_incidents)
    return {name for deviation in deviations for name in (deviation.subject, deviation.doc_id) if name}


def examine(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    progress: Progress = no_progress,
    max_age_hours: float | None = None,
    *,
    deep: bool = False,
) -> Examination:
    """Verify, and leave out accepted deviations; the arguments and errors are those of `verify`.

    What an open incident names is read again, whatever its turn: otherwise it would count as healed.
    """
    open_deviations = _readable_deviations(storage, list_incidents(ledger, IncidentState.OPEN))
    verification = verify(
        ledger,
        storage,
        store,
        settings,
        progress,
        max_age_hours=max_age_hours,
        deep=deep,
        open_deviations=open_deviations,
    )
    return Examination(verification, tuple(unaccepted(ledger, storage, verification.deviations)))


def is_never_sealed(ledger: Ledger, verification: Verification) -> bool:
    """Return whether nothing but a first seal is lacking, as in a home whose first refresh has not ended.

    Neither a seal nor a head is in the ledger, the log names none, and this machine remembers none.
    """
    if verification.more or {deviation.kind for deviation in verification.deviations} - _OF_A_NEW_HOME:
        return False
    with ledger.read() as connection:
        return not any(
            connection.scalar(sa.select(sa.exists(rows)))
            for rows in (sa.select(seals), sa.select(heads), sa.select(events).where(events.c.kind == "sealed"))
        )


def unaccepted(ledger: Ledger, storage: Storage, deviations: Iterable[Deviation]) -> list[Deviation]:
    """Return the deviations that nobody accepted as a baseline, or that are none."""
    accepted = set(map(_key, _readable_deviations(storage, list_incidents(ledger, IncidentState.ACCEPTED))))
    return [
        deviation
        for deviation in deviations
        if deviation.kind in NEVER_ACCEPTED_KINDS or _key(deviation) not in accepted
    ]


def end_incident(
    ledger: Ledger, settings: Settings, prefix: str, state: IncidentState, *, by: str, reason: str, run_id: str = ""
) -> Incident:
    """Give an incident its next state, and return it. The event log keeps who did it and why.

    Accepting makes this machine remember the newest head of the ledger, or none if it has none, and lets the next seal
    begin a new baseline.

    Args:
        prefix: id of the incident, or the beginning of it.
        state: healed (from open), accepted (from open), or closed (from open or healed).
        by: the person who ends it; for *healed* the run or command.

    Raises:
        Misuse: no name or no reason is given.
        Stale: its state does not allow that.
        UnknownSubject: no such incident.
    """
    if not by.strip() or not reason.strip():
        raise Misuse(f'ending incident {prefix} needs a name and a reason; give --reason "..."')
    incident_id = find_incident(ledger, prefix).incident_id
    with ledger.write() as connection:
        is_it = incidents.c.incident_id == incident_id
        before = connection.scalar(sa.select(incidents.c.state).where(is_it).with_for_update())
        if before not in _STATES_BEFORE[state]:
            raise Stale(f"incident {incident_id} is {before} already; nothing was changed")
        values = {"state": state, "closed_at": now(), "closed_by": by.strip(), "reason": reason.strip()}
        connection.execute(incidents.update().where(is_it).values(values))
        kind = "baseline_accepted" if state is IncidentState.ACCEPTED else f"incident_{state}"
        append_event(connection, kind, incident_id, run_id, by=by.strip(), reason=reason.strip())
    if state is IncidentState.ACCEPTED:
        head, remembered = newest_head(ledger), RememberedHead(settings.home)
        if head is not None:
            remembered.write(head.note)
        else:
            remembered.forget()
    return find_incident(ledger, incident_id)


def _key(deviation: Deviation) -> tuple[str, str, str, str]:
    return deviation.kind.value, deviation.subject, deviation.collection, deviation.actual
