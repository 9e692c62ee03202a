"""Honest texts that arrive beside trusted ones of their kind: how many are taken for contradictions.

Of a half of a file some documents are trusted, and others arrive in an open source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpus_guard.detectors.contradictions.honest_texts import HonestText, choose_documents, read_honest_texts
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import TrustLevel
from corpus_guard.evaluation.contradictions.figures import contradicted_texts
from corpus_guard.models import TextEmbedder
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
from corpus_guard.screening.survey.related_statements import PlacedChunk, RelatedStatement
from corpus_guard.screening.wording import Wording

ARRIVING: Final = 300  # texts of a half
TRUSTED: Final = 1_500


@dataclass(frozen=True, slots=True)
class HonestFigure:
    """Texts of one file and half, and how many contradict a trusted one in the eyes of the guard."""

    file: str
    half: Half
    flagged: int
    texts: int
    trusted: int  # texts they were compared with

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "file": self.file,
            "half": self.half.value,
            "flagged": self.flagged,
            "texts": self.texts,
            "trusted": self.trusted,
        }


@dataclass(frozen=True, slots=True)
class Flagged:
    """An honest text that is taken for a contradiction, and the trusted one beside it."""

    text: HonestText
    statement: RelatedStatement
    trusted: HonestText

    def sentences(self) -> tuple[str, str]:
        """Return the two sentences."""
        span, other = self.statement.span, self.statement.other.span
        return self.text.text[span.start : span.end], self.trusted.text[other.start : other.end]


def measure_honest(
    path: Path,
    embedder: TextEmbedder,
    wording: Wording,
    halves: Sequence[Half],
    seed: int = 0,
    likely: LikelyContradictions | None = None,
) -> Iterator[tuple[HonestFigure, list[Flagged]]]:
    """Yield the figure of each half of a file, with what is flagged.

    Args:
        path: JSONL with ``text``, and ``title`` or ``repo`` and ``path``.
        embedder: of the deployment.
        wording: weighs words by their rarity.
        halves: to be measured.
        seed: chooses which documents arrive and which are trusted.
        likely: reads what the rules leave open; None: the rules alone are measured.

    Raises:
        Misuse: the file cannot be read, or a row has no text.
    """
    for half in halves:
        arriving, trusted = choose_documents(read_honest_texts(path, half), ARRIVING, TRUSTED, seed)
        both = [*trusted, *arriving]
        places = [_place(text, number, number < len(trusted)) for number, text in enumerate(both)]
        found = contradicted_texts(places, [text.text for text in both], embedder, wording, likely)
        flagged = [
            Flagged(both[int(version)], statement, both[int(statement.other.version_id)])
            for version, statement in sorted(found.items(), key=lambda pair: int(pair[0]))
        ]
        yield HonestFigure(path.stem, half, len(flagged), len(arriving), len(trusted)), flagged


def _place(text: HonestText, number: int, is_trusted: bool) -> PlacedChunk:
    trust = TrustLevel.TRUSTED if is_trusted else TrustLevel.OPEN
    return PlacedChunk(text.document, str(number), str(number), 0, 0, trust, text.title)
