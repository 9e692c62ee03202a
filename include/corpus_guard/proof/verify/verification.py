"""Verification: whether the corpus is still what was sealed and signed.

Rules
    * everything is recomputed: each event, each head, each line, each record, each vector. Only stored files are
      read in shares, another one each night, unless all of them are asked for;
    * everything that is wrong is reported; a deviation never raises, an outage always does, and neither
      counts as clean;
    * whatever is empty, missing or unreadable is a deviation: no heads, no keys, no manifest, no collection;
    * nothing is written: not to ledger, store or keys. Only after a complete verification without deviations
      does this machine remember the newest head, so that no older or other log passes for this one later;
    * a run that is publishing now is no deviation; what it has not sealed yet is.

Not done here: judging whether what was sealed is *true*. And whoever holds the signing key and this machine's
memory can forge both; witnesses, anchors and exported proofs are kept elsewhere for that reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from corpus_guard.batches import Storage
from corpus_guard.corpus.store import Store
from corpus_guard.domain import JsonRecord, Progress, no_progress
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.undecodable import UndecodableText, UndecodableValue
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.log.checkpoint import parse_checkpoint
from corpus_guard.proof.log.heads import RememberedHead
from corpus_guard.proof.log.note import parse_note
from corpus_guard.proof.verify.authority import check_authority
from corpus_guard.proof.verify.expected import SignedSeal, changes_since, check_manifest, report_unsealed
from corpus_guard.proof.verify.files import FileShare, check_files, check_parts, check_weights
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.proof.verify.ledger import check_ledger
from corpus_guard.proof.verify.log import LogCheck, check_log
from corpus_guard.proof.verify.rows import check_rows
from corpus_guard.proof.verify.store import check_store
from corpus_guard.settings import Settings


@dataclass(frozen=True, slots=True)
class Verification(JsonRecord):
    """Result of a verification."""

    deviations: tuple[Deviation, ...]  # the first 10,000
    more: int  # deviations beyond those
    events: int
    heads: int
    lines: int  # of the manifest
    records: int  # read from the collections
    queried: int  # vectors that were looked for by a query of their own
    files_read: int  # stored files: raw bytes, batches, older manifests, records
    files_known: int  # stored files that the ledger and the log name
    unsigned: int  # events after the newest valid head: the next seal signs them
    seconds: float

    @property
    def holds(self) -> bool:
        """True if everything is as it was sealed and signed."""
        return not self.deviations and not self.more

    @property
    def counts(self) -> dict[str, int]:
        """Number of listed deviations of each kind."""
        return dict(Counter(deviation.kind.value for deviation in self.deviations))

    def as_dict(self) -> dict[str, object]:
        """Return the result JSON-ready."""
        return {
            "holds": self.holds,
            "counts": self.counts,
            **JsonRecord.as_dict(self),
            "seconds": round(self.seconds, 3),
        }


def verify(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    progress: Progress = no_progress,
    *,
    max_age_hours: float | None = None,
    deep: bool = False,
    open_deviations: Sequence[Deviation] = (),
) -> Verification:
    """Check log, manifest, ledger and collections against what was signed.

    Args:
        max_age_hours: maximum age of the newest signed event; None: as the settings say.
        deep: read all stored files and the models' weights; else the share of stored files that has its turn today.
        open_deviations: deviations of open incidents; what they name is read whatever its turn.

    Raises:
        LedgerUnavailable: the database does not answer, or another run publishes for longer than the lock is
            waited for.
        StoreUnavailable: the vector store does not answer.
        AnchorUnavailable: the anchor does not answer.
    """
    started = time.monotonic()
    try:
        hours = settings.head_max_hours if max_age_hours is None else max_age_hours
        return _verify(ledger, storage, store, settings, progress, started, hours, open_deviations, deep=deep)
    except UndecodableText as error:
        return _unreadable(error.values, time.monotonic() - started)


def _verify(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    progress: Progress,
    started: float,
    hours: float,
    open_deviations: Sequence[Deviation],
    *,
    deep: bool,
) -> Verification:
    collector = DeviationCollector()
    log = check_log(ledger, settings, collector, hours, progress)
    seal = SignedSeal(None, manifest_intact=False)
    with collector.catching_unreadable("manifest", DeviationKind.MANIFEST_CHANGED):
        seal = check_manifest(ledger, storage, log.signed, collector, progress)
    in_flight = check_ledger(ledger, storage, seal, collector, progress)
    check_rows(ledger, collector, progress)
    with collector.catching_unreadable("decisions"):
        check_authority(ledger, collector)
    records = queried = 0
    with collector.catching_unreadable("collections"):
        check = check_store(ledger, storage, store, seal, collector, progress)
        records, queried, in_flight = check.records, check.queried, in_flight | check.in_flight
    with collector.catching_unreadable("events"):
        report_unsealed(changes_since(ledger, seal), len(in_flight), collector)
    named = [deviation.subject for deviation in open_deviations]
    share = FileShare.everything() if deep else FileShare.of_day(now().date(), settings.verify_nights, named)
    files = check_files(
        ledger, storage, settings, share, collector, progress, checked_manifest=seal.event.name if seal.event else ""
    )
    with collector.catching_unreadable("events"):
        check_parts(ledger, collector)
    if deep or any(deviation.kind is DeviationKind.WEIGHTS_CHANGED for deviation in open_deviations):
        check_weights(settings, collector)
    result = Verification(
        deviations=tuple(collector.deviations),
        more=collector.more,
        events=log.events,
        heads=log.heads,
        lines=seal.lines,
        records=records,
        queried=queried,
        files_read=files.read,
        files_known=files.total,
        unsigned=log.events - log.signed,
        seconds=time.monotonic() - started,
    )
    if result.holds:
        _remember_head(ledger, settings, log)
    return result


def _unreadable(values: Sequence[UndecodableValue], seconds: float) -> Verification:
    """Return the result where the ledger holds text that cannot be read: each is named, and nothing else was compared."""
    collector = DeviationCollector()
    for value in values:
        message = (
            f"{value}: the database was changed from outside, and nothing else was compared. Restore it from a backup"
        )
        collector.add(DeviationKind.LEDGER_CHANGED, value.key, message)
    return Verification(tuple(collector.deviations), collector.more, 0, 0, 0, 0, 0, 0, 0, 0, seconds)


def _remember_head(ledger: Ledger, settings: Settings, log: LogCheck) -> None:
    with ledger.exclusive("heads"):  # a newer one may have been signed, and remembered, meanwhile
        remembered = RememberedHead(settings.home)
        note = remembered.read()
        if note is None or parse_checkpoint(parse_note(note).text).size < log.signed:
            remembered.write(log.note)
