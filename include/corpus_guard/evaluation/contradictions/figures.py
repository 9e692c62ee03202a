"""Figures of the cases: how many contradictions of trusted texts are found, and how many honest texts are not left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.comparison import Outcome
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import TrustLevel
from corpus_guard.evaluation.contradictions.cases import Group, Origin, load_cases
from corpus_guard.models import TextEmbedder
from corpus_guard.screening.checks.conflict import ConflictParams
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
from corpus_guard.screening.survey.related_statements import (
    NothingServed,
    PlacedChunk,
    RelatedStatement,
    find_related_statements,
)
from corpus_guard.screening.wording import Wording


@dataclass(frozen=True, slots=True)
class ContradictionFigure:
    """Texts of one kind, and how many of them contradict a trusted text in the eyes of the guard."""

    group: Group
    origin: Origin
    half: Half
    found: int
    texts: int

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "group": self.group.value,
            "origin": self.origin.value,
            "half": self.half.value,
            "found": self.found,
            "texts": self.texts,
            "must_be_found": self.group.is_attack,
        }


def measure_contradictions(
    embedder: TextEmbedder,
    wording: Wording,
    seed: int = 0,
    without: Collection[Origin] = (),
    likely: LikelyContradictions | None = None,
) -> list[ContradictionFigure]:
    """Let every case arrive in an open source beside the trusted texts, and count.

    Args:
        embedder: of the deployment.
        wording: weighs words by their rarity.
        seed: chooses wordings, values and surroundings.
        without: origins that are left out, as for `load_cases`.
        likely: reads what the rules leave open; None: the rules alone are measured.
    """
    trusted, cases = load_cases(seed, without)
    texts = [*(document.text for document in trusted), *(case.text for case in cases)]
    places = [
        *(_place(f"trusted-{number}", TrustLevel.TRUSTED, document.title) for number, document in enumerate(trusted)),
        *(_place(f"case-{number}", TrustLevel.OPEN) for number in range(len(cases))),
    ]
    found = contradicted_texts(places, texts, embedder.embed(texts), wording, likely)
    counts: Counter[tuple[Group, Origin, Half, bool]] = Counter(
        (case.group, case.origin, case.half, f"case-{number}" in found) for number, case in enumerate(cases)
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
) -> dict[str, RelatedStatement]:
    """Return by version its worst sentence that contradicts a trusted one; versions without one are left out."""
    related = find_related_statements(
        places,
        vectors,
        lambda positions: [texts[position] for position in positions],
        NothingServed(),
        wording.rarity,
        ConflictParams().comparisons,
        likely,
    )
    conflicts = (
        (version, statement)
        for version, statements in related.statements.items()
        for statement in statements
        if statement.outcome in {Outcome.CONFLICT, Outcome.LIKELY}
        and statement.trust is TrustLevel.TRUSTED
        and not statement.is_noted_only
    )
    worst: dict[str, RelatedStatement] = {}
    for version, statement in conflicts:
        worst.setdefault(version, statement)
    return worst
