"""RKM and TKM: a text is poisoned when keywords of the answer from it (RKM), or of the text itself (TKM), agree with the output.

Both follow RobustRAG, which takes the keywords of answers to single texts. Keywords come from no library here:

* of an answer: its runs of neighbouring words that are no function words (who, of, the);
* of a text: the ten words that are most frequent in it and rare in the corpus (frequency times the logarithm of the inverse document
  frequency), neighbours among them joined.

A keyword agrees with the output when one stands in the other, word for word (`corpus_guard.traceback.asking.agrees`). A long output
therefore agrees with nearly everything, which is how both methods accuse the innocent.
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
from corpus_guard.traceback.asking import agrees
from corpus_guard.traceback.baselines._opinions import Uncalibrated, opinion
from corpus_guard.traceback.baselines.rag import RagModel
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.suspects import Complaint, Suspect

KEYWORDS = 10  # of a text
WORDS = 2_000  # read of a text
CHARACTERS = 40 * WORDS
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Rarity:
    """In how many texts of a corpus each word stands."""

    texts: int
    holding: Counter[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Rarity:
        """Count them."""
        holding: Counter[str] = Counter()
        number = 0
        for text in texts:
            number += 1
            holding.update(set(_words(text)))
        return cls(number, holding)

    @property
    def digest(self) -> str:
        """Of the counts."""
        counts = (f"{word} {count}" for word, count in sorted(self.holding.items()))
        return digest("rarity/v1", [str(self.texts), *counts])[:12]

    def keywords(self, text: str) -> set[str]:
        """The words of a text that tell it from others; of equals the one that stands first."""
        counted = Counter(word for word in _words(text) if word not in FUNCTION_WORDS)
        weighed = {
            word: count * math.log((self.texts + 1) / (self.holding[word] + 1)) for word, count in counted.items()
        }
        return set(sorted(weighed, key=lambda word: -weighed[word])[:KEYWORDS])


class RKM(Uncalibrated):
    """Keywords of what the RAG model answers from each text alone."""

    name = "rkm"

    def __init__(self, rag: RagModel) -> None:
        self._rag = rag

    @property
    def digest(self) -> str:
        """The model."""
        return f"{self.name}/1/{self._rag.digest}"

    def judge(self, complaint: Complaint, new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Opinion]:
        """Raises JudgeFailed where the model does not answer."""
        answers = self._rag.answers([(complaint.query, [one.text]) for one in new])
        return [self._opinion(answer, complaint.output) for answer in answers]

    @staticmethod
    def _opinion(answer: str, output: str) -> Opinion:
        if not answer:
            return opinion(None, "the RAG model gave no answer from it")
        found = any(agrees(phrase, output) for phrase in _phrases(answer, lambda word: word not in FUNCTION_WORDS))
        return opinion(
            found, f"a keyword of the answer from it {'agrees' if found else 'does not agree'} with the output"
        )


class TKM(Uncalibrated):
    """Keywords of each text."""

    name = "tkm"

    def __init__(self, rarity: Rarity) -> None:
        self._rarity = rarity

    @property
    def digest(self) -> str:
        """The corpus's words."""
        return f"{self.name}/1/{self._rarity.digest}"

    def judge(self, complaint: Complaint, new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Opinion]:
        """Asks no model."""
        return [self._opinion(one.text, complaint.output) for one in new]

    def _opinion(self, text: str, output: str) -> Opinion:
        found = any(agrees(phrase, output) for phrase in _phrases(text, self._rarity.keywords(text).__contains__))
        return opinion(found, f"a keyword of it {'agrees' if found else 'does not agree'} with the output")


def _phrases(text: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """Runs of neighbouring words that are wanted."""
    run: list[str] = []
    for word in _words(text):
        if wanted(word):
            run.append(word)
        elif run:
            yield " ".join(run)
            run = []
    if run:
        yield " ".join(run)


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text[:CHARACTERS]).casefold()
    return [match.group() for match in islice(_WORD.finditer(folded), WORDS)]
