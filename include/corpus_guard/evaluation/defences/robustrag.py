"""RobustRAG, keyword aggregation: isolate, then aggregate.

Source: "Certifiably Robust RAG against Retrieval Corruption" (Xiang and others, 2024). The question is
answered from each text alone. Words and phrases that occur in enough of the answers are kept, and the final
answer is made from those.

Rules
    * an answer like "I don't know" does not count;
    * "enough" is ``min(alpha * answers, beta)``, rounded up, with the paper's alpha 0.3 and beta 3;
    * if no word remains, the answer is "I don't know".

Keywords are extracted without a parser: a phrase is a run of words between function words and punctuation.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter

from corpus_guard.evaluation.defences.interface import AttackedQuestion, texts_of
from corpus_guard.traceback.rag_model import RagModel

ALPHA = 0.3
BETA = 3
UNKNOWN = "I don't know"
MAX_KEYWORDS = 40  # given to the RAG model, the most frequent first

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


def answer_from_shared_words(attacked: AttackedQuestion, rag_model: RagModel) -> str:
    """Answer from the words that enough texts agree on."""
    answers = [rag_model.answer(attacked.question, [text]) for text in texts_of(attacked.retrieve(attacked.k))]
    shared = aggregate(answers)
    if not shared:
        return UNKNOWN
    return rag_model.answer(attacked.question, [f"Several sources agree on these words: {', '.join(shared)}."])


def aggregate(answers: list[str]) -> list[str]:
    """Return the keywords that occur in enough of the answers, the most frequent first."""
    extracted = [words for answer in answers if (words := keywords(answer))]
    enough = max(1, math.ceil(min(ALPHA * len(extracted), BETA)))
    counts = Counter(word for words in extracted for word in sorted(words))
    # Of two equally frequent keywords the longer one says more.
    ordered = sorted(counts, key=lambda word: (-counts[word], -len(word), word))
    return [word for word in ordered if counts[word] >= enough][:MAX_KEYWORDS]


def keywords(answer: str) -> frozenset[str]:
    """Return the words and phrases of an answer; none if it says that it does not know."""
    folded = unicodedata.normalize("NFKC", answer).casefold()
    if _UNKNOWING.search(folded):
        return frozenset()
    extracted: set[str] = set()
    phrase: list[str] = []
    for part in [*_PART.findall(folded), "."]:
        if part[0].isalnum() and part not in _FUNCTION_WORDS:
            phrase.append(part)
        elif phrase:
            extracted |= {*phrase, " ".join(phrase)}
            phrase = []
    return frozenset(extracted)
