"""Training of the embedded judge on questions under attack.

Training data
    * attacks of every kind, one to five texts per question, with and without the adaptive variants, among
      clean texts of all questions;
    * planted texts as they were written, and between sentences of an honest text on the same topic: a planted
      text need not be short;
    * now and then a text that was planted for another question: it is poison, but did not lead to this
      answer;
    * honest complaints: the row's wrong answer and those to questions of the same kind where nothing is planted, and
      phrases that occur by chance in clean texts nearby;
    * honest texts that answer the question, half of them with the question in front as in a list of questions
      and answers: planted texts with the right answer in place of the wrong one. Similarity to the question
      alone is no evidence;
    * questions as written, and with words left out: users do not ask in the attacker's words;
    * outputs as phrases, within a sentence, and as sentences of a text that was not planted, reworded: as RAG
      applications answer;
    * loops in which a clean text was set aside by mistake, as it happens.

The second look and the report's probability are trained on scores of a first look that never saw the question
(four folds by question). Two of the five orders of instruction injection are used; `guard evaluate traceback`
uses all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.attacks.adaptive import AdaptiveAttack, add_deceiving_claim, add_right_answer
from corpus_guard.attacks.instruinject import ORDERS, PHRASINGS, phrase_order
from corpus_guard.attacks.poisonedrag import lead_with_question
from corpus_guard.attacks.rewriting import rewrite
from corpus_guard.detectors.attacked_corpus import TextVectors
from corpus_guard.detectors.target_questions import TargetQuestion, wrong_answers_by_opening
from corpus_guard.domain import Progress, no_progress, sha256_text
from corpus_guard.errors import Misuse
from corpus_guard.models import Models
from corpus_guard.screening.wording import load_wording
from corpus_guard.traceback.judges.embedded import (
    REPORT_INPUTS,
    SCORE_INPUTS,
    SECOND_LOOK_INPUTS,
    JudgeModel,
    report_features,
    second_look_features,
    train_trees,
)
from corpus_guard.traceback.judges.evidence import FEATURE_NAMES, EvidenceCollector, evidence_version
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

if TYPE_CHECKING:
    from xgboost import Booster

RETRIEVED_TEXTS: Final = 5  # by the simulated RAG application
CLEAN_TEXTS_PER_QUESTION: Final = 60  # the nearest ones
MAX_ROUNDS: Final = 8
DRAWS: Final = 2  # of the scenes of each question
ANSWERED_SHARE: Final = 0.15  # scenes in which honest texts answer the question
EMBEDDED_SHARE: Final = 0.04  # scenes with planted texts between honest sentences
REWORDED_SHARE: Final = 0.3  # scenes with words left out of the question
DISTORTED_SHARE: Final = (0.2, 0.7)  # words of a question in front of a text that are replaced
MIN_WORDS: Final = 4  # left in a question
STRAY_SHARE: Final = 0.2  # scenes that retrieve a text planted for another question
OTHER_ANSWERS: Final = 2  # wrong answers to other questions that are reported in a scene of their own
MISTAKE_SHARE: Final = 0.1  # clean texts that are set aside by mistake
FOLDS: Final = 4
LONG_OUTPUT_SHARE: Final = 0.35  # outputs that are whole sentences, reworded
TRAINING_ORDERS: Final = 2  # of the five orders of instruction injection
RARE_BITS: Final = 11.0  # rarity of a word from which on it is rare
WEIGHTS: Final = {"honest": 2.0, "chance": 0.9, "distorted": 0.4}  # of the texts of a scene, by kind; default 1
# The first look is lenient, the second strict: a text that is set aside in vain costs only one more round.
THRESHOLDS: Final = {"text": 0.3, "again": 0.45, "report": 0.4}
_ANSWER_PHRASES: Final = (
    "The answer is {}.",
    "It is {}.",
    "According to the passages, {}.",
    "{} is the answer to the question.",
    "Based on the context, the answer is {}.",
)
_TRAINING_ORDERS: Final = [number for number in range(PHRASINGS) if number % len(ORDERS) < TRAINING_ORDERS]
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PHRASE = re.compile(
    r"\b(?:[A-Z][\w'’-]+(?:\s+(?:of|the|de|and)?\s*[A-Z][\w'’-]+){0,3}|\d[\d,.]*\d|\d+(?:\s+[a-z]+)?)\b"
)


@dataclass(frozen=True)
class FrontWords:
    """Words that stand in front of planted texts, sorted."""

    vocabulary: tuple[str, ...]  # all that the embedder knows
    rare: tuple[str, ...]

    @classmethod
    def of(cls, models: Models) -> FrontWords:
        """Read the embedder's vocabulary."""
        bits = load_wording(models.frequency_vocabulary).bits
        vocabulary = tuple(sorted(word for word in bits if word.isalpha()))
        return cls(vocabulary, tuple(word for word in vocabulary if bits[word] > RARE_BITS))


