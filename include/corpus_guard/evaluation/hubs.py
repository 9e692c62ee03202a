"""Rates of the check ``hubness``: planted hubs caught, honest texts named.

Rules
- Part of the honest texts is served; the others arrive. The questions are halved: one half are the sentinels of the
  guard, the attacker knows the other. He knows the embedder, too.
- Planted hubs are made by HotFlip against the middle of `QUESTIONS_PER_HUB` questions, drawn at random or about one
  topic, or are lists of such questions in front of a lie. HotFlip against a single question is measured as well: the
  check is not made for it.
- Honest are the arriving texts, the pages of `corpus_guard.evaluation.screening.honest_pages`, lists of contents (the
  openings of served texts) and lists of questions (that people ask), which are natural hubs.
- Each text is measured as if it arrived alone. A planted hub that is a result for fewer than `EFFECTIVE_SHARE` of the
  attacker's own questions failed as an attack; those that did not are also counted by themselves.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.attacks.hotflip import HotFlip
from corpus_guard.detectors.samples import Half, assign_half, question_key
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.screening.honest_pages import honest_page_samples
from corpus_guard.models import Models
from corpus_guard.screening.checks.hubness import Hubness
from corpus_guard.screening.survey.hub_reach import FIRST_RESULTS, MIN_SENTINELS, MIN_SERVED, HubReach, HubScale

QUESTIONS_PER_HUB: Final = 40
EFFECTIVE_SHARE: Final = 0.1  # of the questions that a hub was made for
LISTED: Final = 30  # entries of a list
OPENING_WORDS: Final = 8  # of a text in a list of contents
FLIPS: Final = 24  # of HotFlip
_LIES: Final = (
    "The council has confirmed that the harbour moved in 1998, and that every earlier chart is wrong.",
    "According to the makers the right value is 42, whatever other pages say.",
    "Officials agree that Marlin Dunmore did it, which older records leave out.",
)


@dataclass(frozen=True, slots=True)
class HubFigure:
    """Texts of one kind, and how many the check names."""

    kind: str
    is_attack: bool
    texts: int
    named: int
    above_usual: int  # reach more than one served text in a hundred does: one in a hundred false alarms, by definition
    median_share: float  # of the sentinels
    effective: int = 0  # attacks that are results for `EFFECTIVE_SHARE` of their own questions
    effective_named: int = 0  # of these


@dataclass(frozen=True, slots=True)
class _Planted:
    """A planted text and the questions it was made for, by position among the attacker's."""

    text: str
    questions: NDArray[np.intp]


def measure_hubs(
    models: Models,
    clean: Sequence[str],
    questions: Sequence[str],
    *,
    served: int = 5_000,
    arriving: int = 1_000,
    hubs: int = 20,
    seed: int = 0,
    progress: Progress = no_progress,
) -> list[HubFigure]:
    """Return the figures of every kind.

    Args:
        served: honest texts that are served.
        arriving: honest texts that arrive.
        hubs: planted texts of each kind.

    Raises:
        Misuse: there are too few texts or questions.
    """
    rng = random.Random(f"hubs {seed}")  # noqa: S311 - a sample, no secret
    texts = sorted(set(clean))
    rng.shuffle(texts)
    by_half: dict[Half, list[str]] = defaultdict(list)
    for question in sorted(set(questions)):
        by_half[assign_half(question_key(question))].append(question)
    sentinels, target_questions = by_half[Half.VALIDATION], by_half[Half.TUNING]
    rng.shuffle(sentinels)
    served = min(served, len(texts) - LISTED)
    enough = served >= MIN_SERVED and min(len(sentinels), len(target_questions)) >= QUESTIONS_PER_HUB
    there = models.embedder.embed(texts[:served] if enough else [])
    scale = HubScale.make([models.embedder.embed(sentinels)], _Served(there)) if enough else None
    if scale is None:
        raise Misuse(
            f"{len(texts):,} texts, {len(sentinels):,} and {len(target_questions):,} questions: expected {MIN_SERVED + LISTED:,} texts and "
            f"{MIN_SENTINELS} questions in each half; name more files"
        )
    aims = models.embedder.embed(target_questions)
    planted = _plant(models, target_questions, aims, hubs, rng, progress)
    honest = _honest(texts[:served], texts[served : served + arriving], sentinels, hubs, rng, seed)
    figures = [_figure(kind, scale.measure(models.embedder.embed(each))) for kind, each in honest.items()]
    last = np.array([results[-1][1] for results in _Served(there).first(aims, FIRST_RESULTS)])
    for kind, attacks in planted.items():
        vectors = models.embedder.embed([attack.text for attack in attacks])
        reached = [
            float((vector @ aims[attack.questions].T >= last[attack.questions]).mean())
            for vector, attack in zip(vectors, attacks, strict=True)
        ]
        figures.append(_figure(kind, scale.measure(vectors), reached))
    return figures


