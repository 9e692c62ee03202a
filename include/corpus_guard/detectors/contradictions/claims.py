"""Claims that other people wrote, and honest sentences with a change: contradictions in the style of what they contradict.

Whoever writes contradictions for a reader has a style, and a reader learns it sooner than what contradicts what. Three kinds of
examples share no style with the pairs of this package:

- FEVER (Thorne et al. 2018): claims beside the sentences of an encyclopaedia that support or refute them. A row has ``claim``,
  ``label`` and ``evidence``, a list of sentences.
- SQuAD 2.0 (Rajpurkar et al. 2018): a question with the right answer, with another of the same article, or with one although the
  passage gives none. A row has ``title``, ``question``, ``context`` and ``answer``, with the place where it ``start``s, or null.
- Honest texts: a sentence of a page, in other surroundings, with another number or name, or as it stands.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpus_guard.claims.sentences import split_sentences
from corpus_guard.detectors.contradictions.honest_texts import ARRIVING, read_honest_texts
from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.samples import Half, Row, assign_half, read_rows
from corpus_guard.errors import Misuse
from corpus_guard.models.contradiction_reader import EXCERPT_CHARS, PagePost

Labelled = tuple[PagePost, PairLabel]
"""Texts that are shown, and what the post does to the page."""

FEVER_LABELS: Final = {"REFUTES": PairLabel.CONTRADICTS, "SUPPORTS": PairLabel.SAME, "NOT ENOUGH INFO": PairLabel.OTHER}
AMONG_OTHERS: Final = 0.5
"""Share of the claims whose evidence stands among sentences of another one."""
WRONG: Final = 0.55
"""Share of the answered questions that get another answer."""
CHANGED: Final = 0.6
"""Share of the honest sentences that are changed."""
TURNED: Final = 0.5
"""Share of the answered questions that a training also sees beside a passage that gives another answer."""
ELSEWHERE: Final = 0.3
"""Share of the claims that a training also sees beside another sentence about their subject."""
ANSWERS: Final = ("{question} {answer}.", "{question} It is {answer}.", "{question} The answer is {answer}.")
AROUND_CHARS: Final = 160  # of another text that stand before a sentence of a page
SENTENCE_CHARS: Final = (40, 240)  # shortest and longest sentence that is changed
_TITLE: Final = re.compile(
    r"(?!(?:He|She|It|They|This|There|In|On|At) )([A-Z][^.,;(]{2,60}?) (?:\(|is |was |are |were )"
)
_TREEBANK: Final = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "--": "-"}
_LOOSE_MARK: Final = re.compile(r" (?=[.,;:!?)\]%]|'s\b)|(?<=[(\[]) ")
_NUMBER: Final = re.compile(r"(?<![\w.,-])\d{1,6}(?![\w-]|[.,]\d)")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,}){0,2}")


@dataclass(frozen=True, slots=True)
class _Claim:
    text: str
    label: PairLabel
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Question:
    title: str
    text: str
    context: str
    answer: str  # empty: the context gives none
    start: int  # of the answer, in the context


def read_claims(path: Path, half: Half, seed: int = 0, *, turned: bool = False) -> list[Labelled]:
    """Return the claims of one half of a JSONL file in the form of FEVER or of SQuAD, in an order that the seed chooses.

    Args:
        turned: show some again, where what is right beside one text is wrong beside the other, or says nothing of it: passages in
            which another answer stands, and other sentences about a claim's subject.

    Raises:
        Misuse: the file cannot be read, or a row has neither form.
    """
    rows = list(read_rows(path))
    choice = random.Random(f"{seed} {path.name}")  # noqa: S311 - no secret
    if any("question" in row for _, row in rows[:1]):
        questions = [_read_question(place, row) for place, row in rows]
        claims = list(_ask([each for each in questions if assign_half(each.title) is half], choice, turned=turned))
    else:
        read = [_read_claim(place, row) for place, row in rows]
        supported = [each for each in read if each.evidence and assign_half(each.evidence[0]) is half]
        claims = list(_show_beside_evidence(supported, choice))
        claims += _show_elsewhere(supported, choice) if turned else ()
    choice.shuffle(claims)
    return claims


def change_sentences(path: Path, half: Half, seed: int = 0) -> list[Labelled]:
    """Return sentences of honest texts, changed or not, behind the beginning of another text, beside the text that they are from.

    Args:
        path: JSONL, as `corpus_guard.detectors.contradictions.honest_texts` reads it; `ARRIVING` texts are used.

    Raises:
        Misuse: the file cannot be read, or a row has no text.
    """
    choice = random.Random(f"{seed} changed")  # noqa: S311 - no secret
    texts = read_honest_texts(path, half)
    texts = choice.sample(texts, min(ARRIVING, len(texts)))
    names = sorted({name for text in texts for name in _NAME.findall(text.text)})
    examples = []
    for text in texts:
        sentences = split_plain(text.text)
        shortest, longest = SENTENCE_CHARS
        fitting = [number for number, each in enumerate(sentences) if shortest <= len(each) <= longest]
        if not fitting:
            continue
        number = choice.choice(fitting)
        statement = sentence = sentences[number]
        if choice.random() < CHANGED:
            statement = _change(sentence, names, choice)
            if statement == sentence:
                continue
        around = choice.choice(texts).text[: choice.randrange(AROUND_CHARS)].rpartition(" ")[0]
        label = PairLabel.SAME if statement == sentence else PairLabel.CONTRADICTS
        post = f"{around.strip().rstrip('.')}. {statement}" if around else statement
        examples.append((PagePost(text.title, cut_excerpt(sentences, number), post), label))
    return examples


def split_plain(text: str) -> list[str]:
    """Return the sentences of a text, without line breaks."""
    return [_join_lines(text[start:end]) for start, end in split_sentences(text)]


def cut_excerpt(sentences: Sequence[str], number: int) -> str:
    """Return a sentence with its neighbours, as many as are read."""
    first = last = number
    room = EXCERPT_CHARS - len(sentences[number])
    while True:
        before = sentences[first - 1] if first else None
        after = sentences[last + 1] if last + 1 < len(sentences) else None
        nearer = after if after is not None and (before is None or last <= first + 1) else before
        if nearer is None or len(nearer) + 1 > room:
            return " ".join(sentences[first : last + 1])
        room -= len(nearer) + 1
        if nearer is after:
            last += 1
        else:
            first -= 1


def change_answer(text: str, right: str, wrong: str) -> str:
    """Return a text with a wrong answer wherever the right one stands, in letters of any case; part of a word is no answer."""
    return re.sub(rf"(?<!\w){re.escape(right)}(?!\w)", lambda _: wrong, text, flags=re.IGNORECASE)


def find_most_alike(text: str, others: Sequence[str]) -> int:
    """Return the number of the text that has most words in common with one."""
    words = set(text.lower().split())
    return max(range(len(others)), key=lambda number: len(words & set(others[number].lower().split())))


def _read_claim(place: str, row: Row) -> _Claim:
    text, label, evidence = (row.get(key) for key in ("claim", "label", "evidence"))
    if not (isinstance(text, str) and isinstance(label, str) and label in FEVER_LABELS and isinstance(evidence, list)):
        labels = ", ".join(FEVER_LABELS)
        raise Misuse(f"{place}: no claim; expected 'claim', 'label' ({labels}) and a list 'evidence'")
    return _Claim(text, FEVER_LABELS[label], tuple(_join_tokens(str(sentence)) for sentence in evidence))


def _show_beside_evidence(claims: Sequence[_Claim], choice: random.Random) -> Iterator[Labelled]:
    for claim in claims:
        evidence, title = claim.evidence, _subject(claim)
        if choice.random() < AMONG_OTHERS:
            others = choice.choice(claims).evidence
            evidence = (*others, *evidence) if choice.random() < AMONG_OTHERS else (*evidence, *others)
        yield PagePost(title, " ".join(evidence)[:EXCERPT_CHARS], claim.text), claim.label


def _show_elsewhere(claims: Sequence[_Claim], choice: random.Random) -> Iterator[Labelled]:
    """Yield claims beside a sentence about their subject that is no evidence of theirs."""
    sentences: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for claim in claims:
        if subject := _subject(claim):
            sentences[subject].update(dict.fromkeys(claim.evidence))
    for claim in claims:
        subject = _subject(claim)
        others = [each for each in sentences.get(subject, ()) if each not in claim.evidence]
        if others and choice.random() < ELSEWHERE:
            yield PagePost(subject, choice.choice(others)[:EXCERPT_CHARS], claim.text), PairLabel.OTHER


def _subject(claim: _Claim) -> str:
    """Return what a claim's evidence is about; empty: it does not say so."""
    return match[1] if (match := _TITLE.match(claim.evidence[0])) else ""


