"""Attribution that survives drift: where in the corpus of now is a text of another day?

A text that was traced, or served on another day, may have been edited or cut into other chunks since. It is looked for in four steps, the
surest first; each candidate is attributed by the first step that finds it:

    hash         the very bytes
    normalised   the same letters and digits: Unicode forms, look-alikes, case, spacing and punctuation aside
    shingles     runs of one to three words in common, measured against the shorter of the two texts: a chunk may have become part of
                 a longer one, or lie in two
    embedding    hardly a run in common, and much nearer than whatever else is near

Rules
    * candidates are what the text, and each part of it, retrieves (`probes`), and what the ledger knows by hash or MinHash bands;
    * words count for what they tell: one that half of the candidates have says little (inverse document frequency among them);
    * a confidence is a calibrated probability that the candidate is the text's, 0..1 (`corpus_guard.evaluation.drift` fits and measures);
      what is below `LEAST` (`MEANT` for a vector alone) is not returned;
    * nothing is removed or judged here: an attribution names where to look.

Among candidates the shingles are compared as they are and not by MinHash: at 50 % drift the resemblance to be seen is below 0.1, and the
standard error of 64 MinHash values is 0.06. MinHash finds candidates, where the embedding would not.

What it does not do: find a text whose every sentence was written anew; tell two candidates apart that differ less than the drift.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.domain import sha256_text
from corpus_guard.ledger.tables import bands, chunks, publications
from corpus_guard.screening._folding import fold
from corpus_guard.traceback._attribution_scores import EMBEDDING, SHINGLES
from corpus_guard.traceback.suspects import Suspect, Suspects

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

LEAST = 0.4
"""Confidence from which a candidate is named by what it has in common with the text."""
MEANT = 0.9
"""The same by its vector alone: what is near is often only about the same."""
AS_GOOD_AS_EQUAL = 0.999
MOST = 0.99  # of an attribution that is estimated
NEAREST = 60  # records that each probe retrieves
LONGEST = 20_000  # characters compared of a text
MOST_KNOWN = 200  # records taken from what the ledger knows
PROBED = 60  # words of a part that is looked for by itself
MOST_PROBES = 8
FEATURES = ("words", "pairs", "triples", "whole", "lead", "similarity", "nearer", "size")
"""Shares of the shorter text's words, pairs and triples of words that are common to both; common words as a share of all words of both;
by how much the share of words exceeds the third highest among the candidates; cosine, and by how much it exceeds the third highest; log
of the shorter text's number of words."""
BY_RUNS = [FEATURES.index(name) for name in ("whole", "lead")]  # beside them the others told nothing more, once fitted
BY_VECTOR = [FEATURES.index(name) for name in ("similarity", "nearer")]
INSIDE = 0.8  # triples in common from which the shorter text lies in the longer one, wherever its borders are
INSIDE_WORDS = 12  # of fewer words it may be a turn of phrase
CHANCE, TOPIC = (
    0.27,
    0.56,
)  # third highest share of words, and cosine, in a large corpus; taken where a small one has less to show
LONG = 6  # letters from which a word weighs in full
THIRD = 3  # a re-chunked text lies in two candidates; from the third on, what is common is chance and topic

_IDEOGRAPHIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # written without spaces: one character, one word
_WORD = re.compile(f"[{_IDEOGRAPHIC}]|[^\\W_{_IDEOGRAPHIC}]+")


