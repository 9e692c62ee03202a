"""What a step writes, the next one reads: any text, any finding, any vector, to the last bit."""

from __future__ import annotations

import string
import uuid
from dataclasses import replace
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import (
    CHUNK_TEXT_COLUMNS,
    JUDGEMENTS,
    SERVED_COLUMNS,
    VERSIONS,
    chunk_texts_from_table,
    embedder_of,
    in_batches,
    judgements_from_table,
    judgements_to_table,
    vectors_from_table,
    vectors_to_table,
    versions_from_table,
    versions_to_table,
)
from corpus_guard.domain import Chunk, Finding, Judgement, Severity, Skipped, Span, Stamp, TrustLevel, Verdict, Version
from material import a_version, judged

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=12)
IDS = st.text("0123456789abcdef", min_size=32, max_size=32)
MOMENTS = st.datetimes(timezones=st.just(UTC))

SPANS = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)).map(lambda both: Span(min(both), max(both)))
FINDINGS = st.builds(
    Finding,
    check=WORDS,
    code=WORDS,
    severity=st.sampled_from(Severity),
    score=st.integers(0, 10_000).map(lambda parts: parts / 10_000),  # kept to four digits
    message=TEXTS,
    span=st.none() | SPANS,
    tags=st.lists(WORDS, max_size=3).map(tuple),
)
STAMPS = st.builds(
    Stamp,
    source=WORDS,
    owner=TEXTS,
    trust=st.sampled_from(TrustLevel),
    uri=TEXTS,
    content_sha256=IDS,
    size=st.integers(0, 2**53),
    media_type=WORDS,
    fetched_at=MOMENTS,
    fetched_by=WORDS,
    run_id=TEXTS,
    parent_version=st.none() | IDS,
    modified_at=st.none() | MOMENTS,
    declared=st.dictionaries(TEXTS, TEXTS, max_size=3),
)


@st.composite
def versions(draw: st.DrawFn) -> Version:
    text = draw(TEXTS)
    chunks = []
    for ordinal in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, len(text)))
        chunks.append(Chunk(draw(IDS), ordinal, start, end, text[start:end], draw(st.integers(0, 2**31 - 1))))
    return Version(
        doc_id=draw(IDS),
        version_id=draw(IDS),
        stamp=draw(STAMPS),
        text=text,
        hidden=draw(TEXTS),
        chunks=tuple(chunks),
        problems=draw(st.lists(FINDINGS, max_size=2).map(tuple)),
    )


JUDGEMENT = st.builds(
    Judgement,
    version_id=IDS,
    verdict=st.sampled_from(Verdict),
    risk=st.floats(0, 1),
    policy_digest=IDS,
    findings=st.lists(FINDINGS, max_size=3).map(tuple),
    skipped=st.lists(st.builds(Skipped, check=WORDS, reason=TEXTS), max_size=2).map(tuple),
    shadow_verdict=st.none() | st.sampled_from(Verdict),
)


def through_a_file(table: pa.Table) -> pa.Table:
    storage = Storage("memory://tables")
    name = f"{uuid.uuid4()}.parquet"  # a table that exists is never written again
    storage.write_table(name, table)
    return storage.read_table(name)


@settings(max_examples=60)
@given(st.lists(versions(), max_size=4))
def test_versions_come_back(made: list[Version]) -> None:
    assert versions_from_table(through_a_file(versions_to_table(made))) == made


@settings(max_examples=60)
@given(st.lists(versions(), max_size=4))
def test_columns_that_are_not_needed_can_be_left_out(made: list[Version]) -> None:
    table = versions_to_table(made)

    assert versions_from_table(table.select(SERVED_COLUMNS)) == [
        replace(version, hidden="", problems=()) for version in made
    ]
    assert chunk_texts_from_table(table.select(CHUNK_TEXT_COLUMNS)) == [
        (chunk.chunk_id, chunk.text) for version in made for chunk in version.chunks
    ]


@settings(max_examples=60)
@given(st.lists(JUDGEMENT, max_size=4))
def test_judgements_come_back(made: list[Judgement]) -> None:
    assert judgements_from_table(through_a_file(judgements_to_table(made))) == made


@settings(max_examples=40)
@given(st.integers(0, 6), st.integers(1, 8), st.integers(0, 2**32))
def test_vectors_come_back_bit_for_bit(count: int, dimensions: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2**32, (count, dimensions), dtype=np.uint32)
    vectors = bits.view(np.float32)  # any bit pattern, NaN and denormal numbers too
    ids = [f"{number:032}" for number in range(count)]

    table = through_a_file(vectors_to_table(ids, vectors, "weights/bfloat16"))

    found = vectors_from_table(table)
    assert list(found) == ids
    assert [found[one].tobytes() for one in ids] == [row.tobytes() for row in vectors]
    assert embedder_of(table) == "weights/bfloat16"


def test_vectors_of_a_slice_are_those_of_its_rows() -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    table = vectors_to_table(list("abcdef"), vectors, "m/f")

    assert {key: list(row) for key, row in vectors_from_table(table.slice(2, 2)).items()} == {"c": [4, 5], "d": [6, 7]}


def test_files_have_the_declared_schemas() -> None:
    made = [a_version()]
    for table, schema in (
        (versions_to_table(made), VERSIONS),
        (versions_to_table([]), VERSIONS),
        (judgements_to_table([judged(made[0])]), JUDGEMENTS),
        (judgements_to_table([]), JUDGEMENTS),
    ):
        assert through_a_file(table).schema.equals(schema)
        assert not any(field.nullable for field in table.schema)


@pytest.mark.parametrize(
    "column", [name for name in VERSIONS.names if name != "chunks"]
)  # pyarrow 25 lets null lists through
def test_a_row_that_lacks_a_value_cannot_be_written(column: str) -> None:
    rows: list[dict[str, Any]] = versions_to_table([a_version()]).to_pylist()
    rows[0][column] = None

    with pytest.raises(pa.ArrowInvalid):
        through_a_file(pa.Table.from_pylist(rows, schema=VERSIONS))


def test_one_version_is_read_without_its_neighbours() -> None:
    made = [a_version(f"{number}") for number in range(200)]
    storage = Storage("memory://tables")
    storage.write_table("many.parquet", versions_to_table(made))

    table = storage.read_table("many.parquet", filters=[("version_id", "in", [made[150].version_id])])

    assert versions_from_table(table) == [made[150]]


@given(st.lists(st.integers()), st.integers(1, 7))
def test_splitting_loses_and_adds_nothing(items: list[int], size: int) -> None:
    parts = list(in_batches(items, size))

    assert [item for part in parts for item in part] == items
    assert all(0 < len(part) <= size for part in parts)
    assert all(len(part) == size for part in parts[:-1])