def _read_question(place: str, row: Row) -> _Question:
    title, text, context = (row.get(key) for key in ("title", "question", "context"))
    answer, start = row.get("answer") or "", row.get("start") or 0
    if not all(isinstance(each, str) for each in (title, text, context, answer)) or not isinstance(start, int):
        raise Misuse(
            f"{place}: no question; expected 'title', 'question', 'context', and 'answer' with its 'start', or null"
        )
    return _Question(str(title), str(text), str(context), str(answer), start)


def _ask(questions: Sequence[_Question], choice: random.Random, *, turned: bool) -> Iterator[Labelled]:
    """Yield questions with an answer beside what they are asked of; those without a wrong one to choose from are left out.

    Args:
        turned: also show passages in which another answer stands.
    """
    answers: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in questions:
        if each.answer:
            answers[each.title][_shape(each.answer)].add(each.answer)
    for each in questions:
        alike = answers[each.title]
        shape = _shape(each.answer) if each.answer else choice.choice(sorted(alike) or [""])
        wrong = [other for other in sorted(alike.get(shape, ())) if other.lower() not in each.context.lower()]
        label = PairLabel.SAME
        if not each.answer or choice.random() < WRONG:
            label = PairLabel.CONTRADICTS if each.answer else PairLabel.OTHER
        spans = list(split_sentences(each.context))
        if not spans or (label is not PairLabel.SAME and not wrong):
            continue
        answer = each.answer if label is PairLabel.SAME else choice.choice(wrong)
        place = each.start if each.answer else choice.randrange(len(each.context))
        number = next((number for number, (_, end) in enumerate(spans) if place < end), len(spans) - 1)
        excerpt = cut_excerpt([_join_lines(each.context[start:end]) for start, end in spans], number)
        title = each.title.replace("_", " ")
        yield PagePost(title, excerpt, _answer(each, answer, choice)), label
        if turned and each.answer and wrong and choice.random() < TURNED:
            other = choice.choice(wrong)
            given = choice.choice((each.answer, other))
            label = PairLabel.SAME if given == other else PairLabel.CONTRADICTS
            if (changed := change_answer(excerpt, each.answer, other)) != excerpt:
                yield PagePost(title, changed, _answer(each, given, choice)), label


