"""Sentences of a text that may be orders: those that words do not rule out, as a reader would meet them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from corpus_guard.domain import Span
from corpus_guard.screening.orders.classifier import OrderClassifier
from corpus_guard.screening.orders.features import (
    join_cells,
    join_sentences,
    plain_sentence,
    split_parts,
    split_passages,
    split_pieces,
    split_rows,
    split_slots,
)
from corpus_guard.screening.orders.undisguised import open_enclosed, undisguise

MAX_DOUBTFUL: Final = 5_000
"""Sentences of one text that the classifier reads with its encoders, some 7 to 20 ms each, and up to 50 more where both read."""
READ_WHOLE_CHARS: Final = 220
"""Longest sentence in doubt that is read whole only: who has read all of it knows more than its parts say."""


@dataclass(frozen=True, slots=True)
class DoubtfulSentences:
    """Sentences that may be orders, by their places, and whether the text holds more than are read."""

    sentences: Mapping[Span, str]
    parts: Set[Span]
    """Parts of longer sentences among them, and sentences read together: only what is surer counts."""
    passages: Set[Span]
    """Lines and other passages among them that are no whole sentences: only what is surer still counts."""
    cut_off: bool


def find_doubtful(text: str, classifier: OrderClassifier | None) -> DoubtfulSentences:
    """Return the sentences of a text that words do not rule out."""
    if classifier is None:
        return DoubtfulSentences({}, frozenset(), frozenset(), cut_off=False)
    text = open_enclosed(text)
    rows = {span: join_cells(text[span.start : span.end]) for span in split_rows(text)}
    passages = list(split_passages(text))
    alone = (text[span.start : span.end] for span in passages)
    if not classifier.opens(undisguise(text)) and not any(map(classifier.opens, chain(rows.values(), alone))):
        return DoubtfulSentences({}, frozenset(), frozenset(), cut_off=False)
    pieces = list(split_pieces(text))
    whole = dict.fromkeys((*pieces, *split_slots(text), *rows))
    sentences = {
        span: plain_sentence(undisguise(rows.get(span) or text[span.start : span.end]))
        for span in dict.fromkeys((*whole, *passages))
    }
    in_doubt = [span for span in pieces if classifier.doubts(sentences[span])]
    joined = join_sentences(text, pieces, set(in_doubt))
    short = [span for span in in_doubt if span.end - span.start <= READ_WHOLE_CHARS]
    cut = ((span, part) for span, part in split_parts(text) if not _lies_within(span, short))
    parts = {span: undisguise(part) for span, part in chain(cut, joined) if span not in sentences}
    doubted = chain(
        filter(classifier.doubts, dict.fromkeys(sentences.values())),
        filter(classifier.suspects, dict.fromkeys(parts.values())),
    )
    read = set(islice(doubted, MAX_DOUBTFUL))
    doubtful = {span: each for span, each in (*sentences.items(), *parts.items()) if each in read}
    return DoubtfulSentences(
        doubtful,
        parts=doubtful.keys() & parts.keys(),
        passages=doubtful.keys() & (sentences.keys() - whole.keys()),
        cut_off=next(doubted, None) is not None,
    )


def _lies_within(span: Span, others: Sequence[Span]) -> bool:
    """Return whether a span lies within one of the others, which are in order and apart from each other."""
    before = bisect_right(others, span.start, key=lambda other: other.start)
    return before > 0 and span.end <= others[before - 1].end
