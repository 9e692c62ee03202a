"""What a verification has found so far."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from corpus_guard.proof.deviations import Deviation, Kind

KEPT = 10_000  # deviations named; more are counted

Progress = Callable[[str, int, int | None], None]
"""(what is being done, how many are done, how many in all; None where nobody knows)."""


class Found:
    """Deviations in the order of their finding; the list stops at `KEPT`, the count goes on."""

    def __init__(self) -> None:
        self.deviations: list[Deviation] = []
        self.more = 0

    def add(self, kind: Kind, subject: object, message: str, **details: object) -> None:
        """One more; `details` are fields of `Deviation`."""
        if len(self.deviations) < KEPT:
            self.deviations.append(
                Deviation(kind, str(subject), message, **{name: str(value) for name, value in details.items()})
            )
        else:
            self.more += 1

    @contextlib.contextmanager
    def reading(self, what: str, kind: Kind = Kind.LEDGER_CHANGED) -> Iterator[None]:
        """What cannot be read is a deviation of `kind`, and the verification goes on with the next step.

        Columns of SQLite hold whatever somebody puts there; what no longer parses raises where it is read.
        """
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self.add(
                kind,
                what,
                f"{what}: something in it cannot be read ({type(error).__name__}), so that the rest of it was not compared; "
                "restore it from a copy, then verify again",
            )