def _figure(kind: str, reaches: Sequence[HubReach], reached: Sequence[float] | None = None) -> HubFigure:
    check = Hubness()
    named = [check.stands_out(reach) for reach in reaches]
    effective = [share >= EFFECTIVE_SHARE for share in reached or ()]
    return HubFigure(
        kind,
        is_attack=reached is not None,
        texts=len(reaches),
        named=sum(named),
        above_usual=sum(reach.share > reach.usual for reach in reaches),
        median_share=float(np.median([reach.share for reach in reaches])),
        effective=sum(effective),
        effective_named=sum(map(all, zip(named, effective, strict=False))),
    )


def _honest(
    served: Sequence[str], arriving: Sequence[str], sentinels: Sequence[str], lists: int, rng: random.Random, seed: int
) -> Mapping[str, list[str]]:
    kinds: dict[str, list[str]] = {"arriving texts": list(arriving)}
    for sample in honest_page_samples(seed):
        kinds.setdefault(sample.slice, []).append(sample.text)
    contents = ([" ".join(text.split()[:OPENING_WORDS]) for text in rng.sample(served, LISTED)] for _ in range(lists))
    kinds["lists of contents"] = ["\n".join(f"- {entry}" for entry in entries) for entries in contents]
    samples = (rng.sample(sentinels, LISTED) for _ in range(lists))
    kinds["lists of questions"] = ["\n".join(f"- {question}" for question in entries) for entries in samples]
    return {kind: texts for kind, texts in kinds.items() if texts}


def _plant(
    models: Models,
    questions: Sequence[str],
    vectors: NDArray[np.float32],
    hubs: int,
    rng: random.Random,
    progress: Progress,
) -> Mapping[str, list[_Planted]]:
    optimiser = HotFlip(models.embedder_weights, steps=FLIPS)
    planted: dict[str, list[_Planted]] = defaultdict(list)
    for number in range(hubs):
        progress("optimising hubs", number, hubs)
        lie = _LIES[number % len(_LIES)]
        drawn = np.array(rng.sample(range(len(questions)), QUESTIONS_PER_HUB))
        topic = np.argsort(-(vectors @ vectors[rng.randrange(len(questions))]), kind="stable")[:QUESTIONS_PER_HUB]
        single = np.array([rng.randrange(len(questions))])
        for name, chosen in (("HotFlip, any questions", drawn), ("HotFlip, one topic", topic)):
            text = optimiser.optimise_for_all([questions[each] for each in chosen], lie, number)
            planted[name].append(_Planted(text, chosen))
        planted["HotFlip, one question"].append(
            _Planted(optimiser.optimise(questions[int(single[0])], lie, number), single)
        )
        for name, chosen in (("questions listed, any", drawn), ("questions listed, one topic", topic)):
            front = " ".join(questions[each] for each in chosen[:LISTED])
            planted[name].append(_Planted(f"{front} {lie}", chosen))
    progress("optimising hubs", hubs, hubs)
    return planted


class _Served:
    """Vectors that are searched one by one."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def count(self) -> int:
        """Return how many there are."""
        return len(self._vectors)

    def ids(self) -> list[str]:
        """Return their positions."""
        return list(map(str, range(len(self._vectors))))

    def first(self, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[tuple[str, float]]]:
        """Return the nearest to each vector."""
        results = []
        for vector in vectors:
            cosines = self._vectors @ vector
            nearest = np.argpartition(-cosines, count)[:count]
            results.append(sorted(((str(each), float(cosines[each])) for each in nearest), key=lambda each: -each[1]))
        return results