class How(StrEnum):
    """Which step found it."""

    HASH = "hash"
    NORMALISED = "normalised"
    SHINGLES = "shingles"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Attribution:
    """A chunk of now that a text of another day lies in."""

    suspect: Suspect  # where it lies
    how: How
    confidence: float  # 0..1

    @property
    def chunk_id(self) -> str:
        """Of the chunk it lies in."""
        return self.suspect.chunk_id

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, without the text."""
        one = self.suspect
        place = {name: getattr(one, name) for name in ("collection", "version_id", "source", "uri")}
        return {"chunk_id": one.chunk_id, "how": self.how.value, "confidence": round(self.confidence, 4), **place}


class _Text:
    """A text as it is compared."""

    def __init__(self, text: str) -> None:
        self.sha256 = sha256_text(text)
        self.words = _WORD.findall(fold(text[:LONGEST]).text)
        self.normalised = "".join(self.words)

    @cached_property
    def runs(self) -> tuple[frozenset[Any], frozenset[Any], frozenset[Any]]:
        """Words, pairs and triples of words."""
        words = self.words
        return (
            frozenset(words),
            frozenset(itertools.pairwise(words)),
            frozenset(zip(words, words[1:], words[2:], strict=False)),
        )


def features_of(text: str, candidates: Sequence[Suspect], vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """What is measured of a text and each candidate, shape (len(candidates), len(FEATURES)).

    Args:
        text: of another day.
        candidates: chunks of now.
        vector: of the text, shape (dimensions,), length 1.
    """
    return _features(_Text(text), [_Text(one.text) for one in candidates], candidates, vector)


def _features(
    text: _Text, others: Sequence[_Text], candidates: Sequence[Suspect], vector: NDArray[np.float32]
) -> NDArray[np.float64]:
    weights = _weights([text, *others])
    rows = []
    for other, candidate in zip(others, candidates, strict=True):
        words, whole = _weighted(text.runs[0], other.runs[0], weights)
        pairs, triples = (_share(text.runs[size], other.runs[size]) for size in (1, 2))
        size = math.log1p(min(len(text.words), len(other.words)))
        rows.append([words, pairs, triples, whole, 0.0, float(vector @ candidate.vector), 0.0, size])
    table = np.array(rows, np.float64).reshape(-1, len(FEATURES))
    for name, of, least in (("lead", "words", CHANCE), ("nearer", "similarity", TOPIC)):
        column = table[:, FEATURES.index(of)]
        third = float(np.sort(column)[-THIRD]) if len(column) >= THIRD else 0.0
        table[:, FEATURES.index(name)] = column - max(third, least)
    return table


def _weights(texts: Sequence[_Text]) -> Mapping[str, float]:
    counts = Counter(word for text in texts for word in text.runs[0])
    # Among few candidates every word is rare; what is short is rather grammar, in any language that spells its words.
    return {word: math.log1p(len(texts) / count) * min(len(word), LONG) for word, count in counts.items()}


def _weighted(one: frozenset[str], other: frozenset[str], weights: Mapping[str, float]) -> tuple[float, float]:
    """The weight of what is common to both, as a share of the lighter and of all."""
    both, left, right = (sum(weights[word] for word in part) for part in (one & other, one, other))
    return both / max(min(left, right), 1e-9), both / max(left + right - both, 1e-9)


def _share(one: frozenset[Any], other: frozenset[Any]) -> float:
    """What is common to both, as a share of the smaller."""
    return len(one & other) / max(min(len(one), len(other)), 1)


def probes(text: str) -> list[str]:
    """What to retrieve candidates with: the text, and where it is long, each of its parts: it may lie in several chunks by now."""
    words = text[:LONGEST].split()
    parts = (
        [" ".join(words[start : start + PROBED]) for start in range(0, len(words), PROBED)]
        if len(words) > 1.5 * PROBED
        else []
    )
    return list(dict.fromkeys([text, *parts]))[:MOST_PROBES]


def candidates_of(text: str, corpus: Suspects, nearest: int = NEAREST) -> list[Suspect]:
    """What a text and its parts retrieve, each record once.

    Raises:
        StoreUnavailable, LedgerUnavailable: the corpus does not answer.
    """
    found: dict[str, Suspect] = {}
    for probe in probes(text):
        for one in corpus.retrieve(probe, nearest):
            found.setdefault(one.chunk_id, one)
    return list(found.values())


def attribute(text: str, candidates: Sequence[Suspect], vector: NDArray[np.float32]) -> list[Attribution]:
    """Where a text of another day lies, the most confident first; empty: in none of the candidates.

    Args:
        text: of another day.
        candidates: chunks of now, each once (`candidates_of`).
        vector: of the text, shape (dimensions,), length 1; from the embedder that made those of the candidates.
    """
    if not candidates:
        return []
    looked_for = _Text(text)
    others = [_Text(one.text) for one in candidates]
    features = _features(looked_for, others, candidates, vector)
    by_runs, by_vector = SHINGLES.score(features[:, BY_RUNS]), EMBEDDING.score(features[:, BY_VECTOR])
    triples, sizes = (features[:, FEATURES.index(name)] for name in ("triples", "size"))
    inside = (triples >= INSIDE) & (sizes >= math.log1p(INSIDE_WORDS))
    by_runs = np.where(inside, np.maximum(by_runs, triples), by_runs)
    found = []
    for one, other, runs, meaning in zip(candidates, others, by_runs.tolist(), by_vector.tolist(), strict=True):
        if other.sha256 == looked_for.sha256:
            found.append(Attribution(one, How.HASH, 1.0))
        elif looked_for.normalised and other.normalised == looked_for.normalised:
            found.append(Attribution(one, How.NORMALISED, AS_GOOD_AS_EQUAL))
        elif runs >= LEAST:
            found.append(Attribution(one, How.SHINGLES, min(runs, MOST)))
        elif meaning >= MEANT:
            found.append(Attribution(one, How.EMBEDDING, min(meaning, MOST)))
    return sorted(found, key=lambda one: (-one.confidence, one.chunk_id))


def find_now(guard: Guard, text: str) -> list[Attribution]:
    """Where a text of another day lies in the live store, the most confident first.

    Raises:
        StoreUnavailable, LedgerUnavailable: they do not answer.
    """
    from corpus_guard.traceback.live import LiveCorpus

    text = text.encode("utf-8", "replace").decode()
    vector = guard.models.embedder.embed([text])[0]
    found = {one.chunk_id: one for one in _known(guard, text, vector)}
    found |= {one.chunk_id: one for one in candidates_of(text, LiveCorpus(guard))}
    return attribute(text, list(found.values()), vector)


def _known(guard: Guard, text: str, vector: NDArray[np.float32]) -> list[Suspect]:
    """What is served and has this very text, or belongs to a document that resembles it; the ledger knows without any vector."""
    from corpus_guard.corpus.retriever import unvouched
    from corpus_guard.corpus.store import Match
    from corpus_guard.screening.signals import minhash_of
    from corpus_guard.screening.survey import band_keys

    alike = sa.select(bands.c.version_id).where(bands.c.band.in_(band_keys(minhash_of(text))))
    statement = (
        sa.select(publications.c.collection, publications.c.chunk_id)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(
            publications.c.state == "published",
            sa.or_(chunks.c.text_sha256 == sha256_text(text), publications.c.version_id.in_(alike)),
        )
        .order_by(chunks.c.text_sha256 != sha256_text(text), publications.c.chunk_id)
        .limit(MOST_KNOWN)
    )
    with guard.ledger.read() as connection:
        rows = connection.execute(statement).all()
    existing = set(guard.store.names())
    matches = [
        Match(record, collection, float(vector @ record.vector))
        for collection in sorted({row.collection for row in rows} & existing)
        for record in guard.store.get(collection, [row.chunk_id for row in rows if row.collection == collection])
    ]
    return [
        Suspect(
            match.record.chunk_id,
            match.record.text,
            match.similarity,
            match.record.vector,
            match.collection,
            *(str(match.record.metadata[name]) for name in ("version_id", "source", "uri")),
        )
        for match, reason in zip(matches, unvouched(guard.ledger, matches), strict=True)
        if reason is None  # others are found by retrieval, and named as nobody's
    ]
