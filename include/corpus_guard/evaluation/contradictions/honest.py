"""Honest texts that arrive beside trusted ones of their kind: how many are taken for contradictions.

Of a half of a file some documents are trusted, and others arrive in an open source.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpus_guard.detectors.contradictions.honest_texts import HonestText, choose_documents, read_honest_texts
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import JsonRecord, TrustLevel
from corpus_guard.evaluation.contradictions.figures import contradicted_texts
from corpus_guard.models import TextEmbedder
from corpus_guard.models.contradiction_reader import PagePost
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.wording import Wording

ARRIVING: Final = 300  # texts of a half
TRUSTED: Final = 1_500


@dataclass(frozen=True, slots=True)
class HonestFigure(JsonRecord):
    """Texts of one file and half, and how many contradict a trusted one in the eyes of the guard."""

    file: str
    half: Half
    flagged: int
    texts: int
    trusted: int  # texts they were compared with
    embedding_ms: float  # of CPU time for each text
    comparison_ms: float  # of CPU time for each text that arrives

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        times = {name: round(getattr(self, name), 1) for name in ("embedding_ms", "comparison_ms")}
        return {**JsonRecord.as_dict(self), **times}


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
    *,
    late: bool = False,
) -> Iterator[tuple[HonestFigure, list[Flagged]]]:
    """Yield the figure of each half of a file, with what is flagged.

    Args:
        path: JSONL with ``text``, and ``title``, ``query`` or ``repo`` and ``path``.

    Raises:
        Misuse: the file cannot be read, or a row has no text.
    """
    _load_models(embedder, likely)
    for half in halves:
        arriving, trusted = choose_documents(read_honest_texts(path, half), ARRIVING, TRUSTED, seed)
        both = [*trusted, *arriving]
        places = [place_text(text, number, number < len(trusted)) for number, text in enumerate(both)]
        texts = [text.text for text in both]
        began = time.process_time()
        vectors = embedder.embed(texts)
        embedded = time.process_time()
        contradicted = contradicted_texts(places, texts, vectors, wording, likely, late=late)
        compared = time.process_time()
        flagged = [
            Flagged(both[int(version)], statement, both[int(statement.other.version_id)])
            for version, statement in sorted(contradicted.items(), key=lambda pair: int(pair[0]))
        ]
        embedding, comparison = (embedded - began) / max(1, len(both)), (compared - embedded) / max(1, len(arriving))
        figure = HonestFigure(
            path.stem, half, len(flagged), len(arriving), len(trusted), embedding * 1_000, comparison * 1_000
        )
        yield figure, flagged


def _load_models(embedder: TextEmbedder, likely: LikelyContradictions | None) -> None:
    """Let each model read something, so that loading it is not counted."""
    embedder.embed(["A text."])
    if likely:
        for read in (likely.reader.glance, likely.reader.log_odds, likely.reader.log_odds_alone):
            read([PagePost("", "A page.", "A post.")])


def place_text(text: HonestText, number: int, is_trusted: bool) -> PlacedChunk:
    """Return where a text stands: a version of its own, in a trusted or an open source."""
    trust = TrustLevel.TRUSTED if is_trusted else TrustLevel.OPEN
    return PlacedChunk(text.document, str(number), str(number), 0, 0, trust, text.title)
