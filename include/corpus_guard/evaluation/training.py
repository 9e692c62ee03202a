"""Where the learned scores of screening come from: labelled texts in, ``screening/learned/NAME.yaml`` out.

Only the tuning half is learned from (`corpus_guard.evaluation.samples`), so that what `guard evaluate screening` prints for the other
half is about questions and sources the scores never saw.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.samples import Family, Form, Half, Sample, pick
from corpus_guard.evaluation.screening.protocols import BANK, BATCH, QUESTIONS
from corpus_guard.evaluation.vectors import RememberingModels
from corpus_guard.screening import _agreement, targeting
from corpus_guard.screening._logistic import Logistic
from corpus_guard.screening.semantic import NEAR, Asked, NothingServed, Passage
from corpus_guard.screening.wording import wording_of

SLICE = 3_000  # texts of a slice and form learned from, at most
LONGER = 3  # siblings joined to one text: a planted answer may be as long as an honest passage
EDITIONS = 30  # honest texts of each pool that editions are made of
NO_ATTACK = 6_000  # clean texts of one slice in a batch of their own: a large corpus is denser

Rows = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]
"""Features [rows, features], labels [rows] of 0 and 1, weights [rows]."""


class Score(StrEnum):
    """What can be trained."""

    COORDINATION = "coordination"
    TARGETING = "targeting"


def train(score: Score, samples: Sequence[Sample], models: RememberingModels, seed: int = 0) -> Logistic:
    """Fit a score.

    Args:
        score: which.
        samples: labelled texts; those of the validation half are left out.
        models: embed them.
        seed: what is sampled, and who stands beside whom.

    Raises:
        Misuse: the tuning half has no attack with siblings and a question, or no clean text.
    """
    tuning = pick([sample for sample in samples if sample.half is Half.TUNING], SLICE, seed)
    attacks = [one for one in tuning if one.attack and one.question and one.family is not Family.HOTFLIP]
    clean = [one for one in tuning if not one.attack and one.family in {Family.ORDINARY, Family.HARD_NEGATIVE}]
    if not attacks or not clean:
        raise Misuse(
            f"training data: {len(attacks)} attacks with a question and {len(clean)} clean texts in the tuning half; "
            "give files with both"
        )
    chance = random.Random(f"train {seed}")  # noqa: S311 - sampling, no secret
    attacks += list(_longer(attacks))
    names: Sequence[str]
    if score is Score.COORDINATION:
        names, version = _agreement.FEATURES, _agreement.VERSION
        rows = _coordination(attacks, clean, models, chance)
    else:
        names, version = targeting.FEATURES, targeting.VERSION
        rows = _targeting(attacks, clean, models, chance)
    return fit(names, version, rows, f"{len(attacks)} planted and {len(clean)} clean texts of the tuning half")


def fit(names: Sequence[str], version: str, rows: Rows, trained_on: str) -> Logistic:
    """A logistic regression over standardised features, both classes of the same weight.

    Raises:
        Misuse: no rows, or all of one class.
    """
    from sklearn.linear_model import LogisticRegression

    features, labels, weights = rows
    if len(set(labels.tolist())) != 2:
        raise Misuse(f"training data: {len(labels)} rows of {len(set(labels.tolist()))} class; two classes are needed")
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    weights = weights.copy()
    for label in (0, 1):
        weights[labels == label] *= len(labels) / weights[labels == label].sum()
    model = LogisticRegression(max_iter=5_000).fit((features - mean) / scale, labels, sample_weight=weights)
    return Logistic.model_validate(
        {
            "version": version,
            "trained_on": trained_on,
            "intercept": round(float(model.intercept_[0]), 4),
            "features": {
                name: {"mean": round(float(m), 4), "scale": round(float(s), 4), "weight": round(float(w), 4)}
                for name, m, s, w in zip(names, mean, scale, model.coef_[0], strict=True)
            },
        }
    )


def write(model: Logistic, path: Path) -> None:
    """As `corpus_guard.screening` reads it."""
    path.write_text(yaml.safe_dump(model.model_dump(mode="json"), sort_keys=False, width=140), encoding="utf-8")


def _longer(attacks: Iterable[Sample]) -> Iterator[Sample]:
    for texts in _siblings(attacks):
        for start in range(0, len(texts) - LONGER + 1, LONGER):
            joined = texts[start : start + LONGER]
            if joined[0].form is not Form.LED:
                yield replace(joined[0], text=" ".join(one.text for one in joined), slice=f"{joined[0].slice}, longer")


def _siblings(attacks: Iterable[Sample]) -> list[list[Sample]]:
    groups: dict[tuple[object, str], list[Sample]] = defaultdict(list)
    for sample in attacks:
        groups[sample.line, sample.key].append(sample)
    return [group for group in groups.values() if len(group) >= 3]


def _coordination(
    attacks: Sequence[Sample], clean: Sequence[Sample], models: RememberingModels, chance: random.Random
) -> Rows:
    """Every kind of attack among a batch of every clean slice and of all of them, and the clean slices alone.

    Every batch also holds releases and yearly editions of honest texts: near each other, and no attack.
    """
    by_line: dict[object, list[list[Sample]]] = defaultdict(list)
    for group in _siblings(attacks):
        by_line[group[0].line].append(group)
    pools: dict[str, list[Sample]] = defaultdict(list)
    for sample in clean:
        pools[sample.slice].append(sample)
    parts = []
    for pool in (*pools.values(), list(clean)):
        editions = [
            edition for sample in chance.sample(pool, min(EDITIONS, len(pool))) for edition in _editions(sample, chance)
        ]
        parts.append(_batch([], [*editions, *chance.sample(pool, min(NO_ATTACK, len(pool)))], models))
        for groups in by_line.values():
            attacked = [one for group in chance.sample(groups, min(QUESTIONS, len(groups))) for one in group]
            chosen = chance.sample(editions, min(5 * QUESTIONS, len(editions)))
            parts.append(_batch(attacked, [*chosen, *chance.sample(pool, min(BATCH, len(pool)))], models))
    features, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return features, labels, np.ones(len(labels))


def _editions(sample: Sample, chance: random.Random) -> Iterator[Sample]:
    """Five editions of one text: other figures, and one word in twelve left out or doubled."""
    for _ in range(5):
        words = []
        for word in sample.text.split():
            drawn = chance.random()
            if drawn > 1 / 24:
                words.append("".join(str(chance.randrange(10)) if sign.isdigit() else sign for sign in word))
            if drawn > 23 / 24:
                words.append(word)
        yield replace(sample, text=" ".join(words))


def _batch(
    attacked: Sequence[Sample], clean: Sequence[Sample], models: RememberingModels
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    texts = list(dict.fromkeys(one.text for one in (*attacked, *clean)))
    planted = {one.text for one in attacked}
    passages = [Passage(str(number), str(number), 0, open=True) for number in range(len(texts))]
    near = _agreement.surroundings(passages, models.embedder.embed(texts), NothingServed())
    wording = wording_of(models.frequency_vocabulary)
    features = _agreement.features(near, lambda positions: [texts[position] for position in positions], wording)
    return features, np.array([texts[position] in planted for position in near], np.int64)


def _targeting(
    attacks: Sequence[Sample], clean: Sequence[Sample], models: RememberingModels, chance: random.Random
) -> Rows:
    """Planted texts and honest passages beside the nearest of 500 questions, their own among them."""
    questions = list(dict.fromkeys(one.question for one in (*attacks, *clean) if one.question))
    vectors = dict(zip(questions, models.embedder.embed(questions), strict=True))
    wording = wording_of(models.frequency_vocabulary)
    features, labels, weights = [], [], []
    chosen = [one for one in (*attacks, *clean) if one.question and one.form is not Form.LED]
    for sample, vector in zip(chosen, models.embedder.embed([one.text for one in chosen]), strict=True):
        bank = list({sample.question, *chance.sample(questions, min(BANK, len(questions)))})
        best, cosine = max(
            ((question, float(vectors[question] @ vector)) for question in bank if question), key=lambda pair: pair[1]
        )
        if cosine >= NEAR:
            features.append(targeting.features(Asked(0, best, cosine), sample.text, wording))
            labels.append(int(sample.attack))
            weights.append(0.25 if sample.slice.endswith(", longer") else 1.0)
    return (
        np.array(features, np.float64).reshape(-1, len(targeting.FEATURES)),
        np.array(labels, np.int64),
        np.array(weights),
    )
