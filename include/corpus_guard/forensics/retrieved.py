"""Exposure of a case: whom the accused texts have reached, and the lines of a timeline that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time
from typing import Final

from corpus_guard.forensics.exposure import LISTED, Exposure, ExposureSubject, measure_exposure
from corpus_guard.forensics.kinds import SubjectKind
from corpus_guard.forensics.scope import Scope
from corpus_guard.forensics.timeline import TimelineEntry
from corpus_guard.ledger import Ledger

MAX_SUBJECTS: Final = (
    400  # that one statement names; a larger case is measured by its documents or sources: too high, never too low
)


def case_subjects(scope: Scope) -> list[ExposureSubject]:
    """Return the accused texts as subjects of an exposure; empty where none is accused."""
    kind, ids = SubjectKind.SOURCE, scope.sources
    if len(scope.chunks) <= MAX_SUBJECTS:
        kind, ids = SubjectKind.CHUNK, scope.chunks
    elif len(scope.documents) <= MAX_SUBJECTS:
        kind, ids = SubjectKind.DOCUMENT, scope.documents
    return [ExposureSubject(kind, each, each) for each in ids]


def case_exposure(ledger: Ledger, scope: Scope, listed: int = LISTED, key: bytes | None = None) -> Exposure | None:
    """Return whom the accused texts of a case have reached; None where no text is accused.

    Args:
        listed: entries of each list at most.
        key: under which the log hashes questions.
    """
    subjects = case_subjects(scope)
    return measure_exposure(ledger, *subjects, listed=listed, key=key) if subjects else None


def retrieval_lines(exposure: Exposure | None) -> Sequence[TimelineEntry]:
    """Return a line for each day on which an accused text was retrieved, and one for where the log begins."""
    return list(_lines(exposure)) if exposure is not None else []


def _lines(exposure: Exposure) -> Iterator[TimelineEntry]:
    if exposure.predates_log and exposure.log_from is not None:
        text = "the retrieval log begins here: earlier retrievals are not known"
        yield TimelineEntry(exposure.log_from, "retrieved", "", text)
    for day, count in exposure.days:
        noun = "retrieval" if count == 1 else "retrievals"
        text = f"{count:,} {noun} of accused texts on this day"
        end = datetime.combine(day, time.max, UTC)
        yield TimelineEntry(min(end, exposure.retrieved.last or end), "retrieved", "", text)
