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

TEXTS_PER_TRIAL = 4_000  # if each is judged alone; limits the memory


class ArrivalProtocol(StrEnum):
    """Way in which texts arrive."""

    SINGLE = "single"
    SIBLINGS = "siblings"
    BANK = "bank"
    TOGETHER = "together"


PROTOCOL_MEANINGS = {
    ArrivalProtocol.SINGLE: "each text alone, no question known",
    ArrivalProtocol.SIBLINGS: f"all texts of at most {QUESTIONS_PER_BATCH} questions among up to {CLEAN_PER_BATCH:,} clean ones",
    ArrivalProtocol.BANK: f"each text alone, its question among up to {BANK_QUESTIONS} known ones",
    ArrivalProtocol.TOGETHER: f"clean texts of one kind in batches of up to {CLEAN_PER_BATCH:,}",
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

    Args:
        samples: attacks with a question, and clean texts.
        clean: further clean texts.
        seed: of the order of questions, the places in the batch, and the clean texts.
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
        questions: further questions to fill the bank.
        seed: of the order of questions.
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

    The short lists of this package are left out.
    """
    for _, group in _grouped(s for s in samples if not s.attack and s.half is not Half.WHOLE):
        texts = _distinct(group)
        for start in range(0, len(texts), CLEAN_PER_BATCH):
            yield Trial(ArrivalProtocol.TOGETHER, tuple(texts[start : start + CLEAN_PER_BATCH]), one_by_one=False)


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
    by_text: dict[str, Sample] = {}
    for sample in samples:
        by_text.setdefault(sample.text, sample)
    return list(by_text.values())
