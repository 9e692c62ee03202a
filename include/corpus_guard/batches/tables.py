"""The Parquet batches that travel between steps, with declared schemas.

A batch is a folder named by the hash of what went into it:

    batches/<hash>/versions.parquet      text, stamp, chunks of each changed document of a shard
    batches/<hash>/signals.parquet       measures of each, for the survey
    batches/<hash>/judgements-<hash>.parquet
    batches/<hash>/vectors-<hash>.parquet
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpus_guard.batches.storage import Filters, Storage
from corpus_guard.domain import Chunk, Finding, Judgement, Skipped, Stamp, Verdict, Version
from corpus_guard.ledger.queries import IDS_PER_STATEMENT

MODEL = "corpus_guard_model"

Item = TypeVar("Item")

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

CHUNK_TEXT_COLUMNS: Final = ["text", "chunks"]
"""Columns of VERSIONS that `chunk_texts_from_table` needs."""
SERVED_COLUMNS: Final = ["version_id", "doc_id", "stamp", "text", "chunks"]
"""Columns of VERSIONS that are published: without hidden text and problems."""

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
    """Convert versions to a table with one row per version."""
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
    """Convert a table to versions: the inverse of `versions_to_table`.

    A table that was read without the columns `hidden` and `problems` gives versions without either.
    """
    return [_version(row) for row in table.to_pylist()]


def read_versions(storage: Storage, name: str, version_ids: Collection[str]) -> list[Version]:
    """Read some versions of a batch.

    Args:
        version_ids: of the versions that are read; those the file does not hold are missing in the result.

    Raises:
        Inconsistent: the file is gone.
    """
    filters: Filters = [("version_id", "in", list(version_ids))]
    return versions_from_table(storage.read_table(name, filters=filters))


def chunk_texts_from_table(table: pa.Table) -> list[tuple[str, str]]:
    """Return (chunk id, text) of every chunk of a table of versions."""
    return [
        (chunk["chunk_id"], row["text"][chunk["start"] : chunk["end"]])
        for row in table.select(CHUNK_TEXT_COLUMNS).to_pylist()
        for chunk in row["chunks"]
    ]


def judgements_to_table(judgements: Sequence[Judgement]) -> pa.Table:
    """Convert judgements to a table with one row per version."""
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
    """Convert a table to judgements: the inverse of `judgements_to_table`."""
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
    """Convert vectors to a table with one row per chunk."""
    flat = pa.array(np.ascontiguousarray(vectors, "<f4").reshape(-1), pa.float32())
    rows = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    table = pa.table({"chunk_id": pa.array(chunk_ids, pa.string()), "vector": rows})
    return table.replace_schema_metadata({MODEL: model})


def vectors_from_table(table: pa.Table) -> dict[str, NDArray[np.float32]]:
    """Return the float32 vector of each chunk id."""
    column = table["vector"].combine_chunks()
    rows = np.asarray(column.flatten(), dtype="<f4").reshape(len(column), column.type.list_size)
    return dict(zip(table["chunk_id"].to_pylist(), rows, strict=True))


def embedder_of(table: pa.Table) -> str:
    """Return the identity of the embedder that made a table of vectors."""
    return str((table.schema.metadata or {})[MODEL.encode()].decode())


def in_batches(items: Iterable[Item], size: int = IDS_PER_STATEMENT) -> Iterator[list[Item]]:
    """Yield `items` in lists of at most `size`, in their order."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def _version(row: Mapping[str, Any]) -> Version:
    text = row["text"]
    return Version(
        doc_id=row["doc_id"],
        version_id=row["version_id"],
        stamp=Stamp.from_dict(orjson.loads(row["stamp"])),
        text=text,
        hidden=row.get("hidden", ""),
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
        problems=tuple(Finding.from_dict(problem) for problem in orjson.loads(row.get("problems", "[]"))),
    )
