"""Questions under attack, from JSONL in PoisonedRAG's format.

    {"id", "question", "correct_answer", "incorrect_answer", "adversarial_texts": [...], "clean_texts": [...]}

Rules
    * an answer is a string, a whole number or a list of strings; users report the first incorrect one, and
      any of them counts as the attacker's answer of a model;
    * fields that a plan does not use may be missing; a missing field that it needs is an error that names
      file, line and key;
    * a field of the wrong type is an error. Blank texts are left out and counted. Other keys are ignored.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from corpus_guard.detectors.samples import Half, Row, assign_half, question_key, read_rows
from corpus_guard.errors import Misuse

MAX_TEXT_CHARACTERS = 1_000_000  # far more than an embedder reads
MAX_ANSWER_CHARACTERS = 8_000  # of a question or an answer


class RequiredField(StrEnum):
    """Field that a plan may need in every row, beside id, question and incorrect_answer."""

    CORRECT = "correct_answer"
    ADVERSARIAL = "adversarial_texts"


@dataclass(frozen=True, slots=True)
class TargetQuestion:
    """Question under attack, with its answers and texts."""

    id: str
    question: str
    correct: tuple[str, ...]  # empty if the row has none
    incorrect: tuple[str, ...]  # users report the first
    adversarial: tuple[str, ...]
    clean: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Return the attacked question and answer; rows with the same key share their poisoned texts."""
        return question_key(self.question) or self.question, question_key(self.incorrect[0]) or self.incorrect[0]

    @property
    def half(self) -> Half:
        """Return the half of the questions that this one falls into."""
        return assign_half(question_key(self.question))

    @property
    def opening(self) -> str:
        """Return the first word of the question, which tells what kind of answer it asks for."""
        return self.question.split()[0].casefold()

    def corrected_texts(self, limit: int | None = None) -> list[str]:
        """Return honest texts in the style of an attack.

        They are adversarial texts with the right answer in place of the wrong one.

        Args:
            limit: uses so many adversarial texts, from the first; None: all of them.

        Returns:
            One text for each adversarial text that contains the wrong answer; none if there is no right
            answer.
        """
        if not self.correct:
            return []
        wrong = re.compile(rf"(?<!\w){re.escape(self.incorrect[0].strip(' .'))}(?!\w)", re.IGNORECASE)
        correct = self.correct[0].strip(" .")
        return [wrong.sub(lambda _: correct, text) for text in self.adversarial[:limit] if wrong.search(text)]


@dataclass(frozen=True, slots=True)
class TargetQuestions:
    """Questions of a file."""

    targets: tuple[TargetQuestion, ...]
    blank: int  # texts left out


def read_targets(
    path: Path, required: Collection[RequiredField] = (), limit: int | None = None, half: Half = Half.WHOLE
) -> TargetQuestions:
    """Read the questions of a file.

    Args:
        limit: reads so many rows of the half, from the first; None: all.
        half: only the questions of this half (`samples.assign_half`); WHOLE: all.

    Raises:
        Misuse: the file cannot be read or has no rows, or a row is not as described; names file, line and
            key.
    """
    targets: list[TargetQuestion] = []
    blank = 0
    for place, row in read_rows(path):
        target, left_out = parse_target(row, place, required)
        if half is not Half.WHOLE and target.half is not half:
            continue
        targets.append(target)
        blank += left_out
        if limit and len(targets) >= limit:
            break
    if not targets:
        whose = "" if half is Half.WHOLE else f" of the {half.value} half"
        raise Misuse(f"{path}: holds no rows{whose}; expected one JSON object per line, with {', '.join(_FIELDS)}")
    return TargetQuestions(tuple(targets), blank)


def wrong_answers_by_opening(targets: Iterable[TargetQuestion]) -> dict[str, list[str]]:
    """Return the wrong answers to questions that begin with the same word, by that word."""
    answers: dict[str, list[str]] = {}
    for target in targets:
        answers.setdefault(target.opening, []).append(target.incorrect[0])
    return answers


