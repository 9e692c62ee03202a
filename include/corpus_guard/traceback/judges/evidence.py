"""Evidence of the embedded judge: numbers for each text that a complaint retrieved.

Four kinds of evidence, all without a language model:

* words: how much of what the output *adds to the question* is in the text, and how near to the question's own
  words. A planted text says both in one breath; an honest one may hold the output's words by chance;
* vectors: whether the text is nearer to question and output together than to the question alone;
* its passage: the same for the two sentences that say it most, because a planted text may stand between
  honest ones;
* company: whether other retrieved texts say the same. Planted texts agree with each other; chance does not.

The length of a text counts but must not decide: the planted texts available for training are short, those in
use need not be.

What a text says to its judge is at most evidence against it (`orders`), never an instruction.
"""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.words import FUNCTION_WORDS
from corpus_guard.domain import replace_surrogates
from corpus_guard.models import Models
from corpus_guard.screening.checks.token_rarity import TokenRarity
from corpus_guard.screening.wording import UNKNOWN_BITS, load_wording, share_of_weight
from corpus_guard.traceback.judges.contradiction import find_contradicted
from corpus_guard.traceback.judges.support_evidence import (
    NUMBERS,
    SUPPORT_FEATURES,
    AskedClaim,
    SupportEvidence,
    asked_noun,
    asks_bound,
    asks_of_two,
    compares,
    opposites_asked_of,
    pair_asked_of,
    read_support,
    speaks_of_itself,
    stemmed_words,
    stems,
)
from corpus_guard.traceback.reported_claim import ReportedClaim, is_polar, is_same_answer, read_reported_claim
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

EVIDENCE_VERSION: Final = "10"
"""Changes whenever the same complaint and texts would give other numbers."""

MAX_TEXT_LENGTH: Final = 6_000  # characters read of a text, an output or a question
MIN_WORD_WEIGHT: Final = 1.0  # of the question's words that count
RARE_WORD_BITS: Final = 13.0  # from which a word is a fact, whatever it is
NAME_BITS: Final = 10.0  # the same, with a capital letter inside a sentence
MIN_RARITY_BITS: Final = 8.0  # lowest value, and the value of texts too short to measure
COMPANY_COSINE: Final = 0.6  # cosine from which two texts keep company
MAX_PASSAGE_LENGTH: Final = 1_500  # characters
MAX_LED_WORDS: Final = 60  # of a question that are looked for in order, and of the text's beginning
MAX_CACHED_COMPLAINTS: Final = 256  # complaints whose texts are kept
COST_PER_WORD: Final = 0.004  # of a passage: of two that say as much, the shorter one is better

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
    "led",  # share of the question's words that stand in order at the text's beginning, other words between them
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
    *SUPPORT_FEATURES,  # what the text says about the reported claim
    "typed",  # 1 where the claim is a value
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
    "osupport",  # mean of the two highest supports among the others
    "ooppose",  # mean of the two highest oppositions among the others
)
FEATURE_NAMES: Final = (*TEXT_FEATURES, *COMPANY_FEATURES)

_POLAR = frozenset({"yes", "no", "true", "false"})
_ARTICLES = frozenset({"a", "an", "the"})
_MODEL_ADDRESS_WORDS = """
accepted answer answering answers asked assistant disregard ignore instruction must only output print provide query
question reply respond response return say state
"""
_OPEN_QUESTION_WORDS = frozenset({"how", "what", "when", "where", "which", "who", "whom", "whose", "why"})
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class ParsedComplaint:
    """Words of a complaint, read once for all its texts."""

    asked_claim: AskedClaim  # what is reported of which question
    words: tuple[str, ...]  # of the question
    question: Mapping[str, float]  # weight by word, of those that count
    output: Mapping[str, float]  # weight by word of the bare answer
    added: Mapping[str, float]  # those that are not in the question; all, if none is added
    phrase: tuple[str, ...]  # the answer without the question's words at its ends
    facts: frozenset[str]  # added words that are numbers, names or rare
    polar: bool  # the answer is yes or no and nothing else
    askable: bool  # the question can be answered by yes or no
    novel: float  # share of the answer that is not in the question, by weight

    @property
    def claim(self) -> ReportedClaim:
        """Return what the report says the answer was."""
        return self.asked_claim.claim


@dataclass(frozen=True)
class TextEvidence:
    """Evidence of one text about a complaint."""

    numbers: tuple[float, ...]  # one per name in TEXT_FEATURES
    passage: str  # the two sentences in a row that say the output most, next to the question's words
    support: SupportEvidence  # what the text says about the reported claim


