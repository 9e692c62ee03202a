"""Contradictions in free words: a trained reader compares arriving chunks of open sources with trusted chunks.

`corpus_guard.claims` sees that two texts give different values for the same thing. A text that says the opposite in words of its own is
seen by `corpus_guard.models.contradiction_reader`. It reads a *post*, which arrives, beside an *excerpt* of a trusted *page*.

What is read
- A chunk of up to `SHORT_CHUNK` characters is one post. Of a longer chunk each sentence is a post, with up to `MAX_BEFORE` sentences
  before it.
- An excerpt holds the sentences of a trusted chunk that share most with the post, in their order, up to `EXCERPT_CHARS`. What two
  sentences share is the summed rarity of their common words; a word of the page's title counts `TITLE_SHARE`.
- Left out are two sentences that the rules have decided already, two that only present their documents ("in this guide we cover May to
  June"), and sentences in other languages than English, which the reader never learned. Where a model is asked, other languages are
  read.
- Of a chunk the policy's number of pairs (`pairs_read`) is read, beside as many of the nearest trusted chunks at most: those pairs
  whose sentences share most, and of equal ones those of the nearest page.
- When a trusted chunk arrives, `READ_OF_SERVED` posts of each served open chunk that is compared with it are read beside it: the truth
  may come after the lie.

How a pair is scored, in log-odds
- The sieve, a small encoder, looks at the sentences that share most, up to `BRIEF_CHARS`; above `BRIEFLY_KEPT` at the whole excerpt.
  What it puts above `KEPT` is read by the reader.
- Above `DOUBT` a second model reads each sentence of the excerpt alone. The excerpt counts `EXCERPT_SHARE`, its worst sentence the
  rest. The worst sentence is shown to the reviewer.
- Where the policy names a model to ask (`corpus_guard.models.contradiction_judge`), its answer replaces the reader's for all that the
  sieve keeps. Where it gives none, the reader decides.

When a pair is a contradiction
- Its score reaches the policy's threshold, plus log n for a document of n chunks: otherwise long honest documents would wait most
  often.
- The pairs of one post add up: a post that contradicts each of four pages a little probably contradicts one of them. Where only the sum
  reaches the threshold, the clearest pair is shown.
- Of a post with several sentences, each is read beside the worst one of the page, and the one that contradicts most is shown.

When such a contradiction is disputed
- Another trusted document near the post contradicts the same trusted sentence about as clearly (`LESS_CLEARLY`). Then trusted documents
  disagree, or the reader misreads the sentence, whoever stands beside it. Of the 566 contradictions that the reader of 2026-11-26 found
  in the test cases 6 were disputed, of its 22 false alarms on web pages (tuning half) 16.
- What a model that was asked takes for a contradiction is never disputed.

When a contradiction that the rules found is doubted
- The reader reads the two sentences alone, and the post beside the excerpt around the trusted one. Where it sees no contradiction in
  either, the contradiction is doubted: mostly two places, years or products.
- Where it sees none in the mean of both, the contradiction is disputed if, by the rules, another trusted document near it contradicts
  the same sentence.
- Never doubted are another contact or account, another order of steps, a sentence that is too long to be read or in another language,
  and anything in a chunk of more than `MAX_DOUBTED` contradictions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from operator import itemgetter
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.comparison import CONTACTS
from corpus_guard.claims.passages import StatedPassage
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Span
from corpus_guard.models.contradiction_reader import EXCERPT_CHARS, POST_CHARS, PagePost

LESS_CLEARLY: Final = (
    2.0  # log-odds; another trusted document disputes what it contradicts by no more than that less clearly
)
READ_TO_DISPUTE: Final = 2  # posts of another trusted chunk that are read beside one that seems to be contradicted
READ_OF_SERVED: Final = 1  # posts of a served chunk that are read beside a trusted one which comes later
SHORT_CHUNK: Final = 300  # characters, up to which a chunk is read whole
MAX_BEFORE: Final = 2  # sentences before an arriving one that are read with it, if they fit into as many characters
TITLE_SHARE: Final = 0.25  # of the weight of a word that stands in the page's title: all its sentences are about it
MAX_DOUBTED: Final = 12  # contradictions that the rules find in a chunk; where they are more, none is doubted
BRIEF_CHARS: Final = 250  # of an excerpt that the sieve looks at first
BRIEFLY_KEPT: Final = -4.5  # its log-odds above which it looks at the whole excerpt
KEPT: Final = -3.0  # log-odds of the sieve above which a pair is read
DOUBT: Final = 0.0  # log-odds above which the sentences of an excerpt are read alone
EXCERPT_SHARE: Final = 0.5  # weight of the log-odds of an excerpt; the rest is that of its worst sentence
SURE: Final = 100.0  # log-odds of what a judge says: no other score outweighs them
MIN_WORDS: Final = 2  # of an arriving sentence that states something


class PairReader(Protocol):
    """Interface of `corpus_guard.models.contradiction_reader.ContradictionReader` that screening needs."""

    def glance(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the sieve's log-odds that each post contradicts its excerpt, shape (pairs,)."""

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its excerpt, shape (pairs,)."""

    def log_odds_alone(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its excerpt of a single sentence, shape (pairs,)."""


