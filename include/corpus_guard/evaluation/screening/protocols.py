"""How texts are put before a screener: alone, among many, with or without the questions users ask.

Each protocol is a pure function of the samples and a seed; it yields trials, each screened by itself.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from corpus_guard.evaluation.samples import Family, Half, Line, Sample

BATCH = 1_000  # clean texts that siblings are placed among, and size of a batch of clean texts
QUESTIONS = 10  # attacked at once in a batch, at most: the rest of the batch stays clean
BANK = 500  # questions

AT_ONCE = 4_000  # texts of a trial in which each is judged alone; only bounds the memory


class Protocol(StrEnum):
    """One way to arrive."""

    SINGLE = "single"
    SIBLINGS = "siblings"
    BANK = "bank"
    TOGETHER = "together"


MEANING = {
    Protocol.SINGLE: "each text alone, no question known",
    Protocol.SIBLINGS: f"all texts of at most {QUESTIONS} questions among up to {BATCH:,} clean ones",
    Protocol.BANK: f"each text alone, its question among up to {BANK} known ones",
    Protocol.TOGETHER: f"clean texts of one kind in batches of up to {BATCH:,}",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """Texts that are screened together."""

    protocol: Protocol
    samples: tuple[Sample, ...]
    one_by_one: bool
    bank: tuple[str, ...] = ()


def single(samples: Sequence[Sample]) -> Iterator[Trial]:
    """Every text alone, the bank empty."""
    for start in range(0, len(samples), AT_ONCE):
        yield Trial(Protocol.SINGLE, tuple(samples[start : start + AT_ONCE]), one_by_one=True)


def siblings(samples: Sequence[Sample], clean: Iterable[Sample], seed: int) -> Iterator[Trial]:
    """All adversarial texts of some questions at random places among clean texts of the same half.

    The ordinary texts of `samples`, filled up from `clean` to `BATCH` where they are fewer, are dealt in an order the seed
    gives: each trial gets the next `BATCH`, from the beginning again when they are used up.

    Args:
        samples: attacks that answer a question, and clean texts.
        clean: more clean texts.
        seed: order of the questions, places in the batch, order and choice of the clean texts.
    """
    samples, clean = list(samples), list(clean)
    pools = {half: _Pool(_ordinary(samples, half), _ordinary(clean, half), seed) for half in Half}
    for (line, half), group in _grouped(s for s in samples if s.attack and s.question):
        by_question: dict[str, list[Sample]] = defaultdict(list)
        for sample in group:
            by_question[sample.key].append(sample)
        several = [texts for texts in by_question.values() if len(texts) > 1]
        chance = random.Random(f"siblings {seed} {line.slice} {line.form} {half}")  # noqa: S311 - places in a batch, no secret
        chance.shuffle(several)
        for start in range(0, len(several), QUESTIONS):
            attacked = [sample for texts in several[start : start + QUESTIONS] for sample in texts]
            batch = _distinct([*attacked, *pools[half].next(BATCH)])
            chance.shuffle(batch)
            yield Trial(Protocol.SIBLINGS, tuple(batch), one_by_one=False)


def banked(samples: Sequence[Sample], questions: Iterable[str], seed: int) -> Iterator[Trial]:
    """Every text that has a question alone, with a bank that holds it among `BANK`.

    Args:
        samples: attacks and clean texts; those without a question are left out.
        questions: more of them, to fill the bank; beside these, the samples' own.
        seed: order of the questions.
    """
    asked: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.question:
            asked[sample.question].append(sample)
    chance = random.Random(f"bank {seed}")  # noqa: S311 - an order, no secret
    order = sorted(asked)
    chance.shuffle(order)
    others = sorted({*questions, *asked})
    chance.shuffle(others)
    for start in range(0, len(order), BANK):
        here = order[start : start + BANK]
        fill = [question for question in others if question not in set(here)][: BANK - len(here)]
        texts = tuple(sample for question in here for sample in asked[question])
        yield Trial(Protocol.BANK, texts, one_by_one=True, bank=(*here, *fill))


def together(samples: Sequence[Sample]) -> Iterator[Trial]:
    """Clean texts of one slice as a refresh would meet them; not the short lists made here, which are no corpus."""
    for _, group in _grouped(s for s in samples if not s.attack and s.half is not Half.WHOLE):
        texts = _distinct(group)
        for start in range(0, len(texts), BATCH):
            yield Trial(Protocol.TOGETHER, tuple(texts[start : start + BATCH]), one_by_one=False)


class _Pool:
    """Clean texts, dealt like cards."""

    def __init__(self, chosen: list[Sample], more: list[Sample], seed: int) -> None:
        chance = random.Random(f"pool {seed}")  # noqa: S311 - an order, no secret
        chance.shuffle(more)
        self._samples = _distinct([*chosen, *more])[: max(BATCH, len(chosen))]
        chance.shuffle(self._samples)
        self._at = 0

    def next(self, count: int) -> list[Sample]:
        if len(self._samples) <= count:
            return self._samples
        dealt = [self._samples[(self._at + offset) % len(self._samples)] for offset in range(count)]
        self._at = (self._at + count) % len(self._samples)
        return dealt


def _ordinary(samples: Iterable[Sample], half: Half) -> list[Sample]:
    return _distinct(sample for sample in samples if sample.family is Family.ORDINARY and sample.half is half)


def _grouped(samples: Iterable[Sample]) -> list[tuple[tuple[Line, Half], list[Sample]]]:
    groups: dict[tuple[Line, Half], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.line, sample.half].append(sample)
    return list(groups.items())


def _distinct(samples: Iterable[Sample]) -> list[Sample]:
    """One sample a text: the same text twice in a batch would be caught as a copy."""
    seen: dict[str, Sample] = {}
    for sample in samples:
        seen.setdefault(sample.text, sample)
    return list(seen.values())
