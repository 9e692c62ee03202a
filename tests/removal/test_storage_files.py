"""Searching files: Parquet is compressed, so its bytes say nothing of its text."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus_guard.errors import Inconsistent
from corpus_guard.removal.storage_files import holds_trace
from corpus_guard.removal.text_traces import TraceIndex, text_traces

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."


def written(texts: list[str]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.large_string())}), buffer, compression="zstd")
    return buffer.getvalue()


def test_a_text_that_compression_hides_is_found() -> None:
    words = [
        "~",
        *(f" {word} " for word in SECRET.split() for _ in range(9)),
    ]  # neither first nor last: the footer names those
    content, traces = written([*words, SECRET]), TraceIndex(text_traces(SECRET.encode()))
    assert not traces.found_in(content)

    assert holds_trace(traces, io.BytesIO(content), "a.parquet")
    assert not holds_trace(traces, io.BytesIO(written(words)), "a.parquet")


def test_any_other_file_is_searched_as_it_is() -> None:
    traces = TraceIndex(text_traces(SECRET.encode()))

    assert holds_trace(traces, io.BytesIO(b"\0" * 9_000 + SECRET.encode()), "a.bin")
    assert not holds_trace(traces, io.BytesIO(b""), "a.bin")


def test_of_a_table_that_cannot_be_read_nothing_is_said() -> None:
    broken = written(["one", "two"])[:-20]

    with pytest.raises(Inconsistent, match=r"half\.parquet: unreadable"):
        holds_trace(TraceIndex(text_traces(SECRET.encode())), io.BytesIO(broken), "half.parquet")
