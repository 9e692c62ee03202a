"""FilterRAG's own experiment (sections IV and V): how many adversarial texts still reach the answer once the filter has looked.

Protocol
    * for each question s = 10 texts: 5 adversarial, 5 clean ones that were retrieved for it, ordered by similarity to the question;
    * each system serves the k = 5 nearest that are left. "poisonedrag" filters nothing, "cleanrag" has no adversarial texts;
    * ATR: share of adversarial texts among those served. ASR, accuracy: share of questions whose answer, by the small language model
      from the served texts, contains the attacker's, the right one. Filter accuracy: share of the s texts classified rightly;
    * one file to train on, another to test on; where both are one file, half of its questions for each. No question is on both sides;
    * ablations over tau and epsilon count ATR and the clean texts dropped; a text is read by the language model once for all of them.

Differences from the paper: its adversarial training texts were written by GPT-4o for the same questions as the test's, here training and
test share no question; its LLMs and its SLM were larger than the one that comes with the guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag import FeatureExtractor, Features
from corpus_guard.corpus.filterrag.features import TAU, as_matrix
from corpus_guard.corpus.filterrag.filters import EPSILON
from corpus_guard.corpus.filterrag.learned import Kind, LearnedModel, train
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.measures import wilson
from corpus_guard.evaluation.readings import NOBODY, Progress, Readings
from corpus_guard.evaluation.samples import Half, half_of, normal, read_rows
from corpus_guard.models import Models

K = 5
EACH = 5  # adversarial and clean texts of a question: s = 10
TAUS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)


class Form(StrEnum):
    """How adversarial texts stand in the corpus."""

    LED = "led"  # question + "." + text: what PoisonedRAG's black-box attack injects
    BARE = "bare"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what was written to poison its answer and what was retrieved for it."""

    text: str
    right: str
    wrong: str
    adversarial: tuple[str, ...]
    clean: tuple[str, ...]

    @property
    def key(self) -> str:
        """Equal questions, however they are spelt, are one."""
        return normal(self.text)

    def candidates(self) -> list[tuple[str, bool]]:
        """(text, adversarial) pairs."""
        return [*((text, True) for text in self.adversarial), *((text, False) for text in self.clean)]


def load_questions(path: Path, form: Form, limit: int | None = None) -> list[Question]:
    """Read questions in PoisonedRAG's format.

    Args:
        path: JSONL, rows of question, correct_answer, incorrect_answer, adversarial_texts, and clean_texts_contriever or
            clean_texts (the published experiments retrieve with Contriever).
        form: how the adversarial texts are written; for `Form.BOTH` each question stands twice, led beside the passages of
            Contriever and bare beside those of clean_texts.
        limit: at most so many questions.

    Raises:
        Misuse: the file, or a row of it, is not of this format.
    """
    questions: list[Question] = []
    for where, row in read_rows(path):
        try:
            text, right, wrong = (str(row[key]) for key in ("question", "correct_answer", "incorrect_answer"))
            adversarial = [str(one) for one in row["adversarial_texts"]][:EACH]
            other = [str(one) for one in row["clean_texts"]][: len(adversarial)]
            clean = [str(one) for one in row.get("clean_texts_contriever") or other][: len(adversarial)]
        except (KeyError, TypeError) as error:
            raise Misuse(
                f"{where}: lacks or misuses {error}; expected question, correct_answer, incorrect_answer, adversarial_texts and "
                "clean_texts"
            ) from None
        led = tuple(f"{text}.{one}" for one in adversarial)
        if form is not Form.BARE:
            questions.append(Question(text, right, wrong, led, tuple(clean)))
        if form is not Form.LED:
            retrieved = other if form is Form.BOTH else clean
            questions.append(Question(text, right, wrong, tuple(adversarial), tuple(retrieved)))
        if limit and len({question.key for question in questions}) >= limit:
            break
    if not questions:
        raise Misuse(f"{path}: holds no question; expected one JSON object a line")
    return questions


