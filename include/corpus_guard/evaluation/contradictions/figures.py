"""Figures of the cases: how many contradictions of trusted texts are found, and how many honest texts are not left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.outcome import Outcome
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import TrustLevel, first_of_each
from corpus_guard.evaluation.contradictions.cases import CaseGroup, Origin, load_cases
from corpus_guard.models import TextEmbedder
from corpus_guard.screening.checks.conflict import ConflictParams
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
from corpus_guard.screening.survey.nearby_chunks import NothingServed, PlacedChunk, ServedChunk
from corpus_guard.screening.survey.related_statements import RelatedStatement, SentencePlace
from corpus_guard.screening.survey.statement_search import find_related_statements
from corpus_guard.screening.wording import Wording


@dataclass(frozen=True, slots=True)
class ContradictionFigure:
    """Texts of one kind, and how many of them contradict a trusted text in the eyes of the guard."""

    group: CaseGroup
    origin: Origin
    half: Half
    contradicted: int
    texts: int

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "group": self.group.value,
            "origin": self.origin.value,
            "half": self.half.value,
            "found": self.contradicted,
            "texts": self.texts,
            "must_be_found": self.group.is_attack,
        }


def measure_contradictions(
    embedder: TextEmbedder,
    wording: Wording,
    seed: int = 0,
    without: Collection[Origin] = (),
    likely: LikelyContradictions | None = None,
    *,
    late: bool = False,
) -> list[ContradictionFigure]:
    """Let every case arrive in an open source beside the trusted texts, and count.

    Args:
        without: origins that are left out, as for `load_cases`.
        likely: reads what the rules leave open; None: the rules alone are measured.
        late: the trusted texts arrive when the cases are served.
    """
    trusted, cases = load_cases(seed, without)
    texts = [*(document.text for document in trusted), *(case.text for case in cases)]
    places = [
        *(_place(f"trusted-{number}", TrustLevel.TRUSTED, document.title) for number, document in enumerate(trusted)),
        *(_place(f"case-{number}", TrustLevel.OPEN) for number in range(len(cases))),
    ]
    contradicted = contradicted_texts(places, texts, embedder.embed(texts), wording, likely, late=late)
    counts: Counter[tuple[CaseGroup, Origin, Half, bool]] = Counter(
        (case.group, case.origin, case.half, f"case-{number}" in contradicted) for number, case in enumerate(cases)
    )
    return [
        ContradictionFigure(*key, counts[*key, True], counts[*key, True] + counts[*key, False])
        for key in sorted({(case.group, case.origin, case.half) for case in cases})
    ]


def _place(name: str, trust: TrustLevel, title: str = "") -> PlacedChunk:
    return PlacedChunk(name, name, name, 0, 0, trust, title)


def contradicted_texts(
    places: Sequence[PlacedChunk],
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    wording: Wording,
    likely: LikelyContradictions | None = None,
    *,
    late: bool = False,
) -> dict[str, RelatedStatement]:
    """Return by version its worst sentence that contradicts a trusted one; versions without one are left out.

    Args:
        vectors: their unit vectors, shape (chunks, dimensions).
        late: the trusted chunks arrive when the others are served; else all arrive together.
    """
    arriving = [n for n, place in enumerate(places) if place.trust is TrustLevel.TRUSTED or not late]
    others = sorted({*range(len(places))} - {*arriving})
    related = find_related_statements(
        [places[n] for n in arriving],
        vectors[arriving],
        lambda positions: [texts[arriving[position]] for position in positions],
        _Served([(places[n], texts[n]) for n in others], vectors[others]) if late else NothingServed(),
        wording.rarity,
        ConflictParams().comparisons,
        likely,
    )
    if late:
        trusted = {places[n].version_id: places[n] for n in arriving}
        contradicted = (
            (statement.other.version_id, _turned(statement, trusted[version]))
            for version, statements in related.contradicted.items()
            for statement in statements
        )
    else:
        contradicted = (
            (version, statement)
            for version, statements in related.statements.items()
            for statement in statements
            if statement.outcome in {Outcome.CONFLICT, Outcome.LIKELY}
            and statement.trust is TrustLevel.TRUSTED
            and not statement.is_noted_only
        )
    return {version: worst for version, (_, worst) in first_of_each(contradicted, lambda each: each[0]).items()}


class _Served:
    """Collections that hold some chunks."""

    def __init__(self, chunks: Sequence[tuple[PlacedChunk, str]], vectors: NDArray[np.float32]) -> None:
        self._chunks = chunks
        self._vectors = vectors

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> list[list[ServedChunk]]:
        """Return the `count` chunks of a trust level nearest to each vector, nearest first."""
        own = [n for n, (place, _) in enumerate(self._chunks) if place.trust is trust]
        cosines = vectors @ self._vectors[own].T
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        return [
            [
                ServedChunk(place, text, float(row[column]))
                for column in columns
                for place, text in [self._chunks[own[column]]]
            ]
            for row, columns in zip(cosines, nearest.tolist(), strict=True)
        ]


def _turned(statement: RelatedStatement, trusted: PlacedChunk) -> RelatedStatement:
    """Return what a served chunk states that a trusted one contradicts, as if the served one arrived."""
    place = SentencePlace(trusted.doc_id, trusted.version_id, trusted.chunk_id, statement.span, statement.values)
    own = statement.other
    return replace(statement, span=own.span, values=own.values, other=place, trust=trusted.trust)