@dataclass(frozen=True)
class TrainingScene:
    """Complaint and the texts that its loop retrieved, with the truth."""

    key: str  # the question; scenes of one question are always in the same fold
    kind: str
    complaint: Complaint
    rounds: tuple[tuple[tuple[RetrievedText, bool], ...], ...]  # new texts of each round, and whether they are poisoned

    @property
    def weight(self) -> float:
        """Return the weight of each text."""
        return WEIGHTS.get(self.kind, 1.0)

    @property
    def truth(self) -> list[bool]:
        """Return whether each text is poisoned, in the order of retrieval."""
        return [poisoned for part in self.rounds for _, poisoned in part]


def train_judge(
    models: Models,
    targets: Sequence[TargetQuestion],
    background: Sequence[str] = (),
    *,
    trained_on: str,
    seed: int = 0,
    progress: Progress = no_progress,
) -> JudgeModel:
    """Train a judge.

    Args:
        targets: questions with adversarial and, if possible, clean texts.

    Raises:
        Misuse: too few questions or no adversarial texts.
    """
    scenes = list(build_scenes(models, targets, background, random.Random(seed), progress))  # noqa: S311 - a sample, no secret
    read = read_scenes(models, scenes, progress)
    progress("training", 0, None)
    return fit_judge(scenes, read, version=evidence_version(models), trained_on=trained_on, seed=seed)


