"""Is the corpus still what was sealed and signed?

Rules
    * everything is recomputed: each event, each head, each line, each record, each vector; nothing is sampled;
    * what is wrong is named; a deviation never raises, an outage always does, and neither is ever clean;
    * what is empty, missing or unreadable is a deviation: no heads, no keys, no manifest, no collection;
    * nothing is written: not to ledger, store or keys. Only when all was checked and holds does this machine remember the newest head,
      so that no older or other log passes for this one later;
    * a run that publishes meanwhile is no deviation; what it has not sealed yet is.

What is not done here: nobody says whether what was sealed is *true*; and who holds the signing key and this machine's memory can tell
any story. Witnesses, anchors and exported proofs are kept elsewhere for that reason.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corpus_guard.proof._found import Found, Progress
from corpus_guard.proof._sealed import Sealed, check_manifest, report_unsealed, since
from corpus_guard.proof._verify_ledger import check_ledger
from corpus_guard.proof._verify_log import Log, check_log
from corpus_guard.proof._verify_store import check_store
from corpus_guard.proof.checkpoint import parse_checkpoint
from corpus_guard.proof.deviations import Deviation, Kind
from corpus_guard.proof.heads import Memory
from corpus_guard.proof.note import parse_note

if TYPE_CHECKING:
    from corpus_guard.guard import Guard


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and what was found."""

    deviations: tuple[Deviation, ...]  # the first 10,000
    more: int  # deviations beyond those
    events: int
    heads: int
    lines: int  # of the manifest
    records: int  # read from the collections
    queried: int  # vectors that asked for themselves
    unsigned: int  # events after the newest head that is in order: the next seal signs them
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether everything is as it was sealed and signed."""
        return not self.deviations and not self.more

    @property
    def counts(self) -> dict[str, int]:
        """Kind of deviation → how many are named."""
        return dict(Counter(deviation.kind.value for deviation in self.deviations))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "holds": self.holds,
            **{name: getattr(self, name) for name in ("events", "heads", "lines", "records", "queried", "unsigned")},
            "seconds": round(self.seconds, 3),
            "counts": self.counts,
            "more": self.more,
            "deviations": [deviation.as_dict() for deviation in self.deviations],
        }


def verify(
    guard: Guard, progress: Progress = lambda what, done, total: None, *, max_age_hours: float | None = None
) -> Verification:
    """Check log, manifest, ledger and collections against what was signed.

    Args:
        guard: the deployment.
        progress: told what is being done, how much is done, how much there is.
        max_age_hours: how old the newest signed event may be; None: as the settings say.

    Raises:
        LedgerUnavailable: the database does not answer, or somebody publishes for longer than the lock is waited for.
        StoreUnavailable: Chroma does not answer.
        AnchorUnavailable: the place of the anchors does not answer.
    """
    began = time.monotonic()
    found = Found()
    hours = guard.settings.head_max_hours if max_age_hours is None else max_age_hours
    log = check_log(guard, found, hours, progress)
    sealed = Sealed(None, whole=False)
    with found.reading("manifest", Kind.MANIFEST_CHANGED):
        sealed = check_manifest(guard, log.signed, found, progress)
    in_flight = check_ledger(guard, sealed, found, progress)
    records = queried = 0
    with found.reading("collections"):
        compared = check_store(guard, sealed, found, progress)
        records, queried, in_flight = compared.records, compared.queried, in_flight | compared.in_flight
    with found.reading("events"):
        report_unsealed(since(guard.ledger, sealed), len(in_flight), found)
    result = Verification(
        deviations=tuple(found.deviations),
        more=found.more,
        events=log.events,
        heads=log.heads,
        lines=sealed.lines,
        records=records,
        queried=queried,
        unsigned=log.events - log.signed,
        seconds=time.monotonic() - began,
    )
    if result.holds:
        _remember(guard, log)
    return result


def _remember(guard: Guard, log: Log) -> None:
    with guard.ledger.exclusive("heads"):  # a newer one may have been signed, and remembered, meanwhile
        memory = Memory(guard.settings.home)
        known = memory.read()
        if known is None or parse_checkpoint(parse_note(known).text).size < log.signed:
            memory.write(log.note)
