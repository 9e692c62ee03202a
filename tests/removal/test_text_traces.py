"""Traces find what they were taken from, wherever it lies, and nothing else."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.removal.text_traces import (
    BLOCK_BYTES,
    MAX_WINDOWS,
    MIN_DISTINCT_BYTES,
    TRACES_PER_TEXT,
    WINDOW_BYTES,
    TraceIndex,
    spread_traces,
    text_traces,
)

RANDOM = np.random.default_rng(3)
TEXT = b"The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."


@given(
    before=st.binary(max_size=80), content=st.binary(min_size=WINDOW_BYTES, max_size=300), after=st.binary(max_size=80)
)
def test_every_trace_is_found_where_its_content_lies(before: bytes, content: bytes, after: bytes) -> None:
    traces = text_traces(content)

    assert TraceIndex(traces).found_in(before + content + after) == set(traces)
    assert all(
        len(set(content[place : place + WINDOW_BYTES])) < MIN_DISTINCT_BYTES for place in ([0] if not traces else [])
    )


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 255))
def test_a_changed_byte_leaves_the_windows_it_does_not_touch(place: int, change: int) -> None:
    traces = text_traces(TEXT)
    changed = bytearray(TEXT)
    changed[place] ^= change

    found = TraceIndex(traces).found_in(bytes(changed))

    assert 0 < len(found) < len(traces)


def test_a_window_that_lies_across_two_blocks_is_found_in_bytes_and_in_a_stream() -> None:
    noise = RANDOM.bytes(3 * BLOCK_BYTES)
    window = noise[BLOCK_BYTES - WINDOW_BYTES // 2 :][:WINDOW_BYTES]
    traces = TraceIndex(text_traces(window))

    assert len(traces) == 1
    assert len(traces.found_in(noise)) == 1
    assert len(traces.found_in_stream(io.BytesIO(noise))) == 1
    assert not traces.found_in_stream(io.BytesIO(noise[: BLOCK_BYTES + 1]))


def test_many_are_looked_for_at_once_and_strangers_are_not_found() -> None:
    mine = [RANDOM.bytes(200) for _ in range(500)]
    traces = TraceIndex(trace for content in mine for trace in spread_traces(text_traces(content)))

    assert len(traces) == 500 * TRACES_PER_TEXT
    assert len(traces.found_in(RANDOM.bytes(1_000) + mine[321] + RANDOM.bytes(1_000))) == TRACES_PER_TEXT
    assert not traces.found_in(RANDOM.bytes(1_000_000))
    assert not TraceIndex(()).found_in(mine[0])


def test_what_is_short_or_plain_leaves_none() -> None:
    assert text_traces(TEXT[: WINDOW_BYTES - 1]) == []
    assert text_traces(b" " * 500) == []
    assert text_traces(b"-=" * 500) == []
    assert len(text_traces(TEXT * 50)) == MAX_WINDOWS
    assert all(sha not in TEXT.decode() for _, sha in text_traces(TEXT))
