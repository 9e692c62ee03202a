"""Trained detectors in use: the ledger says which, and a file that is not what was promoted is never used.

Rules
    * a detector's files lie in the storage under their digest, where tasks on other machines find them; a
      file that is there is not in use for that reason;
    * an event in the ledger puts a detector into use: its digest, who approved it, in which run. The last
      event of a detector holds;
    * a promoted file is read through this module, or its reader checks the digest: other bytes are an error,
      not another detector;
    * a file that a setting names wins over the promoted one, and that is logged.

What is not done here: deciding whether a detector is any good (`corpus_guard.detectors`), or keeping a
promoted file from being deleted. A missing file is an error, too, until it is restored or another detector is
promoted.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.tables import events

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.settings import Settings

log = logging.getLogger(__name__)

PROMOTION_EVENT: Final = "promoted"  # kind of the ledger's event


class Detector(StrEnum):
    """A trained part that is put into use behind an approval; the subject of the ledger's event."""

    PROBE = "activations"  # RevPRAG, a trace's second witness
    JUDGE = "judge"  # the embedded one, of traces
    FILTER = "filter"  # ML-FilterRAG, of the guarded retriever


SETTING_NAMES: Final = {
    Detector.PROBE: "CORPUS_GUARD_ACTIVATION_PROBE",
    Detector.JUDGE: "CORPUS_GUARD_JUDGE_MODEL",
    Detector.FILTER: "CORPUS_GUARD_FILTER_MODEL",
}
"""The variable that names a file which wins over the promoted one."""


def configured_file(settings: Settings, detector: Detector) -> Path | None:
    """Return the file that a setting names, which wins over the promoted one; None: no setting does."""
    by_detector = {
        Detector.PROBE: settings.activation_probe,
        Detector.JUDGE: settings.judge_model,
        Detector.FILTER: settings.filter_model,
    }
    return by_detector[detector]


def detector_folder(detector: Detector, digest: str) -> str:
    """Return the folder of a detector's files in the storage."""
    return f"detectors/{detector.value}/{digest}"


def promoted_digest(ledger: Ledger, detector: Detector) -> str | None:
    """Return the digest of the detector that was promoted last; None: none was.

    Raises:
        LedgerUnavailable: the ledger does not answer.
    """
    statement = sa.select(events.c.body).where(events.c.kind == PROMOTION_EVENT, events.c.subject == detector.value)
    body = ledger.scalar(statement.order_by(events.c.seq.desc()).limit(1))
    return str(body["digest"]) if body else None


def promote(ledger: Ledger, detector: Detector, digest: str, *, run_id: str, by: str, **details: object) -> bool:
    """Put a detector into use, once. The caller has read its files and found them to be what was measured.

    Returns:
        False where it was in use already.
    """
    if promoted_digest(ledger, detector) == digest:
        return False
    with ledger.write() as connection:
        append_event(connection, PROMOTION_EVENT, detector.value, run_id, digest=digest, by=by, **details)
    return True


def store_detector(storage: Storage, detector: Detector, content: bytes) -> str:
    """Store a detector that is one file, and return its digest, the SHA-256 of the file."""
    digest = sha256_bytes(content)
    storage.write(_file_name(detector, digest), content, keep_existing=True)
    return digest


def read_detector(storage: Storage, detector: Detector, digest: str) -> bytes:
    """Return the content of a detector that is one file.

    Raises:
        Inconsistent: the file is gone or does not have this digest.
    """
    name = _file_name(detector, digest)
    content = storage.read(name)
    actual = sha256_bytes(content)
    if actual != digest:
        raise Inconsistent(
            f"{detector.value} {storage.location(name)}: SHA-256 is {actual[:16]}…, the ledger has {digest[:16]}…; restore "
            "the file, or promote another one"
        )
    return content


def active_digest(detector: Detector, configured: object, ledger: Ledger | None) -> str | None:
    """Return the digest of the promoted detector if it is in use.

    None: a setting names another, or none was promoted.

    Args:
        configured: value of its setting (`SETTING_NAMES`); empty: not set.
        ledger: None: nothing was promoted.

    Raises:
        LedgerUnavailable: the ledger does not answer.
    """
    digest = promoted_digest(ledger, detector) if ledger is not None else None
    if digest and configured:
        log.warning(
            "%s names the %s to use; the promoted one, %s, is not used", SETTING_NAMES[detector], detector, digest[:16]
        )
        return None
    return digest


def _file_name(detector: Detector, digest: str) -> str:
    return f"{detector_folder(detector, digest)}/{detector.value}.json"
