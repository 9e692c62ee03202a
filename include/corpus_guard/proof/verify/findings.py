"""Collector of the deviations that a verification finds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from corpus_guard.proof.deviations import Deviation, DeviationKind

MAX_NAMED_DEVIATIONS: Final = 10_000  # more are only counted
RESTORE: Final = "the database was changed from outside; restore it from a backup"
"""End of a message on a row that is not as it was logged."""


class DeviationCollector:
    """Deviations in the order in which they are found; those beyond MAX_NAMED_DEVIATIONS are only counted."""

    def __init__(self) -> None:
        self.deviations: list[Deviation] = []
        self.more = 0  # deviations that are counted and not listed

    def add(
        self,
        kind: DeviationKind,
        subject: object,
        message: str,
        *,
        expected: object = "",
        actual: object = "",
        collection: str = "",
        doc_id: str = "",
    ) -> None:
        """Add a deviation; the arguments are the fields of `Deviation`."""
        if len(self.deviations) < MAX_NAMED_DEVIATIONS:
            deviation = Deviation(kind, str(subject), message, str(expected), str(actual), collection, doc_id)
            self.deviations.append(deviation)
        else:
            self.more += 1

    @contextlib.contextmanager
    def catching_unreadable(self, subject: str, kind: DeviationKind = DeviationKind.LEDGER_CHANGED) -> Iterator[None]:
        """Add a deviation if something in the block cannot be parsed, and continue after the block.

        SQLite stores any value in any column, so whoever edits the file can leave rows that raise when they
        are read.
        """
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self.add(
                kind,
                subject,
                f"{subject}: part of it is unreadable ({type(error).__name__}), so the rest was not "
                "compared; restore it from a backup, then verify again",
            )
