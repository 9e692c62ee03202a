"""Training of screening's learned scores: labelled texts in, ``screening/learned/NAME.yaml`` out.

Only the tuning half is used (`corpus_guard.detectors.samples`), so that what `guard evaluate screening`
prints for the other half is about questions and sources that the scores never saw.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from corpus_guard.detectors.attack_forms import ask_siblings, rewrite_siblings
from corpus_guard.detectors.samples import (
    BANK_QUESTIONS,
    CLEAN_PER_BATCH,
    QUESTIONS_PER_BATCH,
    Family,
    Half,
    Sample,
    ScreeningScore,
    SliceKey,
    TextForm,
    limit_per_slice,
)
from corpus_guard.detectors.vector_cache import CachingModels
from corpus_guard.errors import Misuse
from corpus_guard.screening.checks import targeting
from corpus_guard.screening.learned_scores import LearnedScore, Logistic, Network
from corpus_guard.screening.survey import agreement
from corpus_guard.screening.survey.agreement import NoServedChunks, Passage
from corpus_guard.screening.survey.semantics import NEAR_COSINE, NearbyQuestion
from corpus_guard.screening.wording import load_wording

MAX_TEXTS_PER_SLICE = 3_000  # of each form
MIN_GROUPS = 10  # of siblings in a slice; fewer say little, and would weigh as much as many
UNITS = 8  # of a network
NETWORKS = 6  # trained from different beginnings, and averaged
JOINED_SIBLINGS = 3  # siblings joined to one text: a planted answer may be as long as an honest passage
EDITED_TEXTS_PER_POOL = 30  # honest texts that editions are made of
ANSWERS_PER_QUESTION = 15  # honest passages of one question in a batch: what a crawl of the web brings
ANSWER_ROUNDS = 3  # batches that a question's passages are dealt into
QUESTIONS_PER_ANSWER_BATCH = 40
MAX_CLEAN_BATCH = 6_000  # clean texts of one slice in a batch of their own: a large corpus is denser

TrainingRows = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]
"""Features [rows, features], labels [rows] of 0 and 1, weights [rows]."""


def train_score(score: ScreeningScore, samples: Sequence[Sample], models: CachingModels, seed: int = 0) -> LearnedScore:
    """Fit a score: a network for coordination, a weighted sum for targeting.

    Args:
        samples: labelled texts; those of the validation half are left out.

    Raises:
        Misuse: the tuning half has too few attacks with siblings and a question, or no clean text.
    """
    tuning = limit_per_slice([sample for sample in samples if sample.half is Half.TUNING], MAX_TEXTS_PER_SLICE, seed)
    attacks = [sample for sample in tuning if sample.attack and sample.question and sample.family is not Family.HOTFLIP]
    clean = [
        sample for sample in tuning if not sample.attack and sample.family in {Family.ORDINARY, Family.HARD_NEGATIVE}
    ]
    if not attacks or not clean:
        raise Misuse(
            f"training data: {len(attacks)} attacks with a question and {len(clean)} clean texts in the tuning half; "
            "pass files with both"
        )
    rng = random.Random(f"train {seed}")  # noqa: S311 - sampling, no secret
    if score is ScreeningScore.COORDINATION:  # misspelt siblings are copies
        attacks = [sample for sample in attacks if sample.family is not Family.TYPOS]
        attacks += [*ask_siblings(attacks), *rewrite_siblings(attacks)]
    attacks += list(_joined_siblings(attacks))
    trained_on = f"{len(attacks)} planted and {len(clean)} clean texts of the tuning half"
    if score is ScreeningScore.TARGETING:
        return fit_logistic(targeting.FEATURES, targeting.VERSION, _targeting(attacks, clean, models, rng), trained_on)
    rows = _coordination([*attacks, *_floods(attacks)], clean, models, rng)
    if not rows[1].any():
        raise Misuse(
            f"training data: no kind of attack has {MIN_GROUPS} questions with three texts each in the tuning half that lie "
            "apart from the clean texts; pass more attacks"
        )
    return fit_network(agreement.FEATURES, agreement.VERSION, rows, trained_on, seed)


def fit_logistic(names: Sequence[str], version: str, rows: TrainingRows, trained_on: str) -> Logistic:
    """Fit a logistic regression over standardised features, both classes with the same weight.

    Raises:
        Misuse: there are no rows, or all are of one class.
    """
    from sklearn.linear_model import LogisticRegression

    standardised, mean, scale, weights = _standardise(rows)
    model = LogisticRegression(max_iter=5_000).fit(standardised, rows[1], sample_weight=weights)
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


def fit_network(names: Sequence[str], version: str, rows: TrainingRows, trained_on: str, seed: int) -> Network:
    """Fit `NETWORKS` networks of `UNITS` units over standardised features, both classes with the same weight.

    What they say is averaged: one that was begun otherwise errs on other texts.

    Raises:
        Misuse: there are no rows, or all are of one class.
    """
    from sklearn.neural_network import MLPClassifier

    standardised, mean, scale, weights = _standardise(rows)
    units, intercept = [], 0.0
    for number in range(NETWORKS):
        network = MLPClassifier(
            (UNITS,),
            activation="tanh",
            alpha=0.01,
            max_iter=200,
            early_stopping=True,
            n_iter_no_change=15,
            random_state=NETWORKS * seed + number,
        ).fit(standardised, rows[1], sample_weight=weights)
        (inner, outer), (biases, (last,)) = network.coefs_, network.intercepts_
        intercept += float(last) / NETWORKS
        units += [
            {
                "bias": round(float(bias), 4),
                "output": round(float(output) / NETWORKS, 4),
                "weights": [round(float(weight), 4) for weight in unit],
            }
            for unit, bias, output in zip(inner.T, biases, outer[:, 0], strict=True)
        ]
    return Network.model_validate(
        {
            "version": version,
            "trained_on": trained_on,
            "intercept": round(intercept, 4),
            "features": {
                name: {"mean": round(float(m), 4), "scale": round(float(s), 4)}
                for name, m, s in zip(names, mean, scale, strict=True)
            },
            "units": units,
        }
    )


def _standardise(
    rows: TrainingRows,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return standardised features, their means and scales, and weights with which both classes weigh the same."""
    features, labels, weights = rows
    if len(set(labels.tolist())) != 2:
        raise Misuse(f"training data: {len(labels)} rows of {len(set(labels.tolist()))} class; expected two classes")
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    weights = weights.copy()
    for label in (0, 1):
        weights[labels == label] *= len(labels) / weights[labels == label].sum()
    return (features - mean) / scale, mean, scale, weights


