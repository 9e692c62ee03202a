"""What proving costs: a manifest of a million lines, events a second, and a verification that asks every vector for itself.

python -m tests.bench.proof FOLDER CHUNKS            in a process of its own; prints JSON
python -m tests.bench.proof FOLDER CHUNKS verify     only the verification
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import psutil  # type: ignore[import-untyped]
from tests.bench.figures import cpu_seconds
from tests.material import a_version

from corpus_guard.batches.logged_files import hash_files, log_files
from corpus_guard.batches.tables import vectors_to_table, versions_to_table
from corpus_guard.corpus import outbox, reach
from corpus_guard.corpus.publishing import record
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Judgement, Verdict, Version, canonical_json
from corpus_guard.ledger.event_log import append_event
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.merkle import Frontier, leaf_hash
from corpus_guard.proof.verify import verification as verify_module
from corpus_guard.proof.verify.files import FileCounts
from corpus_guard.screening.history import record_signals
from corpus_guard.screening.survey.signals import measure_signals
from corpus_guard.settings import Settings

LINES = 1_000_000
EVENTS = 50_000
DIMENSIONS = 384
TOGETHER = 2_000  # chunks of one batch, published together
CHUNKS = 10  # of one document
ROUNDS = 2
MODEL = "random/float32"


def main() -> None:
    """Measure in an empty folder; the third figure with as many chunks as are asked for."""
    folder, chunks = Path(sys.argv[1]), int(sys.argv[2])
    if sys.argv[3:] == ["verify"]:
        sys.stdout.write(json.dumps(verification(folder / "corpus", chunks)) + "\n")
        return
    found = {"manifest_cpu": manifest(folder / "keys"), "events_a_second": events(folder / "events")}
    found |= publishing(folder / "publishing")
    sys.stdout.write(json.dumps({**found, **verification(folder / "corpus", chunks)}) + "\n")


def publishing(home: Path) -> dict[str, float]:
    """Seconds for publishing a batch of chunks, and what share of them goes into looking for each by its vector.

    CPU seconds are this process's and its Chroma server's; the two kinds take turns in one collection.
    """
    wall, cpu = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
    look = reach.unreachable_records
    with Deployment(Settings(home=home, chroma_url="http://127.0.0.1:9")) as guard:
        guard.store.names()  # starts the server
        mine = [psutil.Process(), *psutil.Process().children()]
        for number in range(6):
            looking = number % 2 == 0
            _record(guard, number)
            reach.unreachable_records = look if looking else lambda *_: []
            before, began = cpu_seconds(mine), time.monotonic()
            outbox.drain(guard.ledger, guard.storage, guard.store, "bench")
            wall[looking] += time.monotonic() - began
            cpu[looking] += cpu_seconds(mine) - before
    reach.unreachable_records = look
    return {
        f"publish_{what}_{kind}": seconds[looking] / 3
        for what, seconds in (("wall", wall), ("cpu", cpu))
        for kind, looking in (("looking", True), ("blind", False))
    }


def manifest(keys: Path) -> float:
    """CPU seconds for canonical lines, leaf hashes, root and signature of a million records."""
    keyring = Keyring.create(keys, "bench/log")
    began = time.process_time()
    tree = Frontier()
    for number in range(LINES):
        chunk = f"{number:032x}"
        tree.append(leaf_hash(canonical_json(_line(chunk))))
    keyring.sign(Checkpoint("bench/log", tree.size, tree.root()))
    return time.process_time() - began


def events(home: Path) -> float:
    """Events a second, a thousand in a transaction; each transaction is on disk when it returns."""
    with Deployment(Settings(home=home)) as guard:
        ledger = guard.ledger
        began = time.monotonic()
        for _ in range(EVENTS // 1_000):
            with ledger.write() as connection:
                for number in range(1_000):
                    append_event(connection, "judged", f"{number:032x}", "bench", verdict="accept", risk=0.25)
        return EVENTS / (time.monotonic() - began)


def verification(home: Path, chunks: int) -> dict[str, float]:
    """Seconds and growth of memory (MiB) while a corpus of random vectors is verified.

    Two kinds take turns: the whole, and one that neither compares rows with the log nor reads a share of the stored files. CPU
    seconds are this process's and its Chroma server's; of each the fastest round counts.
    """
    wall: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    with Deployment(Settings(home=home, chroma_url="http://127.0.0.1:9")) as guard:
        for number in range(chunks // TOGETHER):
            _record(guard, number)
        outbox.drain(guard.ledger, guard.storage, guard.store, "bench")
        guard.seal("bench")
        mine = [psutil.Process(), *psutil.Process().children()]
        memory, growth = _peak(), 0.0
        for kind in ["whole", "without"] * ROUNDS + ["deep"]:
            before = cpu_seconds(mine)
            with _without_rows_and_files() if kind == "without" else nullcontext():
                found = guard.verify(deep=kind == "deep")
            if not found.holds or found.queried != chunks:
                raise SystemExit(
                    f"the corpus does not hold: {found.counts}, {found.queried} of {chunks} vectors queried"
                )
            wall[kind].append(found.seconds)
            cpu[kind].append(cpu_seconds(mine) - before)
            growth = growth or _peak() - memory
    return {
        "verify_seconds": min(wall["whole"]),
        "verify_cpu_seconds": min(cpu["whole"]),
        "verify_without_rows_and_files_seconds": min(wall["without"]),
        "verify_without_rows_and_files_cpu_seconds": min(cpu["without"]),
        "verify_deep_seconds": min(wall["deep"]),
        "verify_deep_cpu_seconds": min(cpu["deep"]),
        "verify_growth_mib": growth,
        "verify_chunks": float(chunks),
    }


def _without_rows_and_files() -> AbstractContextManager[object]:
    return mock.patch.multiple(
        verify_module,
        check_rows=lambda *_: None,
        check_files=lambda *_, **__: FileCounts(0, 0),
        check_parts=lambda *_: None,
    )


def _record(guard: Deployment, number: int) -> None:
    """Record a batch of TOGETHER chunks, CHUNKS to a document."""
    chance = np.random.default_rng(number)
    made = [_document(guard, number, one) for one in range(TOGETHER // CHUNKS)]
    pieces = [chunk.chunk_id for version in made for chunk in version.chunks]
    vectors = chance.standard_normal((len(pieces), DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    batch, name = f"batches/{number}/versions.parquet", f"batches/{number}/vectors.parquet"
    guard.storage.write_table(batch, versions_to_table(made))
    guard.storage.write_table(name, vectors_to_table(pieces, vectors, MODEL))
    hashes = hash_files(guard.storage, [batch, name])
    with guard.ledger.write() as connection:
        log_files(connection, "bench", hashes)
        record(
            connection,
            "bench",
            batch,
            [(version, Judgement(version.version_id, Verdict.ACCEPT, 0.1, "0" * 64, ())) for version in made],
            collection=guard.store.collection_name,
            vectors=name,
            model=MODEL,
        )
        record_signals(connection, [measure_signals(version) for version in made])


def _document(guard: Deployment, number: int, one: int) -> Version:
    passages = [f"Passage {part} of document {number}/{one} of the bench. " for part in range(CHUNKS)]
    version = a_version(f"{number}/{one}.md", passages, source="bench", owner="bench", declared={})
    guard.blobs.put(version.text.encode())
    return version


def _line(chunk: str) -> dict[str, str | int | None]:
    digest = chunk * 2
    return {
        "v": 2, "chunk_id": chunk, "collection": "corpus-open", "doc_id": chunk, "version_id": chunk, "ordinal": 3,
        "source": "community", "owner": "community@example", "trust": "open", "uri": "a/page/of/some/length.md",
        "fetched_at": "2026-03-01T12:00:00+00:00", "content_sha256": digest, "text_sha256": digest,
        "vector_sha256": digest, "metadata_sha256": digest, "model": MODEL, "verdict": "accept", "decision_id": None,
        "policy_digest": digest,
    }  # fmt: skip


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
