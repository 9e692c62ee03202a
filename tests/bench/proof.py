"""What proving costs: a manifest of a million lines, events a second, and a verification that asks every vector for itself.

python -m tests.bench.proof FOLDER CHUNKS      in a process of its own; prints JSON
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped]

from corpus_guard import domain
from corpus_guard.batches.tables import vectors_to_table, versions_to_table
from corpus_guard.corpus import outbox, reach
from corpus_guard.corpus.publishing import record
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Chunk, Judgement, Stamp, TrustLevel, Verdict, Version, canonical_json
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.merkle import Frontier, leaf_hash
from corpus_guard.settings import Settings

LINES = 1_000_000
EVENTS = 50_000
DIMENSIONS = 384
TOGETHER = 2_000  # chunks of one document, published together
MODEL = "random/float32"


def main() -> None:
    """Measure in an empty folder; the third figure with as many chunks as are asked for."""
    folder, chunks = Path(sys.argv[1]), int(sys.argv[2])
    found = {"manifest_cpu": manifest(folder / "keys"), "events_a_second": events(folder / "events")}
    found |= publishing(folder / "publishing")
    sys.stdout.write(json.dumps({**found, **verification(folder / "corpus", chunks)}) + "\n")


def publishing(home: Path) -> dict[str, float]:
    """Seconds for publishing a document's chunks, and what share of them goes into looking for each by its vector.

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
            before, began = _cpu(mine), time.monotonic()
            outbox.drain(guard.ledger, guard.storage, guard.store, "bench")
            wall[looking] += time.monotonic() - began
            cpu[looking] += _cpu(mine) - before
    reach.unreachable_records = look
    return {
        f"publish_{what}_{kind}": seconds[looking] / 3
        for what, seconds in (("wall", wall), ("cpu", cpu))
        for kind, looking in (("looking", True), ("blind", False))
    }


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


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
    """Seconds and growth of memory (MiB) while a corpus of random vectors is verified."""
    with Deployment(Settings(home=home, chroma_url="http://127.0.0.1:9")) as guard:
        for number in range(chunks // TOGETHER):
            _record(guard, number)
        outbox.drain(guard.ledger, guard.storage, guard.store, "bench")
        guard.seal("bench")
        before = _peak()
        found = guard.verify()
        if not found.holds or found.queried != chunks:
            raise SystemExit(f"the corpus does not hold: {found.counts}, {found.queried} of {chunks} vectors queried")
        return {"verify_seconds": found.seconds, "verify_growth_mib": _peak() - before, "verify_chunks": float(chunks)}


def _record(guard: Deployment, number: int) -> None:
    chance = np.random.default_rng(number)
    passages = [f"Passage {number}/{one} of the bench, {chance.integers(1 << 60)}. " for one in range(TOGETHER)]
    text = "".join(passages)
    data = text.encode()
    stamp = Stamp(
        "bench", "bench", TrustLevel.OPEN, f"{number}.md", domain.sha256_bytes(data), len(data), "text/markdown",
        now(), "bench", "bench",
    )  # fmt: skip
    document = domain.doc_id(stamp.source, stamp.uri)
    version = domain.version_id(document, stamp.content_sha256)
    pieces, start = [], 0
    for ordinal, passage in enumerate(passages):
        chunk = domain.chunk_id(document, version, ordinal, passage, "bench")
        pieces.append(Chunk(chunk, ordinal, start, start + len(passage), passage, 20))
        start += len(passage)
    made = Version(document, version, stamp, text, "", tuple(pieces))
    vectors = chance.standard_normal((TOGETHER, DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    batch, name = f"batches/{number}/versions.parquet", f"batches/{number}/vectors.parquet"
    guard.storage.write_table(batch, versions_to_table([made]))
    guard.storage.write_table(name, vectors_to_table([piece.chunk_id for piece in pieces], vectors, MODEL))
    with guard.ledger.write() as connection:
        record(
            connection,
            "bench",
            batch,
            [(made, Judgement(version, Verdict.ACCEPT, 0.1, "0" * 64, ()))],
            collection=guard.store.collection_name,
            vectors=name,
            model=MODEL,
        )


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
