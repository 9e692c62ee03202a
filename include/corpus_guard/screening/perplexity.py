"""Text that no person wrote: passages optimised word by word to be retrieved (HotFlip), and noise.

Two steps, because a language model may not see every chunk (1M chunks take 13 h on two cores):

1. *rarity*, for every chunk: the vocabulary of the embedder is ordered roughly by frequency, so the mean of log2(token id) over
   a window says how rare the words are. Two windows, because an optimiser may set as few as ten tokens: 20 tokens above 12.6
   bits, or 12 tokens above 12.7. Closed all the same is what the model could not judge: windows made of fragments (names, product
   codes), and chunks in another language (hardly any of the commonest English words, many fragments, and words that recur).
2. *surprise*, for what that leaves open: the language model's mean negative log-likelihood over 24 tokens, the worst window of the
   chunk. Prose in a language the model knows badly reaches 7.2 nats a token, evenly: below the limit for gibberish a window must
   also stand out from its own chunk. A dozen tokens must be stranger still, and stand out more. Addresses are left out: no model
   can foresee the digits of a hash.

On development data step 1 leaves open 99.6 % of HotFlip texts, 95 % of those cut to 10 to 19 tokens, and 2 to 5 % of encyclopaedia text,
retrieved passages, documentation, security pages and tables. Of the open clean chunks none lies above 6.8 nats over 24 tokens;
HotFlip prefixes lie above 7.9.

The windows are short so that a run of gibberish inside a good page is seen. Fluent lies are invisible here by design, and so is
gibberish in a chunk of another language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Chunk, Finding, Severity, Span, Version, digest
from corpus_guard.screening import check, tags
from corpus_guard.screening.survey import Survey

CODE_VERSION = "3"
RARITY_WINDOW = 20  # tokens of the embedder
SHORT_WINDOW = 12  # tokens of either
SURPRISE_WINDOW = 24  # tokens of the language model
PUNCTUATION_BITS = 9.0  # punctuation and digits count as common words, so that code and tables stay closed
FOREIGN_BITS = (
    14.0  # letters of another script: in the vocabulary they stand before its words, in no order of frequency
)
# Another language, by shares of a chunk's tokens: above the first, below the second, above the third. Words drawn at random have as
# few common words and as many fragments, but repeat none: five HotFlip prefixes one after the other have 0.04 of the third.
FOREIGN_FRAGMENTS, FOREIGN_COMMON, FOREIGN_REPEATED = 0.2, 0.06, 0.15
COMMON_WORDS = (
    "the of and in to a is was for as on with by that it at from an be or are which this were also he his her she its not have has "
    "had but their they one who been when will can all"
)
SHORT_EXTRA = 0.5  # nats
MAX_FRAGMENTS = 0.45  # share of a window that may be pieces of words or letters of another script

_ADDRESS = re.compile(r"\w+://[^\s)>]+|(?<=\])\([^\s)]*")


class Scorer(Protocol):
    """What is needed of a language model."""

    @property
    def digest(self) -> str:
        """Identity of the scores."""

    def surprise(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Nats a token."""


class PerplexityParams(check.Params):
    """Limits; the defaults were set on development data, see the module's docstring."""

    rarity_bits: float = 12.6
    """Chunks at or below it are not shown to the language model, unless a short window is rare."""
    short_rarity_bits: float = 12.7
    """The same for the short window."""
    suspect_nats: float = 7.5
    """A window above it that stands out is a finding of medium severity."""
    short_nats: float = 9.0
    """The same for the short window, which must stand out by half a nat more."""
    contrast_nats: float = 3.0
    """How far above the median window of its chunk a suspect one must lie."""
    gibberish_nats: float = 7.8
    """A window above it is a finding of high severity, whatever is around it."""