def add_other_answers(questions: TargetQuestions, count: int) -> TargetQuestions:
    """Return the questions, each followed by itself with wrong answers to others that begin with the same word.

    Args:
        count: of other answers for each question, at most; the same ones in every run.
    """
    others = wrong_answers_by_opening(questions.targets)
    reported = []
    for target in questions.targets:
        own_answers = {answer.casefold() for answer in (*target.correct, *target.incorrect)}
        answers = [answer for answer in dict.fromkeys(others[target.opening]) if answer.casefold() not in own_answers]
        chance = random.Random(f"other answers {target.question!a}")  # noqa: S311 - a sample, no secret
        chosen = chance.sample(answers, min(count, len(answers)))
        reported += [target, *(replace(target, incorrect=(answer,)) for answer in chosen)]
    return replace(questions, targets=tuple(reported))


_FIELDS = ("id", "question", "correct_answer", "incorrect_answer", "adversarial_texts", "clean_texts")


def parse_target(row: Row, place: str, required: Collection[RequiredField] = ()) -> tuple[TargetQuestion, int]:
    """Return a row as a question, and the number of blank texts in it; raises Misuse like `read_targets`.

    Args:
        place: file and line, for error messages.
    """
    row_id = row.get("id")
    if isinstance(row_id, bool) or not isinstance(row_id, str | int) or not str(row_id).strip():
        raise _wrong_field(place, "id", row_id, "a string or a whole number")
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise _wrong_field(place, "question", question, "a string")
    _check_texts([question, str(row_id)], MAX_ANSWER_CHARACTERS, place, "question")
    incorrect = _answers(row, "incorrect_answer", place)
    if not incorrect:
        raise _wrong_field(place, "incorrect_answer", row.get("incorrect_answer"), "a string or a list of strings")
    correct = _answers(row, "correct_answer", place)
    texts = [_texts(row, key, place) for key in ("adversarial_texts", "clean_texts")]
    adversarial, clean = (tuple(text for text in group if text.strip()) for group in texts)
    for field, values in ((RequiredField.CORRECT, correct), (RequiredField.ADVERSARIAL, adversarial)):
        if field in required and not values:
            raise _wrong_field(place, field.value, row.get(field.value), "at least one, for the chosen options")
    blank = sum(map(len, texts)) - len(adversarial) - len(clean)
    return TargetQuestion(str(row_id), question, correct, incorrect, adversarial, clean), blank


def _answers(row: Row, key: str, place: str) -> tuple[str, ...]:
    value = row.get(key)
    if value is None:
        return ()
    if isinstance(value, int) and not isinstance(value, bool):  # "how many …?"
        value = str(value)
    answers = [value] if isinstance(value, str) else value
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise _wrong_field(place, key, value, "a string or a list of strings")
    _check_texts(answers, MAX_ANSWER_CHARACTERS, place, key)
    return tuple(answer for answer in answers if answer.strip())


def _texts(row: Row, key: str, place: str) -> list[str]:
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _wrong_field(place, key, value, "a list of strings")
    _check_texts(value, MAX_TEXT_CHARACTERS, place, key)
    return value


def _check_texts(values: Sequence[str], max_characters: int, place: str, key: str) -> None:
    for value in values:
        if len(value) > max_characters:
            raise Misuse(f"{place}: {key!r} holds {len(value):,} characters; expected at most {max_characters:,}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misuse(f"{place}: {key!r} holds half a surrogate pair; expected text that UTF-8 can hold") from None


def _wrong_field(place: str, key: str, value: object, expected: str) -> Misuse:
    if value is None:
        got = "missing or null"
    elif isinstance(value, str | list) and not value:
        got = "empty"
    elif isinstance(value, list):
        got = "a list with other values or none"
    else:
        got = f"a {type(value).__name__}"
    return Misuse(f"{place}: {key!r} is {got}; expected {expected}")
