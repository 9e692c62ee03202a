"""What an unchanged folder costs beside hashing it, and what a second worker brings.

python -m tests.bench.intake --worker embed|screen <home> <run id> <shards as JSON>      one worker of the second, started by it
python -m tests.bench.intake [documents] [chunks]                                        the figures alone
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, Ran, console, ratio, run

FILES, BYTES = 10_000, 64 * 1024
CHUNKS, SHARD = 1_200, 100
GUARD = str(Path(sys.executable).with_name("guard"))

HASHING = """
import hashlib, os, sys
for root, _, names in os.walk(sys.argv[1]):
    for name in sorted(names):
        with open(os.path.join(root, name), "rb") as file:
            hashlib.sha256(file.read()).hexdigest()
"""
NOTHING = "import corpus_guard.cli.main"
"""What any command costs before it begins."""


def unchanged(folder: Path, models: Path, count: int = FILES) -> list[Figure]:
    """A refresh of files that did not change ÷ hashing them, both as processes of their own, in CPU seconds.

    The files are no text, so that the first refresh, which is not measured, loads no model; one that did not change is never parsed
    whatever it is.
    """
    home = folder / "unchanged"
    home.mkdir()
    (home / "models").symlink_to(models / "models")
    chance = random.Random(7)
    for number in range(count):
        path = home / "files" / f"{number // 500:02}" / f"{number:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x7fELF" + chance.randbytes(BYTES))
    source = {"name": "bench", "kind": "folder", "url": "files", "owner": "bench", "trust": "reviewed"}
    (home / "sources.yaml").write_text(json.dumps({"sources": [source]}))
    env = {"CORPUS_GUARD_HOME": str(home), "CORPUS_GUARD_SOURCES_FILE": str(home / "sources.yaml")}
    run(f"first refresh of {count:,} files", [GUARD, "refresh", "--json"], env)
    hashing = _best([run("hashing them", [sys.executable, "-c", HASHING, str(home / "files")], env) for _ in range(3)])
    again = [run("refresh with nothing changed", [GUARD, "refresh", "--json"], env) for _ in range(3)]
    assert all(json.loads(one.output)["unchanged"] == count for one in again)
    whole = _best(again)
    (home / "sources.yaml").write_text(json.dumps({"sources": []}))
    empty = _best([run("refresh of no source", [GUARD, "refresh", "--json"], env) for _ in range(3)])
    size = f"{count:,} unchanged files of {BYTES // 1024} KiB"
    return [
        ratio(f"{size} ÷ hashing them, CPU", whole.cpu / hashing.cpu, 3, f"{whole.cpu:.2f} s ÷ {hashing.cpu:.2f} s"),
        Figure(
            "the same without what a refresh of no source takes",
            f"{(whole.cpu - empty.cpu) / hashing.cpu:.2f} ({whole.cpu - empty.cpu:.2f} s ÷ {hashing.cpu:.2f} s)",
            "—",
            True,
        ),
    ]


def two_workers(home: Path, chunks: int = CHUNKS) -> list[Figure]:
    """Embedding and screening by one worker ÷ by two with one thread each, from when all have their models.

    Args:
        home: with a sources.yaml of `chunks` rows, and models.
        chunks: how many there are, for the title.
    """
    seconds = {workers: _mapped(home, workers) for workers in (1, 2)}
    found = seconds[1] / seconds[2]
    parts = f"{seconds[1]:.1f} s ÷ {seconds[2]:.1f} s, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return [Figure(f"{chunks:,} chunks by one worker ÷ by two", f"{found:.2f} ({parts})", "≥ 1.7", found >= 1.7)]


def _mapped(home: Path, workers: int) -> float:
    from tests.stepping import SteppedRun

    from corpus_guard.deployment import Deployment
    from corpus_guard.settings import load_settings

    run_id = f"bench-{workers}"
    with tempfile.TemporaryDirectory(prefix="corpus-guard-bench-") as name:
        own = Path(name)
        (own / "models").symlink_to((home / "models").resolve())
        settings = load_settings(
            home=own, sources_file=home / "sources.yaml", shard_documents=SHARD, chroma_url="http://127.0.0.1:9"
        )
        with Deployment(settings) as guard:
            stepped = SteppedRun(guard, run_id)
            embedded, took = _stage("embed", settings.model_dump_json(), run_id, stepped.fetch(), workers)
            surveyed = stepped.survey(embedded)
        _, screened = _stage("screen", settings.model_dump_json(), run_id, surveyed, workers)
    return took + screened


def _stage(step: str, settings: str, run_id: str, shards: Sequence[Any], workers: int) -> tuple[list[Any], float]:
    """All shards through one step; what came out, and the seconds from the word go."""
    parts = [list(shards[first::workers]) for first in range(workers)]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.intake", "--worker", step, settings, run_id, json.dumps(part)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
        for part in parts
    ]
    for one in started:
        assert one.stdout is not None and one.stdout.readline() == "ready\n", f"{step}: a worker did not start"
    began = time.monotonic()
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    done = [json.loads(one.stdout.readline()) for one in started if one.stdout is not None]
    took = time.monotonic() - began
    for one in started:
        one.communicate()
    console.print(f"{step} by {workers}: {took:.1f} s")
    return [shard for part in done for shard in part], took


def _worker(step: str, settings: str, run_id: str, shards: str) -> None:
    from tests.stepping import SteppedRun

    from corpus_guard.deployment import Deployment
    from corpus_guard.settings import load_settings

    given = {key: value for key, value in json.loads(settings).items() if key != "chat_key"}
    with Deployment(load_settings(**given)) as guard:
        guard.models.embedder.embed(["warm"])
        if step == "screen":
            guard.screening.judge([], None)
            guard.models.language_model.surprisals(["A sentence that is read once, before the clock starts."])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        take = getattr(SteppedRun(guard, run_id), step)
        done = [take(shard) for shard in json.loads(shards)]
    sys.stdout.write(json.dumps(done) + "\n")


def _best(runs: Sequence[Ran]) -> Ran:
    """Of several the one that was disturbed least."""
    return min(runs, key=lambda one: one.cpu)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _worker(*sys.argv[2:6])
