"""An incident's way back: what can be restored is restored, then everything is verified again.

Rules
    * records come from the batches and the ledger, damaged raw bytes from their source;
    * no record is touched where the ledger is not the one that was signed, until a person has accepted it; then the
      collections follow it;
    * a verification names a limited number of deviations and counts the rest: healing goes on, round by round, as long as each
      leaves fewer than the one before;
    * an incident of which something is left ends as healed in part, and the rest is an incident of its own;
    * an incident of a few records that no query found, and of nothing else, is closed: indexes of many vectors lose some by
      themselves. More of them, any in a small corpus, and one that an earlier incident names wait for a person like every
      other healed incident.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Final

from corpus_guard.batches import Storage
from corpus_guard.corpus.store import Store
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources import Sources
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import IncidentState
from corpus_guard.pipeline.raw_bytes import RefetchedBytes, refetch_raw_bytes
from corpus_guard.proof.healing import HealingReport, heal
from corpus_guard.proof.incidents import (
    Examination,
    Incident,
    end_incident,
    examine,
    find_incident,
    load_deviations,
    open_incident,
    subjects_of_incidents,
    unaccepted,
)
from corpus_guard.proof.log.heads import require_continuation
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.settings import Settings

log = logging.getLogger(__name__)

LOST_BY_ITSELF: Final = 1e-4
"""Share of the records that an index may lose: Chroma's lost 4 of 797,220 in one refresh."""


@dataclass(frozen=True, slots=True)
class IncidentHealing:
    """Outcome of healing an incident."""

    incident: Incident  # as it is now
    remaining: Incident | None  # the incident of what is left; it may be the same
    examination: Examination  # after the healing
    refetched: RefetchedBytes = field(default_factory=RefetchedBytes)


def heal_incident(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    blobs: BlobStore,
    sources: Sources,
    settings: Settings,
    incident_id: str,
    run_id: str,
    *,
    by: str,
) -> IncidentHealing:
    """Undo what can be undone of an incident's deviations, seal, and verify again.

    Args:
        incident_id: or a prefix of it that no other has.

    Raises:
        UnknownSubject: no such incident.
        StoreUnavailable: the vector store does not answer; running again converges.
    """
    incident = find_incident(ledger, incident_id)
    deviations = unaccepted(ledger, storage, load_deviations(storage, incident))
    refetched = RefetchedBytes()
    # Asked again: the incident may be older than the ledger's replacement.
    is_signed_ledger = _continues_what_was_signed(ledger, settings)
    left_before: float = math.inf
    deviated: set[str] = set()  # what was named in any round
    only_links = True  # nothing but links of the index was lost
    while True:
        deviated.update(deviation.subject for deviation in deviations)
        only_links &= all(deviation.is_lost_link for deviation in deviations)
        if is_signed_ledger:
            log.info("%s", heal(ledger, storage, store, run_id, deviations))
        fetched = refetch_raw_bytes(ledger, blobs, sources, run_id, deviations)
        log.info("%s", fetched)
        refetched.restored.extend(fetched.restored)
        refetched.lost.update(fetched.lost)
        try:
            seal_corpus(ledger, storage, store, settings, run_id)
        except Inconsistent as error:
            log.warning("%s", error)  # the examination names what is left
        examination = examine(ledger, storage, store, settings)
        unanswered = len(examination.unanswered) + examination.verification.more
        healable = is_signed_ledger and any(deviation.healable for deviation in examination.unanswered)
        if unanswered >= left_before or not healable:
            break
        deviations, left_before = list(examination.unanswered), unanswered
    remaining = None
    if not examination.clean:
        remaining = open_incident(
            ledger, storage, run_id, examination.unanswered or examination.verification.deviations
        )
    if incident.state == IncidentState.OPEN and (remaining is None or remaining.incident_id != incident.incident_id):
        state, reason = IncidentState.HEALED, "published again"
        records = examination.verification.records
        if remaining:
            reason = f"in part; the rest is incident {remaining.incident_id}"
        elif (
            only_links
            and len(deviated) <= LOST_BY_ITSELF * records
            and deviated.isdisjoint(subjects_of_incidents(ledger, storage, without=incident.incident_id))
        ):
            state = IncidentState.CLOSED
            reason = (
                f"published again; no query had found {len(deviated):,} of {records:,} records, which were as sealed and signed: "
                "so few an index of this size loses by itself"
            )
        incident = end_incident(ledger, settings, incident.incident_id, state, by=by, reason=reason, run_id=run_id)
    return IncidentHealing(incident, remaining, examination, refetched)


def accept_incident(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    incident_id: str,
    run_id: str,
    *,
    by: str,
    reason: str,
) -> tuple[Incident, HealingReport]:
    """Make the ledger as it is the baseline, and let the records that the incident names follow it; the caller seals.

    Raises:
        Misuse, Stale, UnknownSubject: as `end_incident`.
        StoreUnavailable: the vector store does not answer; the incident is accepted, and the next verification names the records.
    """
    incident = end_incident(ledger, settings, incident_id, IncidentState.ACCEPTED, by=by, reason=reason, run_id=run_id)
    records = [deviation for deviation in load_deviations(storage, incident) if deviation.healable]
    return incident, heal(ledger, storage, store, run_id, records)


def _continues_what_was_signed(ledger: Ledger, settings: Settings) -> bool:
    try:
        require_continuation(ledger, settings)
    except Inconsistent as error:
        log.warning("%s", error)
        return False
    return True
