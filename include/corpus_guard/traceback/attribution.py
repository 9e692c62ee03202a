"""Attribution that survives drift: find where a text of an earlier day is in the live corpus now.

A text that was traced or served earlier may have been edited or chunked anew since. It is looked up in four
steps, the surest first; each candidate is attributed by the first step that matches:

    hash         the same bytes
    normalised   the same letters and digits: Unicode forms, look-alikes, case, spacing and punctuation aside
    shingles     common runs of one to three words, measured against the shorter of the two texts: a chunk may
                 have become part of a longer one, or lie in two
    embedding    almost no common run, but far nearer than all others

Rules
    * candidates are what the text, and each part of it, retrieves (`split_into_probes`), and what the ledger
      knows by hash or MinHash bands;
    * words are weighted by rarity: a word that half of the candidates have says little (inverse document
      frequency among them);
    * a confidence is a calibrated probability that the candidate is the text's, 0..1
      (`corpus_guard.evaluation.drift` measures it); attributions below `MIN_CONFIDENCE`
      (`MIN_VECTOR_CONFIDENCE` for a vector alone) are not returned;
    * nothing is removed or judged here: an attribution says where to look.

Among candidates the shingles are compared directly and not by MinHash: at 50 % drift the resemblance to
detect is below 0.1, and the standard error of 64 MinHash values is 0.06. MinHash finds candidates that the
embedding would miss.

What it does not do: find a text whose every sentence was rewritten; distinguish two candidates that differ
less than the drift.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.corpus.retriever import reasons_to_withhold
from corpus_guard.corpus.store import Match, Store
from corpus_guard.domain import first_of_each, replace_surrogates, sha256_text
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import PublicationState
from corpus_guard.ledger.tables import bands, chunks, publications
from corpus_guard.models import TextEmbedder
from corpus_guard.screening.folding import fold
from corpus_guard.screening.learned_scores import Logistic
from corpus_guard.screening.survey.resemblance import band_keys
from corpus_guard.screening.survey.signals import compute_minhash
from corpus_guard.traceback.live_corpus import LiveCorpus, from_published_chunk
from corpus_guard.traceback.retrieval import RetrievedText, SearchableCorpus

MIN_CONFIDENCE = 0.4
"""Confidence from which a candidate is returned for what it has in common with the text."""
MIN_VECTOR_CONFIDENCE = 0.9
"""The same for its vector alone: texts that are near are often only about the same topic."""
NORMALISED_CONFIDENCE = 0.999
MAX_ESTIMATED_CONFIDENCE = 0.99
RECORDS_PER_PROBE = 60
MAX_TEXT_LENGTH = 20_000  # characters compared of a text
MAX_LEDGER_CANDIDATES = 200  # records taken from what the ledger knows
WORDS_PER_PROBE = 60  # of a part that is looked up by itself
MAX_PROBES = 8
FEATURES = ("words", "pairs", "triples", "whole", "lead", "similarity", "nearer", "size")
"""Shares of the shorter text's words, pairs and triples of words that are common to both; common words as a
share of all words of both; by how much the share of words exceeds the third highest among the candidates;
cosine, and by how much it exceeds the third highest; log of the shorter text's number of words."""
SHINGLE_FEATURES = [FEATURES.index(name) for name in ("whole", "lead")]  # the others added nothing once fitted
EMBEDDING_FEATURES = [FEATURES.index(name) for name in ("similarity", "nearer")]
CONTAINED_SHARE = 0.8  # of common triples, from which the shorter text lies in the longer one, wherever its borders are
CONTAINED_MIN_WORDS = 12  # fewer words may be a turn of phrase
# Third highest share of words, and cosine, in a large corpus; used where a small corpus has lower ones.
CHANCE_OVERLAP, TOPIC_SIMILARITY = 0.27, 0.56
FULL_WEIGHT_LETTERS = 6  # letters from which a word has its full weight
BACKGROUND_RANK = 3  # a re-chunked text lies in two candidates; from the third on, overlap is chance and topic

_IDEOGRAPHIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # written without spaces: one character, one word
_WORD = re.compile(f"[{_IDEOGRAPHIC}]|[^\\W_{_IDEOGRAPHIC}]+")

