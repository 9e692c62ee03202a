"""RobustRAG, keyword aggregation: isolate, then aggregate.

Source: "Certifiably Robust RAG against Retrieval Corruption" (Xiang and others, 2024). Each text is answered from alone; of all answers
only the words and phrases count that stand in enough of them; the final answer is made from those.

Rules
    * an answer that says it does not know is no answer;
    * enough is ``min(alpha * answers, beta)``, rounded up, with the paper's alpha 0.3 and beta 3;
    * where no word is left, there is nothing to answer from, and the answer is "I don't know".

Keywords are taken without a parser: phrases are what stands between function words and punctuation, words are what they are made of.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter

from corpus_guard.evaluation.defences.defence import Played, texts_of
from corpus_guard.traceback.asking import Answers

ALPHA = 0.3
BETA = 3
UNKNOWN = "I don't know"
MOST = 40  # keywords told, the most frequent first

_UNKNOWING = re.compile(
    r"\b(?:don['’]?t|do not|does not|doesn['’]?t|cannot|can['’]?t)\s+(?:know|say|tell|answer|provide|contain|mention)\b|\bunknown\b"
)
_PART = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*|[^\w\s]")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the and or but nor so yet of in on at by for from to with without as into onto over under about between through is are was
        were be been being am do does did have has had will would can could may might shall should must not no it its this that these
        those he she they we you i his her their our your my who whom whose which what when where why how there here than then also just
        only very more most such some any each all both answer question passage text according""",
    )
)


class RobustRAG:
    """Isolate, then aggregate."""

    def __call__(self, played: Played, answers: Answers) -> str:
        """From the words that enough texts agree on."""
        alone = [answers.answer(played.question, [text]) for text in texts_of(played.retrieve(played.k))]
        shared = aggregate(alone)
        if not shared:
            return UNKNOWN
        return answers.answer(played.question, [f"Several sources agree on these words: {', '.join(shared)}."])


def aggregate(answers: list[str]) -> list[str]:
    """The keywords that stand in enough of the answers, the most frequent first."""
    known = [found for answer in answers if (found := keywords(answer))]
    enough = max(1, math.ceil(min(ALPHA * len(known), BETA)))
    counts = Counter(word for found in known for word in sorted(found))
    # Of two that are as frequent the longer says more.
    ordered = sorted(counts, key=lambda word: (-counts[word], -len(word), word))
    return [word for word in ordered if counts[word] >= enough][:MOST]


def keywords(answer: str) -> frozenset[str]:
    """Words and phrases of an answer; none of one that says it does not know."""
    folded = unicodedata.normalize("NFKC", answer).casefold()
    if _UNKNOWING.search(folded):
        return frozenset()
    found: set[str] = set()
    phrase: list[str] = []
    for part in [*_PART.findall(folded), "."]:
        if part[0].isalnum() and part not in _FUNCTION_WORDS:
            phrase.append(part)
        elif phrase:
            found |= {*phrase, " ".join(phrase)}
            phrase = []
    return frozenset(found)
