"""Honest texts for questions that bring none: the nearest ones of a collection, by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.samples import read_rows

NEAREST: Final = 20  # as many as PoisonedRAG's questions come with


class Passages:
    """Texts that nobody attacked. Nothing is computed before the first question."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(dict.fromkeys(texts))

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Passages:
        """From JSONL with a ``text`` in each row.

        Raises:
            Misuse: a file cannot be read, or a row has no text; names file and line.
        """
        texts = []
        for path in paths:
            for where, row in read_rows(path):
                text = row.get("text")
                if not isinstance(text, str) or not text.strip():
                    raise Misuse(
                        f"{where}: 'text' is {type(text).__name__} or blank; expected a passage nobody attacked"
                    )
                texts.append(text)
        return cls(texts)

    def nearest(self, question: str, count: int = NEAREST) -> list[str]:
        """The nearest texts that share a word with a question, nearest first."""
        if not self._texts:
            return []
        vectorizer, words = self._index
        near = (vectorizer.transform([question]) @ words).toarray()[0]
        shared = np.flatnonzero(near)
        return [self._texts[index] for index in shared[np.argsort(-near[shared], kind="stable")[:count]]]

    @cached_property
    def _index(self) -> tuple[Any, Any]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, stop_words="english")
        try:
            return vectorizer, vectorizer.fit_transform(self._texts).T.tocsr()  # by word: a question has few
        except ValueError as error:  # no word at all
            raise Misuse(f"{len(self._texts):,} passages: no word in them; expected text") from error
