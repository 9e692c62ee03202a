"""Pauses between requests to one host, shared by all processes on this machine.

The refresh fetches shards in several processes at once. They keep the pause together through one small file a
host, under a lock of the operating system; several machines each keep their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import tempfile
import time
from pathlib import Path

MAX_WAIT_SECONDS = 3_600.0  # a file that states a later turn was written with another clock


class HostPacing:
    """Turns at hosts, kept in files below `folder`."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = (folder or Path(tempfile.gettempdir()) / "corpus-guard") / "pace"

    def wait(self, host: str, pause: float) -> None:
        """Take the next turn at `host` and sleep until it comes; the following turn is `pause` seconds later."""
        turn = self._take_turn(host, pause, 0.0)
        time.sleep(max(0.0, min(turn - time.time(), MAX_WAIT_SECONDS)))

    def hold(self, host: str, seconds: float) -> None:
        """Block every request to `host` for `seconds`, as it asked."""
        self._take_turn(host, 0.0, seconds)

    def _take_turn(self, host: str, pause: float, at_least: float) -> float:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / hashlib.sha256(host.encode()).hexdigest()[:32]
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            now, stored = time.time(), 0.0
            with contextlib.suppress(ValueError):
                stored = float(file.read(64))
            turn = max(now + at_least, stored if stored - now <= MAX_WAIT_SECONDS else 0.0)
            file.seek(0)
            file.truncate()
            file.write(repr(turn + pause))
        return turn
