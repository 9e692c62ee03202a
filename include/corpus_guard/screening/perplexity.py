"""Text that no person wrote: passages optimised word by word to be retrieved (HotFlip), and noise.

Two steps, because a language model may not see every chunk (1M chunks take 13 h on two cores):

1. *rarity*, for every chunk: the vocabulary of the embedder is ordered roughly by frequency, so the mean of log2(token id) over
   20 tokens says how rare the words are. On development data a limit of 12.6 bits leaves open 99 % of HotFlip texts and 2 to
   5 % of documentation and encyclopaedia text. (Text in a language the vocabulary was not made for is open as a rule.)
2. *surprise*, for what that leaves open: the language model's mean negative log-likelihood over 24 tokens, the worst window of the
   chunk. HotFlip prefixes lie above 8.4 nats a token, clean English that step 1 opened below 6.8. Prose in a language the model
   knows badly reaches 7.2, evenly: below the limit for gibberish a window must also stand out from its own chunk.

The windows are short so that a run of gibberish inside a good page is seen. Fluent lies are invisible here by design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Chunk, Finding, Severity, Span, Version, digest
from corpus_guard.screening import check, tags
from corpus_guard.screening.survey import Survey

CODE_VERSION = "2"
RARITY_WINDOW = 20  # tokens of the embedder
SURPRISE_WINDOW = 24  # tokens of the language model
PUNCTUATION_BITS = 9.0  # punctuation and digits count as common words, so that code and tables stay closed


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
    """Chunks at or below it are not shown to the language model."""
    suspect_nats: float = 7.0
    """A window above it that stands out is a finding of medium severity."""
    contrast_nats: float = 3.0
    """How far above the median window of its chunk a suspect one must lie."""
    gibberish_nats: float = 8.0
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
        return f"no window of {RARITY_WINDOW} tokens is rarer than {self._params.rarity_bits} bits"

    def run(self, batch: Sequence[Version], survey: Survey | None) -> check.Hits:
        """Score the open chunks."""
        pairs = [(index, chunk) for index, chunks in enumerate(self._open_chunks(batch)) for chunk in chunks]
        if not pairs:
            return
        for (index, chunk), nats in zip(pairs, self._model().surprise([chunk.text for _, chunk in pairs]), strict=True):
            windows = _means(nats, SURPRISE_WINDOW)
            if not len(windows):
                continue
            worst = float(windows.max())
            stands_out = worst - float(np.median(windows)) >= self._params.contrast_nats
            if worst > self._params.gibberish_nats or (worst > self._params.suspect_nats and stands_out):
                yield index, self._finding(chunk, worst)

    def _open_chunks(self, batch: Sequence[Version]) -> list[list[Chunk]]:
        flat = [chunk for version in batch for chunk in version.chunks]
        rarities = iter(self._rarity.bits([chunk.text for chunk in flat]))
        return [[chunk for chunk in version.chunks if next(rarities) > self._params.rarity_bits] for version in batch]

    def _finding(self, chunk: Chunk, nats: float) -> Finding:
        gibberish = nats > self._params.gibberish_nats
        return Finding(
            check=self.name,
            code="perplexity.gibberish" if gibberish else "perplexity.unlikely",
            severity=Severity.HIGH if gibberish else Severity.MEDIUM,
            score=min(1.0, 0.6 + 0.1 * (nats - self._params.suspect_nats)),
            message=(
                f"{SURPRISE_WINDOW} tokens in a row are as unlikely as random words ({nats:.1f} nats a token; prose lies below 6). "
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

    def bits(self, texts: Sequence[str]) -> list[float]:
        """For each text the rarest window's mean log2(token id); -inf for texts shorter than a window."""
        if self._tokenizer is None:
            self._load()
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [
            float(_means(self._bits[one.ids], RARITY_WINDOW).max()) if len(one.ids) >= RARITY_WINDOW else -np.inf
            for one in encoded
        ]

    def _load(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(self._vocabulary))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        words = self._tokenizer.get_vocab()
        self._bits = np.log2(np.arange(len(words), dtype=np.float64) + 1)
        common = [number for word, number in words.items() if len(word) == 1 and not word.isalpha()]
        self._bits[common] = PUNCTUATION_BITS


def _means(values: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Means over every `width` values in a row; one mean of a shorter array, none of less than half a window."""
    if len(values) < width:
        # Fewer than half a window is too little to tell a headline from noise.
        return np.array([values.mean()] if len(values) >= width // 2 else [], np.float64)
    sums = np.cumsum(np.concatenate(([0.0], values.astype(np.float64))))
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means
