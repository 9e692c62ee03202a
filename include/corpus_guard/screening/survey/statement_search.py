"""Search for what other documents state about the things that an arriving chunk states.

What is compared
- An arriving chunk is compared with chunks of a higher trust level that lie near it, and with some of its own level that arrive with it
  (`corpus_guard.screening.survey.nearby_chunks`). Of its own level only contradictions are kept.
- A trusted chunk is compared, after all others, with the served chunks of lower trust that lie nearest to it: they came before it, and
  nobody could know.
- At most `max_comparisons` pairs of chunks are compared in a run. Counted are the chunks that were not compared with a more trusted
  one, and the trusted ones that were not compared with all that is served near them.
- `corpus_guard.claims` says which sentences agree and which contradict each other. A trained reader looks for contradictions in other
  words between open and trusted chunks, and doubts some that the rules found (`corpus_guard.screening.survey.likely_contradictions`).

When a contradiction is disputed: the trusted documents disagree, not the arriving one with them
- Another trusted document agrees with the very values of the arriving sentence. Of two reviewed documents the same holds.
- Another trusted document contradicts the same sentence, and the reader alone would not take the first for a contradiction: "the county
  seat is …" stands on the page of each county.

What a trusted chunk contradicts among the served ones is left alone
- where the reader doubts it;
- where another trusted chunk near it states what the served one states.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.passages import StatedPassage, compare_passages, is_near_copy
from corpus_guard.claims.statements import Rarity
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Span, TrustLevel
from corpus_guard.screening.survey.agreement import FetchTexts
from corpus_guard.screening.survey.likely_contradictions import (
    MAX_DOUBTED,
    READ_OF_SERVED,
    READ_TO_DISPUTE,
    ChosenPair,
    Doubt,
    LikelyContradictions,
    ReadPair,
    SuspectedPair,
    TrustedPassage,
    choose_pairs,
    suspect,
)
from corpus_guard.screening.survey.nearby_chunks import (
    NearbyChunks,
    OtherChunk,
    PlacedChunk,
    ServedChunk,
    ServedStatements,
)
from corpus_guard.screening.survey.related_statements import (
    RelatedStatement,
    RelatedStatements,
    place_comparison,
    place_likely,
    shift,
    worst_first,
)

_CACHED_PASSAGES: Final = 1_024


def find_related_statements(
    chunks: Sequence[PlacedChunk],
    vectors: NDArray[np.float32],
    texts: FetchTexts,
    served: ServedStatements,
    rarity: Rarity,
    max_comparisons: int,
    likely: LikelyContradictions | None = None,
) -> RelatedStatements:
    """Compare what arriving chunks state with what chunks of the same or a higher trust level state.

    Args:
        chunks: every chunk of the run.
        vectors: their unit vectors, shape (chunks, dimensions).
        max_comparisons: pairs of chunks.
        likely: reads what the rules leave open; None: nobody reads them.
    """
    return _Finder(chunks, vectors, texts, served, rarity, max_comparisons, likely).find()


def find_contradicted(
    chunks: Sequence[PlacedChunk],
    vectors: NDArray[np.float32],
    texts: FetchTexts,
    served: ServedStatements,
    rarity: Rarity,
    likely: LikelyContradictions | None,
) -> Mapping[str, tuple[RelatedStatement, ...]]:
    """Return what trusted chunks contradict that is served, by version; each with all that lies near, without a budget.

    The arguments are those of `find_related_statements`.
    """
    return _Finder(chunks, vectors, texts, served, rarity, sys.maxsize, likely).look_back()[0]


_PlacedStatement = tuple[int, OtherChunk, RelatedStatement]
"""Position of an arriving chunk, the other chunk, and what both state."""
_Contradiction = tuple[OtherChunk, ReadPair]
"""A trusted chunk, and what the reader makes of an arriving one beside it."""


class _Finder:
    """One run's search."""

    def __init__(
        self,
        chunks: Sequence[PlacedChunk],
        vectors: NDArray[np.float32],
        texts: FetchTexts,
        served: ServedStatements,
        rarity: Rarity,
        max_comparisons: int,
        likely: LikelyContradictions | None = None,
    ) -> None:
        self._likely = likely
        self._chunks = chunks
        self._nearby = NearbyChunks(chunks, vectors, served)
        self._texts = texts
        self._left = max_comparisons
        self._lengths = Counter(chunk.version_id for chunk in chunks)
        self._read: Callable[[str, str], StatedPassage] = lru_cache(_CACHED_PASSAGES)(
            lambda text, title: StatedPassage(text, rarity, title)
        )

    def find(self) -> RelatedStatements:
        """Return what is related."""
        statements: defaultdict[str, list[RelatedStatement]] = defaultdict(list)
        not_compared = Counter[str]()
        for block in self._nearby.blocks(trusted=False):
            for position, related in self._compare_block(block):
                version = self._chunks[position].version_id
                if related is None:
                    not_compared[version] += 1
                else:
                    statements[version] += related
        worst = {version: worst_first(version_statements) for version, version_statements in statements.items()}
        contradicted, not_looked_back = self.look_back()
        return RelatedStatements(worst, not_compared | not_looked_back, contradicted)

    def look_back(self) -> tuple[dict[str, tuple[RelatedStatement, ...]], Counter[str]]:
        """Return what trusted chunks contradict that is served already, and how many chunks were not compared with it."""
        contradicted: defaultdict[str, list[RelatedStatement]] = defaultdict(list)
        not_compared = Counter[str]()
        for block in self._nearby.blocks(trusted=True):
            nearby = self._nearby.below(block)
            placed_statements: list[_PlacedStatement] = []
            for position in block:
                for other in nearby[position]:
                    if self._left <= 0:
                        not_compared[self._chunks[position].version_id] += 1
                        break
                    placed_statements += [
                        (position, other, each) for each in self._compare(position, other, only_conflicts=False)
                    ]
            conflicts = [each for each in placed_statements if each[2].outcome is Outcome.CONFLICT]
            beside = self._nearby.trusted_beside({position for position, _, _ in conflicts})
            for position, _, statement in self._doubt(self._mark_backed(conflicts, beside), beside):
                if not statement.is_noted_only:
                    contradicted[self._chunks[position].version_id].append(statement)
            for position, statement in (
                self._read_served(self._likely, nearby, placed_statements) if self._likely else ()
            ):
                contradicted[self._chunks[position].version_id].append(statement)
        worst = {version: worst_first(statements) for version, statements in contradicted.items() if statements}
        return worst, not_compared

    def _mark_backed(
        self, placed_statements: Sequence[_PlacedStatement], beside: Mapping[int, Sequence[OtherChunk]]
    ) -> list[_PlacedStatement]:
        """Mark contradictions of served chunks that another trusted document, near the arriving one, states as the served one does."""

        @cache
        def backed(served: OtherChunk, trusted: OtherChunk) -> list[set[Span]]:
            """Return the values of each sentence of a served chunk that a trusted one agrees with."""
            start = self._nearby.chunk(served).start
            return [
                {shift(pair[0].span, start) for pair in each.values}
                for each in compare_passages(self._passage_of(served), self._passage_of(trusted))
                if each.outcome is Outcome.AGREE
            ]

        def backing(position: int, served: OtherChunk, values: Sequence[Span]) -> str:
            """Return the id of a trusted document that agrees with these very values; empty: none does, or there are none."""
            if values:
                for trusted in beside[position]:
                    if any(agreed.issuperset(values) for agreed in backed(served, trusted)):
                        return self._nearby.chunk(trusted).doc_id
            return ""

        return [
            (position, other, replace(statement, disputed_by=backing(position, other, statement.other.values)))
            for position, other, statement in placed_statements
        ]

    def _read_served(
        self,
        likely: LikelyContradictions,
        nearby: Mapping[int, Sequence[OtherChunk]],
        placed_statements: Sequence[_PlacedStatement],
    ) -> Iterator[tuple[int, RelatedStatement]]:
        """Yield what a reader takes for a contradiction of an arriving trusted chunk, among what is served of open sources.

        What trusted documents disagree about is left out. A trusted document of n chunks must be contradicted more surely by log n, as
        an open one must contradict.

        Args:
            nearby: served chunks near each arriving trusted one.
            placed_statements: what the rules made of them.
        """
        decided: defaultdict[int, list[RelatedStatement]] = defaultdict(list)
        for position, _, statement in placed_statements:
            decided[position].append(statement)
        read: list[tuple[int, OtherChunk, ChosenPair]] = []
        for position, others in nearby.items():
            for other in (other for other in others if self._nearby.chunk(other).trust is TrustLevel.OPEN):
                trusted = self._chunks[position]
                decided_spans = _decided(trusted, self._nearby.chunk(other), decided[position])
                page = TrustedPassage(
                    self._passage(position), trusted.title, frozenset((theirs, own) for own, theirs in decided_spans)
                )
                pairs = choose_pairs(self._passage_of(other), [page], READ_OF_SERVED, in_any_language=likely.asks)
                read += [(position, other, pair) for pair in pairs]
        chunks = [self._lengths[self._chunks[position].version_id] for position, _, _ in read]
        contradictions = [
            (position, other, each)
            for (position, other, _), each in zip(read, likely.find([pair for *_, pair in read], chunks), strict=True)
            if each
        ]
        beside = self._nearby.trusted_beside({position for position, _, _ in contradictions})
        disputing = likely.dispute(
            [each for *_, each in contradictions],
            [[self._in_its_place(other, position) for other in beside[position]] for position, _, _ in contradictions],
        )
        for (position, other, each), number in zip(contradictions, disputing, strict=True):
            if number is None:
                places = (each.sentences.other, each.sentences.own)
                yield position, place_likely(self._chunks[position], places, self._nearby.chunk(other), is_served=True)

    def _compare_block(self, block: Sequence[int]) -> Iterator[tuple[int, list[RelatedStatement] | None]]:
        """Yield (position, what is related); None: the budget does not reach."""
        stating = [position for position in block if any(self._passage(position).outlines)]
        nearby = self._nearby.above(stating)
        placed_statements: list[_PlacedStatement] = []
        for position in stating:
            for other in nearby[position]:
                is_peer = self._chunks[position].trust is self._nearby.chunk(other).trust
                if self._left <= 0:
                    if not is_peer:
                        yield position, None
                    break
                related = self._compare(position, other, only_conflicts=bool(is_peer))
                placed_statements += [(position, other, statement) for statement in related]
        placed_statements = _mark_disputed(placed_statements)
        decided: defaultdict[int, list[RelatedStatement]] = defaultdict(list)
        for position, _, statement in self._doubt(placed_statements, nearby):
            decided[position].append(statement)
        yield from decided.items()
        if self._likely:
            yield from self._read_open(self._likely, {position: nearby[position] for position in stating}, decided)

    def _doubt(
        self, placed_statements: Sequence[_PlacedStatement], beside: Mapping[int, Sequence[OtherChunk]]
    ) -> Sequence[_PlacedStatement]:
        """Mark the contradictions of open chunks and trusted ones that the reader doubts, if there is one.

        What it doubts a little is disputed where another trusted chunk contradicts the same sentence, too.

        Args:
            beside: chunks near each arriving one, trusted ones among them.
        """
        if not self._likely:
            return placed_statements
        suspected: defaultdict[str, list[tuple[int, SuspectedPair | None]]] = defaultdict(list)
        for number, (position, other, statement) in enumerate(placed_statements):
            sides = [
                (self._chunks[position], self._passage(position), statement.span),
                (self._nearby.chunk(other), self._passage_of(other), statement.other.span),
            ]
            (post, posted, own), (page, stated, theirs) = sorted(sides, key=lambda side: side[0].trust.rank)
            if statement.is_contradiction and post.trust is TrustLevel.OPEN and page.trust is TrustLevel.TRUSTED:
                places = (shift(own, -post.start), shift(theirs, -page.start))
                suspected[post.chunk_id].append((number, suspect(posted, stated, page.title, places, statement.kind)))
        few = (pairs for pairs in suspected.values() if len(pairs) <= MAX_DOUBTED)
        read = [(number, pair) for pairs in few for number, pair in pairs if pair]
        marked = list(placed_statements)
        for (number, pair), doubt in zip(read, self._likely.doubt([pair for _, pair in read]), strict=True):
            position, other, statement = marked[number]
            if doubt is Doubt.FULL:
                statement = replace(statement, is_doubted=True)
            elif doubt is Doubt.SOME:
                contradicted = other if self._nearby.chunk(other).trust is TrustLevel.TRUSTED else position
                by = self._contradicting(pair, statement.kind, self._others(contradicted, beside[position]))
                statement = replace(statement, disputed_by=by)
            marked[number] = (position, other, statement)
        return marked

    def _contradicting(self, pair: SuspectedPair, kind: Kind | None, others: Iterable[OtherChunk]) -> str:
        """Return the document of the first of some trusted chunks that contradicts the same sentence; empty: none does."""
        place = pair.other.span(pair.rival)
        for other in others:
            for each in compare_passages(self._passage_of(other), pair.other):
                if each.outcome is Outcome.CONFLICT and each.kind is kind and each.other.span == place:
                    return self._nearby.chunk(other).doc_id
        return ""

    def _read_open(
        self,
        likely: LikelyContradictions,
        nearby: Mapping[int, Sequence[OtherChunk]],
        decided: Mapping[int, Sequence[RelatedStatement]],
    ) -> Iterator[tuple[int, list[RelatedStatement]]]:
        """Yield what a reader takes for a contradiction of a trusted chunk, for chunks of open sources."""
        places: list[tuple[int, OtherChunk]] = []
        pairs: list[ChosenPair] = []
        for position, others in nearby.items():
            own = self._chunks[position]
            trusted = [other for other in others if self._nearby.chunk(other).trust is TrustLevel.TRUSTED]
            if own.trust is not TrustLevel.OPEN or not trusted:
                continue
            nearest = sorted(trusted, key=lambda other: -self._nearby.similarity(position, other))[: likely.pairs]
            passages = [
                TrustedPassage(
                    self._passage_of(other),
                    self._nearby.chunk(other).title,
                    _decided(own, self._nearby.chunk(other), decided.get(position, ())),
                )
                for other in nearest
            ]
            for pair in choose_pairs(self._passage(position), passages, likely.pairs, in_any_language=likely.asks):
                pairs.append(pair)
                places.append((position, nearest[pair.beside]))
        chunks = [self._lengths[self._chunks[position].version_id] for position, _ in places]
        arriving = [position for position, _ in places]
        by_position: defaultdict[int, list[_Contradiction]] = defaultdict(list)
        for (position, other), each in zip(places, likely.find(pairs, chunks, arriving), strict=True):
            if each:
                by_position[position].append((other, each))
        for position, contradictions, by in self._dispute(likely, by_position, nearby, decided):
            yield (
                position,
                [
                    place_likely(
                        self._chunks[position],
                        (read.sentences.own, read.sentences.other),
                        self._nearby.chunk(other),
                        is_served=isinstance(other, ServedChunk),
                        disputed_by=by,
                    )
                    for other, read in contradictions
                ],
            )

    def _dispute(
        self,
        likely: LikelyContradictions,
        by_position: Mapping[int, Sequence[_Contradiction]],
        nearby: Mapping[int, Sequence[OtherChunk]],
        decided: Mapping[int, Sequence[RelatedStatement]],
    ) -> Iterator[tuple[int, Sequence[_Contradiction], str]]:
        """Yield (position, contradictions that the reader sees, document by which they are disputed, if one does).

        One of each chunk is looked at, then the next. Where one is not disputed, or the rules see another, the chunk waits whatever is
        said of the rest, so that nothing more is read: whoever sends many contradictions must not run up the time.
        """
        undecided = dict(by_position)
        for position in [position for position in undecided if any(map(_keeps_waiting, decided.get(position, ())))]:
            yield position, undecided.pop(position), ""
        while undecided:
            positions = list(undecided)
            others = [self._others(undecided[position][0][0], nearby[position]) for position in positions]
            disputing = likely.dispute(
                [undecided[position][0][1] for position in positions],
                [
                    [self._in_its_place(other, undecided[position][0][0]) for other in beside]
                    for position, beside in zip(positions, others, strict=True)
                ],
            )
            for position, beside, number in zip(positions, others, disputing, strict=True):
                rest = undecided.pop(position)
                if number is None:
                    yield position, rest, ""
                    continue
                yield position, rest[:1], self._nearby.chunk(beside[number]).doc_id
                if rest[1:]:
                    undecided[position] = rest[1:]

    def _others(self, contradicted: OtherChunk, nearby: Sequence[OtherChunk]) -> list[OtherChunk]:
        """Return the trusted chunks near an arriving one that are of other documents than the one that it contradicts."""
        document = self._nearby.chunk(contradicted).doc_id
        chunks = ((other, self._nearby.chunk(other)) for other in nearby)
        return [other for other, chunk in chunks if chunk.trust is TrustLevel.TRUSTED and chunk.doc_id != document]

    def _in_its_place(self, other: OtherChunk, contradicted: OtherChunk) -> list[ChosenPair]:
        """Return what is read of a trusted chunk beside the one that an arriving chunk contradicts."""
        beside = TrustedPassage(self._passage_of(contradicted), self._nearby.chunk(contradicted).title)
        return choose_pairs(self._passage_of(other), [beside], READ_TO_DISPUTE)

    def _passage_of(self, other: OtherChunk) -> StatedPassage:
        return self._passage(other) if isinstance(other, int) else self._read(other.text, other.chunk.title)

    def _compare(self, position: int, other: OtherChunk, *, only_conflicts: bool) -> list[RelatedStatement]:
        self._left -= 1
        own, chunk, passage = self._passage(position), self._nearby.chunk(other), self._passage_of(other)
        comparisons = [
            comparison
            for comparison in compare_passages(own, passage)
            if not only_conflicts or comparison.outcome is Outcome.CONFLICT
        ]
        is_copy = bool(comparisons) and is_near_copy(own, passage)
        is_served = not isinstance(other, int)
        return [
            place_comparison(self._chunks[position], comparison, chunk, is_copy, is_served)
            for comparison in comparisons
        ]

    @cached_property
    def _known(self) -> Sequence[str]:
        return self._texts(range(len(self._chunks)))  # at once: each batch is read once

    def _passage(self, position: int) -> StatedPassage:
        return self._read(self._known[position], self._chunks[position].title)