def _answer(question: _Question, answer: str, choice: random.Random) -> str:
    return choice.choice(ANSWERS).format(question=question.text.strip(), answer=answer.rstrip("."))


def _shape(answer: str) -> str:
    """Return what kind of answer it is, roughly: a number, a name or words, and whether it is short."""
    kind = "number" if any(map(str.isdigit, answer)) else "name" if answer.istitle() else "words"
    return f"{kind} {len(answer.split()) > 2}"


def _join_tokens(sentence: str) -> str:
    """Return a sentence as people write it, from the tokens of a treebank."""
    words = " ".join(_TREEBANK.get(word, word) for word in sentence.split())
    return _LOOSE_MARK.sub("", words.replace("`` ", '"').replace(" ''", '"'))


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _change(sentence: str, names: Sequence[str], choice: random.Random) -> str:
    """Return a sentence with another number or name; as it stands if it has neither."""
    places = [*_NUMBER.finditer(sentence), *_NAME.finditer(sentence)]
    if not places:
        return sentence
    place = choice.choice(places)
    if place[0].isdigit():
        number = int(place[0])
        other = str(number + choice.choice([-1, 1, 1, 2, 3, 5, max(6, number // 5)]))
    else:
        other = choice.choice(names)
    return sentence[: place.start()] + other + sentence[place.end() :]
