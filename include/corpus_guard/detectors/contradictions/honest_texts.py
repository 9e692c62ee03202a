"""Honest texts of many documents, and what a reader would be shown of two of them.

A row of a file is a text with the ``title`` of its document, or with its ``repo`` and ``path``. Of a passage that was retrieved for a
``query`` the question stands for the title. Rows of one document are never compared. All documents of a repository, and all passages of a
question, fall into the same half; others by their title.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from corpus_guard.claims.passages import StatedPassage
from corpus_guard.detectors.samples import Half, Row, assign_half, read_rows
from corpus_guard.errors import Misuse
from corpus_guard.intake.parsing.mojibake import repair_mojibake
from corpus_guard.models import TextEmbedder
from corpus_guard.models.contradiction_reader import PagePost
from corpus_guard.screening.survey.likely_contradictions import TrustedPassage, choose_pairs
from corpus_guard.screening.survey.nearby_chunks import NEAR_COSINE, document_title
from corpus_guard.screening.wording import Wording

ARRIVING: Final = 2_500  # texts of a file
PAGES: Final = 2_500  # beside which they arrive
NEAREST: Final = 4  # of these, beside which a text is read


@dataclass(frozen=True, slots=True)
class HonestText:
    """A text of a file."""

    document: str  # its key: texts of one document share it
    group: str  # documents of one group are in the same half
    title: str  # of the document and its path, as screening reads them
    text: str


def read_honest_texts(path: Path, half: Half) -> list[HonestText]:
    """Return the texts of one half of a JSONL file.

    Raises:
        Misuse: the file cannot be read, or a row has no text.
    """
    texts = [_read(row, place) for place, row in read_rows(path)]
    return [text for text in texts if assign_half(text.group) is half]


def choose_documents(
    texts: Sequence[HonestText], arriving: int, trusted: int, seed: int
) -> tuple[list[HonestText], list[HonestText]]:
    """Return texts that arrive and texts of pages, of whole documents in an order that the seed chooses."""
    documents: defaultdict[str, list[HonestText]] = defaultdict(list)
    for text in texts:
        documents[text.document].append(text)
    posts: list[HonestText] = []
    pages: list[HonestText] = []
    for document in sorted(documents, key=lambda key: hashlib.sha256(f"{seed}\n{key}".encode()).digest()):
        (posts if len(posts) < arriving else pages).extend(documents[document])
    return posts[:arriving], pages[:trusted]


def find_honest_pairs(
    path: Path, embedder: TextEmbedder, wording: Wording, seed: int = 0, *, alone: bool = False
) -> list[PagePost]:
    """Return what a reader would be shown of each honest text, beside another document.

    Only the tuning half of the file is used, so that `guard evaluate claims --honest` can measure on the other.

    Args:
        path: JSONL with ``text``, and ``title``, ``query`` or ``repo`` and ``path``.
        alone: show the sentence with most in common alone, not an excerpt.

    Raises:
        Misuse: the file cannot be read, or a row has no text.
    """
    posts, pages = choose_documents(read_honest_texts(path, Half.TUNING), ARRIVING, PAGES, seed)
    if not posts or not pages:
        return []
    vectors = embedder.embed([page.text for page in pages])
    shown: list[PagePost] = []
    for post, cosines in zip(posts, embedder.embed([post.text for post in posts]) @ vectors.T, strict=True):
        nearest = [number for number in np.argsort(-cosines)[:NEAREST] if cosines[number] >= NEAR_COSINE]
        trusted = [
            TrustedPassage(StatedPassage(pages[number].text, wording.rarity, pages[number].title), pages[number].title)
            for number in nearest
        ]
        pairs = choose_pairs(StatedPassage(post.text, wording.rarity, post.title), trusted, 1)
        different = (pair for pair in pairs if pair.shown.post not in pair.shown.excerpt)
        shown += [pair.alone()[pair.nearest] if alone else pair.shown for pair in different]
    return shown


def _read(row: Row, place: str) -> HonestText:
    text, title, path = row.get("text"), str(row.get("title", "")), str(row.get("path", ""))
    if not isinstance(text, str):
        raise Misuse(f"{place}: no 'text'; expected a string, with 'title', 'query' or 'repo' and 'path'")
    repo, question = str(row.get("repo", "")), str(row.get("query", ""))
    document = f"{repo}\n{path}\n{title}" if repo or path or title else text
    group = repo or title or question or text
    return HonestText(document, group, document_title(title or question, path), repair_mojibake(text)[0])