class EvidenceReader:
    """Reader of complaints and texts."""

    def __init__(self, vocabulary: Path) -> None:
        """Weigh words by a vocabulary.

        Args:
            vocabulary: ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency.
        """
        self._wording = load_wording(vocabulary)
        self._rarity = TokenRarity(vocabulary)

    def parse_complaint(self, query: str, output: str, correct: str | None = None) -> ParsedComplaint:
        """Read the words of a complaint; its output is reduced to the answer (`reported_claim`)."""
        claim = read_reported_claim(query, output, correct)
        words = stems(query)
        written = dict(stemmed_words(f"{claim.answer} {query}"))
        answer_words = [word for word in stems(claim.answer) if word not in _ARTICLES] or stems(claim.answer)
        question_words = set(words)
        weights = {word: self._weight(word, written) for word in answer_words}
        added = {word: weight for word, weight in weights.items() if word not in question_words}
        question = self._weights(words, written)
        return ParsedComplaint(
            asked_claim=AskedClaim(
                claim,
                question,
                added or weights,
                frozenset(question),
                tuple(answer_words),
                words=tuple(words),
                asks_bound=asks_bound(query),
                asks_of_two=asks_of_two(query),
                pair=pair_asked_of(query),
                asked_noun=asked_noun(query),
                opposites=opposites_asked_of(words),
                compares=compares(query),
                noun=_shared_noun(answer_words, stems(claim.sentence), question) if added else "",
            ),
            words=tuple(words),
            question=question,
            output=weights,
            added=added or weights,
            phrase=_strip_question_words(answer_words, question_words),
            facts=frozenset(self._facts(claim.answer)) - question_words,
            polar=bool(answer_words) and answer_words[0] in _POLAR and len(answer_words) <= 2,
            askable=is_polar(query) or (bool(words) and words[0] not in _OPEN_QUESTION_WORDS and "or" not in words),
            novel=sum(added.values()) / max(1e-9, sum(weights.values())),
        )

    def read_texts(self, complaint: ParsedComplaint, texts: Sequence[str]) -> list[TextEvidence]:
        """Measure the words of each text."""
        rarest = self._rarity.plain_bits([replace_surrogates(text[:MAX_TEXT_LENGTH]) for text in texts])
        return [self._read_text(complaint, text, bits) for text, bits in zip(texts, rarest, strict=True)]

    def _read_text(self, complaint: ParsedComplaint, text: str, rarest: Sequence[float]) -> TextEvidence:
        added, question = complaint.added, complaint.question
        support = read_support(complaint.asked_claim, text)
        parts = [part for part in _SENTENCE.split(text[:MAX_TEXT_LENGTH]) if part.strip()]
        telling = question.keys() | added.keys()
        parts = [part for part in parts if not speaks_of_itself(part) or telling & set(stems(part))]
        parts = parts or [text[:MAX_TEXT_LENGTH]]
        words_by_part = [stems(part) for part in parts]
        words = [word for part in words_by_part for word in part]
        sentences = [set(part) for part in words_by_part]
        pairs = [first | second for first, second in zip(sentences, [*sentences[1:], set()], strict=True)]
        covers = [share_of_weight(added, pair) for pair in pairs]
        questions = [share_of_weight(question, pair) for pair in pairs]
        following = [*words_by_part[1:], []]
        lengths = [len(first) + len(second) for first, second in zip(words_by_part, following, strict=True)]
        highest = max(covers)
        best = int(np.argmax(_sentence_pair_scores(covers, questions, lengths)))
        joined, phrase = f" {' '.join(words)} ", f" {' '.join(complaint.phrase)} "
        count = joined.count(phrase) if complaint.phrase else 0
        present, head = set(words), set(words[:60])
        passage = " ".join(parts[best : best + 2])[:MAX_PASSAGE_LENGTH]
        numbers = (
            float(count > 0),
            count / len(sentences),
            share_of_weight(added, present),
            share_of_weight(complaint.output, present),
            share_of_weight(question, present),
            max(share_of_weight(added, sentence) * share_of_weight(question, sentence) for sentence in sentences),
            max(cover * share for cover, share in zip(covers, questions, strict=True)),
            max(share for cover, share in zip(covers, questions, strict=True) if cover >= 0.999 * highest)
            if highest > 0
            else 0.0,
            share_of_weight(added, head) * share_of_weight(question, head),
            joined.find(phrase) / len(joined) if count else 1.0,
            _longest_question_run(complaint.words, words[:400]),
            _led_share(complaint.words, words),
            sum(word in question or word in added for word in words) / max(1, len(words)),
            sum(word in _ORDERS for word in words) / math.sqrt(max(1, len(words))),
            float(complaint.polar and complaint.askable),
            math.log1p(len(complaint.phrase)),
            sum(added.values()) / max(1, len(added)),
            complaint.novel,
            _plain_share(complaint.facts, present),
            max(_plain_share(complaint.facts, pair) * share for pair, share in zip(pairs, questions, strict=True)),
            math.log1p(len(complaint.facts)),
            *(max(MIN_RARITY_BITS, bits) for bits in rarest),
            math.log1p(len(words)),
            math.log1p(lengths[best]),
            math.log1p(len(parts)),
            sum(
                share_of_weight(question, sentence) > 0.3 or share_of_weight(added, sentence) > 0.5
                for sentence in sentences
            )
            / len(parts),
            *support.numbers,
            float(bool(complaint.asked_claim.values)),
        )
        return TextEvidence(numbers, passage, support)

    def _facts(self, output: str) -> Iterator[str]:
        folded = unicodedata.normalize("NFKC", output[:MAX_TEXT_LENGTH])
        for match in _WORD.finditer(folded):
            word = match.group()
            lower = word.casefold()
            number = lower in NUMBERS or word[0].isdigit()
            before = folded[: match.start()].rstrip(" \"'(*\n")
            inside = bool(before) and before[-1] not in ".!?:"
            bits = self._wording.bits.get(lower, UNKNOWN_BITS)
            if number or bits >= RARE_WORD_BITS or (word[0].isupper() and inside and bits >= NAME_BITS):
                yield from stems(lower)

    def _weights(self, words: Sequence[str], written: Mapping[str, str]) -> dict[str, float]:
        weights = {word: self._weight(word, written) for word in words}
        heavy = {
            word: weight
            for word, weight in weights.items()
            if weight >= MIN_WORD_WEIGHT and written[word] not in FUNCTION_WORDS
        }
        return heavy or dict.fromkeys(words, 1.0)

    def _weight(self, word: str, written: Mapping[str, str]) -> float:
        """Return the weight of a stem: that of the word as it is written, which the vocabulary knows."""
        if word.isdigit():
            return 3.0
        bits = self._wording.bits
        return max(min(bits.get(word, UNKNOWN_BITS), bits.get(written.get(word, word), UNKNOWN_BITS)) - 10.0, 0.3)


