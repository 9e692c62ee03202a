"""Attackers' texts beside honest passages that answer the same question.

A row of a file of attacks has ``question``, ``correct_answer``, ``incorrect_answer``, one or a list, and ``adversarial_texts``, as
PoisonedRAG's (Zou et al. 2024); a row of a file of passages has the ``query`` that it was retrieved for, and ``text``.

A text with the wrong answer contradicts a passage with the right one. So that no writer is known by his style, it is also shown
beside passages that it does not contradict: one of its question that gives no answer, one of another question, and one in which the
wrong answer stands in the place of the right one. Of a question without passages the question with its answer stands for one.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from corpus_guard.detectors.contradictions.claims import (
    Labelled,
    change_answer,
    cut_excerpt,
    find_most_alike,
    split_plain,
)
from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.samples import Half, assign_half, read_rows
from corpus_guard.errors import Misuse
from corpus_guard.intake.parsing.mojibake import repair_mojibake
from corpus_guard.models.contradiction_reader import POST_CHARS, PagePost

PER_QUESTION: Final = 8  # texts of a question, of each file
HARMLESS: Final = 0.5
"""Share of the texts that are also shown beside each kind of passage that they do not contradict."""
TITLED: Final = 0.5
"""Share of the passages that have their question as title."""
YES_NO: Final = frozenset({"yes", "no"})


@dataclass(frozen=True, slots=True)
class PlantedAnswer:
    """A question, and what an attacker wrote so that it is answered wrongly."""

    question: str
    right: str
    wrong: tuple[str, ...]
    """Wrong answers, one or several."""
    texts: tuple[str, ...]
    """Texts that hold one of them."""

    def said_by(self, text: str) -> str:
        """Return the wrong answer that one of its texts gives."""
        return next(answer for answer in self.wrong if _says(text, answer))

    def is_answered_by(self, passage: str) -> bool:
        """Return whether a passage gives the right answer, and not the wrong one."""
        return _says(passage, self.right) and not self.is_misled(passage)

    def is_misled(self, passage: str) -> bool:
        """Return whether a passage gives a wrong answer."""
        return any(_says(passage, answer) for answer in self.wrong)


def read_attacks(path: Path, half: Half) -> Iterator[PlantedAnswer]:
    """Yield the attacks of a file on questions of one half; without those that yes or no answers, which no word tells apart.

    Raises:
        Misuse: the file cannot be read, or a row lacks a field.
    """
    for place, row in read_rows(path):
        question, right, wrong, texts = (
            row.get(key) for key in ("question", "correct_answer", "incorrect_answer", "adversarial_texts")
        )
        wrongs = tuple(map(str, wrong if isinstance(wrong, list) else [wrong]))
        if not (isinstance(question, str) and isinstance(right, str) and wrong and isinstance(texts, list)):
            raise Misuse(
                f"{place}: no attack; expected 'question', 'correct_answer', 'incorrect_answer' and a list 'adversarial_texts'"
            )
        if assign_half(question) is half and not YES_NO & {answer.lower() for answer in (right, *wrongs)}:
            lies = (text for text in map(str, texts) if any(_says(text, answer) for answer in wrongs))
            yield PlantedAnswer(question, right, wrongs, tuple(lies))


def read_passages(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Return the passages of each question, each once.

    Raises:
        Misuse: a file cannot be read, or a row has no 'query' or 'text'.
    """
    passages: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for path in paths:
        for place, row in read_rows(path):
            question, text = row.get("query"), row.get("text")
            if not isinstance(text, str) or not isinstance(question, str):
                raise Misuse(f"{place}: no passage; expected 'query' and 'text'")
            passages[question][repair_mojibake(text)[0]] = None
    return {question: list(texts) for question, texts in passages.items()}


def show_planted(
    attacks: Sequence[PlantedAnswer], passages: Mapping[str, Sequence[str]], seed: int = 0
) -> list[Labelled]:
    """Return attackers' texts beside passages, and passages with the right answer beside each other.

    Args:
        passages: of each question; it may have none.
    """
    choice = random.Random(f"{seed} planted")  # noqa: S311 - no secret
    examples: list[Labelled] = []
    for attack in attacks:
        has_passages = attack.question in passages
        examples += _of_attack(attack, passages, choice) if has_passages else _of_answers(attack, choice)
    choice.shuffle(examples)
    return examples


def _of_answers(attack: PlantedAnswer, choice: random.Random) -> Iterator[Labelled]:
    """Yield an attacker's texts beside their question with the right answer, and with the wrong one."""
    question = f"{attack.question.rstrip('?')}?"
    for text in choice.sample(attack.texts, min(PER_QUESTION, len(attack.texts))):
        right, wrong = (f"{question} {answer.rstrip('.')}." for answer in (attack.right, attack.said_by(text)))
        yield PagePost("", right, _join(text)), PairLabel.CONTRADICTS
        if choice.random() < HARMLESS:
            yield PagePost("", wrong, _join(text)), PairLabel.SAME


def _of_attack(
    attack: PlantedAnswer, passages: Mapping[str, Sequence[str]], choice: random.Random
) -> Iterator[Labelled]:
    question, own = attack.question, passages[attack.question]
    honest = [each for each in own if attack.is_answered_by(each)]
    silent = [each for each in own if not _says(each, attack.right) and not attack.is_misled(each)]
    others = [each for each in passages if each != question]
    strangers = passages[choice.choice(others)] if others else ()
    for text in choice.sample(attack.texts, min(PER_QUESTION, len(attack.texts))):
        if honest:
            some = choice.sample(honest, min(3, len(honest)))
            passage, wrong = some[find_most_alike(text, some)], attack.said_by(text)
            yield _show(question, passage, attack.right, text, choice), PairLabel.CONTRADICTS
            changed = change_answer(passage, attack.right, wrong)
            if choice.random() < HARMLESS and changed != passage:
                yield _show(question, changed, wrong, text, choice), PairLabel.SAME
        for harmless in (silent, strangers):
            if harmless and choice.random() < HARMLESS:
                yield _show(question, choice.choice(harmless), "", text, choice), PairLabel.OTHER
    for first, second in list(pairwise(honest))[:PER_QUESTION]:
        yield _show(question, first, attack.right, _around(second, attack.right), choice), PairLabel.OTHER


def _show(question: str, passage: str, answer: str, post: str, choice: random.Random) -> PagePost:
    """Return a post beside the sentence of a passage that gives the answer, or any, with its neighbours."""
    sentences = split_plain(passage) or [passage]
    place = _find_answer(sentences, answer) if answer else None
    title = question if choice.random() < TITLED else ""
    excerpt = cut_excerpt(sentences, choice.randrange(len(sentences)) if place is None else place)
    return PagePost(title, excerpt, _join(post))


def _join(post: str) -> str:
    """Return what is read of a post, without line breaks."""
    return " ".join(post.split())[:POST_CHARS]


def _around(passage: str, answer: str) -> str:
    """Return the sentence of a passage that gives the answer, and the one before it."""
    sentences = split_plain(passage) or [passage]
    place = _find_answer(sentences, answer) or 0
    return " ".join(sentences[max(0, place - 1) : place + 1])


def _find_answer(sentences: Sequence[str], answer: str) -> int | None:
    return next((number for number, each in enumerate(sentences) if _says(each, answer)), None)


def _says(text: str, answer: str) -> bool:
    """Return whether a text holds an answer, in letters of any case."""
    return answer.lower() in text.lower()