def write_score(model: LearnedScore, path: Path) -> None:
    """Write a score as YAML that `corpus_guard.screening` reads."""
    path.write_text(
        yaml.safe_dump(model.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=200),
        encoding="utf-8",
    )


def _joined_siblings(attacks: Iterable[Sample]) -> Iterator[Sample]:
    for texts in _siblings(attacks):
        for start in range(0, len(texts) - JOINED_SIBLINGS + 1, JOINED_SIBLINGS):
            joined = texts[start : start + JOINED_SIBLINGS]
            if joined[0].form is not TextForm.LED:
                yield replace(
                    joined[0], text=" ".join(sample.text for sample in joined), slice=f"{joined[0].slice}, longer"
                )


def _floods(attacks: Iterable[Sample]) -> Iterator[Sample]:
    """Yield all texts that answer a question once more, as siblings in one slice: an attacker may plant many."""
    for sample in attacks:
        yield replace(sample, slice=f"{sample.slice.partition(',')[0]}, all", form=TextForm.BARE)


def _siblings(attacks: Iterable[Sample]) -> list[list[Sample]]:
    groups: dict[tuple[SliceKey, str], list[Sample]] = defaultdict(list)
    for sample in attacks:
        groups[sample.slice_key, sample.key].append(sample)
    return [group for group in groups.values() if len(group) >= 3]


def _some(group: Sequence[Sample], rng: random.Random) -> list[Sample]:
    """Return three siblings or more: an attacker may plant fewer than there are."""
    return rng.sample(group, rng.randint(3, len(group)))


def _coordination(
    attacks: Sequence[Sample], clean: Sequence[Sample], models: CachingModels, rng: random.Random
) -> TrainingRows:
    """Place every kind of attack in a batch of every clean slice and of all clean texts.

    Also use the clean slices alone.

    Every slice of attacks weighs the same, and within it every group. Every such batch also holds releases and yearly editions
    of honest texts, which are close to each other and no attack. Further batches hold many honest answers to each
    question, without and with siblings beside them.
    """
    by_slice: dict[SliceKey, list[list[Sample]]] = defaultdict(list)
    for group in _siblings(attacks):
        by_slice[group[0].slice_key].append(group)
    by_slice = {key: groups for key, groups in by_slice.items() if len(groups) >= MIN_GROUPS}
    pools: dict[str, list[Sample]] = defaultdict(list)
    for sample in clean:
        pools[sample.slice].append(sample)
    parts: list[tuple[SliceKey | None, TrainingRows]] = []
    for pool in (*pools.values(), list(clean)):
        editions = [
            edition
            for sample in rng.sample(pool, min(EDITED_TEXTS_PER_POOL, len(pool)))
            for edition in _edit_text(sample, rng)
        ]
        honest = [*editions, *rng.sample(pool, min(MAX_CLEAN_BATCH, len(pool)))]
        parts.append((None, _batch_features([], honest, models)))
        for key, groups in by_slice.items():
            attacked = [
                sample
                for group in rng.sample(groups, min(QUESTIONS_PER_BATCH, len(groups)))
                for sample in _some(group, rng)
            ]
            chosen = rng.sample(editions, min(5 * QUESTIONS_PER_BATCH, len(editions)))
            beside = [*chosen, *rng.sample(pool, min(CLEAN_PER_BATCH, len(pool)))]
            parts.append((key, _batch_features(attacked, beside, models)))
    parts += [
        (key, _batch_features(attacked, answers, models))
        for key, attacked, answers in _answer_batches(by_slice, pools, rng)
    ]
    return _weigh_slices(parts)


