"""Text to chunks: pieces with a limited number of tokens, split where the text breaks, with exact offsets.

Guarantees:

- ``text[chunk.start:chunk.end] == chunk.text``; chunks are in order and do not overlap; every character that
  is not white space is in one of them.
- No chunk has more tokens than the limit, nor more than 16 characters a token: a megabyte of base64 does not
  become one chunk because the tokenizer takes it for one unknown word.
- Time is linear in the text. semchunk recurses once for each length of white space it meets, so it gets
  blocks of at most 20,000 characters, in which hostile spacing stays harmless.

semchunk (Isaacus, MIT) does the splitting. The tokens of a word are counted once and cached, and every chunk
is counted again as a whole before it is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_guard import domain
from corpus_guard.domain import Chunk

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "semchunk-blocks"
VERSION = "1"  # raise it with every change that can move a boundary
_BLOCK_CHARS = 20_000
_RUN_CHARS = 2_000  # longest run without white space that semchunk gets in one piece
_CHARS_PER_TOKEN = 16
_CACHED_WORDS = 200_000
_CACHED_WORD_CHARS = 40  # longer words are rare and would fill the memory


class Chunker:
    """Splitter of texts for one tokenizer and one chunk size.

    Args:
        tokenizer_file: a ``tokenizer.json`` of the `tokenizers` library: the embedder's own.
        chunk_tokens: limit of a chunk's tokens, special tokens not counted.
    """

    def __init__(self, tokenizer_file: Path, chunk_tokens: int) -> None:
        self._file = tokenizer_file
        self._limit = chunk_tokens
        self._words: dict[str, int] = {}

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of everything that decides where a text is split; part of every chunk's id."""
        return domain.digest(
            "chunker/v1", [NAME, VERSION, str(self._limit), domain.sha256_bytes(self._file.read_bytes())]
        )

    def cut(self, doc_id: str, version_id: str, text: str) -> tuple[Chunk, ...]:
        """Return the chunks of `text`, in order; none for text of white space only."""
        pieces = (piece for block in _blocks(text) for piece in self._pieces(text, *block))
        return tuple(
            Chunk(
                chunk_id=domain.chunk_id(doc_id, version_id, ordinal, text[start:end], self.digest),
                ordinal=ordinal,
                start=start,
                end=end,
                text=text[start:end],
                tokens=count,
            )
            for ordinal, (start, end, count) in enumerate(pieces)
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def _pieces(self, text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and tokens of each chunk of a block."""
        block = text[start:end]
        spans = self._semchunk(block, self._sum_words)
        counts = self._count_tokens([block[first:last] for first, last in spans])
        for (first, last), count in zip(spans, counts, strict=True):
            if count <= self._limit:
                yield start + first, start + last, count
            else:  # a tokenizer that joins words: the sum over words was too low
                for inner, outer in self._semchunk(block[first:last], self._count_text):
                    piece = block[first + inner : first + outer]
                    yield start + first + inner, start + first + outer, self._count_tokens([piece])[0]

    def _semchunk(self, block: str, counter: Callable[[str], int]) -> list[tuple[int, int]]:
        import semchunk

        if block.isspace() or not block:
            return []
        _, spans = semchunk.chunk(block, self._limit, counter, memoize=False, offsets=True)
        return list(spans)

    def _sum_words(self, text: str) -> int:
        """Return the sum over cached words; exact for tokenizers that never join words (BERT's)."""
        floor = -(-len(text) // _CHARS_PER_TOKEN)
        if floor > self._limit:
            return floor
        words, total = self._words, 0
        for word in text.split():
            count = words.get(word)
            if count is None:
                count = self._count_tokens([word])[0]
                if len(word) <= _CACHED_WORD_CHARS:
                    if len(words) >= _CACHED_WORDS:
                        words.clear()
                    words[word] = count
            total += count
        return total

    def _count_text(self, text: str) -> int:
        floor = -(-len(text) // _CHARS_PER_TOKEN)
        return floor if floor > self._limit else self._count_tokens([text])[0]

    def _count_tokens(self, texts: list[str]) -> list[int]:
        return [len(encoding) for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans that cover `text`, each at most a block long and ending at a paragraph, line or word if possible."""
    start = 0
    while start < len(text):
        end = min(start + _BLOCK_CHARS, len(text))
        if end < len(text):
            end = _find_break(text, start, end)
        yield from _split_runs(text, start, end)
        start = end


def _find_break(text: str, start: int, end: int) -> int:
    for mark in ("\n\n", "\n", " "):
        position = text.rfind(mark, start + _BLOCK_CHARS // 2, end)
        if position >= 0:
            return position + len(mark)
    return end


def _split_runs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split a block inside runs without white space that are longer than any word or sentence."""
    first = start
    run = start
    for word in text[start:end].split():
        run = text.index(word, run, end)
        while len(word) > _RUN_CHARS:
            run += _RUN_CHARS
            word = word[_RUN_CHARS:]  # noqa: PLW2901 - the rest of the run
            yield first, run
            first = run
        run += len(word)
    if first < end:
        yield first, end