# Parameters of two logistic scores that separate the right candidates of `corpus_guard.evaluation.drift` from unrelated
# ones, siblings left out: the likeliest ones under a normal prior of variance 10 for each weight. No weight is negative:
# to have more in common never makes a text less likely to be the one.
TRAINED_ON: Final = (
    "the tuning half of PoisonedRAG's adversarial texts and of passages from encyclopaedias and manuals: "
    "380 texts among 1,600 others, 0, 30 and 50 % of words edited, reordered and re-chunked"
)
SHINGLE_SCORE: Final = Logistic.model_validate(
    {
        "version": "1",
        "trained_on": TRAINED_ON,
        "intercept": -6.899,
        "features": {
            "whole": {"mean": 0.0384, "scale": 0.0808, "weight": 2.091},
            "lead": {"mean": -0.1735, "scale": 0.1634, "weight": 1.385},
        },
    }
)
"""Score from the texts alone, by features `SHINGLE_FEATURES`."""
EMBEDDING_SCORE: Final = Logistic.model_validate(
    {
        "version": "1",
        "trained_on": TRAINED_ON,
        "intercept": -5.469,
        "features": {
            "similarity": {"mean": 0.2874, "scale": 0.1305, "weight": 1.011},
            "nearer": {"mean": -0.2749, "scale": 0.2210, "weight": 1.113},
        },
    }
)
"""Score from the vectors alone, by features `EMBEDDING_FEATURES`."""


