from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from corpus_guard.domain import chunk_id
from corpus_guard.intake.chunking import Chunker

PROSE = "The quick brown fox, it is said, jumps over the lazy dog. Whether it does so willingly is not known!\n\n" * 40
ALPHABET = st.sampled_from(
    [*"ab.,;-ü日本 \n\n\n\t\r", "\u2028", "\x1c", "\ufffd", "word ", "antidisestablishmentarianism", "a" * 300]
)


def covered(text: str, chunker: Chunker) -> None:
    chunks = chunker.cut("d", "v", text)
    position = 0
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert chunk.text == text[chunk.start : chunk.end]
        assert not text[position : chunk.start].strip()
        assert chunk.start >= position
        assert chunk.text.strip()
        position = chunk.end
    assert not text[position:].strip()


@given(st.lists(ALPHABET, max_size=400).map("".join))
@settings(max_examples=100)
def test_chunks_cover_the_text_in_order_and_keep_the_limit(chunker: Chunker, tokenizer_file: Path, text: str) -> None:
    covered(text, chunker)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for chunk in chunker.cut("d", "v", text):
        assert chunk.tokens == len(tokenizer.encode(chunk.text, add_special_tokens=False).ids) <= 64
        assert len(chunk.text) <= 16 * 64


@pytest.mark.parametrize("text", ["", " \n\t ", "x", PROSE, "\n".join("| a | b |" for _ in range(900))])
def test_ordinary_texts(chunker: Chunker, text: str) -> None:
    covered(text, chunker)


def test_chunks_are_about_as_long_as_they_may_be(chunker: Chunker) -> None:
    chunks = chunker.cut("d", "v", PROSE)
    assert sum(chunk.tokens for chunk in chunks) / len(chunks) > 32


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "日本語。" * 100_000,
        "".join("\n" * run + "a" for run in range(1, 1_000)),  # a length of white space for each level of recursion
        "a\n" * 200_000,
        "-" * 100_000,
        "A1b2/" * 100_000,
    ],
    ids=["one character", "no spaces", "every spacing", "short lines", "dashes", "base64"],
)
def test_hostile_texts_take_seconds_at_most(chunker: Chunker, text: str) -> None:
    started = time.process_time()
    chunks = chunker.cut("d", "v", text)
    assert time.process_time() - started < 10
    assert max(len(chunk.text) for chunk in chunks) <= 16 * 64
    assert sum(len(chunk.text) for chunk in chunks) >= len("".join(text.split()))


def test_a_tokenizer_that_joins_words_is_counted_as_a_whole(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Split(" ", "isolated")  # a space is a token: a text has more of them than its words
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    chunker = Chunker(file, 32)
    text = "some words here " * 300
    covered(text, chunker)
    assert all(16 <= chunk.tokens <= 32 for chunk in chunker.cut("d", "v", text)[:-1])


def test_long_texts_are_not_cut_inside_words(chunker: Chunker) -> None:
    text = "abcdefghij " * 10_000
    chunks = chunker.cut("d", "v", text)
    assert len(chunks) > 100
    assert all(set(chunk.text.split()) == {"abcdefghij"} for chunk in chunks)


def test_ids_depend_on_everything_that_cut_the_text(chunker: Chunker, tokenizer_file: Path) -> None:
    (chunk,) = chunker.cut("d", "v", "hello world")
    assert chunk.chunk_id == chunk_id("d", "v", 0, "hello world", chunker.digest)
    assert Chunker(tokenizer_file, 65).digest != chunker.digest == Chunker(tokenizer_file, 64).digest
    assert chunker.cut("e", "v", "hello world")[0].chunk_id != chunk.chunk_id
