"""What the embedded judge looks at: numbers for each text that a complaint retrieved. Part of `corpus_guard.traceback.judges.embedded`.

Four kinds of evidence, all without a language model:

* words: how much of what the output *adds to the question* stands in the text, and how near to the question's own words. A text that was
  planted says both in one breath; an honest one may hold the output's words by chance;
* vectors: whether the text is nearer to question and output together than to the question alone;
* its passage: the same of the two sentences that say it most, since a text that was planted may stand between honest ones;
* company: whether other retrieved texts say the same. Planted texts agree with each other; chance does not.

How long a text is counts, and must not decide: the planted texts one can train on are short, those that are met need not be.

What a text says to its judge is evidence against it at most (`orders`), never an instruction.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.screening.perplexity import Rarity
from corpus_guard.screening.wording import UNKNOWN_BITS, stem, wording_of

EVIDENCE_VERSION: Final = "3"
"""Changes whenever the same complaint and texts would give other numbers."""

LONGEST: Final = 6_000  # characters read of a text, an output or a question
SHORT_WORD_BITS: Final = 1.0  # a word of the question counts from this weight on
RARE_BITS: Final = 13.0  # a word that says something, whatever it is
NAME_BITS: Final = 10.0  # the same, with a capital letter inside a sentence
LEAST_RARITY: Final = 8.0  # bits; what no text is below, and texts too short to say
NEAR: Final = 0.6  # cosine from which two texts keep company
LONGEST_PASSAGE: Final = 1_500  # characters
WORDY: Final = 0.004  # what a word more costs where two passages say as much

TEXT_FEATURES: Final = (
    "contains",  # 1 where the phrase the output adds stands in the text, word for word
    "density",  # how often it does, a sentence
    "cover",  # share of the added words in the text, by weight
    "full",  # share of all the output's words
    "qcover",  # share of the question's words
    "best",  # cover x qcover of the best sentence
    "best2",  # of the best two sentences in a row
    "around",  # qcover of the two sentences with most of the output
    "bhead",  # cover x qcover of the text's first 60 words
    "pos",  # where the phrase begins, 0..1; 1 where it is missing
    "verb",  # longest run of the question's words, as a share of the question
    "rel",  # share of the text's words that are the question's or the output's
    "orders",  # words that speak to a model, over the root of the length
    "polar",  # 1 where the output is yes or no and nothing else
    "alen",  # log(1 + words of the phrase)
    "arare",  # mean weight of the added words
    "novel",  # share of the output that is not in the question
    "facts",  # share of the added numbers, names and rare words
    "fbest",  # facts x qcover of the best two sentences in a row
    "nfacts",  # log(1 + how many those are)
    "rare",  # bits of the rarest window of tokens: gibberish
    "rares",  # of a shorter window
    "words",  # log(1 + words)
    "pwords",  # log(1 + words of the passage)
    "sentences",  # log(1 + sentences)
    "about",  # share of sentences that hold a third of the question or half of what is added
)
COMPANY_FEATURES: Final = (
    "cq",  # cosine to the question
    "cqt",  # to question and output
    "ct",  # to the output
    "d",  # cqt - cq
    "dz",  # d, less the median of the others
    "sib1",  # cosine to the nearest other text
    "sib2",  # mean of the two nearest
    "sibcount",  # others above NEAR, by how much
    "agree",  # their best2, so weighted
    "agreed",  # their d
    "others",  # mean of the three highest best2 among the others
    "bestz",  # best2, less the median of the others
    "strongsim",  # mean cosine to others that say it strongly
    "nstrong",  # how many those are
    "pcq",  # of the passage: cosine to the question
    "pcqt",  # to question and output
    "pct",  # to the output
    "pd",  # pcqt - pcq
    "pself",  # to its text
    "pdz",  # pd, less the median of the others
    "psib1",  # cosine to the nearest other passage
    "psib2",  # mean of the two nearest
    "pagree",  # their texts' best2, weighted by how near they are
)
NAMES: Final = (*TEXT_FEATURES, *COMPANY_FEATURES)

_POLAR = frozenset({"yes", "no", "true", "false"})
_ARTICLES = frozenset({"a", "an", "the"})
_COUNTED = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty
"""
_NUMBERS = {word: str(value) for value, word in enumerate(_COUNTED.split())}
_TO_A_MODEL = """
accepted answer answering answers asked assistant disregard ignore instruction must only output print provide query question reply
respond response return say state
"""
_ASKS_FOR_MORE = frozenset({"how", "what", "when", "where", "which", "who", "whom", "whose", "why"})
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Asked:
    """A complaint, read once for all its texts."""

    words: tuple[str, ...]  # of the question
    question: Mapping[str, float]  # its words that count → weight
    output: Mapping[str, float]  # words of the output → weight
    added: Mapping[str, float]  # those that are not in the question; all, where none is added
    phrase: tuple[str, ...]  # the output without the question's words at its ends
    facts: frozenset[str]  # added words that say something: numbers, names, rare words
    polar: bool  # the output is yes or no and nothing else
    askable: bool  # the question can be answered so
    novel: float


