"""Rarity of the words of a text: from the place of its tokens in a vocabulary that is ordered by frequency.

Rare *passages* are what a language model reads first. *Bare* ones are read without what stands between the words that an optimiser chose:
signs and figures, as in a list, a path or addresses, or words that are frequent or repeated. The embedder hardly heeds either. Such words
must be *strange*: rare, and strangers to each other. People write such lists, too, so passages in which half the words are known as parts
of paths, identifiers and addresses are left out (``learned/technical_words.txt``, which `corpus_guard.detectors.technical_words` counts).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from corpus_guard.screening.checks.word_cohesion import WordCohesion
from corpus_guard.screening.learned_scores import PARAMETERS_FOLDER

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

RARITY_WINDOW: Final = 20  # tokens
SHORT_WINDOW: Final = 12
PUNCTUATION_BITS: Final = 9.0  # punctuation and digits count as common words, so that code and tables stay closed
FOREIGN_BITS: Final = 14.0
"""Letters of another script: in the vocabulary they stand before its words, in no order of frequency."""
# Another language, by shares of a chunk's tokens: above the first, below the second, above the third. Words
# drawn at random have as few common words and as many fragments, but repeat none: five HotFlip prefixes one
# after the other have 0.04 of the third.
FOREIGN_FRAGMENTS, FOREIGN_COMMON, FOREIGN_REPEATED = 0.2, 0.06, 0.1
BARE_FOREIGN_REPEATED: Final = 0.06
"""The third without words that occur `REPEATED` times, signs and figures; five disguised prefixes one after the other have 0.03."""
COMMON_WORDS: Final = (
    "the of and in to a is was for as on with by that it at from an be or are which this were also he his her she its not have has "
    "had but their they one who been when will can all"
)
TOKENS_BEFORE: Final = 16  # read with a rare window: without words before it prose is unlikely, too
TOKENS_AFTER: Final = 6
MAX_FRAGMENTS: Final = 0.45  # share of a window that may be pieces of words or letters of another script
LEAST_BITS: Final = 11.8  # of windows; whether the words of a less rare one are strangers is not looked at
LEAST_STRANGE: Final = 10.4  # bits; a window up to it is not rare, however rare its words are
COHESION_BITS: Final = 60.0
"""Bits that a mean cosine of 1 between the words of a window would take. Strangers lie near 0, words about one thing at 0.05 and above:
three bits less."""
MAX_KNOWN: Final = 0.5  # share of a bare window that may be parts of technical words
BRIEF: Final = 2  # characters up to which a word is left out of bare passages
FREQUENT: Final = 1_000  # words at the head of the vocabulary, of two letters or more
REPEATED: Final = 4  # occurrences in a text from which a token is a repeated one

TECHNICAL_WORDS_FILE: Final = PARAMETERS_FOLDER / "technical_words.txt"
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
"""A part of a word: `statusCode` has two."""


class Kept(Enum):
    """Words that bare passages are made of."""

    WORDS = "words"
    """All of three letters or more."""
    CONTENT = "content"
    """Words of them that are neither frequent nor repeated."""


class WindowRarity(NamedTuple):
    """Rarity of the rarest windows of a text, and strangeness of the strangest of bare words, in bits; -inf where it has none."""

    long: float
    short: float
    words: float
    """Strangeness of as many tokens as the long one, of `Kept.WORDS` alone."""
    content: float
    """The same of `Kept.CONTENT`."""

    def strangeness(self, kept_words: Kept) -> float:
        """Return that of the kept words."""
        return self.words if kept_words is Kept.WORDS else self.content


class BarePassage(NamedTuple):
    """Words between which other things stand."""

    words: str
    """Without these, in lower case, identifiers in their parts."""
    places: tuple[tuple[int, int], ...]
    """Start and end of the tokens of these words in the text."""

    @property
    def start(self) -> int:
        """Place of the first in the text."""
        return self.places[0][0]

    @property
    def end(self) -> int:
        """End of the last in the text."""
        return self.places[-1][1]


class TokenRarity:
    """Rarity of a text's tokens, from a frequency-ordered vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        """Keep the path of a ``tokenizer.json`` whose vocabulary is ordered by frequency (BERT's are); loads nothing.

        The model's ``model.safetensors`` must lie beside it.
        """
        self._vocabulary = vocabulary
        self._cohesion = WordCohesion(vocabulary.with_name("model.safetensors"))
        self._tokenizer: Tokenizer | None = None
        self._bits: NDArray[np.float64] = np.empty(0)
        self._fragment: NDArray[np.float64] = np.empty(0)  # 1: a piece of a word, or a letter of another script
        self._common: NDArray[np.float64] = np.empty(0)  # 1: one of the commonest words, or how a longer one begins
        self._continues: NDArray[np.float64] = np.empty(0)  # 1: a piece that continues a word
        self._lettered: NDArray[np.bool_] = np.empty(0, np.bool_)  # has letters
        self._brief: NDArray[np.bool_] = np.empty(0, np.bool_)  # has one or two ASCII letters
        self._frequent: NDArray[np.bool_] = np.empty(0, np.bool_)  # one of `FREQUENT`, or how a longer word begins
        self._technical: NDArray[np.bool_] = np.empty(0, np.bool_)  # a word of paths and identifiers

    def bits(self, texts: Sequence[str]) -> list[WindowRarity]:
        """Return for each text the mean log2(token id) of its rarest windows, and the strangeness of its strangest ones."""
        tokenizer = self._tokenizer or self._load()
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._rarest(np.asarray(encoding.ids, np.int64)) for encoding in encodings]

    def plain_bits(self, texts: Sequence[str]) -> list[tuple[float, float]]:
        """Return for each text the mean bits of its rarest long and short window, cohering or not; -inf where it has none."""
        tokenizer = self._tokenizer or self._load()
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._plain_bits(np.asarray(encoding.ids, np.int64)) for encoding in encodings]

    def _plain_bits(self, ids: NDArray[np.int64]) -> tuple[float, float]:
        if self._is_foreign(ids):
            return -math.inf, -math.inf
        long, short = (
            float(self._rarities(ids, width).max(initial=-math.inf)) for width in (RARITY_WINDOW, SHORT_WINDOW)
        )
        return long, short

    def rare_passages(self, texts: Sequence[str], bits: float, short_bits: float) -> list[list[str]]:
        """Return the passages of each text around its long and short windows that are rarer than these limits."""
        tokenizer = self._tokenizer or self._load()
        passages = []
        for text, encoding in zip(texts, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
            ids = np.asarray(encoding.ids, np.int64)
            windows = [
                (start, start + width)
                for width, limit in ((RARITY_WINDOW, bits), (SHORT_WINDOW, short_bits))
                for start in np.flatnonzero(self._rarities_of_strange(ids, width) > limit).tolist()
            ]
            edges = _surrounded(windows, len(ids))
            passages.append([text[encoding.offsets[a][0] : encoding.offsets[b - 1][1]] for a, b in edges])
        return passages

    def bare_passages(self, text: str, strangeness: float, kept_words: Kept) -> list[BarePassage]:
        """Return the passages of a text around bare windows above this limit, fewer than half of whose words are technical."""
        tokenizer = self._tokenizer or self._load()
        encoding = tokenizer.encode(text, add_special_tokens=False)
        ids = np.asarray(encoding.ids, np.int64)
        bare = self._bare(ids, kept_words)
        is_strange = self._bare_strangeness(ids[bare]) > strangeness
        if not is_strange.any():
            return []
        owner = np.asarray(encoding.word_ids, np.int64)[bare]
        words = _words(text, encoding, bare.tolist())
        is_technical = np.array([technical_words().issuperset(words[number]) for number in owner.tolist()], np.float64)
        starts = np.flatnonzero(is_strange & (window_means(is_technical, RARITY_WINDOW) < MAX_KNOWN)).tolist()
        return [
            BarePassage(
                " ".join(" ".join(words[number]) for number in dict.fromkeys(owner[a:b].tolist())),
                tuple(encoding.offsets[place] for place in bare[a:b].tolist()),
            )
            for a, b in _surrounded([(start, start + RARITY_WINDOW) for start in starts], len(bare))
        ]

    def _bare(self, ids: NDArray[np.int64], kept_words: Kept) -> NDArray[np.int64]:
        """Return the places of the tokens that are kept."""
        continues = self._continues[ids] > 0
        whole = ~continues & ~np.append(continues[1:], False)
        bare = self._lettered[ids] & ~(self._brief[ids] & whole)
        if kept_words is Kept.CONTENT:
            _, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
            bare &= ~(self._frequent[ids] & whole) & (counts[numbers] < REPEATED)
        return np.flatnonzero(bare)

    def _rarest(self, ids: NDArray[np.int64]) -> WindowRarity:
        long = short = words = content = -math.inf
        if not self._is_foreign(ids):
            long, short = (self._rarest_window(ids, width) for width in (RARITY_WINDOW, SHORT_WINDOW))
        # What stands between words, and the words that all addresses have, recurs in every language.
        lettered = ids[self._lettered[ids] & ~self._technical[ids]]
        if not self._is_foreign(self._without_repeated_words(lettered), BARE_FOREIGN_REPEATED):
            words, content = (
                float(self._bare_strangeness(ids[self._bare(ids, kept_words)]).max(initial=-math.inf))
                for kept_words in Kept
            )
        return WindowRarity(long, short, words, content)

    def _rarest_window(self, ids: NDArray[np.int64], width: int) -> float:
        """Return the bits of the rarest window that is not mostly fragments, nor of words that cohere."""
        return float(self._rarities_of_strange(ids, width).max(initial=-math.inf))

    def _rarities_of_strange(self, ids: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Return the mean bits of each window; -inf for one that is mostly fragments, or rare with words that cohere."""
        bits = self._rarities(ids, width)
        # Pieces of words lie near each other whatever the words are about: misspelt ones would cohere.
        strangeness = self._strangeness(ids, bits, width, self._fragment[ids] > 0)
        return np.where((bits > LEAST_BITS) & (strangeness <= LEAST_STRANGE), -np.inf, bits)

    def _bare_strangeness(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the strangeness of each long window of tokens that are kept."""
        return self._strangeness(ids, self._rarities(ids, RARITY_WINDOW), RARITY_WINDOW)

    def _rarities(self, ids: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Return the mean bits of each window; -inf for one that is mostly fragments."""
        if len(ids) < width:
            return np.empty(0)
        fragments = window_means(self._fragment[ids], width)
        return np.where(fragments <= MAX_FRAGMENTS, window_means(self._bits[ids], width), -np.inf)

    def _strangeness(
        self, ids: NDArray[np.int64], bits: NDArray[np.float64], width: int, strangers: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return these bits of each window less what its cohesion takes; -inf for one that is common or mostly fragments."""
        rare = np.flatnonzero(bits > LEAST_BITS)
        strangeness = np.full(len(bits), -np.inf)
        if len(rare):
            around = slice(rare[0], rare[-1] + width)
            cohesion = self._cohesion.of_windows(ids[around], width, None if strangers is None else strangers[around])
            strangeness[rare] = bits[rare] - COHESION_BITS * cohesion[rare - rare[0]]
        return strangeness

    def _is_foreign(self, ids: NDArray[np.int64], repeated: float = FOREIGN_REPEATED) -> bool:
        """Return whether a text is in another language than English, of whose tokens more than that share recur."""
        if not len(ids):
            return False
        # The "he" that "Heimicke" begins with is no word.
        common = self._common[ids] * np.append(1.0 - self._continues[ids[1:]], 1.0)
        return bool(
            self._fragment[ids].mean() > FOREIGN_FRAGMENTS
            and common.mean() < FOREIGN_COMMON
            and _repeated(ids) > repeated
        )

    def _without_repeated_words(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tokens of the words that occur fewer than `REPEATED` times: a word set between all others makes no language."""
        words = [tuple(word.tolist()) for word in np.split(ids, np.flatnonzero(self._continues[ids] == 0))]
        counts = Counter(words)
        return np.array([number for word in words if counts[word] < REPEATED for number in word], np.int64)

    def _load(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer: Tokenizer = Tokenizer.from_file(str(self._vocabulary))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        words = tokenizer.get_vocab()
        self._bits = np.log2(np.arange(len(words), dtype=np.float64) + 1)
        common = [number for word, number in words.items() if len(word) == 1 and not word.isalpha()]
        self._bits[common] = PUNCTUATION_BITS
        letters = [number for word, number in words.items() if len(word) == 1 and word.isalpha() and not word.isascii()]
        self._bits[letters] = FOREIGN_BITS
        self._fragment = np.zeros(len(words))
        pieces = [number for word, number in words.items() if word.startswith("##") or not word.isascii()]
        self._fragment[pieces] = 1.0
        self._continues = np.zeros(len(words))
        self._continues[[number for word, number in words.items() if word.startswith("##")]] = 1.0
        self._lettered, self._brief = np.zeros(len(words), np.bool_), np.zeros(len(words), np.bool_)
        for word, number in words.items():
            self._lettered[number] = any(map(str.isalpha, word))
            self._brief[number] = len(word) <= BRIEF and word.isascii()
        plain = sorted(number for word, number in words.items() if len(word) > 1 and word.isascii() and word.isalpha())
        self._frequent = np.zeros(len(words), np.bool_)
        self._frequent[plain[:FREQUENT]] = True
        self._technical = np.zeros(len(words), np.bool_)
        self._technical[[words[word] for word in technical_words() - set(COMMON_WORDS.split()) if word in words]] = True
        self._common = np.zeros(len(words))
        self._common[[words[word] for word in COMMON_WORDS.split() if word in words]] = 1.0
        self._tokenizer = tokenizer
        return tokenizer


def _words(text: str, encoding: Encoding, places: Sequence[int]) -> dict[int, list[str]]:
    """Return the parts of each word that has tokens at these places, by its number."""
    spans: dict[int, tuple[int, int]] = {}
    numbers = cast("Sequence[int]", encoding.word_ids)  # None stands for special tokens alone
    for place in places:
        number, (start, end) = numbers[place], encoding.offsets[place]
        spans[number] = (spans.get(number, (start, end))[0], end)
    return {number: parts_of_words(text[start:end]) for number, (start, end) in spans.items()}


def _surrounded(windows: Sequence[tuple[int, int]], count: int) -> Iterator[tuple[int, int]]:
    """Yield where passages of windows with the tokens around them begin and end, of so many tokens; those that touch are one."""
    inside = np.zeros(count + 2, np.int8)
    for start, end in windows:
        inside[max(0, start - TOKENS_BEFORE) + 1 : min(count, end + TOKENS_AFTER) + 1] = 1
    for start, end in np.flatnonzero(np.diff(inside)).reshape(-1, 2).tolist():
        yield start, end


@cache
def technical_words() -> frozenset[str]:
    """Return the words of `TECHNICAL_WORDS_FILE`."""
    lines = TECHNICAL_WORDS_FILE.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def parts_of_words(text: str) -> list[str]:
    """Return the parts of the words of a text in lower case, signs, figures and brief ones left out."""
    return [part.lower() for part in _PART.findall(text) if len(part) > BRIEF or not part.isascii()]


def _repeated(ids: NDArray[np.int64]) -> float:
    """Return the share of tokens that occur three times or more."""
    counts = np.unique(ids, return_counts=True)[1]
    return float(counts[counts >= 3].sum() / len(ids))


def window_means(values: NDArray[np.floating], width: int) -> NDArray[np.float64]:
    """Return means over every `width` values in a row.

    A shorter array has one mean, one of less than half a window none.
    """
    if len(values) < width:
        # Fewer than half a window is too little to tell a headline from noise.
        return np.array([values.mean()] if len(values) >= width // 2 else [], np.float64)
    sums = np.cumsum(np.concatenate(([0.0], values.astype(np.float64))))
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means
