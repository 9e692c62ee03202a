"""Figures of a benchmark, and the processes they come from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]
from rich.console import Console

console = Console(stderr=True)


@dataclass(frozen=True)
class Ran:
    """One finished process."""

    wall: float  # seconds
    cpu: float  # seconds, with children
    memory: int  # bytes, the largest process
    output: str


@dataclass(frozen=True)
class Figure:
    """One row of the result."""

    what: str
    found: str
    target: str
    met: bool


class Stopped(Exception):
    """A process was interrupted; `ran` is what it took until then."""

    def __init__(self, ran: Ran) -> None:
        """Keep its figures."""
        super().__init__()
        self.ran = ran


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Return the CPU time that processes have taken so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def run(what: str, command: list[str], env: dict[str, str]) -> Ran:
    """Run a process to its end, with nothing else of ours beside it.

    It reads compiled modules, as an installed package does, even where the environment forbids writing them: compiling takes
    longer than importing.

    Raises:
        Stopped: this process was interrupted, and the other one with it.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with console.status(what), tempfile.TemporaryFile("w+") as out:
        began = time.monotonic()
        # A port nobody uses: each refresh starts a Chroma server of its own.
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**inherited, "CORPUS_GUARD_CHROMA_URL": "http://127.0.0.1:9", **env},
        )
        is_stopped = False
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            is_stopped = True
            process.send_signal(signal.SIGINT)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        out.seek(0)
        output = out.read()
    unit = 1 if sys.platform == "darwin" else 1024
    ran = Ran(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, output)
    if is_stopped:
        raise Stopped(ran)
    if process.returncode:
        raise SystemExit(f"{what}: exit code {process.returncode}\n{output[-2000:]}")
    console.print(f"{what}: {wall:.1f} s")
    return ran


def ratio(what: str, found: float, limit: float, parts: str) -> Figure:
    """At most `limit`."""
    return Figure(what, f"{found:.2f} ({parts})", f"≤ {limit}", found <= limit)


def at_least(what: str, found: float, limit: float) -> Figure:
    """At least `limit`."""
    return Figure(what, f"{found:,.0f}", f"≥ {limit:,}", found >= limit)