def read_scenes(
    models: Models, scenes: Sequence[TrainingScene], progress: Progress = no_progress
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return the evidence of each text of each scene: when it was first retrieved, and at the end."""
    collector = EvidenceCollector(models)
    collector.prepare([scene.complaint for scene in scenes])
    read = []
    for number, scene in enumerate(scenes):
        progress("reading", number, len(scenes))
        read.append(_evidence(collector, scene))
    return read


def fit_judge(
    scenes: Sequence[TrainingScene],
    read: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    *,
    version: str,
    trained_on: str,
    seed: int = 0,
) -> JudgeModel:
    """Fit the three parts of a judge to scenes that were read (`read_scenes`).

    Raises:
        Misuse: too few questions or no adversarial texts.
    """
    if not any(any(scene.truth) for scene in scenes) or len({scene.key for scene in scenes}) < FOLDS:
        raise Misuse(f"training data: nothing to learn from; give at least {FOLDS} questions with adversarial texts")
    first, final = [rows for rows, _ in read], [rows for _, rows in read]
    trees = {"text": _first_look(scenes, first, seed)}
    scores = _unseen_scores(scenes, first, seed)
    again = np.concatenate([second_look_features(rows, score) for rows, score in zip(final, scores, strict=True)])
    texts = [poisoned for scene in scenes for poisoned in scene.truth]
    again_names = (*SCORE_INPUTS, *SECOND_LOOK_INPUTS)
    trees["again"] = train_trees(again, texts, _weights(scenes), again_names, rounds=200, seed=seed)
    reports = np.concatenate([report_features(rows, score) for rows, score in zip(final, scores, strict=True)])
    attacked = [any(scene.truth) for scene in scenes]
    report_names = (*SCORE_INPUTS, *REPORT_INPUTS)
    trees["report"] = train_trees(
        reports, attacked, [scene.weight for scene in scenes], report_names, rounds=150, seed=seed
    )
    return JudgeModel(version, trained_on, THRESHOLDS, trees)


def _first_look(scenes: Sequence[TrainingScene], rows: Sequence[NDArray[np.float64]], seed: int) -> Booster:
    truth = [poisoned for scene in scenes for poisoned in scene.truth]
    return train_trees(np.concatenate(rows), truth, _weights(scenes), FEATURE_NAMES, rounds=300, seed=seed)


def _unseen_scores(
    scenes: Sequence[TrainingScene], rows: Sequence[NDArray[np.float64]], seed: int
) -> list[NDArray[np.float64]]:
    """Return the scores of each scene by trees that saw no scene of its question."""
    keys = sorted({scene.key for scene in scenes})
    fold = dict(zip(keys, np.random.default_rng(seed).permutation(len(keys)) % FOLDS, strict=True))
    scores: list[NDArray[np.float64]] = [np.empty(0)] * len(scenes)
    for number in range(FOLDS):
        rest = [index for index, scene in enumerate(scenes) if fold[scene.key] != number]
        trees = _first_look([scenes[index] for index in rest], [rows[index] for index in rest], seed)
        for index, scene in enumerate(scenes):
            if fold[scene.key] == number:
                scores[index] = np.asarray(trees.inplace_predict(rows[index], validate_features=False), np.float64)
    return scores


def _weights(scenes: Sequence[TrainingScene]) -> list[float]:
    return [scene.weight for scene in scenes for _ in scene.truth]


def _evidence(collector: EvidenceCollector, scene: TrainingScene) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the evidence of each text when it was first retrieved, and of all texts at the end."""
    retrieved: list[RetrievedText] = []
    first, final = [], np.empty(0)
    for new in scene.rounds:
        retrieved += [text for text, _ in new]
        final = collector.evidence(scene.complaint, retrieved)
        first.append(final[-len(new) :])
    return np.concatenate(first), final


def build_scenes(
    models: Models, targets: Sequence[TargetQuestion], background: Sequence[str], rng: random.Random, progress: Progress
) -> Iterator[TrainingScene]:
    """Yield the scenes of a training; see the module for what they hold."""
    vectors = TextVectors(models.word_embedder)
    clean = list(dict.fromkeys([text for target in targets for text in target.clean] + list(background)))
    vectors.prepare([*clean, *(target.question for target in targets)], progress)
    matrix = vectors.embed(clean)
    plans = []
    words = FrontWords.of(models)
    wrong = wrong_answers_by_opening(targets)
    for target in [target for target in targets for _ in range(DRAWS)]:
        similarities = matrix @ vectors.embed([target.question])[0] if clean else np.empty(0, np.float32)
        nearest = [clean[index] for index in np.argsort(-similarities, kind="stable")[:CLEAN_TEXTS_PER_QUESTION]]
        planned = _plan_scenes(target, nearest, rng, words, wrong[target.opening])
        plans += [(target, _drop_words(target.question, rng), nearest, *plan) for plan in planned]
    lookalikes = {id(target): honest_lookalikes(target) for target in targets}
    vectors.prepare((query for _, query, *_ in plans), progress)
    vectors.prepare((text for *_, planted in plans for text in planted), progress)
    vectors.prepare((text for texts in lookalikes.values() for text in texts), progress)
    elsewhere = [(target.question, text) for target, *_, planted in plans for text in planted]
    for target, query, nearest, kind, output, planted in plans:
        honest = _honest_answers(lookalikes[id(target)], planted, rng)
        stray = rng.choice(elsewhere) if elsewhere and rng.random() < STRAY_SHARE else None
        strays = [stray[1]] if stray and stray[0] != target.question else []
        texts = [*nearest, *honest, *strays]
        rounds = _simulate_loop(query, texts, planted, vectors, rng, len(strays))
        yield TrainingScene(target.question, kind, Complaint(query, output), rounds)


def _plan_scenes(
    target: TargetQuestion, nearest: Sequence[str], rng: random.Random, words: FrontWords, wrong: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Return (kind, output, planted texts) of each scene of a question; `wrong` are answers that may also be reported."""
    scenes = 5 if target.clean else 2
    kinds = [rng.choice(("led", "bare", "bare", "gibberish", "order")) for _ in range(scenes)]
    for kind in [*kinds, "distorted"]:
        output, unused = _draw_output(target, rng)
        planted = _draw_planted(replace(target, adversarial=unused), kind, rng, words)
        if rng.random() < EMBEDDED_SHARE:
            planted = [_embed_in_honest(text, nearest, rng) for text in planted]
        yield kind, output, planted
    for _ in range(2):
        yield "honest", _draw_output(target, rng)[0], []
    own_answers = {answer.casefold() for answer in (*target.correct, *target.incorrect)}
    for answer in rng.sample(wrong, min(OTHER_ANSWERS, len(wrong))):
        if answer.casefold() not in own_answers:
            yield "honest", _phrase_answer(answer, rng), []
    for _ in range(scenes - 1):
        phrase = _chance_phrase(nearest[:12], target, rng)
        if phrase:
            yield "chance", _phrase_answer(phrase, rng), []


def honest_lookalikes(target: TargetQuestion) -> list[str]:
    """Return honest texts in the style of an attack, without and with the question in front.

    See `corrected_texts`.
    """
    corrected = target.corrected_texts()
    return corrected + [f"{target.question} {text}" for text in corrected]


def _honest_answers(texts: Sequence[str], planted: Sequence[str], rng: random.Random) -> list[str]:
    """Return some of the texts in a share of the scenes, else none."""
    honest = [text for text in texts if text not in planted]
    return rng.sample(honest, min(len(honest), rng.randint(1, 3))) if rng.random() < ANSWERED_SHARE else []


def _embed_in_honest(text: str, honest: Sequence[str], rng: random.Random) -> str:
    """Return `text` between sentences of an honest text."""
    around = _SENTENCE.split(rng.choice(honest[:20]).strip()) if honest else []
    around = around[: rng.randint(1, 5)]
    place = rng.randint(0, len(around))
    return " ".join([*around[:place], text, *around[place:]])


def _draw_output(target: TargetQuestion, rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """Return the reported output, and the adversarial texts that were not used for it."""
    texts = target.adversarial
    if rng.random() < LONG_OUTPUT_SHARE and len(texts) > 1:
        source = rng.choice(texts)
        sentences = _SENTENCE.split(rewrite(source, rng.randrange(6), f"{rng.random()}").strip())
        return " ".join(sentences[: rng.choice((1, 1, 2))]), tuple(text for text in texts if text != source)
    return _phrase_answer(target.incorrect[0], rng), texts


def _draw_planted(target: TargetQuestion, kind: str, rng: random.Random, words: FrontWords) -> list[str]:
    adaptive = rng.choice((AdaptiveAttack.NONE, AdaptiveAttack.NONE, AdaptiveAttack.DECEIVE, AdaptiveAttack.DISGUISE))
    count = rng.choice((1, 2, 3, 5, 5, 5))
    correct = target.correct[0] if target.correct else ""
    texts = []
    for number, text in enumerate(rng.sample(target.adversarial, min(count, len(target.adversarial)))):
        body = text
        if kind == "order":
            order = _TRAINING_ORDERS[(number + rng.randrange(len(_TRAINING_ORDERS))) % len(_TRAINING_ORDERS)]
            body = phrase_order(target.question, target.incorrect[0], order)
        elif kind == "gibberish":
            body = f"{_gibberish(rng, words.rare)} {text.lower()}"
        elif kind == "distorted":
            body = f"{_distort_question(target.question, rng, words.vocabulary)} {text}"
        leads = kind in {"led", "order"}
        if adaptive is AdaptiveAttack.DISGUISE and correct:
            texts.append(add_right_answer(body, correct, target.question if leads else None))
            continue
        planted = lead_with_question(target.question, body) if leads else body
        texts.append(
            add_deceiving_claim(planted, correct) if adaptive is AdaptiveAttack.DECEIVE and correct else planted
        )
    return list(dict.fromkeys(texts))


def _drop_words(question: str, rng: random.Random) -> str:
    """Return `question`, in a share of the scenes without some words.

    The first word stays, as it tells the kind of question.
    """
    words = question.split()
    if rng.random() < REWORDED_SHARE:
        for _ in range(min(rng.choice((1, 1, 2, 2, 3)), len(words) - MIN_WORDS)):
            words.pop(rng.randrange(1, len(words)))
    return " ".join(words)


def _simulate_loop(
    query: str, honest: Sequence[str], planted: Sequence[str], vectors: TextVectors, rng: random.Random, strays: int
) -> tuple[tuple[tuple[RetrievedText, bool], ...], ...]:
    """Simulate the loop of a judge that knows the truth and errs now and then.

    Args:
        strays: number of texts at the end of `honest` that are retrieved in any case.

    Returns:
        The new texts of each round, and whether they are poisoned.
    """
    texts = list(dict.fromkeys([*planted, *honest]))
    embedded = vectors.embed(texts)
    similarities = embedded @ vectors.embed([query])[0]
    order = np.argsort(-similarities, kind="stable")
    if strays and texts[-1] not in planted:
        order = np.insert(order[order != len(texts) - 1], RETRIEVED_TEXTS - 1, len(texts) - 1)
    set_aside: set[int] = set()
    retrieved: set[int] = set()
    rounds: list[tuple[tuple[RetrievedText, bool], ...]] = []
    while len(rounds) < MAX_ROUNDS:
        nearest = [int(index) for index in order if index not in set_aside][:RETRIEVED_TEXTS]
        new = [index for index in nearest if index not in retrieved]
        if not new:
            break
        retrieved.update(new)
        rounds.append(
            tuple(
                (
                    RetrievedText(sha256_text(texts[index]), texts[index], float(similarities[index]), embedded[index]),
                    index < len(planted),
                )
                for index in new
            )
        )
        set_aside.update(index for index in new if index < len(planted) or rng.random() < MISTAKE_SHARE)
    return tuple(rounds)


def _phrase_answer(answer: str, rng: random.Random) -> str:
    return rng.choice(_ANSWER_PHRASES).format(answer) if len(answer) < 60 and rng.random() < 0.2 else answer


def _chance_phrase(texts: Sequence[str], target: TargetQuestion, rng: random.Random) -> str | None:
    """Return a name or number of a clean text that neither the question nor a right answer contains."""
    excluded = " ".join([target.question, *target.correct]).casefold()
    for _ in range(20):
        phrases = [match.group().strip() for match in _PHRASE.finditer(rng.choice(texts)[20:])] if texts else []
        if phrases:
            phrase = rng.choice(phrases)
            if len(phrase) > 1 and phrase.casefold() not in excluded:
                return phrase
    return None


def _gibberish(rng: random.Random, rare: Sequence[str]) -> str:
    """Return rare words in no order, like the prefix that HotFlip finds."""
    return " ".join(rng.choices(rare, k=rng.randint(18, 30)))


def _distort_question(question: str, rng: random.Random, words: Sequence[str]) -> str:
    """Return `question` with words replaced, without its end: what HotFlip leaves of the question it begins with."""
    share = rng.uniform(*DISTORTED_SHARE)
    return " ".join(rng.choice(words) if rng.random() < share else word for word in [*question.split(), "."])
