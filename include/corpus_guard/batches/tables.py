"""The Parquet batches that travel between steps, with declared schemas.

A batch is a folder named by the hash of what went into it:

    batches/<hash>/versions.parquet      text, stamp, chunks of each changed document of a shard
    batches/<hash>/signals.parquet       what the survey needs of each
    batches/<hash>/judgements-<hash>.parquet
    batches/<hash>/vectors-<hash>.parquet
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpus_guard.domain import Chunk, Finding, Judgement, Skipped, Stamp, Verdict, Version

MODEL = "corpus_guard_model"

VERSIONS = pa.schema(
    [
        pa.field("version_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("stamp", pa.large_binary(), nullable=False),  # JSON
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("hidden", pa.large_string(), nullable=False),
        pa.field("problems", pa.large_binary(), nullable=False),  # JSON, findings of parsing
        pa.field(
            "chunks",
            pa.list_(
                pa.struct(
                    [
                        pa.field("chunk_id", pa.string(), nullable=False),
                        pa.field("start", pa.int64(), nullable=False),
                        pa.field("end", pa.int64(), nullable=False),
                        pa.field("tokens", pa.int32(), nullable=False),
                    ]
                )
            ),
            nullable=False,
        ),
    ]
)

JUDGEMENTS = pa.schema(
    [
        pa.field("version_id", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("risk", pa.float64(), nullable=False),
        pa.field("policy_digest", pa.string(), nullable=False),
        pa.field("findings", pa.large_binary(), nullable=False),  # JSON
        pa.field("skipped", pa.large_binary(), nullable=False),  # JSON
        pa.field("shadow_verdict", pa.string(), nullable=False),  # "": the same as the verdict
    ]
)


def versions_to_table(versions: Sequence[Version]) -> pa.Table:
    """One row a version."""
    rows = [
        {
            "version_id": version.version_id,
            "doc_id": version.doc_id,
            "stamp": orjson.dumps(version.stamp.as_dict()),
            "text": version.text,
            "hidden": version.hidden,
            "problems": orjson.dumps([problem.as_dict() for problem in version.problems]),
            "chunks": [
                {"chunk_id": chunk.chunk_id, "start": chunk.start, "end": chunk.end, "tokens": chunk.tokens}
                for chunk in version.chunks
            ],
        }
        for version in versions
    ]
    return pa.Table.from_pylist(rows, schema=VERSIONS)


def versions_from_table(table: pa.Table) -> list[Version]:
    """The inverse of `versions_to_table`."""
    return [_version(row) for row in table.to_pylist()]


def judgements_to_table(judgements: Sequence[Judgement]) -> pa.Table:
    """One row a version."""
    rows = [
        {
            "version_id": judgement.version_id,
            "verdict": judgement.verdict.value,
            "risk": judgement.risk,
            "policy_digest": judgement.policy_digest,
            "findings": orjson.dumps([finding.as_dict() for finding in judgement.findings]),
            "skipped": orjson.dumps([[skipped.check, skipped.reason] for skipped in judgement.skipped]),
            "shadow_verdict": judgement.shadow_verdict or "",
        }
        for judgement in judgements
    ]
    return pa.Table.from_pylist(rows, schema=JUDGEMENTS)


def judgements_from_table(table: pa.Table) -> list[Judgement]:
    """The inverse of `judgements_to_table`."""
    return [
        Judgement(
            version_id=row["version_id"],
            verdict=Verdict(row["verdict"]),
            risk=row["risk"],
            policy_digest=row["policy_digest"],
            findings=tuple(Finding.from_dict(finding) for finding in orjson.loads(row["findings"])),
            skipped=tuple(Skipped(*skipped) for skipped in orjson.loads(row["skipped"])),
            shadow_verdict=Verdict(row["shadow_verdict"]) if row["shadow_verdict"] else None,
        )
        for row in table.to_pylist()
    ]


def vectors_to_table(chunk_ids: Sequence[str], vectors: NDArray[np.float32], model: str) -> pa.Table:
    """One row a chunk; `vectors` has shape (chunks, dimensions); `model` made them."""
    flat = pa.array(np.ascontiguousarray(vectors, "<f4").reshape(-1), pa.float32())
    rows = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    table = pa.table({"chunk_id": pa.array(chunk_ids, pa.string()), "vector": rows})
    return table.replace_schema_metadata({MODEL: model})


def vectors_from_table(table: pa.Table) -> dict[str, NDArray[np.float32]]:
    """Chunk id → float32 vector."""
    column = table["vector"].combine_chunks()
    rows = np.asarray(column.flatten(), dtype="<f4").reshape(len(column), column.type.list_size)
    return dict(zip(table["chunk_id"].to_pylist(), rows, strict=True))


def model_of(table: pa.Table) -> str:
    """Which embedder made a table of vectors."""
    return str((table.schema.metadata or {})[MODEL.encode()].decode())


def split(items: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """`items` in lists of at most `size`."""
    part: list[Any] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


def _version(row: dict[str, Any]) -> Version:
    text = row["text"]
    return Version(
        doc_id=row["doc_id"],
        version_id=row["version_id"],
        stamp=Stamp.from_dict(orjson.loads(row["stamp"])),
        text=text,
        hidden=row["hidden"],
        chunks=tuple(
            Chunk(
                chunk["chunk_id"],
                ordinal,
                chunk["start"],
                chunk["end"],
                text[chunk["start"] : chunk["end"]],
                chunk["tokens"],
            )
            for ordinal, chunk in enumerate(row["chunks"])
        ),
        problems=tuple(Finding.from_dict(problem) for problem in orjson.loads(row["problems"])),
    )
