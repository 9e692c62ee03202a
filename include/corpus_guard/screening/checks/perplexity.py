"""Text that no person wrote: passages optimised word by word to be retrieved (HotFlip), and noise.

A language model tells such text, but may not see every chunk: a million of them take 13 h on two cores. So cheap tests
come first, and the model reads as little as it can.

Measures of a window of tokens, short enough that a run of gibberish inside a good page is seen
- *Rarity*, in bits: the mean of log2(token id). The vocabulary of the embedder is ordered roughly by frequency.
- *Strangeness*, in bits: the rarity less 60 times the mean cosine of the words with each other, by the embedder's
  vectors of single tokens. What people write is about something, names and terms too; the words of an optimiser are
  strangers to each other.
- *Surprise*, in nats a token: the mean negative log-likelihood by the language model.

Words in a row
1. *Rare windows*, of every chunk. The chunk stays open if 20 tokens lie above 12.6 bits, or 12 tokens above 12.7,
   because an optimiser may set as few as ten, and if they are strange: above 10.4. Chunks that the model could not
   judge are closed: windows made of fragments (names, product codes), and chunks in another language (hardly any of the
   commonest English words, many fragments, and words that recur).
2. *Rare passages*, of open chunks. The model reads the rare windows alone, with 16 tokens before and 6 after. The chunk
   stays open if one of them is unlikely or nearly so (half a nat below the limits of step 3), or if they are most of
   it; one that is rare only by its names and figures has none. What is unlikely elsewhere in a chunk is not seen. With
   this step the model reads a half to a quarter of the tokens of open chunks.
3. *Surprise*, of the chunks that are still open. The worst window of 24 tokens counts, and the worst of 12, which must
   be stranger still. Prose in a language that the model knows badly reaches 7.2 nats, evenly: so below the limit for
   gibberish a window must also stand out from its own chunk, a short one by more.
4. *Second and third reading*, of what is unlikely then. In steps 2 and 3 addresses, names, figures, options of commands
   and the first and last line of a changelog's entry are left out: no model can foresee the digits of a hash. Without
   them a list of changes is torn apart, so it is read once more among them, though they do not count, and then after
   the text before it in its document, where its jargon may stand. A list of random words stays as unlikely. In these
   readings windows of many short lines, such as headlines, may be up to 0.6 nats stranger: nobody can foresee how a
   line begins.

Words in capitals, and many different ones in brackets, are read as plain words: the embedder knows neither sign.

Words with something between them, in the chunks in which nothing was found. The embedder hardly heeds what stands
there, but it makes steps 1 to 3 see an ordinary text.
5. *Bare words*: without signs, figures and words of two letters, as in a list, a path or addresses. A window of 20
   tokens is read by itself if it is strange (above 11.45 bits), and fewer than half its words are known as parts of
   paths and identifiers. Above 8.5 nats it is read as it stands, by itself and then after the text before it; there
   only tokens with letters count. They must lie above 7 nats and stand out from the text around them, or above 8: in
   code and tables the signs say what comes.
6. *Content words*: without the thousand most frequent words, and whatever occurs four times in the chunk. Above 12.35
   bits they are read by themselves, and above 8.8 nats as they stand; there the tokens of these words must lie above
   8.2 nats and stand out, or above 9. Those of honest text lie below: its content words fit each other, too.

On development data step 1 leaves open 99.9 % of HotFlip texts, 88 % of those cut to 10 to 19 tokens, and 2 to 5 % of
encyclopaedia text, retrieved passages, documentation, security pages and tables. Of the open clean chunks none lies
above 6.8 nats over 24 tokens; HotFlip prefixes lie above 7.9.

Fluent lies are invisible here by design, and so are gibberish in a chunk of another language and a question in which
few words were replaced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Chunk, Finding, Severity, Span, Version, sha256_bytes
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.checks.token_rarity import (
    RARITY_WINDOW,
    SHORT_WINDOW,
    TECHNICAL_WORDS_FILE,
    BarePassage,
    Kept,
    TokenRarity,
    WindowRarity,
    window_means,
)
from corpus_guard.screening.survey.survey import Survey

SURPRISE_WINDOW: Final = 24  # tokens of the language model
SHORT_EXTRA: Final = 0.5  # nats
MOST: Final = 0.6  # share of a chunk's text; then reading its rare passages first would save nothing
NEARLY: Final = 0.5  # nats below a limit: a passage by itself differs that much from the same words in their chunk

MAX_SHAPE_CHARS: Final = 60
"""Characters of names, numbers and signs in a row, in one line, that are left out."""
MAX_NAMES: Final = 10
"""Different words of persons in brackets, in one chunk, up to which they are left out."""
MAX_SHAPES: Final = 0.7
"""Share of a chunk that may be left out."""
MAX_CHARS_BEFORE: Final = 700
"""Characters that are read before a suspect chunk: with it they fit into what the model reads at once."""
TOKENS_OF_LINE: Final = 12
"""Tokens of an ordinary line. Headlines, names and tags stand in shorter ones, and the first word of a line can hardly be foreseen."""
LINE_NATS: Final = 4.8
"""Nats that each further line takes off the sum of a window."""
MAX_LINES_NATS: Final = 0.6
"""Most that lines take off the mean of a window. Random words in lines of two or three still lie above the limits."""

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
SHAPES: Final = re.compile(rf"(?:{_SHAPE})(?:[ \t]*(?:{_SHAPE}))*")
"""Names, paths, identifiers, addresses, numbers and signs, one or more in a row."""

_WORDING: Final = {
    Kept.WORDS: ("separated", "signs between them, as in a list or a path,", "signs and figures", "written"),
    Kept.CONTENT: ("diluted", "frequent or repeated ones between them", "those between them", "thinned out"),
}
"""Code and words of a finding: between what the words stand, what does not count, and how texts are disguised."""


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
    """Nats by which a suspect window must exceed the median window of its chunk."""
    gibberish_nats: float = 7.8
    """A window above it is a finding of high severity, whatever is around it."""
    bare_strange_bits: float = 11.45
    """Windows of words alone, without the signs between them, must lie above it to be shown to the language model: bits of rarity less 60
    times the mean cosine of the words with each other."""
    bare_nats: float = 8.5
    """A window of such words above it is read as it stands."""
    separated_nats: float = 7.0
    """As it stands, with the tokens that have letters, a window above it that stands out is a finding of medium severity."""
    separated_contrast_nats: float = 2.5
    """Nats by which it must exceed the mean of the letters around its passage."""
    separated_alone_nats: float = 8.0
    """A window above it is a finding of medium severity, whatever is around it."""
    content_strange_bits: float = 12.35
    """The same for words that are neither frequent nor repeated, without what stands between them."""
    content_nats: float = 8.8
    """A window of such words above it is read as it stands."""
    diluted_nats: float = 8.2
    """As it stands, with the tokens of such words, a window above it that stands out is a finding of medium severity."""
    diluted_contrast_nats: float = 3.5
    """Nats by which it must exceed the mean of the letters around its passage."""
    diluted_alone_nats: float = 9.0
    """A window above it is a finding of medium severity, whatever is around it."""


class Perplexity(ConfiguredCheck[PerplexityParams]):
    """Worst window of every chunk that rare words leave open."""

    name = "perplexity"
    second_stage = True
    params_class = PerplexityParams
    code_version = ("perplexity", "14")

    def __init__(
        self, params: PerplexityParams, vocabulary: Path, model_digest: str, model: Callable[[], SurpriseModel]
    ) -> None:
        """Keep the parameters; loads nothing.

        Args:
            vocabulary: ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency
                (BERT's are), beside the model's ``model.safetensors``.
            model: loads the model, when a chunk stays open.
        """
        super().__init__(params)
        self._rarity = TokenRarity(vocabulary)
        self._model_digest = model_digest
        self._model = model

    def resources(self) -> Sequence[str]:
        """Return the digests of the language model and of the technical words."""
        return (self._model_digest, sha256_bytes(TECHNICAL_WORDS_FILE.read_bytes()))

    def applies_to(self, version: Version) -> bool:
        """Return True for every version with chunks."""
        return bool(version.chunks)

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None = None) -> str | None:
        """Return None for a version with rare words in some chunk, otherwise the reason to pass it over."""
        if any(
            self._is_rare(rarity) or self._has_strangers(chunk, rarity)
            for _, chunk, rarity in self._measured([version])
        ):
            return None
        return (
            f"no window of {RARITY_WINDOW} tokens is rarer than {self.params.rarity_bits} bits, none of {SHORT_WINDOW} rarer than "
            f"{self.params.short_rarity_bits}, none of words alone stranger than {self.params.bare_strange_bits}, and none of content "
            f"words stranger than {self.params.content_strange_bits}"
        )

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Score the open chunks."""
        measured = self._measured(batch)
        suspects = self._suspects(batch, [(index, chunk) for index, chunk, rarity in measured if self._is_rare(rarity)])
        for suspect in suspects:
            yield suspect.version, self._describe(suspect.chunk, *suspect.worst)
        reported = {(suspect.version, suspect.chunk.start) for suspect in suspects}
        for kept_words in Kept:
            opened = [
                (index, chunk)
                for index, chunk, rarity in measured
                if rarity.strangeness(kept_words) > self._limits(kept_words).strange_bits
                and (index, chunk.start) not in reported
            ]
            worst_places = self._worst_places(batch, opened, kept_words)
            for place, worst in worst_places:
                yield place.version, self._describe_place(place, worst, kept_words)
            reported |= {(place.version, place.chunk.start) for place, _ in worst_places}

    def _suspects(self, batch: Sequence[Version], opened: Sequence[tuple[int, Chunk]]) -> list[_Suspect]:
        """Return those of the chunks (version, chunk) in which words in a row are unlikely."""
        read = self._with_unlikely_passages([(index, chunk, _without_shapes(chunk.text)) for index, chunk in opened])
        if not read:
            return []
        scores = self._model().surprisals([text for _, _, text in read])
        suspects = [
            _Suspect(index, chunk, text, worst)
            for (index, chunk, text), nats in zip(read, scores, strict=True)
            if (worst := self._judge(nats))
        ]
        for characters_before in (0, MAX_CHARS_BEFORE):
            suspects = self._read_again(batch, suspects, characters_before)
        return suspects

    def _worst_places(
        self, batch: Sequence[Version], opened: Sequence[tuple[int, Chunk]], kept_words: Kept
    ) -> list[tuple[_Place, float]]:
        """Return where the kept words are unlikely, by themselves and as they stand; the worst place of each chunk, with its nats."""
        limits = self._limits(kept_words)
        passages = [
            (index, chunk, passage) for index, chunk in opened for passage in self._strange_passages(chunk, kept_words)
        ]
        scores = self._model().surprisals([passage.words for _, _, passage in passages]) if passages else []
        unlikely = [
            _Place(batch[index].text, index, chunk, passage)
            for (index, chunk, passage), nats in zip(passages, scores, strict=True)
            if _worst(nats, SURPRISE_WINDOW)[0] > limits.bare_nats
        ]
        by_chunk: dict[tuple[int, int], tuple[_Place, float]] = {}
        for place, worst, contrast in self._read_in_place(unlikely, kept_words):
            if worst > limits.alone_nats or (worst > limits.nats and contrast > limits.contrast_nats):
                key = place.version, place.chunk.start
                by_chunk[key] = max(by_chunk.get(key, (place, worst)), (place, worst), key=itemgetter(1))
        return list(by_chunk.values())

    def _strange_passages(self, chunk: Chunk, kept_words: Kept) -> list[BarePassage]:
        return self._rarity.bare_passages(chunk.text, self._limits(kept_words).strange_bits, kept_words)

    def _limits(self, kept_words: Kept) -> _Limits:
        params = self.params
        if kept_words is Kept.WORDS:
            place = params.separated_nats, params.separated_contrast_nats, params.separated_alone_nats
            return _Limits(params.bare_strange_bits, params.bare_nats, *place)
        place = params.diluted_nats, params.diluted_contrast_nats, params.diluted_alone_nats
        return _Limits(params.content_strange_bits, params.content_nats, *place)

    def _read_in_place(self, places: Sequence[_Place], kept_words: Kept) -> Iterator[tuple[_Place, float, float]]:
        """Yield the places with the worst nats of their words, and how far these lie above the mean of the letters around them.

        They are read as they stand, after the text before them; nearly all of what people write is likely enough without it.
        """
        limit = self._limits(kept_words).nats
        unlikely = [place for place, worst, _ in self._read(places, _Place.alone, kept_words) if worst > limit]
        too_long = []
        for place, worst, contrast in self._read(unlikely, _Place.in_document, kept_words):
            if math.isinf(worst):
                too_long.append(place)
            else:
                yield place, worst, contrast
        yield from self._read(too_long, _Place.in_chunk, kept_words)

    def _read(
        self, places: Sequence[_Place], cut: Callable[[_Place], tuple[str, int]], kept_words: Kept
    ) -> Iterator[tuple[_Place, float, float]]:
        """Yield each place with the worst nats of its words in such a text, and how far they lie above the mean of the letters around them.

        What stands alone stands out from nothing. Both are infinite where the model does not read the passage to its end.
        """
        if not places:
            return
        texts, offsets = zip(*map(cut, places), strict=True)
        scores = self._model().surprisals(texts), self._model().token_places(texts)
        for place, text, offset, nats, tokens in zip(places, texts, offsets, *scores, strict=True):
            start, end = offset + place.passage.start, offset + place.passage.end
            if len(tokens) and tokens[-1, 1] < end:
                yield place, math.inf, math.inf
                continue
            lettered = _lettered(text, tokens)
            first, last = tokens[:, 0], tokens[:, 1]
            inside = lettered & (first >= start) & (last <= end)
            if kept_words is Kept.CONTENT:
                inside &= _overlaps(tokens, [(offset + a, offset + b) for a, b in place.passage.places], len(text))
            worst = _worst(nats[inside], SURPRISE_WINDOW)[0]
            around = nats[lettered & ((last <= start) | (first >= end))]
            yield place, worst, worst - float(around.mean()) if len(around) else 0.0

    def _with_unlikely_passages(self, read: Sequence[tuple[int, Chunk, str]]) -> list[tuple[int, Chunk, str]]:
        """Return those of (version, chunk, text) in whose text a rare passage is unlikely or nearly so, or is most of it."""
        limits = self.params.rarity_bits, self.params.short_rarity_bits
        passages = self._rarity.rare_passages([text for _, _, text in read], *limits)
        chosen, alone = set(), []
        for number, ((_, _, text), own) in enumerate(zip(read, passages, strict=True)):
            if sum(map(len, own)) > MOST * len(text):
                chosen.add(number)
            else:
                alone += [(number, passage) for passage in own]
        scores = self._model().surprisals([passage for _, passage in alone]) if alone else []
        chosen |= {number for (number, _), nats in zip(alone, scores, strict=True) if self._is_nearly_unlikely(nats)}
        return [read[number] for number in sorted(chosen)]

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
            counted = _outside_shapes(text, places) & (places[:, 1] > start)
            lines = _line_numbers(suspects[number].chunk.text, places[:, 1] - start)
            worst = self._judge(nats[counted], lines[counted])
            if worst:
                unlikely[number] = unlikely[number]._replace(text=text, worst=worst)
            else:
                del unlikely[number]
        return list(unlikely.values())

    def _judge(self, nats: NDArray[np.float32], lines: NDArray[np.int64] | None = None) -> tuple[float, bool] | None:
        """Return the worst nats a token and whether they are gibberish; None for what people write.

        Args:
            nats: of each token.
            lines: number of the line in which each stands; None: all stand in one.
        """
        worst, contrast = _worst(nats, SURPRISE_WINDOW, lines)
        short, short_contrast = _worst(nats, SHORT_WINDOW, lines)
        suspect = worst > self.params.suspect_nats and contrast >= self.params.contrast_nats
        burst = short > self.params.short_nats and short_contrast >= self.params.contrast_nats + SHORT_EXTRA
        gibberish = worst > self.params.gibberish_nats
        if not (gibberish or suspect or burst):
            return None
        return max(worst, short) if burst else worst, gibberish

    def _measured(self, batch: Sequence[Version]) -> list[tuple[int, Chunk, WindowRarity]]:
        """Return every chunk of the batch after the position of its version, with its rarity."""
        chunks = [(index, chunk) for index, version in enumerate(batch) for chunk in version.chunks]
        rarities = self._rarity.bits([chunk.text for _, chunk in chunks])
        return [(index, chunk, rarity) for (index, chunk), rarity in zip(chunks, rarities, strict=True)]

    def _is_rare(self, rarity: WindowRarity) -> bool:
        return rarity.long > self.params.rarity_bits or rarity.short > self.params.short_rarity_bits

    def _has_strangers(self, chunk: Chunk, rarity: WindowRarity) -> bool:
        """Return whether a chunk has bare passages to read."""
        return any(
            rarity.strangeness(kept_words) > self._limits(kept_words).strange_bits
            and bool(self._strange_passages(chunk, kept_words))
            for kept_words in Kept
        )

    def _describe(self, chunk: Chunk, nats: float, gibberish: bool) -> Finding:
        return self.finding(
            "gibberish" if gibberish else "unlikely",
            Severity.HIGH if gibberish else Severity.MEDIUM,
            min(1.0, 0.6 + 0.1 * (nats - self.params.suspect_nats)),
            f"{SHORT_WINDOW} to {SURPRISE_WINDOW} tokens in a row are as unlikely as random words "
            f"({nats:.1f} nats a token; prose lies below 6). Texts optimised to be retrieved look like this",
            span=chunk.span,
            tags=("retrieval_content", "poisoning"),
        )

    def _describe_place(self, place: _Place, nats: float, kept_words: Kept) -> Finding:
        code, what, uncounted, how = _WORDING[kept_words]
        return self.finding(
            code,
            Severity.MEDIUM,
            min(1.0, 0.6 + 0.1 * (nats - self._limits(kept_words).nats)),
            f"Words with {what} are as unlikely as random words ({nats:.1f} nats a token, {uncounted} not counted). Texts optimised to be "
            f"retrieved may be {how} so",
            span=place.span,
            tags=("retrieval_content", "poisoning"),
        )


class _Limits(NamedTuple):
    """Limits above which bare words are unlikely."""

    strange_bits: float
    bare_nats: float  # by themselves
    nats: float  # as they stand
    contrast_nats: float
    alone_nats: float


class _Suspect(NamedTuple):
    """A chunk that is unlikely as it was read last."""

    version: int  # its position
    chunk: Chunk
    text: str
    worst: tuple[float, bool]


class _Place(NamedTuple):
    """A passage of rare words, and where it stands."""

    text: str  # of the version
    version: int  # its position
    chunk: Chunk
    passage: BarePassage

    @property
    def span(self) -> Span:
        """Return where it stands in the text of the version."""
        return Span(self.chunk.start + self.passage.start, self.chunk.start + self.passage.end)

    def alone(self) -> tuple[str, int]:
        """Return the passage, and where its chunk begins before it."""
        return self.chunk.text[self.passage.start : self.passage.end], -self.passage.start

    def in_chunk(self) -> tuple[str, int]:
        """Return the chunk, which begins at 0."""
        return self.chunk.text, 0

    def in_document(self) -> tuple[str, int]:
        """Return the chunk after the text before it, and where it begins."""
        before = self.text[max(0, self.chunk.start - MAX_CHARS_BEFORE) : self.chunk.start]
        return before + self.chunk.text, len(before)


def _after(text: str, chunk: Chunk, characters: int) -> tuple[str, int]:
    """Return a chunk after the characters before it, the same however its lines are wrapped, and where it begins."""
    before = " ".join(text[max(0, chunk.start - characters) : chunk.start].split())
    own = " ".join(_in_plain_sight(chunk.text).split())
    return (f"{before} {own}", len(before) + 1) if before else (own, 0)


def _without_shapes(text: str) -> str:
    """Return the text without what no model can foresee (see the module's docstring)."""
    text = _in_plain_sight(_FIXED.sub(" ", text))
    words = re.sub(r"[ \t]+", " ", SHAPES.sub(lambda match: match[0] if len(match[0]) > MAX_SHAPE_CHARS else " ", text))
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
    for match in SHAPES.finditer(text):
        if len(match[0]) <= MAX_SHAPE_CHARS:
            inside[match.start() : match.end()] = True
    if inside.mean() > MAX_SHAPES:
        inside[:] = False
    last = np.maximum(places[:, 1] - 1, 0)
    return ~inside[np.minimum(last, len(text))]


def _lettered(text: str, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which tokens of a text have letters."""
    return np.array([any(map(str.isalpha, text[start:end])) for start, end in places.tolist()], np.bool_)


def _overlaps(tokens: NDArray[np.int64], places: Sequence[tuple[int, int]], length: int) -> NDArray[np.bool_]:
    """Return which tokens of a text of this length end in one of the places."""
    inside = np.zeros(length, np.bool_)
    for start, end in places:
        inside[start:end] = True
    ends: NDArray[np.bool_] = inside[np.maximum(tokens[:, 1] - 1, 0)]
    return ends


def _line_numbers(text: str, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the line in which each token stands.

    Args:
        text: with its line breaks.
        ends: of the tokens, in characters of the text whose white space is single spaces.
    """
    lengths = [len(" ".join(line.split())) + 1 for line in text.split("\n") if line.strip()]
    numbers: NDArray[np.int64] = np.searchsorted(np.cumsum(lengths), ends, side="left")
    return numbers


def _worst(nats: NDArray[np.float32], width: int, lines: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """Return the highest mean over `width` tokens, and its distance to the median; zeros for too few tokens."""
    windows = window_means(nats, width)
    if not len(windows):
        return 0.0, 0.0
    if lines is not None and len(lines) >= width:
        excess = lines[width - 1 :] - lines[: len(lines) - width + 1] - width / TOKENS_OF_LINE
        windows = windows - np.clip(LINE_NATS * excess / width, 0, MAX_LINES_NATS)
    worst = float(windows.max())
    return worst, worst - float(np.median(windows))
