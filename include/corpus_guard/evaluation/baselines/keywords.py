"""RKM and TKM: a text is poisoned if keywords of its answer, or its own, agree with the output.

Both follow RobustRAG, which takes the keywords of answers from single texts. Keywords are

* of an answer: its runs of neighbouring words that are no function words (who, of, the);
* of a text: the ten words that are most frequent in it and rare in the corpus (frequency times the logarithm
  of the inverse document frequency), neighbours among them joined.

A keyword agrees with the output if the words of one occur in the other
(`corpus_guard.traceback.rag_model.agrees`). A long output therefore agrees with nearly everything, which is
how both methods accuse the innocent.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from corpus_guard.corpus.filterrag.words import FUNCTION_WORDS
from corpus_guard.domain import digest
from corpus_guard.evaluation.baselines.interface import AskingJudge, UncalibratedJudge, opinion_of
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.rag_model import agrees
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

KEYWORDS_PER_TEXT = 10  # of a text
MAX_WORDS = 2_000  # read of a text
MAX_CHARACTERS = 40 * MAX_WORDS
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class KeywordRarity:
    """Number of texts of a corpus that hold each word."""

    texts: int
    holding: Counter[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> KeywordRarity:
        """Count the texts that hold each word."""
        holding: Counter[str] = Counter()
        number = 0
        for text in texts:
            number += 1
            holding.update(set(_words(text)))
        return cls(number, holding)

    @property
    def digest(self) -> str:
        """Hash of the counts."""
        counts = (f"{word} {count}" for word, count in sorted(self.holding.items()))
        return digest("rarity/v1", [str(self.texts), *counts])[:12]

    def keywords(self, text: str) -> set[str]:
        """Return the words that distinguish a text from others; of equal words the first."""
        counted = Counter(word for word in _words(text) if word not in FUNCTION_WORDS)
        weighed = {
            word: count * math.log((self.texts + 1) / (self.holding[word] + 1)) for word, count in counted.items()
        }
        return set(sorted(weighed, key=lambda word: -weighed[word])[:KEYWORDS_PER_TEXT])


class RKM(AskingJudge):
    """Judge by keywords of the RAG model's answer from each text alone."""

    name = "rkm"
    version = "1"

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text.

        Raises:
            JudgeFailed: the model does not answer.
        """
        answers = self._rag.answers([(complaint.query, [text.text]) for text in new])
        return [self._opinion(answer, complaint.output) for answer in answers]

    @staticmethod
    def _opinion(answer: str, output: str) -> Opinion:
        if not answer:
            return opinion_of(None, "the RAG model gave no answer from it")
        phrases = _phrases(answer, lambda word: word not in FUNCTION_WORDS)
        agreed = any(agrees(phrase, output) for phrase in phrases)
        return opinion_of(agreed, f"{'a' if agreed else 'no'} keyword of the answer from it agrees with the output")


class TKM(UncalibratedJudge):
    """Judge by keywords of each text."""

    name = "tkm"

    def __init__(self, rarity: KeywordRarity) -> None:
        self._rarity = rarity

    @property
    def digest(self) -> str:
        """Hash of the corpus's words."""
        return f"{self.name}/1/{self._rarity.digest}"

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text, without a model."""
        return [self._opinion(text.text, complaint.output) for text in new]

    def _opinion(self, text: str, output: str) -> Opinion:
        phrases = _phrases(text, self._rarity.keywords(text).__contains__)
        agreed = any(agrees(phrase, output) for phrase in phrases)
        return opinion_of(agreed, f"{'a' if agreed else 'no'} keyword of it agrees with the output")


def _phrases(text: str, is_keyword: Callable[[str], bool]) -> Iterator[str]:
    """Yield the runs of neighbouring keywords."""
    run: list[str] = []
    for word in _words(text):
        if is_keyword(word):
            run.append(word)
        elif run:
            yield " ".join(run)
            run = []
    if run:
        yield " ".join(run)


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).casefold()
    return [match.group() for match in islice(_WORD.finditer(folded), MAX_WORDS)]