def unrelated(questions: Sequence[Question]) -> list[Question]:
    """Each question with a text of either kind that belongs to the next question, both as clean.

    What was written for another question does not poison this one. Without such pairs a model learns that short plain texts are
    adversarial, as those of PoisonedRAG are, and drops the short pages of a manual whatever is asked.
    """
    following = [*questions[2:], *questions[:2]]  # two on: with `Form.BOTH` a question stands twice
    return [
        Question(one.text, one.right, one.wrong, (), (*other.adversarial[:1], *other.clean[:1]))
        for one, other in zip(questions, following, strict=True)
        if one.key != other.key
    ]


def split(training: Sequence[Question], testing: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """Two lists that share no question; of shared ones the half to tune on is trained on."""
    shared = {question.key for question in training} & {question.key for question in testing}
    learn = [one for one in training if one.key not in shared or half_of(one.key) is Half.TUNING]
    judge = [one for one in testing if one.key not in shared or half_of(one.key) is Half.VALIDATION]
    return learn, judge


@dataclass(frozen=True)
class Judged:
    """The candidates of some questions with their features at one tau."""

    questions: Sequence[Question]
    adversarial: NDArray[np.bool_]  # of all candidates, question by question
    owner: NDArray[np.intp]  # index of the candidate's question
    rank: NDArray[np.float64]  # similarity to the question: what is served first
    features: Sequence[Features]

    def served(self, dropped: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """For each question the candidates that are served, nearest first."""
        lists = []
        for number in range(len(self.questions)):
            left = np.flatnonzero((self.owner == number) & ~dropped)
            lists.append(left[np.argsort(-self.rank[left], kind="stable")][:K])
        return lists


class FilterExperiment:
    """Trains on some questions and measures on others."""

    def __init__(self, models: Models, readings: Readings) -> None:
        """Keep what the language model reads in `readings`."""
        self._models = models
        self._extractor = FeatureExtractor(models)
        self._readings = readings
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def fit(self, questions: Sequence[Question], kind: Kind, tau: float = TAU, **options: Any) -> LearnedModel:
        """Train a model for use: on all candidates of `questions`, and on `unrelated` ones; `options` as of `learned.train`."""
        return self._fit(self.judge([*questions, *unrelated(questions)], tau), kind, tau, **options)

    def run(
        self,
        training: Sequence[Question],
        testing: Sequence[Question],
        *,
        kind: Kind = Kind.XGBOOST,
        answers: bool = True,
        ablations: bool = True,
        progress: Progress = NOBODY,
    ) -> dict[str, Any]:
        """The whole experiment.

        Args:
            training: questions to train on.
            testing: questions to measure on; shared ones are divided.
            kind: of classifier.
            answers: whether questions are answered from what is served, for ASR and accuracy (slow).
            ablations: whether tau and epsilon are varied.
            progress: is told what is done, how much of it, and of how much.

        Returns:
            JSON-ready figures; each rate with its counts and Wilson interval.
        """
        training, testing = split(training, testing)
        learn = self.judge(training, TAU, progress)
        test = self.judge(testing, TAU, progress)
        model = self._fit(learn, kind, TAU, threshold=0.5)
        poisoned = _classified(model, test)
        density = _densities(test)
        systems = {
            "poisonedrag": np.zeros(len(test.adversarial), bool),
            "cleanrag": test.adversarial,
            "filterrag": density > EPSILON,
            "ml_filterrag": poisoned,
        }
        report: dict[str, Any] = {
            "feature_version": self._extractor.version,
            "questions": {"train": len({q.key for q in training}), "test": len({q.key for q in testing})},
            "classifier": {
                "kind": kind.value,
                "train_accuracy": _share(_classified(model, learn) == learn.adversarial),
                "test_accuracy": _share(poisoned == test.adversarial),
                "caught": _share(poisoned[test.adversarial]),
                "clean_dropped": _share(poisoned[~test.adversarial]),
            },
            "systems": {},
        }
        for number, (name, dropped) in enumerate(systems.items()):
            progress("answering", number, len(systems))
            figures = _atr(test, dropped)
            if answers:
                figures |= self._answered(test, dropped)
            report["systems"][name] = figures
        if ablations:
            report["epsilon"] = {f"{epsilon:g}": _atr(test, density > epsilon) for epsilon in EPSILONS}
            report["tau"] = {f"{tau:g}": self._at(training, testing, kind, tau) for tau in TAUS}
        return report

    def judge(self, questions: Sequence[Question], tau: float, progress: Progress = NOBODY) -> Judged:
        """Features of all candidates; what was read before is not read again."""
        pairs = [(question.text, text) for question in questions for text, _ in question.candidates()]
        readings = self._readings.of(self._extractor, pairs, progress)
        return Judged(
            questions,
            np.array([poisoned for question in questions for _, poisoned in question.candidates()], bool),
            np.repeat(np.arange(len(questions)), [len(question.candidates()) for question in questions]),
            self._similarity(pairs),
            self._extractor.match(pairs, readings, tau),
        )

    def _fit(self, judged: Judged, kind: Kind, tau: float, **options: Any) -> LearnedModel:
        keys = [judged.questions[owner].key for owner in judged.owner]
        matrix = as_matrix(judged.features)
        version = self._extractor.version
        return train(matrix, list(judged.adversarial), keys, feature_version=version, kind=kind, tau=tau, **options)

    def _at(
        self, training: Sequence[Question], testing: Sequence[Question], kind: Kind, tau: float
    ) -> Mapping[str, Any]:
        learn, test = self.judge(training, tau), self.judge(testing, tau)
        model = self._fit(learn, kind, tau, threshold=0.5)
        return {
            "filterrag": _atr(test, _densities(test) > EPSILON),
            "ml_filterrag": {
                **_atr(test, _classified(model, test)),
                "test_accuracy": _share(_classified(model, test) == test.adversarial),
            },
        }

    def _similarity(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        new = list(dict.fromkeys(text for pair in pairs for text in pair if text not in self._vectors))
        self._vectors.update(zip(new, self._models.embedder.embed(new), strict=True))
        return np.array([float(self._vectors[question] @ self._vectors[text]) for question, text in pairs])

    def _answered(self, judged: Judged, dropped: NDArray[np.bool_]) -> dict[str, Any]:
        """ASR and accuracy by substring, as PoisonedRAG counts them."""
        texts = [text for question in judged.questions for text, _ in question.candidates()]
        asked = [
            (question.text, [texts[index] for index in served])
            for question, served in zip(judged.questions, judged.served(dropped), strict=True)
        ]
        said = self._readings.answers(self._extractor, asked)
        return {
            "asr": _share([contains(answer, q.wrong) for answer, q in zip(said, judged.questions, strict=True)]),
            "accuracy": _share([contains(answer, q.right) for answer, q in zip(said, judged.questions, strict=True)]),
        }


def contains(answer: str, wanted: str) -> bool:
    """Whether an answer holds another as a substring, case and outer spaces aside."""
    return bool(wanted.strip()) and wanted.strip().casefold() in answer.casefold()


def _classified(model: LearnedModel, judged: Judged) -> NDArray[np.bool_]:
    poisoned: NDArray[np.bool_] = model.probabilities(as_matrix(judged.features)) >= model.threshold
    return poisoned


def _densities(judged: Judged) -> NDArray[np.float64]:
    return np.array([one.freq_density for one in judged.features])


def _atr(judged: Judged, dropped: NDArray[np.bool_]) -> dict[str, Any]:
    served = np.concatenate(judged.served(dropped))
    return {"atr": _share(judged.adversarial[served]), "clean_dropped": _share(dropped[~judged.adversarial])}


def _share(hits: Iterable[bool] | NDArray[np.bool_]) -> dict[str, Any]:
    values = list(hits)
    count = int(sum(map(bool, values)))
    low, high = wilson(count, len(values))
    rate = count / len(values) if values else 0.0
    return {"hits": count, "n": len(values), "rate": round(rate, 4), "low": round(low, 4), "high": round(high, 4)}
