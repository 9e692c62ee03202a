"""How often one host is asked: one request after the other, with a pause, whoever asks on this machine.

The refresh fetches shards in several processes at once. They keep the pause together through one small file a host, under a
lock of the operating system; on several machines each keeps its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import tempfile
import time
from pathlib import Path

LONGEST = 3_600.0  # seconds; a file that says more was written with another clock


class Pace:
    """The turns at hosts, kept below `folder`."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = (folder or Path(tempfile.gettempdir()) / "corpus-guard") / "pace"

    def wait(self, host: str, pause: float) -> None:
        """Take the next turn at `host` and sleep until it comes; the one after it comes `pause` seconds later."""
        turn = self._take(host, pause, 0.0)
        time.sleep(max(0.0, min(turn - time.time(), LONGEST)))

    def hold(self, host: str, seconds: float) -> None:
        """Nobody asks `host` for so many seconds: it said so itself."""
        self._take(host, 0.0, seconds)

    def _take(self, host: str, pause: float, at_least: float) -> float:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / hashlib.sha256(host.encode()).hexdigest()[:32]
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            now, said = time.time(), 0.0
            with contextlib.suppress(ValueError):
                said = float(file.read(64))
            turn = max(now + at_least, said if said - now <= LONGEST else 0.0)
            file.seek(0)
            file.truncate()
            file.write(repr(turn + pause))
        return turn
