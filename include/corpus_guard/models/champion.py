"""Which trained detectors were put into use: the ledger says so, and a file that is not what was promoted is never used.

Rules
    * a detector's files lie in the guard's storage under their digest, where tasks on other machines find them; being there means nothing;
    * an event in the ledger puts one into use: which digest, by whom it was approved, in which run. The last event of a detector holds;
    * whoever uses a promoted file reads it through here or checks its digest himself: other bytes are an error, not another detector;
    * a file that a setting names wins over what was promoted, and that is logged: somebody meant it.

What this does not do: decide whether a detector is any good (`corpus_guard.evaluation.detectors`), or keep a promoted file from being
deleted. One that is gone is an error, too, until it is restored or another is promoted.
"""

from __future__ import annotations

import hashlib
import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from corpus_guard.errors import Inconsistent
from corpus_guard.ledger.tables import events

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.ledger import Ledger

log = logging.getLogger(__name__)

PROMOTED: Final = "promoted"  # kind of the ledger's event


class Detector(StrEnum):
    """What is trained, and put into use behind an approval; the subject of the ledger's event."""

    PROBE = "activations"  # RevPRAG, of a trace's second witness
    JUDGE = "judge"  # the embedded one, of traces
    FILTER = "filter"  # ML-FilterRAG, of the guarded retriever


SETTING: Final = {
    Detector.PROBE: "CORPUS_GUARD_ACTIVATION_PROBE",
    Detector.JUDGE: "CORPUS_GUARD_JUDGE_MODEL",
    Detector.FILTER: "CORPUS_GUARD_FILTER_MODEL",
}
"""Each names a file that wins over what was promoted."""


def folder(detector: Detector, digest: str) -> str:
    """Where a detector's files lie in the storage."""
    return f"detectors/{detector.value}/{digest}"


def promoted(ledger: Ledger, detector: Detector) -> str | None:
    """Digest of the one that was promoted last; None: none was.

    Raises:
        LedgerUnavailable: the ledger does not answer.
    """
    statement = sa.select(events.c.body).where(events.c.kind == PROMOTED, events.c.subject == detector.value)
    with ledger.read() as connection:
        body = connection.scalar(statement.order_by(events.c.seq.desc()).limit(1))
    return str(body["digest"]) if body else None


def promote(ledger: Ledger, detector: Detector, digest: str, *, run_id: str, by: str, **told: Any) -> bool:
    """Put one into use; once. The caller has read its files and found them to be what was measured.

    Args:
        ledger: where it is written who did it.
        detector: which.
        digest: of its files.
        run_id: who promotes.
        by: whoever approved it.
        told: more for the event, such as the version in a registry.

    Returns:
        Whether it was not in use already.
    """
    if promoted(ledger, detector) == digest:
        return False
    with ledger.write() as connection:
        ledger.event(connection, PROMOTED, detector.value, run_id, digest=digest, by=by, **told)
    return True


def keep(storage: Storage, detector: Detector, content: bytes) -> str:
    """Keep a detector that is one file; its digest, the SHA-256 of it."""
    digest = hashlib.sha256(content).hexdigest()
    storage.write(_only(detector, digest), content, keep_first=True)
    return digest


def read(storage: Storage, detector: Detector, digest: str) -> bytes:
    """The content of a detector that is one file; it is what has this digest.

    Raises:
        Inconsistent: it is gone or has other bytes.
    """
    name = _only(detector, digest)
    content = storage.read(name)
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise Inconsistent(
            f"{detector.value} {storage.location(name)}: its SHA-256 is {found[:16]}…, the ledger has {digest[:16]}…; restore the file, "
            "or promote another one"
        )
    return content


def in_use(detector: Detector, named: object, ledger: Ledger | None) -> str | None:
    """Digest of the promoted one, where it is to be used; None: a setting names another, or none was promoted.

    Args:
        detector: which.
        named: what its setting (`SETTING`) holds; empty: nothing.
        ledger: None: nothing was promoted.

    Raises:
        LedgerUnavailable: the ledger does not answer.
    """
    found = promoted(ledger, detector) if ledger is not None else None
    if found and named:
        log.warning(
            "%s names the %s that is used; the promoted one, %s, is not", SETTING[detector], detector, found[:16]
        )
        return None
    return found


def _only(detector: Detector, digest: str) -> str:
    return f"{folder(detector, digest)}/{detector.value}.json"
