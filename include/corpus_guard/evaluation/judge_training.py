"""Training the embedded judge on questions under attack.

What it is shown
    * attacks of every kind, one to five texts a question, with and without the adaptive variants, among clean texts of all questions;
    * planted texts as they were written, and between sentences of an honest text on the same matter: what is planted need not be short;
    * now and then a text that was planted for another question: it is poison, and did not lead to this answer;
    * honest complaints: the row's wrong answer where nothing is planted, and phrases that stand by chance in clean texts nearby;
    * honest texts that answer the question, too, half of them with the question before them as in a list of questions and answers:
      planted texts with the right answer put in the place of the wrong one. To resemble the question is no guilt;
    * questions as written, and with words left out: users do not ask in the attacker's words;
    * outputs as phrases, in a sentence around them, and as the sentences of a text that was not planted, in other words: as RAG
      applications answer;
    * loops in which a clean text was set aside by mistake, as they happen.

The second look and the report's probability are trained on scores of a first look that never saw the question (four folds by question).
What it is shown of instruction injection are two of five demands; `guard evaluate traceback` plays all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import sha256_text
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.attacks.adaptive import Adaptive, deceiving, disguised
from corpus_guard.evaluation.attacks.instruinject import DEMANDS, MOST, demand
from corpus_guard.evaluation.attacks.poisonedrag import led
from corpus_guard.evaluation.attacks.rewriting import rewritten
from corpus_guard.evaluation.traceback.corpus import Vectors
from corpus_guard.evaluation.traceback.targets import Target
from corpus_guard.screening.wording import wording_of
from corpus_guard.traceback.judges._gathering import Gatherer, version
from corpus_guard.traceback.judges._learned import Learned, grow
from corpus_guard.traceback.judges.embedded import report_row, second_look
from corpus_guard.traceback.suspects import Complaint, Suspect

if TYPE_CHECKING:
    from corpus_guard.models import Models

Progress = Callable[[str, int, int | None], object]

K: Final = 5
CLEAN_NEAR: Final = 60  # clean texts kept a question, nearest first
ROUNDS: Final = 8
ANSWERED: Final = 0.15  # scenes in which honest texts answer the question
CARRIED: Final = 0.04  # scenes whose planted texts stand between honest sentences
REWORDED: Final = 0.3  # scenes whose question lacks some words
FEWEST_WORDS: Final = 4  # that a question keeps
STRAYS: Final = 0.2  # scenes that retrieve a text planted for another question
MISTAKES: Final = 0.1  # clean texts that are set aside, as by a judge that errs
FOLDS: Final = 4
LONG_OUTPUTS: Final = 0.35  # share of outputs that are whole sentences in words of their own
SHOWN_DEMANDS: Final = 2  # of instruction injection
RARE_BITS: Final = 11.0
WEIGHTS: Final = {"honest": 1.5, "chance": 0.7}
# A first look that is easily alarmed and a second one that is not: what is set aside in vain costs one more round.
THRESHOLDS: Final = {"text": 0.3, "again": 0.45, "report": 0.5}
_SAID: Final = (
    "The answer is {}.",
    "It is {}.",
    "According to the passages, {}.",
    "{} is the answer to the question.",
    "Based on the context, the answer is {}.",
)
_SHOWN: Final = [number for number in range(MOST) if number % len(DEMANDS) < SHOWN_DEMANDS]
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PHRASE = re.compile(
    r"\b(?:[A-Z][\w'’-]+(?:\s+(?:of|the|de|and)?\s*[A-Z][\w'’-]+){0,3}|\d[\d,.]*\d|\d+(?:\s+[a-z]+)?)\b"
)


@dataclass(frozen=True)
class Scene:
    """A complaint and what its loop retrieved, with the truth."""

    key: str  # the question: scenes of one question are never on both sides of a fold
    kind: str
    complaint: Complaint
    rounds: tuple[tuple[tuple[Suspect, bool], ...], ...]  # new texts a round, and whether they are poisoned

    @property
    def weight(self) -> float:
        """Of each of its texts."""
        return WEIGHTS.get(self.kind, 1.0)

    @property
    def truth(self) -> list[bool]:
        """Of all texts."""
        return [poisoned for part in self.rounds for _, poisoned in part]


def train(
    models: Models,
    targets: Sequence[Target],
    background: Sequence[str] = (),
    *,
    trained_on: str,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> Learned:
    """Train a judge.

    Args:
        models: whose embedder makes the vectors.
        targets: questions with adversarial texts, and clean ones where there are any.
        background: further clean texts, around all questions.
        trained_on: what the targets are, in words; kept in the model.
        seed: of everything random.
        progress: told what is being done.

    Raises:
        Misuse: there is nothing to learn from.
    """
    scenes = list(_scenes(models, targets, background, random.Random(seed), progress))  # noqa: S311 - a sample, no secret
    if not any(any(scene.truth) for scene in scenes) or len({scene.key for scene in scenes}) < FOLDS:
        raise Misuse(f"nothing to learn from: give at least {FOLDS} questions with adversarial texts")
    gatherer = Gatherer(models)
    gatherer.prepare([scene.complaint for scene in scenes])
    first, final = [], []
    for number, scene in enumerate(scenes):
        progress("reading", number, len(scenes))
        found = _evidence(gatherer, scene)
        first.append(found[0])
        final.append(found[1])
    progress("training", 0, None)
    trees = {"text": _first_look(scenes, first, seed)}
    scores = _unseen_scores(scenes, first, seed)
    again = np.concatenate([second_look(rows, score) for rows, score in zip(final, scores, strict=True)])
    texts = [poisoned for scene in scenes for poisoned in scene.truth]
    trees["again"] = grow(again, texts, _weights(scenes), depth=3, rounds=200, seed=seed)
    reports = np.concatenate([report_row(rows, score) for rows, score in zip(final, scores, strict=True)])
    attacked = [any(scene.truth) for scene in scenes]
    trees["report"] = grow(reports, attacked, [scene.weight for scene in scenes], depth=3, rounds=150, seed=seed)
    return Learned(version(models), trained_on, THRESHOLDS, trees)


def _first_look(scenes: Sequence[Scene], rows: Sequence[NDArray[np.float64]], seed: int) -> object:
    truth = [poisoned for scene in scenes for poisoned in scene.truth]
    return grow(np.concatenate(rows), truth, _weights(scenes), depth=3, rounds=300, seed=seed)


def _unseen_scores(
    scenes: Sequence[Scene], rows: Sequence[NDArray[np.float64]], seed: int
) -> list[NDArray[np.float64]]:
    """Scores of each scene by trees that saw no scene of its question."""
    keys = sorted({scene.key for scene in scenes})
    fold = dict(zip(keys, np.random.default_rng(seed).permutation(len(keys)) % FOLDS, strict=True))
    scores: list[NDArray[np.float64]] = [np.empty(0)] * len(scenes)
    for number in range(FOLDS):
        rest = [index for index, scene in enumerate(scenes) if fold[scene.key] != number]
        trees = _first_look([scenes[index] for index in rest], [rows[index] for index in rest], seed)
        for index, scene in enumerate(scenes):
            if fold[scene.key] == number:
                scores[index] = np.asarray(trees.inplace_predict(rows[index], validate_features=False), np.float64)  # type: ignore[attr-defined]
    return scores


def _weights(scenes: Sequence[Scene]) -> list[float]:
    return [scene.weight for scene in scenes for _ in scene.truth]


def _evidence(gatherer: Gatherer, scene: Scene) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each text when it was first seen, and of all at the end."""
    seen: list[Suspect] = []
    rows = []
    for part in scene.rounds:
        seen += [suspect for suspect, _ in part]
        found = gatherer.evidence(scene.complaint, seen)
        rows.append(found[-len(part) :])
    return np.concatenate(rows), found