class PairJudge(Protocol):
    """Interface of `corpus_guard.models.contradiction_judge.ContradictionJudge` that screening needs."""

    def contradicts(self, pairs: Sequence[PagePost]) -> Sequence[bool | None]:
        """Return whether each post contradicts its excerpt; None: it cannot be said."""


class Doubt(Enum):
    """Degree to which a reader doubts a contradiction that the rules found."""

    NONE = "the reader takes it for a contradiction, too"
    SOME = "the reader alone would not take it for one"
    FULL = "the reader is sure that there is none"


@dataclass(frozen=True, slots=True)
class TrustedPassage:
    """A trusted chunk beside which an arriving one is read."""

    passage: StatedPassage
    title: str
    decided: Set[tuple[Span, Span]] = frozenset()
    """Sentences of the arriving chunk and of this one that the rules found to agree or to contradict each other."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence of an arriving chunk, and one of a trusted chunk."""

    own: Span  # of the arriving sentence, in its chunk
    other: Span  # of the trusted one, in its chunk
    text: str  # of the trusted one


@dataclass(frozen=True, slots=True)
class ChosenPair:
    """Post of an arriving chunk beside an excerpt of a trusted one."""

    beside: int  # number of the trusted chunk
    shown: PagePost
    brief: PagePost  # the same with those sentences of the excerpt that have most in common with the post
    sentences: tuple[SentencePair, ...]
    """Each sentence of the excerpt, in its order, with the arriving one that has most in common with it."""
    nearest: int
    """Number of the sentence of the excerpt that has most in common with the post."""
    stated: tuple[tuple[Span, str], ...]
    """Each sentence of the post that is not only read for what it refers to, with its place in the arriving chunk."""

    def alone(self) -> list[PagePost]:
        """Return the post beside each sentence of the excerpt."""
        return [PagePost(self.shown.title, each.text, self.shown.post) for each in self.sentences]


