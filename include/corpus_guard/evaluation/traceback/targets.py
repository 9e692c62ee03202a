"""Questions under attack, from JSONL in PoisonedRAG's format.

    {"id", "question", "correct_answer", "incorrect_answer", "adversarial_texts": [...], "clean_texts": [...]}

Rules
    * an answer is a string, a whole number or a list of strings; the first incorrect one is what users report, and any counts as given
      by a model;
    * what a plan has no use for may be missing; what it needs and a row lacks is an error that names file, line and key;
    * whatever stands there is of the right type, or an error. Blank texts are left out and counted. Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.samples import normal, read_rows

LONGEST = 1_000_000  # characters of one text: far past what an embedder reads
LONGEST_ANSWER = 8_000  # characters of a question or an answer


class Needed(StrEnum):
    """What a plan may need of every row, beside id, question and incorrect_answer."""

    CORRECT = "correct_answer"
    ADVERSARIAL = "adversarial_texts"


@dataclass(frozen=True, slots=True)
class Target:
    """A question, what is wrongly answered to it, and texts."""

    id: str
    question: str
    correct: tuple[str, ...]  # none where the row has none
    incorrect: tuple[str, ...]  # the first is what is reported
    adversarial: tuple[str, ...]
    clean: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What is attacked: rows that share it share their poison."""
        return normal(self.question) or self.question, normal(self.incorrect[0]) or self.incorrect[0]


@dataclass(frozen=True, slots=True)
class Targets:
    """What was read."""

    targets: tuple[Target, ...]
    blank: int  # texts left out


def read_targets(path: Path, needed: Collection[Needed] = (), limit: int | None = None) -> Targets:
    """Read targets.

    Args:
        path: JSONL in UTF-8.
        needed: what every row must have.
        limit: only so many rows, from the first.

    Raises:
        Misuse: the file cannot be read, holds nothing, or a row is not as described; names file, line and key.
    """
    targets: list[Target] = []
    blank = 0
    for where, row in read_rows(path):
        target, left_out = target_of(row, where, needed)
        targets.append(target)
        blank += left_out
        if limit and len(targets) >= limit:
            break
    if not targets:
        raise Misuse(f"{path}: holds no row; expected one JSON object a line, with {', '.join(_KEYS)}")
    return Targets(tuple(targets), blank)


_KEYS = ("id", "question", "correct_answer", "incorrect_answer", "adversarial_texts", "clean_texts")


def target_of(row: Mapping[str, Any], where: str, needed: Collection[Needed] = ()) -> tuple[Target, int]:
    """A row as a target, and how many blank texts it held; raises Misuse like `read_targets`."""
    number = row.get("id")
    if isinstance(number, bool) or not isinstance(number, str | int) or not str(number).strip():
        raise _wrong(where, "id", number, "a string or a whole number")
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise _wrong(where, "question", question, "a string")
    _check([question, str(number)], LONGEST_ANSWER, where, "question")
    incorrect = _answers(row, "incorrect_answer", where)
    if not incorrect:
        raise _wrong(where, "incorrect_answer", row.get("incorrect_answer"), "a string or a list of strings")
    correct = _answers(row, "correct_answer", where)
    adversarial, clean = (_texts(row, key, where) for key in ("adversarial_texts", "clean_texts"))
    kept = [tuple(text for text in texts if text.strip()) for texts in (adversarial, clean)]
    for need, found in ((Needed.CORRECT, correct), (Needed.ADVERSARIAL, kept[0])):
        if need in needed and not found:
            raise _wrong(where, need.value, row.get(need.value), "at least one; what was asked for needs it")
    blank = len(adversarial) + len(clean) - sum(map(len, kept))
    return Target(str(number), question, correct, incorrect, *kept), blank


def _answers(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = row.get(key)
    if value is None:
        return ()
    if isinstance(value, int) and not isinstance(value, bool):  # "how many …?"
        value = str(value)
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise _wrong(where, key, value, "a string or a list of strings")
    _check(given, LONGEST_ANSWER, where, key)
    return tuple(one for one in given if one.strip())


def _texts(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _wrong(where, key, value, "a list of strings")
    _check(value, LONGEST, where, key)
    return value


def _check(values: Sequence[str], longest: int, where: str, key: str) -> None:
    for value in values:
        if len(value) > longest:
            raise Misuse(f"{where}: {key!r} holds {len(value):,} characters; expected at most {longest:,}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misuse(f"{where}: {key!r} holds half a surrogate pair; expected text that UTF-8 can hold") from None


def _wrong(where: str, key: str, value: Any, expected: str) -> Misuse:
    if value is None:
        found = "missing or null"
    elif isinstance(value, str | list) and not value:
        found = "empty"
    else:
        found = f"a {type(value).__name__}" + (
            " that holds something else, or nothing" if isinstance(value, list) else ""
        )
    return Misuse(f"{where}: {key!r} is {found}; expected {expected}")