class AttributionMethod(StrEnum):
    """Step that attributed a candidate."""

    HASH = "hash"
    NORMALISED = "normalised"
    SHINGLES = "shingles"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Chunk of the live corpus that a text of an earlier day lies in."""

    suspect: RetrievedText  # the chunk
    how: AttributionMethod
    confidence: float  # 0..1

    @property
    def chunk_id(self) -> str:
        """Id of the chunk."""
        return self.suspect.chunk_id

    def as_dict(self) -> dict[str, object]:
        """Return JSON-ready values, without the text."""
        return {
            "chunk_id": self.suspect.chunk_id,
            "how": self.how.value,
            "confidence": round(self.confidence, 4),
            "collection": self.suspect.collection,
            "version_id": self.suspect.version_id,
            "source": self.suspect.source,
            "uri": self.suspect.uri,
        }


class _ComparedText:
    """Text in the form it is compared in."""

    def __init__(self, text: str) -> None:
        self.sha256 = sha256_text(text)
        self.words = _WORD.findall(fold(text[:MAX_TEXT_LENGTH]).text)
        self.normalised = "".join(self.words)

    @cached_property
    def distinct_words(self) -> frozenset[str]:
        """Words without repetitions."""
        return frozenset(self.words)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """Pairs of neighbouring words."""
        return frozenset(itertools.pairwise(self.words))

    @cached_property
    def triples(self) -> frozenset[tuple[str, ...]]:
        """Triples of neighbouring words."""
        return frozenset(zip(self.words, self.words[1:], self.words[2:], strict=False))


def _feature_table(
    text: _ComparedText,
    others: Sequence[_ComparedText],
    candidates: Sequence[RetrievedText],
    vector: NDArray[np.float32],
) -> NDArray[np.float64]:
    weights = _word_weights([text, *others])
    rows = []
    for other, candidate in zip(others, candidates, strict=True):
        words, whole = _weighted_overlap(text.distinct_words, other.distinct_words, weights)
        pairs = _overlap_share(text.pairs, other.pairs)
        triples = _overlap_share(text.triples, other.triples)
        size = math.log1p(min(len(text.words), len(other.words)))
        rows.append([words, pairs, triples, whole, 0.0, float(vector @ candidate.vector), 0.0, size])
    table = np.array(rows, np.float64).reshape(-1, len(FEATURES))
    for name, measure, background in (("lead", "words", CHANCE_OVERLAP), ("nearer", "similarity", TOPIC_SIMILARITY)):
        column = table[:, FEATURES.index(measure)]
        third = float(np.sort(column)[-BACKGROUND_RANK]) if len(column) >= BACKGROUND_RANK else 0.0
        table[:, FEATURES.index(name)] = column - max(third, background)
    return table


def _word_weights(texts: Sequence[_ComparedText]) -> Mapping[str, float]:
    counts = Counter(word for text in texts for word in text.distinct_words)
    # Among few candidates every word is rare; short words are mostly grammar, in any language that spells its words.
    return {
        word: math.log1p(len(texts) / count) * min(len(word), FULL_WEIGHT_LETTERS) for word, count in counts.items()
    }


def _weighted_overlap(
    first: frozenset[str], second: frozenset[str], weights: Mapping[str, float]
) -> tuple[float, float]:
    """Return the weight of common words, as a share of the lighter text and of both together."""
    common, weight, other_weight = (sum(weights[word] for word in words) for words in (first & second, first, second))
    return common / max(min(weight, other_weight), 1e-9), common / max(weight + other_weight - common, 1e-9)


def _overlap_share(first: Set[object], second: Set[object]) -> float:
    """Return the number of common elements, as a share of the smaller set."""
    return len(first & second) / max(min(len(first), len(second)), 1)


def split_into_probes(text: str) -> list[str]:
    """Return the text and, if it is long, its parts, which may lie in several chunks by now."""
    words = text[:MAX_TEXT_LENGTH].split()
    parts = (
        [" ".join(words[start : start + WORDS_PER_PROBE]) for start in range(0, len(words), WORDS_PER_PROBE)]
        if len(words) > 1.5 * WORDS_PER_PROBE
        else []
    )
    return list(dict.fromkeys([text, *parts]))[:MAX_PROBES]


def find_candidates(text: str, corpus: SearchableCorpus) -> list[RetrievedText]:
    """Return what a text and its parts retrieve, each record once.

    Raises:
        StoreUnavailable, LedgerUnavailable: the corpus does not answer.
    """
    records = (record for probe in split_into_probes(text) for record in corpus.retrieve(probe, RECORDS_PER_PROBE))
    return list(first_of_each(records, lambda record: record.chunk_id).values())


def attribute(text: str, candidates: Sequence[RetrievedText], vector: NDArray[np.float32]) -> list[Attribution]:
    """Return the candidates that a text of an earlier day lies in, the most confident first.

    Args:
        candidates: chunks of the live corpus, each once (`find_candidates`).
        vector: of the text, shape (dimensions,), length 1; from the embedder that made those of the
            candidates.
    """
    if not candidates:
        return []
    compared = _ComparedText(text)
    others = [_ComparedText(candidate.text) for candidate in candidates]
    features = _feature_table(compared, others, candidates, vector)
    by_shingles = SHINGLE_SCORE.score(features[:, SHINGLE_FEATURES])
    by_embedding = EMBEDDING_SCORE.score(features[:, EMBEDDING_FEATURES])
    triples, sizes = (features[:, FEATURES.index(name)] for name in ("triples", "size"))
    contained = (triples >= CONTAINED_SHARE) & (sizes >= math.log1p(CONTAINED_MIN_WORDS))
    by_shingles = np.where(contained, np.maximum(by_shingles, triples), by_shingles)
    attributions = []
    for candidate, other, shingles, embedding in zip(
        candidates, others, by_shingles.tolist(), by_embedding.tolist(), strict=True
    ):
        if other.sha256 == compared.sha256:
            method, confidence = AttributionMethod.HASH, 1.0
        elif compared.normalised and other.normalised == compared.normalised:
            method, confidence = AttributionMethod.NORMALISED, NORMALISED_CONFIDENCE
        elif shingles >= MIN_CONFIDENCE:
            method, confidence = AttributionMethod.SHINGLES, min(shingles, MAX_ESTIMATED_CONFIDENCE)
        elif embedding >= MIN_VECTOR_CONFIDENCE:
            method, confidence = AttributionMethod.EMBEDDING, min(embedding, MAX_ESTIMATED_CONFIDENCE)
        else:
            continue
        attributions.append(Attribution(candidate, method, confidence))
    return sorted(attributions, key=lambda attribution: (-attribution.confidence, attribution.chunk_id))


def find_in_live_store(ledger: Ledger, store: Store, embedder: TextEmbedder, text: str) -> list[Attribution]:
    """Return where a text of an earlier day lies in the live store, the most confident first.

    Raises:
        StoreUnavailable, LedgerUnavailable: the store or the ledger does not answer.
    """
    text = replace_surrogates(text)
    vector = embedder.embed([text])[0]
    candidates = {
        candidate.chunk_id: candidate
        for candidate in (
            *_candidates_from_ledger(ledger, store, text, vector),
            *find_candidates(text, LiveCorpus(ledger, store, embedder)),
        )
    }
    return attribute(text, list(candidates.values()), vector)


def _candidates_from_ledger(
    ledger: Ledger, store: Store, text: str, vector: NDArray[np.float32]
) -> list[RetrievedText]:
    """Return published chunks that have the same text, or belong to a version that resembles it."""
    same_text = chunks.c.text_sha256 == sha256_text(text)
    alike = sa.select(bands.c.version_id).where(bands.c.band.in_(band_keys(compute_minhash(text))))
    statement = (
        sa.select(publications.c.collection, publications.c.chunk_id)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(
            publications.c.state == PublicationState.PUBLISHED, sa.or_(same_text, publications.c.version_id.in_(alike))
        )
        .order_by(chunks.c.text_sha256 != sha256_text(text), publications.c.chunk_id)
        .limit(MAX_LEDGER_CANDIDATES)
    )
    rows = ledger.rows(statement)
    existing = set(store.names())
    matches = [
        Match(record, collection, float(vector @ record.vector))
        for collection in sorted({row.collection for row in rows} & existing)
        for record in store.get(collection, [row.chunk_id for row in rows if row.collection == collection])
    ]
    return [
        from_published_chunk(match)
        for match, reason in zip(matches, reasons_to_withhold(ledger, matches), strict=True)
        if reason is None  # other records are found by retrieval
    ]