class Perplexity:
    """Worst window of every chunk that rare words leave open."""

    name: ClassVar[str] = "perplexity"
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = True
    Params: ClassVar[type[PerplexityParams]] = PerplexityParams

    def __init__(
        self, params: PerplexityParams, vocabulary: Path, model_digest: str, model: Callable[[], Scorer]
    ) -> None:
        """Build; loads nothing.

        Args:
            params: limits.
            vocabulary: ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency (BERT's are).
            model_digest: identity of the language model.
            model: loads it, when a chunk is left open.
        """
        self._params = params
        self._rarity = Rarity(vocabulary)
        self._model_digest = model_digest
        self._model = model

    @property
    def digest(self) -> str:
        """Parameters, model, code."""
        return digest("check/v1", [self.name, CODE_VERSION, self._params.model_dump_json(), self._model_digest])

    def applies_to(self, version: Version) -> bool:
        """Anything with text."""
        return bool(version.chunks)

    def wants(self, version: Version, findings: Iterable[Finding]) -> str | None:
        """Only versions in which some chunk's words are rare."""
        if self._open_chunks([version])[0]:
            return None
        return (
            f"no window of {RARITY_WINDOW} tokens is rarer than {self._params.rarity_bits} bits, "
            f"and none of {SHORT_WINDOW} rarer than {self._params.short_rarity_bits}"
        )

    def run(self, batch: Sequence[Version], survey: Survey | None) -> check.Hits:
        """Score the open chunks."""
        pairs = [(index, chunk) for index, chunks in enumerate(self._open_chunks(batch)) for chunk in chunks]
        if not pairs:
            return
        texts = [_ADDRESS.sub(" ", chunk.text) for _, chunk in pairs]
        for (index, chunk), nats in zip(pairs, self._model().surprise(texts), strict=True):
            worst, contrast = _worst(nats, SURPRISE_WINDOW)
            short, short_contrast = _worst(nats, SHORT_WINDOW)
            suspect = worst > self._params.suspect_nats and contrast >= self._params.contrast_nats
            burst = short > self._params.short_nats and short_contrast >= self._params.contrast_nats + SHORT_EXTRA
            if worst > self._params.gibberish_nats or suspect or burst:
                yield (
                    index,
                    self._finding(
                        chunk, max(worst, short) if burst else worst, gibberish=worst > self._params.gibberish_nats
                    ),
                )

    def _open_chunks(self, batch: Sequence[Version]) -> list[list[Chunk]]:
        flat = [chunk for version in batch for chunk in version.chunks]
        rarities = iter(self._rarity.bits([chunk.text for chunk in flat]))
        return [[chunk for chunk in version.chunks if self._is_open(*next(rarities))] for version in batch]

    def _is_open(self, bits: float, short_bits: float) -> bool:
        return bits > self._params.rarity_bits or short_bits > self._params.short_rarity_bits

    def _finding(self, chunk: Chunk, nats: float, *, gibberish: bool) -> Finding:
        return Finding(
            check=self.name,
            code="perplexity.gibberish" if gibberish else "perplexity.unlikely",
            severity=Severity.HIGH if gibberish else Severity.MEDIUM,
            score=min(1.0, 0.6 + 0.1 * (nats - self._params.suspect_nats)),
            message=(
                f"{SHORT_WINDOW} to {SURPRISE_WINDOW} tokens in a row are as unlikely as random words "
                f"({nats:.1f} nats a token; prose lies below 6). "
                "Texts optimised to be retrieved look like this"
            ),
            span=Span(chunk.start, chunk.end),
            tags=tags.tags(("retrieval_content", "poisoning")),
        )


class Rarity:
    """How rare a text's words are, from a frequency-ordered vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        self._vocabulary = vocabulary
        self._tokenizer: Any = None
        self._bits: NDArray[np.float64] = np.empty(0)
        self._fragment: NDArray[np.float64] = np.empty(0)  # 1: a piece of a word, or a letter of another script
        self._common: NDArray[np.float64] = np.empty(0)  # 1: one of the commonest words

    def bits(self, texts: Sequence[str]) -> list[tuple[float, float]]:
        """For each text the rarest window's mean log2(token id), long and short; -inf for texts shorter than a window."""
        if self._tokenizer is None:
            self._load()
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._rarest(np.asarray(one.ids, np.int64)) for one in encoded]

    def _rarest(self, ids: NDArray[np.int64]) -> tuple[float, float]:
        if len(ids) < SHORT_WINDOW:
            return -np.inf, -np.inf
        bits, fragment = self._bits[ids], self._fragment[ids]
        foreign = fragment.mean() > FOREIGN_FRAGMENTS and self._common[ids].mean() < FOREIGN_COMMON
        if foreign and _repeated(ids) > FOREIGN_REPEATED:
            return -np.inf, -np.inf
        return _rarest(bits, fragment, RARITY_WINDOW), _rarest(bits, fragment, SHORT_WINDOW)

    def _load(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(self._vocabulary))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        words = self._tokenizer.get_vocab()
        self._bits = np.log2(np.arange(len(words), dtype=np.float64) + 1)
        common = [number for word, number in words.items() if len(word) == 1 and not word.isalpha()]
        self._bits[common] = PUNCTUATION_BITS
        letters = [number for word, number in words.items() if len(word) == 1 and word.isalpha() and not word.isascii()]
        self._bits[letters] = FOREIGN_BITS
        self._fragment = np.zeros(len(words))
        pieces = [number for word, number in words.items() if word.startswith("##") or not word.isascii()]
        self._fragment[pieces] = 1.0
        self._common = np.zeros(len(words))
        self._common[[words[word] for word in COMMON_WORDS.split() if word in words]] = 1.0


def _repeated(ids: NDArray[np.int64]) -> float:
    """Share of tokens that occur three times or more."""
    counts = np.unique(ids, return_counts=True)[1]
    return float(counts[counts >= 3].sum() / len(ids))


def _rarest(bits: NDArray[np.float64], fragment: NDArray[np.float64], width: int) -> float:
    """The highest mean of a window that is no heap of fragments."""
    if len(bits) < width:
        return -np.inf
    means = _means(bits, width)[_means(fragment, width) <= MAX_FRAGMENTS]
    return float(means.max()) if len(means) else -np.inf


def _worst(nats: NDArray[np.float32], width: int) -> tuple[float, float]:
    """The highest mean over `width` tokens, and how far it lies above the median one; zeros for too few tokens."""
    windows = _means(nats, width)
    if not len(windows):
        return 0.0, 0.0
    worst = float(windows.max())
    return worst, worst - float(np.median(windows))


def _means(values: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Means over every `width` values in a row; one mean of a shorter array, none of less than half a window."""
    if len(values) < width:
        # Fewer than half a window is too little to tell a headline from noise.
        return np.array([values.mean()] if len(values) >= width // 2 else [], np.float64)
    sums = np.cumsum(np.concatenate(([0.0], values.astype(np.float64))))
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means
