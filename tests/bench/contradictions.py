"""What it costs to compare arriving chunks with what trusted ones state, beside embedding them.

python -m tests.bench.contradictions FOLDER SERVED            in a process of its own; prints JSON

The chunks are made up (`tests.bench.made_up`), each about one of many topics. Their vectors are sums of made-up word vectors.
"""

from __future__ import annotations

import json
import random
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import psutil  # type: ignore[import-untyped]
from numpy.typing import NDArray
from tests.bench.figures import cpu_seconds
from tests.bench.made_up import MadeUpText

from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.screening.checks.conflict import ConflictParams
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk
from corpus_guard.screening.survey.served_collections import ServedCollections
from corpus_guard.screening.survey.statement_search import find_related_statements
from corpus_guard.screening.wording import Wording, load_wording
from corpus_guard.settings import Settings

ARRIVING: Final = 300
WARMING: Final = 50  # chunks before the clock starts: units and the vocabulary are read
TOPICS: Final = 2_000
WORDS_OF_TOPIC: Final = 40
COMMON: Final = 0.35  # cosine of any two chunks at least: each is compared with as many as can be
DIMENSIONS: Final = 383  # and one that all have in common
MODEL: Final = "made-up/float32"


def main() -> None:
    """Measure in an empty folder and print."""
    folder, served = Path(sys.argv[1]), int(sys.argv[2])
    sys.stdout.write(json.dumps(measure(folder, served)) + "\n")


def measure(home: Path, served: int) -> dict[str, float]:
    """Return CPU milliseconds a chunk for embedding it and for comparing it, the Chroma server's included."""
    with Deployment(Settings(home=home, chroma_url="http://127.0.0.1:9")) as guard:
        wording = load_wording(guard.models.frequency_vocabulary)
        texts = _texts(served + WARMING + ARRIVING, wording)
        vectors = _vectors(texts, wording)
        collection = guard.store.collection_name(TrustLevel.TRUSTED)
        guard.store.upsert(collection, [_record(n, texts[n], vectors[n]) for n in range(served)], MODEL)
        processes = [psutil.Process(), *psutil.Process().children()]
        warming, arriving = slice(served, served + WARMING), slice(served + WARMING, None)
        _compare(guard.store, texts[warming], vectors[warming], wording)
        began = cpu_seconds(processes)
        related = _compare(guard.store, texts[arriving], vectors[arriving], wording)
        compared = cpu_seconds(processes)
        guard.models.embedder.embed(texts[warming])
        warm = cpu_seconds(processes)
        guard.models.embedder.embed(texts[arriving])
        embedded = cpu_seconds(processes)
    return {
        "compare_ms": 1000 * (compared - began) / ARRIVING,
        "embed_ms": 1000 * (embedded - warm) / ARRIVING,
        "served": float(served),
        "related": float(related),
    }


def _compare(store: Store, texts: Sequence[str], vectors: NDArray[np.float32], wording: Wording) -> int:
    placed = [
        PlacedChunk(f"new-{n}", f"version-{n}", f"chunk-{n}", 0, 0, TrustLevel.OPEN, f"notes/{n}.md")
        for n in range(len(texts))
    ]
    related = find_related_statements(
        placed,
        vectors,
        lambda positions: [texts[position] for position in positions],
        ServedCollections(store),
        wording.rarity,
        ConflictParams().comparisons,
    )
    return sum(map(len, related.statements.values()))


def _record(number: int, text: str, vector: NDArray[np.float32]) -> ChunkRecord:
    place = f"{number:032x}"
    metadata = {"doc_id": place, "version_id": place, "ordinal": 0, "start": 0, "uri": f"manuals/{number}.md"}
    return ChunkRecord(place, text, vector, metadata)


def _texts(count: int, wording: Wording) -> list[str]:
    """Return chunks, each about one of `TOPICS` topics."""
    made_up, chance = MadeUpText(wording), random.Random(7)
    return [made_up.chunk(chance, made_up.topic(chance.randrange(TOPICS), WORDS_OF_TOPIC)) for _ in range(count)]


def _vectors(texts: Sequence[str], wording: Wording) -> NDArray[np.float32]:
    words: dict[str, NDArray[np.float32]] = {}
    vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
    for number, text in enumerate(texts):
        for word, weight in wording.content(text).items():
            if word not in words:
                words[word] = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIMENSIONS).astype("f4")
            vectors[number] += weight * words[word]
    vectors *= np.sqrt(1 - COMMON) / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.hstack([vectors, np.full((len(texts), 1), np.sqrt(COMMON), np.float32)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