def _weigh_slices(parts: Iterable[tuple[SliceKey | None, TrainingRows]]) -> TrainingRows:
    """Join batches so that the planted texts of every slice have the same weight together."""
    parts = list(parts)
    totals: Counter[SliceKey | None] = Counter()
    for key, (_, labels, weights) in parts:
        totals[key] += weights[labels == 1].sum()
    rows = [
        (features, labels, np.where(labels == 1, weights / max(totals[key], 1e-9), weights))
        for key, (features, labels, weights) in parts
    ]
    joined, labels, weights = (np.concatenate(column) for column in zip(*rows, strict=True))
    return joined, labels, weights


def _answer_batches(
    attacks: Mapping[SliceKey, Sequence[Sequence[Sample]]], pools: Mapping[str, Sequence[Sample]], rng: random.Random
) -> Iterator[tuple[SliceKey | None, list[Sample], list[Sample]]]:
    """Yield (slice, attacked, honest texts) in which many passages answer each question, without and with siblings."""
    for pool in pools.values():
        answers: dict[str, list[Sample]] = defaultdict(list)
        for sample in pool:
            if sample.question:
                answers[sample.key].append(sample)
        keys = sorted(answers)
        rng.shuffle(keys)
        for start in range(0, len(keys), QUESTIONS_PER_ANSWER_BATCH):
            chosen = keys[start : start + QUESTIONS_PER_ANSWER_BATCH]
            for turn in range(ANSWER_ROUNDS):
                first = turn * ANSWERS_PER_QUESTION
                honest = [sample for key in chosen for sample in answers[key][first : first + ANSWERS_PER_QUESTION]]
                if len(honest) <= 2 * agreement.MIN_BACKGROUND_CHUNKS:
                    continue
                yield None, [], honest
                for attack, groups in attacks.items():
                    beside = [sample for group in groups if group[0].key in chosen for sample in _some(group, rng)]
                    if beside and turn == 0:
                        yield attack, beside, honest


def _edit_text(sample: Sample, rng: random.Random) -> Iterator[Sample]:
    """Return five editions of a text: other digits, and one word in twelve left out or doubled."""
    for _ in range(5):
        words = []
        for word in sample.text.split():
            drawn = rng.random()
            if drawn > 1 / 24:
                words.append("".join(str(rng.randrange(10)) if sign.isdigit() else sign for sign in word))
            if drawn > 23 / 24:
                words.append(word)
        yield replace(sample, text=" ".join(words))


def _batch_features(attacked: Sequence[Sample], clean: Sequence[Sample], models: CachingModels) -> TrainingRows:
    texts = list(dict.fromkeys(sample.text for sample in (*attacked, *clean)))
    siblings = Counter((sample.slice_key, sample.key) for sample in attacked)
    planted = {sample.text: siblings[sample.slice_key, sample.key] for sample in attacked}
    passages = [Passage(str(number), str(number), 0, open=True) for number in range(len(texts))]
    near = agreement.find_surroundings(passages, models.embedder.embed(texts), NoServedChunks())
    wording = load_wording(models.frequency_vocabulary)
    features = agreement.agreement_features(
        near, lambda positions: [texts[position] for position in positions], wording
    )
    labels = np.array([texts[position] in planted for position in near], np.int64)
    return features, labels, np.array([1.0 / planted.get(texts[position], 1) for position in near])


def _targeting(
    attacks: Sequence[Sample], clean: Sequence[Sample], models: CachingModels, rng: random.Random
) -> TrainingRows:
    """Pair planted texts and honest passages with the nearest of 500 questions, their own among them."""
    questions = list(dict.fromkeys(sample.question for sample in (*attacks, *clean) if sample.question))
    vectors = dict(zip(questions, models.embedder.embed(questions), strict=True))
    wording = load_wording(models.frequency_vocabulary)
    features, labels, weights = [], [], []
    chosen = [sample for sample in (*attacks, *clean) if sample.question and sample.form is not TextForm.LED]
    for sample, vector in zip(chosen, models.embedder.embed([sample.text for sample in chosen]), strict=True):
        bank = list({sample.question, *rng.sample(questions, min(BANK_QUESTIONS, len(questions)))})
        best, cosine = max(
            ((question, float(vectors[question] @ vector)) for question in bank if question), key=lambda pair: pair[1]
        )
        if cosine >= NEAR_COSINE:
            features.append(targeting.targeting_features(NearbyQuestion(0, best, cosine), sample.text, wording))
            labels.append(int(sample.attack))
            weights.append(0.25 if sample.slice.endswith(", longer") else 1.0)
    return (
        np.array(features, np.float64).reshape(-1, len(targeting.FEATURES)),
        np.array(labels, np.int64),
        np.array(weights),
    )