def _keeps_waiting(statement: RelatedStatement) -> bool:
    """Return whether a statement of an open chunk keeps it waiting."""
    return statement.is_contradiction and statement.trust is not TrustLevel.OPEN


def _mark_disputed(placed_statements: Sequence[_PlacedStatement]) -> list[_PlacedStatement]:
    """Mark contradictions of what another document, of no lower trust, states as the arriving one does."""
    agreeing: defaultdict[tuple[int, Span], list[RelatedStatement]] = defaultdict(list)
    for position, _, statement in placed_statements:
        if statement.outcome is Outcome.AGREE:
            agreeing[position, statement.span].append(statement)

    def mark(position: int, statement: RelatedStatement) -> RelatedStatement:
        if statement.outcome is not Outcome.CONFLICT:
            return statement
        backing = (each for each in agreeing.get((position, statement.span), ()) if _backs(each, statement))
        return replace(statement, disputed_by=each.other.doc_id) if (each := next(backing, None)) else statement

    return [(position, other, mark(position, statement)) for position, other, statement in placed_statements]


def _backs(agreeing: RelatedStatement, conflict: RelatedStatement) -> bool:
    """Return whether a document agrees with the very values of a sentence that another document contradicts.

    Where no value differs, as in a denial, nothing says which of the sentence's clauses it agrees with.
    """
    return (
        bool(conflict.values)
        and agreeing.other.doc_id != conflict.other.doc_id
        and agreeing.trust.rank >= conflict.trust.rank
        and set(conflict.values) <= set(agreeing.values)
    )


def _decided(own: PlacedChunk, other: PlacedChunk, related: Iterable[RelatedStatement]) -> frozenset[tuple[Span, Span]]:
    """Return the sentences of two chunks that agree or contradict each other, by their places in the chunks."""
    return frozenset(
        (shift(statement.span, -own.start), shift(statement.other.span, -other.start))
        for statement in related
        if statement.other.chunk_id == other.chunk_id
    )