@dataclass(frozen=True)
class LikelyContradictions:
    """A reader, and what it reads of a chunk."""

    reader: PairReader
    pairs: int
    """Read of a chunk, at least one, and trusted chunks beside which it is read at most."""
    log_odds: float
    """Threshold for a document of one chunk from which a pair, or the sum of a post's pairs, is taken for a contradiction."""
    doubted_log_odds: float
    """Below which what the rules take for a contradiction is doubted."""
    judge: PairJudge | None = None
    """Decides about what the sieve keeps, where there is one."""

    @property
    def asks(self) -> bool:
        """Return whether a model is asked, which may know other languages than English."""
        return self.judge is not None

    def find(
        self, chosen: Sequence[ChosenPair], chunks: Sequence[int], arriving: Sequence[int] | None = None
    ) -> list[ReadPair | None]:
        """Return the pairs that the reader takes for contradictions; None: it sees none.

        Args:
            chunks: of the arriving document of each.
            arriving: number of the arriving chunk of each: the pairs of one post of it add up. None: each pair stands alone.
        """
        read = read_pairs(self.reader, chosen, self.judge)
        posts: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        for number, pair in enumerate(chosen):
            posts[(number, "") if arriving is None else (arriving[number], pair.shown.post)].append(number)
        contradicting: list[int] = []
        for numbers in posts.values():
            limit = self.log_odds + math.log(chunks[numbers[0]])
            sure = [number for number in numbers if read[number].log_odds >= limit]
            if not sure and _of_any([read[number].log_odds for number in numbers]) >= limit:
                sure = [max(numbers, key=lambda number: read[number].log_odds)]
            contradicting += sure
        pointed = self._point([chosen[number] for number in contradicting], [read[number] for number in contradicting])
        contradictions: list[ReadPair | None] = [None] * len(read)
        for number, each in zip(contradicting, pointed, strict=True):
            contradictions[number] = each
        return contradictions

    def _point(self, chosen: Sequence[ChosenPair], contradictions: Sequence[ReadPair]) -> list[ReadPair]:
        """Return contradictions with that sentence of the post which contradicts most, read alone."""
        stated = [pair.stated if len(pair.stated) > 1 else () for pair in chosen]
        shown = [
            PagePost(pair.shown.title, each.sentences.text, text)
            for pair, each, sentences in zip(chosen, contradictions, stated, strict=True)
            for _, text in sentences
        ]
        scores = iter(self.reader.log_odds_alone(shown).tolist())
        pointed: list[ReadPair] = []
        for each, sentences in zip(contradictions, stated, strict=True):
            read = [(next(scores), span) for span, _ in sentences]
            own = max(read, key=itemgetter(0))[1] if read else each.sentences.own
            pointed.append(replace(each, sentences=replace(each.sentences, own=own)))
        return pointed

    def dispute(
        self, contradictions: Sequence[ReadPair], beside: Sequence[Sequence[Sequence[ChosenPair]]]
    ) -> list[int | None]:
        """Return for each contradiction the number of another passage that contradicts the same sentence about as clearly; None: none does.

        Args:
            beside: of each, what is read of other trusted passages, in the post's place, beside the one that is contradicted.
        """
        chosen = [pair for passages in beside for pairs in passages for pair in pairs]
        read = iter(read_pairs(self.reader, chosen))
        others = [[[next(read) for _ in pairs] for pairs in passages] for passages in beside]
        return [
            next((number for number, read_of in enumerate(passages) if any(map(each.is_matched_by, read_of))), None)
            for each, passages in zip(contradictions, others, strict=True)
        ]

    def doubt(self, suspected: Sequence[SuspectedPair]) -> list[Doubt]:
        """Return how far contradictions are doubted that the rules found."""
        shown = [shown for pair in suspected for shown in pair.shown()]
        scores = self.reader.log_odds(shown).reshape(-1, 2)
        doubts: list[Doubt] = []
        for score in scores:
            doubt = Doubt.SOME if score.mean() < self.log_odds else Doubt.NONE
            doubts.append(Doubt.FULL if score.max() < self.doubted_log_odds else doubt)
        return doubts


@dataclass(frozen=True, slots=True)
class SuspectedPair:
    """Two sentences that contradict each other in the eyes of the rules."""

    own: StatedPassage  # arriving chunk
    sentence: int  # of it
    other: StatedPassage  # trusted chunk
    rival: int  # sentence of it
    title: str  # of the trusted document

    @property
    def is_cut(self) -> bool:
        """Return whether a sentence is longer than what is read."""
        return (
            len(self.own.sentence(self.sentence)) > POST_CHARS or len(self.other.sentence(self.rival)) > EXCERPT_CHARS
        )

    def shown(self) -> tuple[PagePost, PagePost]:
        """Return what is read: the two sentences, and the post beside an excerpt."""
        last = len(self.own.outlines) - 1
        first, last = (
            (0, last) if len(self.own.joined(0, last)) <= SHORT_CHUNK else _with_before(self.own, self.sentence)
        )
        around = {rival: -float(abs(rival - self.rival)) for rival in range(len(self.other.outlines))}
        excerpt = " ".join(self.other.sentence(rival) for rival in _excerpt(self.other, around, EXCERPT_CHARS))
        sentence = self.other.sentence(self.rival)
        return (
            PagePost(self.title, sentence, self.own.sentence(self.sentence)),
            PagePost(self.title, excerpt, self.own.joined(first, last)),
        )