def _scenes(
    models: Models, targets: Sequence[Target], background: Sequence[str], chance: random.Random, progress: Progress
) -> Iterator[Scene]:
    vectors = Vectors(models.word_embedder)
    clean = list(dict.fromkeys([text for target in targets for text in target.clean] + list(background)))
    vectors.prepare([*clean, *(target.question for target in targets)], progress)
    matrix = vectors.embed(clean)
    plans = []
    rare = _rare_words(models)
    for target in targets:
        similarities = matrix @ vectors.embed([target.question])[0] if clean else np.empty(0, np.float32)
        nearest = [clean[index] for index in np.argsort(-similarities, kind="stable")[:CLEAN_NEAR]]
        planned = _plans(target, nearest, chance, rare)
        plans += [(target, _reworded(target.question, chance), nearest, *plan) for plan in planned]
    answers = {id(target): turned_round(target) for target in targets}
    vectors.prepare((asked for _, asked, *_ in plans), progress)
    vectors.prepare((text for *_, planted in plans for text in planted), progress)
    vectors.prepare((text for texts in answers.values() for text in texts), progress)
    elsewhere = [(target.question, text) for target, *_, planted in plans for text in planted]
    for target, asked, nearest, kind, output, planted in plans:
        honest = _answering(answers[id(target)], planted, chance)
        stray = chance.choice(elsewhere) if elsewhere and chance.random() < STRAYS else None
        strays = [stray[1]] if stray and stray[0] != target.question else []
        yield _play(target, asked, kind, output, [*nearest, *honest, *strays], planted, vectors, chance, len(strays))


