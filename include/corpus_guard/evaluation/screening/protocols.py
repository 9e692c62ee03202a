"""Protocols by which texts arrive at a screener: alone or among many, with or without known user questions.

Each protocol is a pure function of the samples and a seed. It yields trials, which are screened separately.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from corpus_guard.detectors.samples import (
    BANK_QUESTIONS,
    CLEAN_PER_BATCH,
    QUESTIONS_PER_BATCH,
    Family,
    Half,
    Sample,
    SliceKey,
)
from corpus_guard.domain import first_of_each

TEXTS_PER_TRIAL = 4_000  # if each is judged alone; limits the memory
ANSWERS_PER_QUESTION = 15  # honest passages of one batch that answer the same question
SIBLINGS_PER_QUESTION = 5  # adversarial texts beside them
MIN_OWN_TOGETHER = 100  # texts of this package's slices that arrive together; shorter lists are no refresh


class ArrivalProtocol(StrEnum):
    """Way in which texts arrive."""

    SINGLE = "single"
    SIBLINGS = "siblings"
    BANK = "bank"
    TOGETHER = "together"
    ANSWERS = "answers"
    ATTACKED_ANSWERS = "attacked-answers"


PROTOCOL_MEANINGS = {
    ArrivalProtocol.SINGLE: "each text alone, no question known",
    ArrivalProtocol.SIBLINGS: f"all texts of at most {QUESTIONS_PER_BATCH} questions among up to {CLEAN_PER_BATCH:,} clean ones",
    ArrivalProtocol.BANK: f"each text alone, its question among up to {BANK_QUESTIONS} known ones",
    ArrivalProtocol.TOGETHER: f"clean texts of one kind in batches of up to {CLEAN_PER_BATCH:,}",
    ArrivalProtocol.ANSWERS: f"up to {ANSWERS_PER_QUESTION} honest passages of each question, in batches of up to {CLEAN_PER_BATCH:,}",
    ArrivalProtocol.ATTACKED_ANSWERS: f"the same with up to {SIBLINGS_PER_QUESTION} adversarial texts of each question among them",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """Texts that are screened together."""

    protocol: ArrivalProtocol
    samples: tuple[Sample, ...]
    one_by_one: bool
    bank: tuple[str, ...] = ()


def single_trials(samples: Sequence[Sample]) -> Iterator[Trial]:
    """Yield every text alone, without known questions."""
    for start in range(0, len(samples), TEXTS_PER_TRIAL):
        yield Trial(ArrivalProtocol.SINGLE, tuple(samples[start : start + TEXTS_PER_TRIAL]), one_by_one=True)


def sibling_trials(samples: Sequence[Sample], clean: Iterable[Sample], seed: int) -> Iterator[Trial]:
    """Yield all adversarial texts of some questions at random places among clean texts of the same half.

    The ordinary texts of `samples`, filled up from `clean` to `CLEAN_PER_BATCH` if they are fewer, are dealt
    in an order that the seed decides: each trial gets the next `CLEAN_PER_BATCH`, starting over when they are
    used up.
    """
    samples, clean = list(samples), list(clean)
    pools = {half: _Pool(_ordinary(samples, half), _ordinary(clean, half), seed) for half in Half}
    for (key, half), group in _grouped(s for s in samples if s.attack and s.question):
        by_question: dict[str, list[Sample]] = defaultdict(list)
        for sample in group:
            by_question[sample.key].append(sample)
        several = [texts for texts in by_question.values() if len(texts) > 1]
        rng = random.Random(f"siblings {seed} {key.slice} {key.form} {half}")  # noqa: S311 - places in a batch, no secret
        rng.shuffle(several)
        for start in range(0, len(several), QUESTIONS_PER_BATCH):
            attacked = [sample for texts in several[start : start + QUESTIONS_PER_BATCH] for sample in texts]
            batch = _distinct([*attacked, *pools[half].next(CLEAN_PER_BATCH)])
            rng.shuffle(batch)
            yield Trial(ArrivalProtocol.SIBLINGS, tuple(batch), one_by_one=False)


def bank_trials(samples: Sequence[Sample], questions: Iterable[str], seed: int) -> Iterator[Trial]:
    """Yield every text that has a question alone, with its question among `BANK_QUESTIONS` known ones.

    Args:
        samples: attacks and clean texts; those without a question are left out.
    """
    by_question: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.question:
            by_question[sample.question].append(sample)
    rng = random.Random(f"bank {seed}")  # noqa: S311 - an order, no secret
    order = sorted(by_question)
    rng.shuffle(order)
    others = sorted({*questions, *by_question})
    rng.shuffle(others)
    for start in range(0, len(order), BANK_QUESTIONS):
        here = order[start : start + BANK_QUESTIONS]
        fill = [question for question in others if question not in set(here)][: BANK_QUESTIONS - len(here)]
        texts = tuple(sample for question in here for sample in by_question[question])
        yield Trial(ArrivalProtocol.BANK, texts, one_by_one=True, bank=(*here, *fill))


def together_trials(samples: Sequence[Sample]) -> Iterator[Trial]:
    """Yield clean texts of one slice as a refresh would meet them.

    Lists of this package of fewer than `MIN_OWN_TOGETHER` texts are left out.
    """
    for (_, half), group in _grouped(s for s in samples if not s.attack):
        texts = _distinct(group)
        if half is Half.WHOLE and len(texts) < MIN_OWN_TOGETHER:
            continue
        for start in range(0, len(texts), CLEAN_PER_BATCH):
            yield Trial(ArrivalProtocol.TOGETHER, tuple(texts[start : start + CLEAN_PER_BATCH]), one_by_one=False)


def answer_trials(samples: Sequence[Sample], clean: Iterable[Sample], seed: int) -> Iterator[Trial]:
    """Yield honest passages in batches that hold up to `ANSWERS_PER_QUESTION` of each question.

    All passages of a question come in some batch, those of one half together. A batch is filled up to
    `CLEAN_PER_BATCH` with ordinary texts that answer no question.

    Args:
        samples: ordinary texts; those without a question are left out.
    """
    fill = list(clean)
    for half in Half:
        for batch in _answer_batches(samples, half, seed):
            yield Trial(ArrivalProtocol.ANSWERS, tuple(_filled(batch, fill, half, seed)), one_by_one=False)


def attacked_answer_trials(samples: Sequence[Sample], clean: Iterable[Sample], seed: int) -> Iterator[Trial]:
    """Yield the batches of `answer_trials` with adversarial texts of the same questions at random places.

    Args:
        samples: attacks with a question, and ordinary texts with the same questions; questions without both
            are left out.
    """
    samples, fill = list(samples), list(clean)
    for (key, half), group in _grouped(s for s in samples if s.attack and s.question):
        siblings: dict[str, list[Sample]] = defaultdict(list)
        for sample in group:
            siblings[sample.key].append(sample)
        answered = [sample for sample in samples if sample.key in siblings]
        rng = random.Random(f"answers {seed} {key.slice} {key.form} {half}")  # noqa: S311 - places in a batch, no secret
        for batch in _answer_batches(answered, half, seed):
            keys = dict.fromkeys(sample.key for sample in batch)
            attacks = [sample for key in keys for sample in siblings[key][:SIBLINGS_PER_QUESTION]]
            mixed = _distinct([*attacks, *_filled(batch, fill, half, seed)])
            rng.shuffle(mixed)
            yield Trial(ArrivalProtocol.ATTACKED_ANSWERS, tuple(mixed), one_by_one=False)


def _answer_batches(samples: Iterable[Sample], half: Half, seed: int) -> Iterator[list[Sample]]:
    """Yield batches of whole groups: a question has at most one group in a batch."""
    by_question: dict[str, list[Sample]] = defaultdict(list)
    for sample in _ordinary(samples, half):
        if sample.question:
            by_question[sample.key].append(sample)
    rng = random.Random(f"passages {seed}")  # noqa: S311 - an order, no secret
    questions = sorted(by_question)
    rng.shuffle(questions)
    for passages in by_question.values():
        rng.shuffle(passages)
    most = max(map(len, by_question.values()), default=0)
    per_batch = CLEAN_PER_BATCH // ANSWERS_PER_QUESTION
    for start in range(0, most, ANSWERS_PER_QUESTION):
        groups = [by_question[key][start : start + ANSWERS_PER_QUESTION] for key in questions]
        groups = [group for group in groups if group]
        for first in range(0, len(groups), per_batch):
            yield [sample for group in groups[first : first + per_batch] for sample in group]


def _filled(batch: Sequence[Sample], clean: Iterable[Sample], half: Half, seed: int) -> list[Sample]:
    fill = [sample for sample in _ordinary(clean, half) if not sample.question]
    random.Random(f"fill {seed}").shuffle(fill)  # noqa: S311 - an order, no secret
    filled = _distinct([*batch, *fill[: max(0, CLEAN_PER_BATCH - len(batch))]])
    random.Random(f"order {seed}").shuffle(filled)  # noqa: S311 - an order, no secret
    return filled


class _Pool:
    """Clean texts that are handed out in turn."""

    def __init__(self, chosen: list[Sample], more: list[Sample], seed: int) -> None:
        rng = random.Random(f"pool {seed}")  # noqa: S311 - an order, no secret
        rng.shuffle(more)
        self._samples = _distinct([*chosen, *more])[: max(CLEAN_PER_BATCH, len(chosen))]
        rng.shuffle(self._samples)
        self._at = 0

    def next(self, count: int) -> list[Sample]:
        if len(self._samples) <= count:
            return self._samples
        dealt = [self._samples[(self._at + offset) % len(self._samples)] for offset in range(count)]
        self._at = (self._at + count) % len(self._samples)
        return dealt


def _ordinary(samples: Iterable[Sample], half: Half) -> list[Sample]:
    return _distinct(sample for sample in samples if sample.family is Family.ORDINARY and sample.half is half)


def _grouped(samples: Iterable[Sample]) -> list[tuple[tuple[SliceKey, Half], list[Sample]]]:
    groups: dict[tuple[SliceKey, Half], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.slice_key, sample.half].append(sample)
    return list(groups.items())


def _distinct(samples: Iterable[Sample]) -> list[Sample]:
    """Return one sample per text: a repeated text would be caught as a copy."""
    return list(first_of_each(samples, lambda sample: sample.text).values())