def suspect(
    own: StatedPassage, other: StatedPassage, title: str, places: tuple[Span, Span], kind: Kind | None
) -> SuspectedPair | None:
    """Return what is read of a contradiction that the rules found; None: it must not be doubted.

    Args:
        kind: of the values that differ.
    """
    pair = SuspectedPair(own, own.number(places[0]), other, other.number(places[1]), title)
    is_local = own.is_local(pair.sentence) or other.is_local(pair.rival)
    return None if kind in CONTACTS | {Kind.ORDER} or pair.is_cut or is_local else pair


@dataclass(frozen=True, slots=True)
class ReadPair:
    """Judgement of a reader about a pair."""

    log_odds: float  # that the post contradicts the excerpt
    sentences: SentencePair  # those that contradict each other most

    def is_matched_by(self, other: ReadPair) -> bool:
        """Return whether another post contradicts the same sentence about as clearly."""
        return other.sentences.other == self.sentences.other and other.log_odds >= self.log_odds - LESS_CLEARLY


def _of_any(log_odds: Sequence[float]) -> float:
    """Return the log-odds that a post contradicts at least one of several pages, as if these were independent of each other."""
    none = float(np.logaddexp(0, log_odds).sum())  # minus the logarithm of the probability that it contradicts none
    return none + math.log(-math.expm1(-none))


def read_pairs(reader: PairReader, chosen: Sequence[ChosenPair], judge: PairJudge | None = None) -> list[ReadPair]:
    """Return what a reader makes of each pair.

    Args:
        reader: its sieve looks at all pairs.
        judge: decides about those that the sieve keeps; what it cannot say is left to the reader.

    Raises:
        JudgeFailed: the judge gives no answer.
    """
    scores = _glance(reader, chosen)
    plausible = [number for number, score in enumerate(scores) if score > KEPT]
    judged = judge.contradicts([chosen[number].shown for number in plausible]) if judge else [None] * len(plausible)
    judgements = dict(zip(plausible, judged, strict=True))
    for number, contradicts in judgements.items():
        if contradicts is not None:
            scores[number] = SURE if contradicts else -SURE
    unjudged = [number for number in plausible if judgements[number] is None]
    for number, score in zip(
        unjudged, reader.log_odds([chosen[number].shown for number in unjudged]).tolist(), strict=True
    ):
        scores[number] = score
    doubtful = [number for number in plausible if scores[number] > DOUBT]
    alone = reader.log_odds_alone([shown for number in doubtful for shown in chosen[number].alone()]).tolist()
    read = [ReadPair(score, pair.sentences[pair.nearest]) for pair, score in zip(chosen, scores, strict=True)]
    for number in doubtful:
        sentences = chosen[number].sentences
        own, alone = alone[: len(sentences)], alone[len(sentences) :]
        worst = max(range(len(own)), key=own.__getitem__)
        mean = EXCERPT_SHARE * scores[number] + (1 - EXCERPT_SHARE) * own[worst]
        read[number] = ReadPair(mean, sentences[worst])
    return read


def _glance(reader: PairReader, chosen: Sequence[ChosenPair]) -> list[float]:
    """Return the sieve's log-odds: of a brief excerpt where that shows no contradiction, else of the whole one."""
    scores: list[float] = reader.glance([pair.brief for pair in chosen]).tolist()
    again = [number for number, pair in enumerate(chosen) if scores[number] > BRIEFLY_KEPT and pair.brief != pair.shown]
    for number, score in zip(again, reader.glance([chosen[number].shown for number in again]).tolist(), strict=True):
        scores[number] = score
    return scores


