"""Text that no person wrote: passages optimised word by word to be retrieved (HotFlip), and noise.

Three steps, because a language model may not see every chunk (1M chunks take 13 h on two cores):

1. *rarity*, for every chunk: the vocabulary of the embedder is ordered roughly by frequency, so the mean of
   log2(token id) over a window says how rare the words are. Two windows, because an optimiser may set as few
   as ten tokens: 20 tokens above 12.6 bits, or 12 tokens above 12.7. Chunks that the model could not judge
   stay closed: windows made of fragments (names, product codes), and chunks in another language (hardly any
   of the commonest English words, many fragments, and words that recur).
2. *rare passages* of the chunks that stay open: the language model reads the rare windows alone, with 16 tokens
   before and 6 after, and without addresses, names and figures. The chunk stays open if one of them is unlikely or nearly so (half
   a nat below the limits of step 3), or if they are most of it. A chunk that is rare only by its names and figures has none.
   Both steps together read a half to a quarter of the tokens of open chunks. What is unlikely elsewhere in a chunk is not seen.
3. *surprise*, for the chunks that are still open: the language model's mean negative log-likelihood over 24
   tokens, the worst window of the chunk. Prose in a language the model knows badly reaches 7.2 nats a token,
   evenly: below the limit for gibberish a window must also stand out from its own chunk. A dozen tokens must
   be stranger still, and stand out more. Addresses, names, figures, options of commands and the first and last line of a
   changelog's entry are left out: no model can foresee the digits of a hash. What is unlikely then is read once more
   among them, without counting them, and what still is a third time after the text before it in its document: a list of
   changes is torn apart without its names, and its jargon stood there
   before. A list of random words stays as unlikely. Words in capitals, and many different ones in brackets, are
   read as plain words: the embedder knows neither sign.

On development data step 1 leaves open 99.6 % of HotFlip texts, 95 % of those cut to 10 to 19 tokens, and 2 to
5 % of encyclopaedia text, retrieved passages, documentation, security pages and tables. Of the open clean
chunks none lies above 6.8 nats over 24 tokens; HotFlip prefixes lie above 7.9.

The windows are short so that a run of gibberish inside a good page is seen. Fluent lies are invisible here by
design, and so is gibberish in a chunk of another language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Chunk, Finding, Severity, Span, Version
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.survey.survey import Survey

if TYPE_CHECKING:
    from tokenizers import Tokenizer

RARITY_WINDOW: Final = 20  # tokens of the embedder
SHORT_WINDOW: Final = 12  # tokens of either
SURPRISE_WINDOW: Final = 24  # tokens of the language model
PUNCTUATION_BITS: Final = 9.0  # punctuation and digits count as common words, so that code and tables stay closed
FOREIGN_BITS: Final = 14.0
"""Letters of another script: in the vocabulary they stand before its words, in no order of frequency."""
# Another language, by shares of a chunk's tokens: above the first, below the second, above the third. Words
# drawn at random have as few common words and as many fragments, but repeat none: five HotFlip prefixes one
# after the other have 0.04 of the third.
FOREIGN_FRAGMENTS, FOREIGN_COMMON, FOREIGN_REPEATED = 0.2, 0.06, 0.1
COMMON_WORDS: Final = (
    "the of and in to a is was for as on with by that it at from an be or are which this were also he his her she its not have has "
    "had but their they one who been when will can all"
)
SHORT_EXTRA: Final = 0.5  # nats
TOKENS_BEFORE: Final = 16  # of the embedder, read with a rare window: without words before it prose is unlikely, too
TOKENS_AFTER: Final = 6
MOST: Final = 0.6  # share of a chunk's text; then reading its rare passages first would save nothing
NEARLY: Final = 0.5  # nats below a limit: a passage by itself differs that much from the same words in their chunk
MAX_FRAGMENTS: Final = 0.45  # share of a window that may be pieces of words or letters of another script

MAX_SHAPE_CHARS: Final = 60
"""Characters of names, numbers and signs in a row, in one line, that are left out."""
MAX_NAMES: Final = 10
"""Different words of persons in brackets, in one chunk, up to which they are left out."""
MAX_SHAPES: Final = 0.7
"""Share of a chunk that may be left out."""
MAX_CHARS_BEFORE: Final = 700
"""Characters that are read before a suspect chunk: with it they fit into what the model reads at once."""

_FIXED: Final = re.compile(
    r"\w+://[^\s)>]+|(?<=\])\([^\s)]*"  # addresses
    # The lines between which a Debian changelog says what changed.
    r"|\b[\w.+-]{1,40} \([\w.:+~-]{1,40}\) [\w -]{1,40}; urgency=\w{1,20}"
    r"| -- [^<\n]{1,60} <[^>\s]{1,80}> {1,2}\w{3}, \d{1,2} \w{3} \d{4} [\d:]{8} [+-]\d{4}"
)
_PERSON: Final = r"[\[(] ?[A-Z][\w.'’-]*(?: [\w.'’-]+){0,3} ?[\])]"
"""A person in brackets."""
_PERSONS: Final = re.compile(_PERSON)
_SHOUTED: Final = re.compile(r"\b[A-Z]{3,}\b(?:[ \t\r\n,]+[A-Z]{2,}\b){3,}")
_SHAPE: Final = (
    rf"{_PERSON}"
    r"|\[ ?-{1,2}\w[^\]\n]{0,40}\]"  # an option that may be left out
    r"|<?[\w.+-]+(?:@| at )[\w-]+(?:\.[\w-]+)+>?"  # mail
    r"|\b[0-9a-f]{7,}\b"
    r"|[\w-]*[./_:\\#()][\w./_:\\#()-]*\w[\w./_:\\#()-]*"  # paths, files, identifiers with signs
    r"|\b\w*[a-z][A-Z]\w*|\b[A-Z]{2,}[a-z]\w*|\b[A-Z]{3,}\b|\b\w*[A-Za-z]\d\w*|\b\d[\w.,:-]*"
    r"|[^\w\s.,;:!?'\"()-]+"
)
_SHAPES: Final = re.compile(rf"(?:{_SHAPE})(?:[ \t]*(?:{_SHAPE}))*")


class SurpriseModel(Protocol):
    """A language model that scores tokens."""

    @property
    def digest(self) -> str:
        """Return the identity of the scores."""

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the surprise of each token of each text but the first, in nats."""

    def token_places(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return start and end of each of these tokens in its text."""


class PerplexityParams(Params):
    """The section ``perplexity`` of policy.yaml; see the module's docstring for the defaults."""

    rarity_bits: float = 12.6
    """Chunks whose rarest window is at or below it are not shown to the language model, unless a short window
    is rare."""
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


class Perplexity(ConfiguredCheck[PerplexityParams]):
    """Worst window of every chunk that rare words leave open."""

    name = "perplexity"
    second_stage = True
    params_class = PerplexityParams
    code_version = ("perplexity", "10")

    def __init__(
        self, params: PerplexityParams, vocabulary: Path, model_digest: str, model: Callable[[], SurpriseModel]
    ) -> None:
        """Keep the parameters; loads nothing.

        Args:
            params: limits.
            vocabulary: ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency
                (BERT's are).
            model_digest: identity of the language model.
            model: loads the model, when a chunk stays open.
        """
        super().__init__(params)
        self._rarity = TokenRarity(vocabulary)
        self._model_digest = model_digest
        self._model = model

    def resources(self) -> Sequence[str]:
        """Return the digest of the language model."""
        return (self._model_digest,)

    def applies_to(self, version: Version) -> bool:
        """Return True for every version with chunks."""
        return bool(version.chunks)

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None = None) -> str | None:
        """Return None for a version with rare words in some chunk, otherwise the reason to pass it over."""
        if self._open_chunks([version])[0]:
            return None
        return (
            f"no window of {RARITY_WINDOW} tokens is rarer than {self.params.rarity_bits} bits, "
            f"and none of {SHORT_WINDOW} rarer than {self.params.short_rarity_bits}"
        )

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Score the open chunks."""
        opened = enumerate(self._open_chunks(batch))
        read = [(index, chunk, _without_shapes(chunk.text)) for index, chunks in opened for chunk in chunks]
        read = self._with_unlikely_passages(read)
        if not read:
            return
        scores = self._model().surprisals([text for _, _, text in read])
        suspects = [
            _Suspect(index, chunk, text, worst)
            for (index, chunk, text), nats in zip(read, scores, strict=True)
            if (worst := self._judge(nats))
        ]
        for characters_before in (0, MAX_CHARS_BEFORE):
            suspects = self._read_again(batch, suspects, characters_before)
        for suspect in suspects:
            yield suspect.version, self._describe(suspect.chunk, *suspect.worst)

    def _with_unlikely_passages(self, read: Sequence[tuple[int, Chunk, str]]) -> list[tuple[int, Chunk, str]]:
        """Return those of (version, chunk, text) in whose text a rare passage is unlikely or nearly so, or is most of it."""
        limits = self.params.rarity_bits, self.params.short_rarity_bits
        passages = self._rarity.rare_passages([text for _, _, text in read], *limits)
        kept, alone = set(), []
        for number, ((_, _, text), own) in enumerate(zip(read, passages, strict=True)):
            if sum(map(len, own)) > MOST * len(text):
                kept.add(number)
            else:
                alone += [(number, passage) for passage in own]
        scores = self._model().surprisals([passage for _, passage in alone]) if alone else []
        kept |= {number for (number, _), nats in zip(alone, scores, strict=True) if self._is_nearly_unlikely(nats)}
        return [read[number] for number in sorted(kept)]

    def _is_nearly_unlikely(self, nats: NDArray[np.float32]) -> bool:
        limit = min(self.params.suspect_nats, self.params.gibberish_nats)
        return (
            _worst(nats, SURPRISE_WINDOW)[0] > limit - NEARLY
            or _worst(nats, SHORT_WINDOW)[0] > self.params.short_nats - NEARLY
        )

    def _read_again(
        self, batch: Sequence[Version], suspects: Sequence[_Suspect], characters_before: int
    ) -> list[_Suspect]:
        """Return the suspects that are as unlikely with their names and figures, after so many characters before them."""
        surrounded = [_after(batch[suspect.version].text, suspect.chunk, characters_before) for suspect in suspects]
        others = [number for number, (text, _) in enumerate(surrounded) if text != suspects[number].text]
        if not others:
            return list(suspects)
        texts = [surrounded[number][0] for number in others]
        unlikely = dict(enumerate(suspects))
        scores = zip(others, self._model().surprisals(texts), self._model().token_places(texts), strict=True)
        for number, nats, places in scores:
            text, start = surrounded[number]
            if not len(places) or places[-1, 1] < len(text):
                continue  # not read to its end
            worst = self._judge(nats[_outside_shapes(text, places) & (places[:, 1] > start)])
            if worst:
                unlikely[number] = unlikely[number]._replace(text=text, worst=worst)
            else:
                del unlikely[number]
        return list(unlikely.values())

    def _judge(self, nats: NDArray[np.float32]) -> tuple[float, bool] | None:
        """Return the worst nats a token and whether they are gibberish; None for what people write."""
        worst, contrast = _worst(nats, SURPRISE_WINDOW)
        short, short_contrast = _worst(nats, SHORT_WINDOW)
        suspect = worst > self.params.suspect_nats and contrast >= self.params.contrast_nats
        burst = short > self.params.short_nats and short_contrast >= self.params.contrast_nats + SHORT_EXTRA
        gibberish = worst > self.params.gibberish_nats
        if not (gibberish or suspect or burst):
            return None
        return max(worst, short) if burst else worst, gibberish

    def _open_chunks(self, batch: Sequence[Version]) -> list[list[Chunk]]:
        flat = [chunk for version in batch for chunk in version.chunks]
        rarities = iter(self._rarity.bits([chunk.text for chunk in flat]))
        return [[chunk for chunk in version.chunks if self._is_open(*next(rarities))] for version in batch]

    def _is_open(self, bits: float, short_bits: float) -> bool:
        return bits > self.params.rarity_bits or short_bits > self.params.short_rarity_bits

    def _describe(self, chunk: Chunk, nats: float, gibberish: bool) -> Finding:
        return self.finding(
            "gibberish" if gibberish else "unlikely",
            Severity.HIGH if gibberish else Severity.MEDIUM,
            min(1.0, 0.6 + 0.1 * (nats - self.params.suspect_nats)),
            f"{SHORT_WINDOW} to {SURPRISE_WINDOW} tokens in a row are as unlikely as random words "
            f"({nats:.1f} nats a token; prose lies below 6). Texts optimised to be retrieved look like this",
            span=Span(chunk.start, chunk.end),
            tags=("retrieval_content", "poisoning"),
        )


class _Suspect(NamedTuple):
    """A chunk that is unlikely as it was read last."""

    version: int  # its position
    chunk: Chunk
    text: str
    worst: tuple[float, bool]


def _after(text: str, chunk: Chunk, characters: int) -> tuple[str, int]:
    """Return a chunk after the characters before it, the same however its lines are wrapped, and where it begins."""
    before = " ".join(text[max(0, chunk.start - characters) : chunk.start].split())
    own = " ".join(_in_plain_sight(chunk.text).split())
    return (f"{before} {own}", len(before) + 1) if before else (own, 0)


def _without_shapes(text: str) -> str:
    """Return the text without what no model can foresee (see the module's docstring)."""
    text = _in_plain_sight(_FIXED.sub(" ", text))
    words = re.sub(
        r"[ \t]+", " ", _SHAPES.sub(lambda match: match[0] if len(match[0]) > MAX_SHAPE_CHARS else " ", text)
    )
    return words if len(words) >= (1 - MAX_SHAPES) * len(text) else text


def _in_plain_sight(text: str) -> str:
    """Return the text without what makes many words look like names: capitals in a row, brackets around more than `MAX_NAMES`.

    The embedder knows no capitals, and hardly a bracket: gibberish that is written so is retrieved as well. No length changes.
    """
    names = {word for person in _PERSONS.findall(text) for word in re.findall(r"\w+", person.casefold())}
    if len(names) > MAX_NAMES:
        text = _PERSONS.sub(lambda person: f" {person[0][1:-1]} ", text)
    return _SHOUTED.sub(lambda run: run[0].lower(), text)


def _outside_shapes(text: str, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which tokens of a text stand outside what no model can foresee; all where that is nearly all of it."""
    text = _in_plain_sight(text)
    inside = np.zeros(len(text) + 1, bool)
    for match in _FIXED.finditer(text):
        inside[match.start() : match.end()] = True
    for match in _SHAPES.finditer(text):
        if len(match[0]) <= MAX_SHAPE_CHARS:
            inside[match.start() : match.end()] = True
    if inside.mean() > MAX_SHAPES:
        inside[:] = False
    last = np.maximum(places[:, 1] - 1, 0)
    return ~inside[np.minimum(last, len(text))]


class TokenRarity:
    """Rarity of a text's tokens, from a frequency-ordered vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        self._vocabulary = vocabulary
        self._tokenizer: Tokenizer | None = None
        self._bits: NDArray[np.float64] = np.empty(0)
        self._fragment: NDArray[np.float64] = np.empty(0)  # 1: a piece of a word, or a letter of another script
        self._common: NDArray[np.float64] = np.empty(0)  # 1: one of the commonest words, or how a longer one begins
        self._continues: NDArray[np.float64] = np.empty(0)  # 1: a piece that continues a word

    def bits(self, texts: Sequence[str]) -> list[tuple[float, float]]:
        """Return for each text the mean log2(token id) of its rarest long and short window, -inf without one."""
        tokenizer = self._tokenizer or self._load()
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._rarest(np.asarray(encoding.ids, np.int64)) for encoding in encodings]

    def rare_passages(self, texts: Sequence[str], bits: float, short_bits: float) -> list[list[str]]:
        """Return the passages of each text around its long and short windows that are rarer than these limits."""
        tokenizer = self._tokenizer or self._load()
        passages = []
        for text, encoding in zip(texts, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
            ids = np.asarray(encoding.ids, np.int64)
            rare = np.zeros(len(ids) + 1, np.int64)  # 1 where a passage begins, -1 after its end
            for width, limit in ((RARITY_WINDOW, bits), (SHORT_WINDOW, short_bits)):
                for start in np.flatnonzero(_rarities(self._bits[ids], self._fragment[ids], width) > limit).tolist():
                    rare[max(0, start - TOKENS_BEFORE)] += 1
                    rare[min(len(ids), start + width + TOKENS_AFTER)] -= 1
            inside = np.concatenate(([0], np.cumsum(rare) > 0, [0])).astype(np.int8)
            edges = np.flatnonzero(np.diff(inside)).reshape(-1, 2)
            passages.append([text[encoding.offsets[a][0] : encoding.offsets[b - 1][1]] for a, b in edges.tolist()])
        return passages

    def _rarest(self, ids: NDArray[np.int64]) -> tuple[float, float]:
        if len(ids) < SHORT_WINDOW:
            return -np.inf, -np.inf
        bits, fragment = self._bits[ids], self._fragment[ids]
        # The "he" that "Heimicke" begins with is no word.
        common = self._common[ids] * np.append(1.0 - self._continues[ids[1:]], 1.0)
        foreign = fragment.mean() > FOREIGN_FRAGMENTS and common.mean() < FOREIGN_COMMON
        if foreign and _repeated(ids) > FOREIGN_REPEATED:
            return -np.inf, -np.inf
        return _rarest(bits, fragment, RARITY_WINDOW), _rarest(bits, fragment, SHORT_WINDOW)

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
        self._common = np.zeros(len(words))
        self._common[[words[word] for word in COMMON_WORDS.split() if word in words]] = 1.0
        self._tokenizer = tokenizer
        return tokenizer


def _repeated(ids: NDArray[np.int64]) -> float:
    """Return the share of tokens that occur three times or more."""
    counts = np.unique(ids, return_counts=True)[1]
    return float(counts[counts >= 3].sum() / len(ids))


def _rarest(bits: NDArray[np.float64], fragment: NDArray[np.float64], width: int) -> float:
    """Return the highest mean of a window that is not mostly fragments."""
    return float(_rarities(bits, fragment, width).max(initial=-np.inf))


def _rarities(bits: NDArray[np.float64], fragment: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the mean of each window; of those that are mostly fragments -inf."""
    if len(bits) < width:
        return np.empty(0)
    return np.where(_means(fragment, width) <= MAX_FRAGMENTS, _means(bits, width), -np.inf)


def _worst(nats: NDArray[np.float32], width: int) -> tuple[float, float]:
    """Return the highest mean over `width` tokens, and its distance to the median; zeros for too few tokens."""
    windows = _means(nats, width)
    if not len(windows):
        return 0.0, 0.0
    worst = float(windows.max())
    return worst, worst - float(np.median(windows))


def _means(values: NDArray[np.floating], width: int) -> NDArray[np.float64]:
    """Return means over every `width` values in a row.

    A shorter array has one mean, one of less than half a window none.
    """
    if len(values) < width:
        # Fewer than half a window is too little to tell a headline from noise.
        return np.array([values.mean()] if len(values) >= width // 2 else [], np.float64)
    sums = np.cumsum(np.concatenate(([0.0], values.astype(np.float64))))
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means