@dataclass(frozen=True)
class Read:
    """A text, read for a complaint."""

    numbers: tuple[float, ...]  # one for each of TEXT_FEATURES
    passage: str  # the two sentences in a row that say the output most, next to the question's words


class Evidence:
    """Reads complaints and texts."""

    def __init__(self, vocabulary: Path) -> None:
        """`vocabulary`: the ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency."""
        self._wording = wording_of(vocabulary)
        self._rarity = Rarity(vocabulary)

    def ask(self, query: str, output: str) -> Asked:
        """Read a complaint."""
        words = _words(query)
        said = [word for word in _words(output) if word not in _ARTICLES] or _words(output)
        polar = bool(said) and said[0] in _POLAR
        core = said[1:] if polar and len(said) > 2 else said
        known = set(words)
        output_weights = {word: self._weight(word) for word in core}
        added = {word: weight for word, weight in output_weights.items() if word not in known}
        return Asked(
            words=tuple(words),
            question=self._counting(words),
            output=output_weights,
            added=added or output_weights,
            phrase=_without_ends(core, known),
            facts=frozenset(self._facts(output)) - known,
            polar=polar and len(said) <= 2,
            askable=bool(words) and words[0] not in _ASKS_FOR_MORE,
            novel=sum(added.values()) / max(1e-9, sum(output_weights.values())),
        )

    def read(self, asked: Asked, texts: Sequence[str]) -> list[Read]:
        """What the words say."""
        rarest = self._rarity.bits([_readable(text) for text in texts])
        return [self._read(asked, text, rare) for text, rare in zip(texts, rarest, strict=True)]

    def _read(self, asked: Asked, text: str, rarest: Sequence[float]) -> Read:
        parts = [part for part in _SENTENCE.split(text[:LONGEST]) if part.strip()] or [text[:LONGEST]]
        said = [_words(part) for part in parts]
        words = [word for part in said for word in part]
        sentences = [set(part) for part in said]
        pairs = [one | other for one, other in zip(sentences, [*sentences[1:], set()], strict=True)]
        covers = [_share(asked.added, pair) for pair in pairs]
        questions = [_share(asked.question, pair) for pair in pairs]
        lengths = [len(one) + len(other) for one, other in zip(said, [*said[1:], []], strict=True)]
        most = max(covers)
        at = int(np.argmax(_telling(covers, questions, lengths)))
        joined, needle = f" {' '.join(words)} ", f" {' '.join(asked.phrase)} "
        count = joined.count(needle) if asked.phrase else 0
        present, head = set(words), set(words[:60])
        passage = " ".join(parts[at : at + 2])[:LONGEST_PASSAGE]
        numbers = (
            float(count > 0),
            count / len(sentences),
            _share(asked.added, present),
            _share(asked.output, present),
            _share(asked.question, present),
            max(_share(asked.added, one) * _share(asked.question, one) for one in sentences),
            max(cover * question for cover, question in zip(covers, questions, strict=True)),
            max(question for cover, question in zip(covers, questions, strict=True) if cover >= 0.999 * most)
            if most > 0
            else 0.0,
            _share(asked.added, head) * _share(asked.question, head),
            joined.find(needle) / len(joined) if count else 1.0,
            _run(asked.words, words[:400]),
            sum(word in asked.question or word in asked.added for word in words) / max(1, len(words)),
            sum(word in _ORDERS for word in words) / math.sqrt(max(1, len(words))),
            float(asked.polar and asked.askable),
            math.log1p(len(asked.phrase)),
            sum(asked.added.values()) / max(1, len(asked.added)),
            asked.novel,
            _part(asked.facts, present),
            max(_part(asked.facts, pair) * question for pair, question in zip(pairs, questions, strict=True)),
            math.log1p(len(asked.facts)),
            *(max(LEAST_RARITY, bits) for bits in rarest),
            math.log1p(len(words)),
            math.log1p(lengths[at]),
            math.log1p(len(parts)),
            sum(_share(asked.question, one) > 0.3 or _share(asked.added, one) > 0.5 for one in sentences) / len(parts),
        )
        return Read(numbers, passage)

    def _facts(self, output: str) -> Iterator[str]:
        folded = unicodedata.normalize("NFKC", output[:LONGEST])
        for match in _WORD.finditer(folded):
            word = match.group()
            lower = word.casefold()
            number = lower in _NUMBERS or word[0].isdigit()
            before = folded[: match.start()].rstrip(" \"'(*\n")
            inside = bool(before) and before[-1] not in ".!?:"
            bits = self._wording.bits.get(lower, UNKNOWN_BITS)
            if number or bits >= RARE_BITS or (word[0].isupper() and inside and bits >= NAME_BITS):
                yield _stem(_NUMBERS.get(lower, lower))

    def _counting(self, words: Sequence[str]) -> dict[str, float]:
        weights = {word: self._weight(word) for word in words}
        counting = {word: weight for word, weight in weights.items() if weight >= SHORT_WORD_BITS}
        return counting or dict.fromkeys(words, 1.0)

    def _weight(self, word: str) -> float:
        if word.isdigit():
            return 3.0
        return max(self._wording.bits.get(word, UNKNOWN_BITS) - 10.0, 0.3)


