"""``make fuzz``: coverage-guided fuzzing (atheris, libFuzzer) of each reader, in turn, for so many seconds together.

    python -m tests.fuzz SECONDS FOLDER [WRAPPER …]

Seeds are the good and the hostile files of the tests. What crashes, hangs for ten seconds or takes two gigabytes is kept in
FOLDER/<wrapper>/crashes and printed; the exit code then is 1. What was learnt stays in FOLDER/<wrapper>/corpus for the next time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.seeds import WRAPPERS, seeds

_EXECUTED = re.compile(rb"stat::number_of_executed_units:\s*(\d+)|^#(\d+)\s", re.MULTILINE)
_STARTING = 400  # seconds a slow machine may need before the first mutation
_CRASHES = 5  # of one wrapper, after which the next is taken
_PROJECT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Fuzz; returns the exit code."""
    seconds, folder, chosen = float(sys.argv[1]), Path(sys.argv[2]).absolute(), sys.argv[3:] or list(WRAPPERS)
    found = 0
    for wrapper in chosen:
        place = folder / wrapper
        (place / "corpus").mkdir(parents=True, exist_ok=True)
        (place / "crashes").mkdir(exist_ok=True)
        for number, seed in enumerate(seeds(wrapper)):
            (place / "corpus" / f"seed-{number:03}").write_bytes(seed)
        executed, crashes = fuzz(wrapper, place, seconds / len(chosen))
        found += len(crashes)
        print(f"{wrapper:10} {executed:>9,} executions, {len(crashes)} crashes", flush=True)
        for crash in crashes:
            print(f"    {crash}", flush=True)
    return 1 if found else 0


def fuzz(wrapper: str, place: Path, seconds: float) -> tuple[int, list[str]]:
    """Run one wrapper until its time is over; executions, and one line a crash."""
    ends = time.monotonic() + seconds
    executed = 0
    crashes: list[str] = []
    while len(crashes) < _CRASHES and (left := ends - time.monotonic()) > 3:
        known = set((place / "crashes").iterdir())
        command = [sys.executable, "-m", "tests.fuzz.target", wrapper, str(place / "corpus")]
        command += [
            f"-max_total_time={int(left)}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-max_len=65536",
            "-print_final_stats=1",
        ]
        command += [f"-artifact_prefix={place / 'crashes'}/", "-verbosity=1", "-close_fd_mask=1"]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [*map(str, (_PROJECT, _PROJECT / "include")), os.environ.get("PYTHONPATH", "")]
            ),
        }
        try:
            # libFuzzer's clock starts after the imports are instrumented and the seeds were run.
            done = subprocess.run(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=_PROJECT,
                env=environment,
                timeout=left + _STARTING,
                check=False,
            )
        except subprocess.TimeoutExpired as over:
            done = subprocess.CompletedProcess(command, 0, b"", over.stderr or b"")
        (place / "log").write_bytes(done.stderr[-200_000:])
        executed += max((int(first or second) for first, second in _EXECUTED.findall(done.stderr)), default=0)
        new = set((place / "crashes").iterdir()) - known
        if done.returncode and not new:
            crashes.append(f"ended with {done.returncode}: {done.stderr[-300:].decode('utf-8', 'replace')!r}")
            break
        crashes += [f"{path.relative_to(place.parent)}: {_reason(done.stderr)}" for path in sorted(new)]
        if not new:
            break
    return executed, crashes


def _reason(log: bytes) -> str:
    """The line that says what happened; the document's bytes are in the file, not here."""
    for pattern in (rb"=== Uncaught Python exception: ===\s*\n(\w+)", rb"ERROR: libFuzzer: ([a-z -]{1,60})"):
        if match := re.search(pattern, log):
            return match[1].decode()
    return "see the log"


if __name__ == "__main__":
    sys.exit(main())
