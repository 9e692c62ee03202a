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

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from corpus_guard.claims.sentences import split_sentences
from corpus_guard.detectors.contradictions.honest_texts import ARRIVING, read_honest_texts
from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.samples import Half, assign_half
from corpus_guard.errors import Misuse
from corpus_guard.models.contradiction_reader import EXCERPT_CHARS, PagePost

Labelled = tuple[PagePost, PairLabel]
"""What is shown, and what the post does to the page."""

FEVER_LABELS: Final = {
    "REFUTES": PairLabel.CONTRADICTS,
    "SUPPORTS": PairLabel.SAME,
    "NOT ENOUGH INFO": PairLabel.OTHER,
}
AMONG_OTHERS: Final = 0.5
"""Share of the claims whose evidence stands among sentences of another one."""
WRONG: Final = 0.55
"""Share of the answered questions that get another answer."""
CHANGED: Final = 0.6
"""Share of the honest sentences that are changed."""
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


def read_claims(path: Path, half: Half, seed: int = 0) -> list[Labelled]:
    """Return the claims of one half of a JSONL file in the form of FEVER or of SQuAD, in an order that the seed chooses.

    Raises:
        Misuse: the file cannot be read, or a row has neither form.
    """
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise Misuse(
            f"{path}: cannot be read as JSONL ({error}); expected claims in the form of FEVER or SQuAD"
        ) from error
    choice = random.Random(f"{seed} {path.name}")  # noqa: S311 - no secret
    try:
        read = _of_questions if rows and "question" in rows[0] else _of_fever
        claims = list(read(rows, half, choice))
    except (KeyError, TypeError, AttributeError) as error:
        raise Misuse(
            f"{path}: a row lacks {error}; expected 'claim', 'label' and 'evidence', or 'title', 'question', 'context' and 'answer'"
        ) from error
    choice.shuffle(claims)
    return claims


def change_sentences(path: Path, half: Half, seed: int = 0) -> list[Labelled]:
    """Return sentences of honest texts, changed or not, behind the beginning of another text, beside the text that they are from.

    Args:
        path: JSONL, as `corpus_guard.detectors.contradictions.honest_texts` reads it; `ARRIVING` texts are used.
        half: of its documents.
        seed: chooses texts and changes.

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
        fitting = [each for each in sentences if SENTENCE_CHARS[0] <= len(each) <= SENTENCE_CHARS[1]]
        if not fitting:
            continue
        sentence = choice.choice(fitting)
        said = sentence
        if choice.random() < CHANGED:
            said = _change(sentence, names, choice)
            if said == sentence:
                continue
        around = choice.choice(texts).text[: choice.randrange(AROUND_CHARS)].rpartition(" ")[0]
        label = PairLabel.SAME if said == sentence else PairLabel.CONTRADICTS
        post = f"{around.strip().rstrip('.')}. {said}" if around else said
        examples.append((PagePost(text.title, cut_excerpt(sentences, sentence), post), label))
    return examples


def _of_fever(rows: Sequence[Mapping[str, Any]], half: Half, choice: random.Random) -> Iterator[Labelled]:
    for row in rows:
        evidence = list(map(_plain, row["evidence"]))
        if not evidence or assign_half(evidence[0]) is not half:
            continue
        title = match[1] if (match := _TITLE.match(evidence[0])) else ""
        if choice.random() < AMONG_OTHERS:
            others = list(map(_plain, choice.choice(rows)["evidence"]))
            evidence = [*others, *evidence] if choice.random() < AMONG_OTHERS else [*evidence, *others]
        yield PagePost(title, " ".join(evidence)[:EXCERPT_CHARS], row["claim"]), FEVER_LABELS[row["label"]]


def _of_questions(rows: Sequence[Mapping[str, Any]], half: Half, choice: random.Random) -> Iterator[Labelled]:
    answers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row["answer"]:
            answers[row["title"], _shape(row["answer"])].add(row["answer"])
    for row in rows:
        title, context, right = row["title"], row["context"], row["answer"]
        if assign_half(title) is not half:
            continue
        shape = (
            _shape(right) if right else choice.choice([shape for of, shape in sorted(answers) if of == title] or [""])
        )
        others = [each for each in sorted(answers[title, shape]) if each.lower() not in context.lower()]
        label = PairLabel.SAME
        if not right or choice.random() < WRONG:
            if not others:
                continue
            label = PairLabel.CONTRADICTS if right else PairLabel.OTHER
        answer = right if label is PairLabel.SAME else choice.choice(others)
        sentences = split_plain(context)
        place = row["start"] if right else choice.randrange(len(context))
        post = choice.choice(ANSWERS).format(question=row["question"].strip(), answer=answer.rstrip("."))
        yield PagePost(title.replace("_", " "), cut_excerpt(sentences, _sentence_at(context, place)), post), label


def _shape(answer: str) -> str:
    """Return what kind of answer it is, roughly: a number, a name or words, and whether it is short."""
    kind = "number" if any(map(str.isdigit, answer)) else "name" if answer.istitle() else "words"
    return f"{kind} {len(answer.split()) > 2}"


def _plain(sentence: str) -> str:
    """Return a sentence as people write it, from the tokens of a treebank."""
    words = " ".join(_TREEBANK.get(word, word) for word in sentence.split())
    return _LOOSE_MARK.sub("", words.replace("`` ", '"').replace(" ''", '"'))


def split_plain(text: str) -> list[str]:
    """Return the sentences of a text, without line breaks."""
    return [" ".join(text[start:end].split()) for start, end in split_sentences(text)]


def _sentence_at(text: str, place: int) -> str:
    spans = list(split_sentences(text))
    start, end = next((span for span in spans if place < span[1]), spans[-1])
    return " ".join(text[start:end].split())


def cut_excerpt(sentences: Sequence[str], kept: str) -> str:
    """Return a sentence with its neighbours, as many as are read."""
    first = last = sentences.index(kept)
    room = EXCERPT_CHARS - len(kept)
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
