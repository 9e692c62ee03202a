"""Honest texts for questions that have none: the nearest ones of a collection, by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from corpus_guard.detectors.samples import read_rows
from corpus_guard.errors import Misuse

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

PASSAGES_PER_QUESTION: Final = 20  # as many as PoisonedRAG's questions come with


class Passages:
    """Collection of texts that nobody attacked. The index is built at the first question."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(dict.fromkeys(texts))

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Passages:
        """Read JSONL with a ``text`` in each row.

        Raises:
            Misuse: a file cannot be read, or a row has no text; names file and line.
        """
        texts = []
        for path in paths:
            for place, row in read_rows(path):
                text = row.get("text")
                if not isinstance(text, str) or not text.strip():
                    raise Misuse(
                        f"{place}: 'text' is {type(text).__name__} or blank; expected a passage that nobody attacked"
                    )
                texts.append(text)
        return cls(texts)

    def nearest(self, question: str, count: int = PASSAGES_PER_QUESTION) -> list[str]:
        """Return the nearest texts that share a word with a question, nearest first."""
        if not self._texts:
            return []
        vectorizer, words = self._index
        near = (vectorizer.transform([question]) @ words).toarray()[0]
        shared = np.flatnonzero(near)
        return [self._texts[index] for index in shared[np.argsort(-near[shared], kind="stable")[:count]]]

    @cached_property
    def _index(self) -> tuple[TfidfVectorizer, csr_matrix]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, stop_words="english")
        try:
            return vectorizer, vectorizer.fit_transform(self._texts).T.tocsr()  # by word: a question has few words
        except ValueError as error:  # no word at all
            raise Misuse(f"{len(self._texts):,} passages: no word in them; expected text") from error