def company(
    read: Sequence[Read], vectors: NDArray[np.float32], passages: NDArray[np.float32], asked: NDArray[np.float32]
) -> NDArray[np.float64]:
    """All features, with what the company of each text says.

    Args:
        read: of `Evidence.read`.
        vectors: of the texts, shape (texts, dimensions), rows of length 1.
        passages: of their passages, likewise.
        asked: of question, question and output, output; shape (3, dimensions).

    Returns:
        Shape (texts, len(NAMES)).
    """
    numbers = np.array([one.numbers for one in read], np.float64).reshape(-1, len(TEXT_FEATURES))
    cq, cqt, ct = (vectors @ asked.T).T.astype(np.float64)
    pcq, pcqt, pct = (passages @ asked.T).T.astype(np.float64)
    gain, pgain = cqt - cq, pcqt - pcq
    own = (vectors * passages).sum(axis=1)
    best = numbers[:, TEXT_FEATURES.index("best2")]
    near = (vectors @ vectors.T).astype(np.float64)
    pnear = (passages @ passages.T).astype(np.float64)
    rows = []
    for i in range(len(read)):
        others = np.arange(len(read)) != i
        rows.append([
            *(cq[i], cqt[i], ct[i], gain[i]),
            *_company(near[i][others], gain[others], best[others], gain[i], best[i]),
            *(pcq[i], pcqt[i], pct[i], pgain[i], own[i]),
            *_passages(pnear[i][others], pgain[others], best[others], pgain[i]),
        ])  # fmt: skip
    return np.hstack([numbers, np.array(rows, np.float64).reshape(-1, len(COMPANY_FEATURES))])


def _company(
    near: NDArray[np.float64], gain: NDArray[np.float64], best: NDArray[np.float64], own_gain: float, own_best: float
) -> list[float]:
    if not len(near):
        return [0.0] * 10
    nearest = np.sort(near)[::-1][:2]
    weight = _nearness(near)
    strong = np.clip(best - 0.3, 0, None) * (gain > 0)
    return [
        own_gain - float(np.median(gain)),
        float(nearest[0]),
        float(nearest.mean()),
        float(weight.sum()),
        float((weight * best).sum() / (weight.sum() + 0.3)),
        float((weight * gain).sum() / (weight.sum() + 0.3)),
        float(np.sort(best)[::-1][:3].mean()),
        own_best - float(np.median(best)),
        float((strong * near).sum() / (strong.sum() + 1e-6)) if strong.any() else 0.0,
        float((strong > 0).sum()),
    ]


def _passages(
    near: NDArray[np.float64], gain: NDArray[np.float64], best: NDArray[np.float64], own_gain: float
) -> list[float]:
    if not len(near):
        return [0.0] * 4
    nearest = np.sort(near)[::-1][:2]
    weight = _nearness(near)
    return [
        own_gain - float(np.median(gain)),
        float(nearest[0]),
        float(nearest.mean()),
        float((weight * best).sum() / (weight.sum() + 0.3)),
    ]


def _nearness(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip((cosines - NEAR) / (1 - NEAR), 0, None)


def _telling(covers: Sequence[float], questions: Sequence[float], lengths: Sequence[int]) -> NDArray[np.float64]:
    """How much two sentences in a row say: the output first, then the question, in few words."""
    said = (0.05 + np.array(covers)) * (0.1 + np.array(questions))
    return np.asarray(said / (1 + WORDY * np.array(lengths)), np.float64)


def _readable(text: str) -> str:
    """What a tokenizer takes: no lone surrogates."""
    return text[:LONGEST].encode("utf-8", "replace").decode()


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text[:LONGEST]).casefold()
    return [_stem(_NUMBERS.get(word, word)) for word in _WORD.findall(folded)]


def _stem(word: str) -> str:
    """Also without a silent e: "calibrate" and "calibrated" are one."""
    short = stem(word)
    return short[:-1] if short.endswith("e") and len(short) > 4 else short


_ORDERS = frozenset(map(_stem, _TO_A_MODEL.split()))


def _share(wanted: Mapping[str, float], present: Collection[str]) -> float:
    total = sum(wanted.values())
    return sum(weight for word, weight in wanted.items() if word in present) / total if total else 0.0


def _part(wanted: Collection[str], present: Collection[str]) -> float:
    return sum(word in present for word in wanted) / len(wanted) if wanted else 0.0


def _without_ends(words: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    start, end = 0, len(words)
    while start < end and words[start] in known:
        start += 1
    while end > start and words[end - 1] in known:
        end -= 1
    return tuple(words[start:end] or words)


def _run(asked: Sequence[str], words: Sequence[str]) -> float:
    """Longest run of the question's words that stands in the text, as a share of the question."""
    text, best = f" {' '.join(words)} ", 0
    for start in range(len(asked)):
        while start + best < len(asked) and f" {' '.join(asked[start : start + best + 1])} " in text:
            best += 1
    return best / len(asked) if asked else 0.0