def _plans(
    target: Target, nearest: Sequence[str], chance: random.Random, rare: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """(kind, output, planted texts) of each scene of a question."""
    often = 5 if target.clean else 2
    for _ in range(often):
        kind = chance.choice(("led", "bare", "bare", "gibberish", "order"))
        output, left = _output(target, chance)
        planted = _planted(replace(target, adversarial=left), kind, chance, rare)
        if chance.random() < CARRIED:
            planted = [_carried(text, nearest, chance) for text in planted]
        yield kind, output, planted
    for _ in range(2):
        yield "honest", _output(target, chance)[0], []
    for _ in range(often - 1):
        phrase = _chance_phrase(nearest[:12], target, chance)
        if phrase:
            yield "chance", _said(phrase, chance), []


def turned_round(target: Target) -> list[str]:
    """Its adversarial texts with the right answer for the wrong one, bare and led by the question; none where they do not hold it."""
    if not target.correct:
        return []
    wrong = re.compile(rf"(?<!\w){re.escape(target.incorrect[0].strip(' .'))}(?!\w)", re.IGNORECASE)
    correct = target.correct[0].strip(" .")
    turned = [wrong.sub(lambda _: correct, text) for text in target.adversarial if wrong.search(text)]
    return turned + [f"{target.question} {text}" for text in turned]


def _answering(texts: Sequence[str], planted: Sequence[str], chance: random.Random) -> list[str]:
    """Some of these, in half of the scenes."""
    honest = [text for text in texts if text not in planted]
    return chance.sample(honest, min(len(honest), chance.randint(1, 3))) if chance.random() < ANSWERED else []


def _carried(text: str, honest: Sequence[str], chance: random.Random) -> str:
    """`text` between sentences of an honest text."""
    around = _SENTENCE.split(chance.choice(honest[:20]).strip()) if honest else []
    around = around[: chance.randint(1, 5)]
    place = chance.randint(0, len(around))
    return " ".join([*around[:place], text, *around[place:]])


def _output(target: Target, chance: random.Random) -> tuple[str, tuple[str, ...]]:
    """What is reported, and which texts are left to be planted."""
    texts = target.adversarial
    if chance.random() < LONG_OUTPUTS and len(texts) > 1:
        told = chance.choice(texts)
        sentences = _SENTENCE.split(rewritten(told, chance.randrange(6), f"{chance.random()}").strip())
        return " ".join(sentences[: chance.choice((1, 1, 2))]), tuple(text for text in texts if text != told)
    return _said(target.incorrect[0], chance), texts


def _planted(target: Target, kind: str, chance: random.Random, rare: Sequence[str]) -> list[str]:
    adaptive = chance.choice((Adaptive.NONE, Adaptive.NONE, Adaptive.DECEIVE, Adaptive.DISGUISE))
    wanted = chance.choice((1, 2, 3, 5, 5, 5))
    correct = target.correct[0] if target.correct else ""
    texts = []
    for number, text in enumerate(chance.sample(target.adversarial, min(wanted, len(target.adversarial)))):
        body = text
        if kind == "order":
            shown = _SHOWN[(number + chance.randrange(len(_SHOWN))) % len(_SHOWN)]
            body = demand(target.question, target.incorrect[0], shown)
        elif kind == "gibberish":
            body = f"{_gibberish(chance, rare)} {text.lower()}"
        whole = kind in {"led", "order"}
        if adaptive is Adaptive.DISGUISE and correct:
            texts.append(disguised(body, correct, target.question if whole else None))
            continue
        planted = led(target.question, body) if whole else body
        texts.append(deceiving(planted, correct) if adaptive is Adaptive.DECEIVE and correct else planted)
    return list(dict.fromkeys(texts))


def _reworded(question: str, chance: random.Random) -> str:
    """`question`, at times without some of its words; never without the first, which says what is asked for."""
    words = question.split()
    if chance.random() < REWORDED:
        for _ in range(min(chance.choice((1, 1, 2, 2, 3)), len(words) - FEWEST_WORDS)):
            words.pop(chance.randrange(1, len(words)))
    return " ".join(words)


def _play(
    target: Target,
    asked: str,
    kind: str,
    output: str,
    nearest: Sequence[str],
    planted: Sequence[str],
    vectors: Vectors,
    chance: random.Random,
    strays: int = 0,
) -> Scene:
    """The loop with a judge that knows the truth and errs now and then; the last `strays` of `nearest` are retrieved in any case."""
    texts = list(dict.fromkeys([*planted, *nearest]))
    embedded = vectors.embed(texts)
    similarities = embedded @ vectors.embed([asked])[0]
    order = np.argsort(-similarities, kind="stable")
    if strays and texts[-1] not in planted:
        order = np.insert(order[order != len(texts) - 1], K - 1, len(texts) - 1)
    aside: set[int] = set()
    known: set[int] = set()
    rounds: list[tuple[tuple[Suspect, bool], ...]] = []
    while len(rounds) < ROUNDS:
        top = [int(index) for index in order if index not in aside][:K]
        new = [index for index in top if index not in known]
        if not new:
            break
        known.update(new)
        rounds.append(
            tuple(
                (
                    Suspect(sha256_text(texts[index]), texts[index], float(similarities[index]), embedded[index]),
                    index < len(planted),
                )
                for index in new
            )
        )
        aside.update(index for index in new if index < len(planted) or chance.random() < MISTAKES)
    return Scene(target.question, kind, Complaint(asked, output), tuple(rounds))


def _said(answer: str, chance: random.Random) -> str:
    return chance.choice(_SAID).format(answer) if len(answer) < 60 and chance.random() < 0.2 else answer


def _chance_phrase(texts: Sequence[str], target: Target, chance: random.Random) -> str | None:
    """A name or number of a clean text that neither the question nor a right answer holds."""
    known = " ".join([target.question, *target.correct]).casefold()
    for _ in range(20):
        found = [match.group().strip() for match in _PHRASE.finditer(chance.choice(texts)[20:])] if texts else []
        if found:
            phrase = chance.choice(found)
            if len(phrase) > 1 and phrase.casefold() not in known:
                return phrase
    return None


def _gibberish(chance: random.Random, rare: Sequence[str]) -> str:
    """Like the prefix that HotFlip finds: rare words and pieces of them, in no order."""
    return " ".join(chance.choices(rare, k=chance.randint(18, 30)))


def _rare_words(models: Models) -> list[str]:
    bits = wording_of(models.frequency_vocabulary).bits
    return sorted(word for word, value in bits.items() if value > RARE_BITS and word.isalpha())
