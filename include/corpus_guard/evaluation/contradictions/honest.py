"""Honest texts that arrive beside trusted ones of their kind: how many are taken for contradictions.

A row of a file is a text with the ``title`` of its document, or with its ``repo`` and ``path``. Rows of one document are
never compared. All documents of a repository fall into the same half, others by their title; of a half some documents are
trusted and others arrive in an open source.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpus_guard.detectors.samples import Half, Row, assign_half, read_rows
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.contradictions.figures import contradicted_texts
from corpus_guard.models import TextEmbedder
from corpus_guard.screening.survey.related_statements import PlacedChunk, RelatedStatement, document_title
from corpus_guard.screening.wording import Wording

ARRIVING: Final = 300  # texts of a half
TRUSTED: Final = 1_500


@dataclass(frozen=True, slots=True)
class HonestText:
    """A text of a file."""

    document: str  # its key: texts of one document share it
    group: str  # documents of one group are in the same half
    title: str  # of the document and its path, as screening reads them
    text: str


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
    path: Path, embedder: TextEmbedder, wording: Wording, halves: Sequence[Half], seed: int = 0
) -> Iterator[tuple[HonestFigure, list[Flagged]]]:
    """Yield the figure of each half of a file, with what is flagged.

    Args:
        path: JSONL with ``text``, and ``title`` or ``repo`` and ``path``.
        embedder: of the deployment.
        wording: weighs words by their rarity.
        halves: to be measured.
        seed: chooses which documents arrive and which are trusted.

    Raises:
        Misuse: the file cannot be read, or a row has no text.
    """
    texts = [_read(row, place) for place, row in read_rows(path)]
    for half in halves:
        arriving, trusted = _choose([text for text in texts if assign_half(text.group) is half], seed)
        both = [*trusted, *arriving]
        places = [_place(text, number, number < len(trusted)) for number, text in enumerate(both)]
        found = contradicted_texts(places, [text.text for text in both], embedder, wording)
        flagged = [
            Flagged(both[int(version)], statement, both[int(statement.other.version_id)])
            for version, statement in sorted(found.items(), key=lambda pair: int(pair[0]))
        ]
        yield HonestFigure(path.stem, half, len(flagged), len(arriving), len(trusted)), flagged


def _read(row: Row, place: str) -> HonestText:
    text, title, path = row.get("text"), str(row.get("title", "")), str(row.get("path", ""))
    if not isinstance(text, str):
        raise Misuse(f"{place}: no 'text'; expected a string, with 'title' or with 'repo' and 'path'")
    repo = str(row.get("repo", ""))
    document = f"{repo}\n{path}\n{title}" if repo or path or title else text
    return HonestText(document, repo or title or text, document_title(title, path), text)


def _choose(texts: Sequence[HonestText], seed: int) -> tuple[list[HonestText], list[HonestText]]:
    """Return texts that arrive and trusted ones, of whole documents in an order that the seed chooses."""
    documents: defaultdict[str, list[HonestText]] = defaultdict(list)
    for text in texts:
        documents[text.document].append(text)
    arriving: list[HonestText] = []
    trusted: list[HonestText] = []
    for document in sorted(documents, key=lambda key: hashlib.sha256(f"{seed}\n{key}".encode()).digest()):
        (arriving if len(arriving) < ARRIVING else trusted).extend(documents[document])
    return arriving[:ARRIVING], trusted[:TRUSTED]


def _place(text: HonestText, number: int, is_trusted: bool) -> PlacedChunk:
    trust = TrustLevel.TRUSTED if is_trusted else TrustLevel.OPEN
    return PlacedChunk(text.document, str(number), str(number), 0, 0, trust, text.title)
