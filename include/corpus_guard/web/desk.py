"""The deployment the pages look at, opened once a process and again when its policy or its sources change.

A decision carries the digest of the policy that the page showed. An API server lives for weeks: without the look at the files it would
sign with a policy that is in force no longer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from corpus_guard.guard import Guard


class Desk:
    """A guard for many threads."""

    def __init__(self, open_guard: Callable[[], Guard]) -> None:
        """Open it when it is first asked for."""
        self.one_at_a_time = threading.Lock()
        """For what loads a model."""
        self._open = open_guard
        self._lock = threading.Lock()
        self._guard: Guard | None = None
        self._seen: tuple[object, ...] = ()

    def guard(self) -> Guard:
        """The guard under the policy of now.

        Raises:
            SettingsError: a file or a variable is wrong; the page says which.
            LedgerUnavailable: the database does not answer.
        """
        with self._lock:
            if self._guard is None or self._state(self._guard) != self._seen:
                fresh = self._open()
                # What is made when first used is made here, by one thread.
                self._seen = self._state(fresh)
                _ = fresh.ledger, fresh.storage, fresh.blobs, fresh.policy, fresh.screening.digest
                # The old one is left to requests that still hold it; its connections go back as they end.
                self._guard = fresh
            return self._guard

    @staticmethod
    def _state(guard: Guard) -> tuple[object, ...]:
        return tuple(_stamp(path) for path in (guard.settings.policy_file, guard.settings.sources_file))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