def choose_pairs(
    own: StatedPassage, trusted: Sequence[TrustedPassage], count: int, *, in_any_language: bool = False
) -> list[ChosenPair]:
    """Return what is read of a chunk.

    Args:
        trusted: chunks beside it, the nearest first.
        in_any_language: read also what the rules know to be in another language than English.
    """
    candidates: list[tuple[float, int, int]] = []
    weights: dict[tuple[int, int], dict[int, float]] = {}
    posts = list(_posts(own))
    for number, (_, sentences) in enumerate(posts):
        for beside, other in enumerate(trusted):
            if shared := _weigh(own, sentences, other, in_any_language=in_any_language):
                weights[number, beside] = shared
                candidates.append((-max(shared.values()), beside, number))
    chosen: list[ChosenPair] = []
    for _, beside, number in sorted(candidates)[:count]:
        (post, sentences), other = posts[number], trusted[beside]
        shared = weights[number, beside]
        excerpt, brief = (_excerpt(other.passage, shared, room) for room in (EXCERPT_CHARS, BRIEF_CHARS))
        pairs = [
            SentencePair(
                own.span(_nearest(own, sentences, other, rival)),
                other.passage.span(rival),
                other.passage.sentence(rival),
            )
            for rival in excerpt
        ]
        shown, glimpsed = (
            PagePost(other.title, " ".join(map(other.passage.sentence, read)), post) for read in (excerpt, brief)
        )
        nearest = max(range(len(excerpt)), key=lambda place: shared[excerpt[place]])
        stated = tuple((own.span(sentence), own.sentence(sentence)) for sentence in sentences)
        chosen.append(ChosenPair(beside, shown, glimpsed, tuple(pairs), nearest, stated))
    return chosen


def _weigh(
    own: StatedPassage, sentences: Sequence[int], other: TrustedPassage, *, in_any_language: bool
) -> dict[int, float]:
    """Return for each sentence of a trusted chunk that may be read beside a post what they have in common."""
    if not in_any_language and all(map(own.is_local, sentences)):
        return {}
    words = {word: weight for sentence in sentences for word, weight in own.outlines[sentence].items()}
    spans = [own.span(sentence) for sentence in sentences]
    presents = any(own.presents_itself(sentence) for sentence in sentences)
    named, shared = other.passage.named, dict[int, float]()
    for rival, others in enumerate(other.passage.outlines):
        place = other.passage.span(rival)
        if any((span, place) in other.decided for span in spans):
            continue
        if not in_any_language and other.passage.is_local(rival):
            continue
        both = presents and other.passage.presents_itself(rival)
        if both and own.presents_itself(_nearest(own, sentences, other, rival)):
            continue
        common = words.keys() & others.keys()
        shared[rival] = sum(words[word] * (TITLE_SHARE if word in named else 1.0) for word in common)
    return shared


def _excerpt(passage: StatedPassage, shared: Mapping[int, float], room: int) -> list[int]:
    """Return the sentences that are shown of a trusted chunk, in their order: the first, and what fits into `room` characters."""
    excerpt = list[int]()
    for rival in sorted(shared, key=lambda rival: (-shared[rival], rival)):
        room -= len(passage.sentence(rival)) + 1
        if excerpt and room < 0:
            break
        excerpt.append(rival)
    return sorted(excerpt)


def _nearest(own: StatedPassage, sentences: Sequence[int], other: TrustedPassage, rival: int) -> int:
    """Return the arriving sentence that has most in common with one of a trusted chunk."""
    words = other.passage.outlines[rival]
    return max(sentences, key=lambda sentence: _shared(own.outlines[sentence], words))


def _posts(own: StatedPassage) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield what is read of an arriving chunk at a time, and the sentences that it states."""
    numbers = range(len(own.outlines))
    if not numbers:
        return
    if len(whole := own.joined(0, numbers[-1])) <= SHORT_CHUNK:
        yield whole, numbers
        return
    for number in numbers:
        if len(own.outlines[number]) >= MIN_WORDS:
            yield own.joined(*_with_before(own, number)), [number]


def _with_before(own: StatedPassage, number: int) -> tuple[int, int]:
    """Return the first and the last sentence of what is read with a sentence of a long chunk."""
    first = number
    while first > max(0, number - MAX_BEFORE) and len(own.joined(first - 1, number)) <= SHORT_CHUNK:
        first -= 1
    return first, number


def _shared(words: Mapping[str, float], others: Mapping[str, float]) -> float:
    return sum(words[word] for word in words.keys() & others.keys())