def add_company_features(
    texts: Sequence[TextEvidence],
    vectors: NDArray[np.float32],
    passages: NDArray[np.float32],
    complaint: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return all features of each text: its own and those of its company.

    Args:
        vectors: of the texts, shape (texts, dimensions), rows of length 1.
        complaint: of question, question and output, output; shape (3, dimensions).

    Returns:
        Shape (texts, len(FEATURE_NAMES)).
    """
    numbers = np.array([text.numbers for text in texts], np.float64).reshape(-1, len(TEXT_FEATURES))
    cq, cqt, ct = (vectors @ complaint.T).T.astype(np.float64)
    pcq, pcqt, pct = (passages @ complaint.T).T.astype(np.float64)
    gain, pgain = cqt - cq, pcqt - pcq
    own = (vectors * passages).sum(axis=1)
    support, oppose = (numbers[:, TEXT_FEATURES.index(name)] for name in ("support", "oppose"))
    best = numbers[:, TEXT_FEATURES.index("best2")]
    near = (vectors @ vectors.T).astype(np.float64)
    pnear = (passages @ passages.T).astype(np.float64)
    rows = []
    for i in range(len(texts)):
        others = np.arange(len(texts)) != i
        rows.append([
            *(cq[i], cqt[i], ct[i], gain[i]),
            *_text_company(near[i][others], gain[others], best[others], gain[i], best[i]),
            *(pcq[i], pcqt[i], pct[i], pgain[i], own[i]),
            *_passage_company(pnear[i][others], pgain[others], best[others], pgain[i]),
            *(_mean_of_two(measured[others]) for measured in (support, oppose)),
        ])  # fmt: skip
    return np.hstack([numbers, np.array(rows, np.float64).reshape(-1, len(COMPANY_FEATURES))])


def _mean_of_two(measured: NDArray[np.float64]) -> float:
    return float(np.sort(measured)[::-1][:2].mean()) if len(measured) else 0.0


def _text_company(
    near: NDArray[np.float64], gain: NDArray[np.float64], best: NDArray[np.float64], own_gain: float, own_best: float
) -> list[float]:
    if not len(near):
        return [0.0] * 10
    nearest = np.sort(near)[::-1][:2]
    weight = _company_weights(near)
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


def _passage_company(
    near: NDArray[np.float64], gain: NDArray[np.float64], best: NDArray[np.float64], own_gain: float
) -> list[float]:
    if not len(near):
        return [0.0] * 4
    nearest = np.sort(near)[::-1][:2]
    weight = _company_weights(near)
    return [
        own_gain - float(np.median(gain)),
        float(nearest[0]),
        float(nearest.mean()),
        float((weight * best).sum() / (weight.sum() + 0.3)),
    ]


def _company_weights(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip((cosines - COMPANY_COSINE) / (1 - COMPANY_COSINE), 0, None)


def _sentence_pair_scores(
    covers: Sequence[float], questions: Sequence[float], lengths: Sequence[int]
) -> NDArray[np.float64]:
    """Rate pairs of sentences by how much of output and question they hold, in how few words."""
    scores = (0.05 + np.array(covers)) * (0.1 + np.array(questions))
    return np.asarray(scores / (1 + COST_PER_WORD * np.array(lengths)), np.float64)


_ORDERS = frozenset(word for words in _MODEL_ADDRESS_WORDS.split() for word in stems(words))


def _plain_share(expected: Collection[str], present: Collection[str]) -> float:
    return sum(word in present for word in expected) / len(expected) if expected else 0.0


def _strip_question_words(words: Sequence[str], question_words: Collection[str]) -> tuple[str, ...]:
    start, end = 0, len(words)
    while start < end and words[start] in question_words:
        start += 1
    while end > start and words[end - 1] in question_words:
        end -= 1
    return tuple(words[start:end] or words)


def _shared_noun(answer: Sequence[str], sentence: Sequence[str], question: Collection[str]) -> str:
    """Return the question's word that ends the answer, or follows it in the report; empty: there is none."""
    if len(answer) > 1 and answer[-1] in question:
        return answer[-1]
    following = (after for word, after in pairwise(sentence) if answer and word == answer[-1])
    return next((word for word in following if word in question), "")


def _led_share(question: Sequence[str], words: Sequence[str]) -> float:
    """Return the share of a question's words that the text's beginning, a third longer, holds in this order.

    HotFlip replaces words of the question that it puts in front of a text, and leaves most.
    """
    beginning = question[:MAX_LED_WORDS]
    longest = [0] * (len(beginning) + 1)  # common subsequence with each beginning of the question
    for word in words[: min(MAX_LED_WORDS, len(beginning) + len(beginning) // 3)]:
        before = 0
        for place, expected in enumerate(beginning, 1):
            with_word = before + 1 if word == expected else max(longest[place], longest[place - 1])
            before, longest[place] = longest[place], with_word
    return longest[-1] / max(1, len(beginning))


def _longest_question_run(question: Sequence[str], words: Sequence[str]) -> float:
    """Return the longest run of the question's words that stands in the text, as a share of the question."""
    text, best = f" {' '.join(words)} ", 0
    for start in range(len(question)):
        while start + best < len(question) and f" {' '.join(question[start : start + best + 1])} " in text:
            best += 1
    return best / len(question) if question else 0.0


_Key = tuple[str, str, str | None]  # question, output, right answer


def _key(complaint: Complaint) -> _Key:
    return complaint.query, complaint.output, complaint.correct


class EvidenceCollector:
    """Cached evidence of the texts that complaints retrieve. The first complaint loads the embedder."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.embedding_seconds = 0.0
        self._complaints: dict[_Key, tuple[ParsedComplaint, NDArray[np.float32]]] = {}
        self._texts: dict[_Key, dict[str, tuple[TextEvidence, NDArray[np.float32]]]] = {}

    @cached_property
    def _reader(self) -> EvidenceReader:
        return EvidenceReader(self._models.frequency_vocabulary)

    def prepare(self, complaints: Sequence[Complaint]) -> None:
        """Read many complaints at once: one batch for the embedder instead of one each."""
        new = {_key(complaint): complaint for complaint in complaints if _key(complaint) not in self._complaints}
        parsed = [self._reader.parse_complaint(*key) for key in new]
        texts = [
            text
            for complaint, read in zip(new.values(), parsed, strict=True)
            for text in (complaint.query, f"{complaint.query} {read.claim.answer}", read.claim.answer)
        ]
        vectors = (
            self._models.word_embedder.embed(texts).reshape(len(new), 3, -1) if new else np.empty((0, 3, 0), np.float32)
        )
        self._complaints.update(zip(new, zip(parsed, vectors, strict=True), strict=True))

    def answerable(self, complaint: Complaint) -> bool:
        """Return whether the output could answer the question at all: "yes" and "1988" cannot answer "who", and "I do not know" nothing."""
        parsed = self.parsed(complaint)
        is_number_for_person = parsed.words[:1] == ("who",) and all(word.isdigit() for word in parsed.output)
        return (parsed.askable or not parsed.polar) and not parsed.claim.is_refusal and not is_number_for_person

    def reports_right_answer(self, complaint: Complaint) -> bool:
        """Return whether the reported output is the right answer that the complaint names."""
        return complaint.correct is not None and is_same_answer(
            self.parsed(complaint).claim, read_reported_claim(complaint.query, complaint.correct)
        )

    def parsed(self, complaint: Complaint) -> ParsedComplaint:
        """Return what a complaint says."""
        self.prepare([complaint])
        return self._complaints[_key(complaint)][0]

    def supports(self, complaint: Complaint, texts: Sequence[RetrievedText]) -> list[SupportEvidence]:
        """Return what texts say about the reported claim."""
        self.evidence(complaint, texts)
        read = self._texts[_key(complaint)]
        return [read[text.chunk_id][0].support for text in texts]

    def contradicted(self, complaint: Complaint, texts: Sequence[RetrievedText]) -> dict[str, str]:
        """Return the texts that more trusted ones, or the right answer, contradict, by id, with who does (`contradiction`)."""
        asked_claim, supports = self.parsed(complaint).asked_claim, self.supports(complaint, texts)
        if not complaint.correct:
            return find_contradicted(asked_claim, texts, supports)
        right = self._reader.parse_complaint(complaint.query, complaint.correct).asked_claim
        return find_contradicted(
            asked_claim, texts, supports, right, [read_support(right, text.text) for text in texts]
        )

    def evidence(self, complaint: Complaint, texts: Sequence[RetrievedText]) -> NDArray[np.float64]:
        """Return the evidence of texts that a complaint retrieved, shape (texts, len(FEATURE_NAMES))."""
        key = _key(complaint)
        self.prepare([complaint])
        parsed, complaint_vectors = self._complaints[key]
        if key not in self._texts and len(self._texts) >= MAX_CACHED_COMPLAINTS:
            self._texts.pop(next(iter(self._texts)))
        cached = self._texts.setdefault(key, {})
        vectors = self._vectors(texts)
        unread = [(text, vector) for text, vector in zip(texts, vectors, strict=True) if text.chunk_id not in cached]
        if unread:
            cached.update(self._read(parsed, *zip(*unread, strict=True)))
        evidence, passages = zip(*(cached[text.chunk_id] for text in texts), strict=True)
        return add_company_features(evidence, vectors, np.stack(passages), complaint_vectors)

    def _read(
        self, complaint: ParsedComplaint, unread: Sequence[RetrievedText], vectors: Sequence[NDArray[np.float32]]
    ) -> dict[str, tuple[TextEvidence, NDArray[np.float32]]]:
        """Return each text's evidence and its passage's vector: the text's own if the passage is all of it."""
        evidence = self._reader.read_texts(complaint, [text.text for text in unread])
        pairs = list(zip(evidence, unread, strict=True))
        passages = iter(self._embed([part.passage for part, text in pairs if not _is_whole_text(part, text)]))
        return {
            text.chunk_id: (part, vector if _is_whole_text(part, text) else next(passages))
            for (part, text), vector in zip(pairs, vectors, strict=True)
        }

    def _vectors(self, texts: Sequence[RetrievedText]) -> NDArray[np.float32]:
        if self._models.embedder_weights == self._models.word_weights:
            return np.stack([text.vector for text in texts])
        return self._embed([text.text for text in texts])

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        began = time.perf_counter()
        try:
            return self._models.word_embedder.embed(texts)
        finally:
            self.embedding_seconds += time.perf_counter() - began


def _is_whole_text(evidence: TextEvidence, text: RetrievedText) -> bool:
    return evidence.passage.split() == text.text.split()


def evidence_version(models: Models) -> str:
    """Return the version of the evidence: its definition and the embedder it comes from."""
    return f"{EVIDENCE_VERSION}/{models.word_weights.digest[:12]}"
