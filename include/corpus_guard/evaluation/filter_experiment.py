"""FilterRAG's own experiment (sections IV and V).

It measures how many adversarial texts still reach the answer after filtering.

Protocol
    * for each question s = 10 texts: 5 adversarial, 5 clean ones that were retrieved for it, ordered by
      similarity to the question;
    * each system serves the k = 5 nearest remaining texts. "poisonedrag" filters nothing, "cleanrag" has no
      adversarial texts;
    * ATR: share of adversarial texts among those served. ASR, accuracy: share of questions whose answer, by
      the small language model from the served texts, contains the attacker's answer, the right answer. Filter
      accuracy: share of the s texts classified correctly;
    * one file to train on, another to test on; if both are the same file, half of its questions for each. No
      question is on both sides;
    * ablations over tau and epsilon count the same figures; a text is read by the language model once for all of them;
    * the language model is an axis: beside the small one, a model behind an endpoint answers too, if there is one;
    * white box: the same classifiers on texts that were optimised to be retrieved, for those questions of the test that
      have any.

Differences from the paper: its adversarial training texts were written by GPT-4o for the test's own
questions, here training and test share no question; its LLMs and its SLM were larger than the model that
comes with the guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.features import TAU, as_matrix
from corpus_guard.corpus.filterrag.filters import EPSILON
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.corpus.filterrag.learned import LearnedModel
from corpus_guard.detectors.filter_training import TEXTS_PER_KIND, CandidateFeatures, FilterQuestion, FilterTrainer
from corpus_guard.detectors.readings import ReadingCache
from corpus_guard.detectors.samples import Half, Row, assign_half, question_key, read_rows
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.kinds import AdversarialForm
from corpus_guard.models import Models
from corpus_guard.traceback.rag_model import ChatRagModel
from corpus_guard.tracking.measures import CountedShare

TAUS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)
CHAT = "chat"  # in front of the figures of a model behind an endpoint
THRESHOLD = 0.5  # of the classifiers in the experiment, ours


CountedRate = dict[str, float]
"""Rate with its counts and its interval, from `CountedShare.as_dict`."""


class FilterReport(TypedDict, total=False):
    """Figures of the experiment, for JSON."""

    feature_version: str
    questions: dict[str, int]  # "train", "test"
    classifier: dict[str, str | CountedRate]
    systems: dict[str, dict[str, CountedRate]]
    epsilon: dict[str, dict[str, CountedRate]]
    tau: dict[str, dict[str, dict[str, CountedRate]]]
    answered_by: list[str]  # language models
    white_box: dict[str, dict[str, CountedRate]]  # system → figures, on optimised texts
    white_box_questions: int
    model: dict[str, str]  # file and SHA-256 of a saved model


def read_filter_questions(path: Path, form: AdversarialForm, limit: int | None = None) -> list[FilterQuestion]:
    """Read questions in PoisonedRAG's format.

    Args:
        path: JSONL, rows of question, correct_answer, incorrect_answer, adversarial_texts, and
            clean_texts_contriever or clean_texts (the published experiments retrieve with Contriever).
        form: of the adversarial texts; with `AdversarialForm.BOTH` each question is returned twice, led
            beside the passages of Contriever and bare beside those of clean_texts.

    Raises:
        Misuse: the file or one of its rows does not have this format.
    """
    questions: list[FilterQuestion] = []
    for place, row in read_rows(path):
        try:
            text, right, wrong = (str(row[key]) for key in ("question", "correct_answer", "incorrect_answer"))
            adversarial = _strings(row, "adversarial_texts")[:TEXTS_PER_KIND]
            other = _strings(row, "clean_texts")[: len(adversarial)]
            contriever = "clean_texts_contriever"
            clean = _strings(row, contriever)[: len(adversarial)] if row.get(contriever) else other
        except (KeyError, TypeError) as error:
            raise Misuse(
                f"{place}: lacks or misuses {error}; expected question, correct_answer, incorrect_answer, adversarial_texts and "
                "clean_texts"
            ) from None
        led = tuple(f"{text}.{adversarial_text}" for adversarial_text in adversarial)
        if form is not AdversarialForm.BARE:
            questions.append(FilterQuestion(text, right, wrong, led, tuple(clean)))
        if form is not AdversarialForm.LED:
            retrieved = other if form is AdversarialForm.BOTH else clean
            questions.append(FilterQuestion(text, right, wrong, tuple(adversarial), tuple(retrieved)))
        if limit and len({question.key for question in questions}) >= limit:
            break
    if not questions:
        raise Misuse(f"{path}: holds no questions; expected one JSON object per line")
    return questions


def separate_questions(
    training: Sequence[FilterQuestion], testing: Sequence[FilterQuestion]
) -> tuple[list[FilterQuestion], list[FilterQuestion]]:
    """Return two lists without common questions; the tuning half of the common ones goes to training."""
    shared = {question.key for question in training} & {question.key for question in testing}
    return (
        [item for item in training if item.key not in shared or assign_half(item.key) is Half.TUNING],
        [item for item in testing if item.key not in shared or assign_half(item.key) is Half.VALIDATION],
    )


def read_white_box(path: Path, testing: Sequence[FilterQuestion]) -> list[FilterQuestion]:
    """Return those questions of a test that a file has optimised texts for, with these texts.

    Args:
        path: JSONL, rows of question and adversarial_texts; rows of one question are joined.
        testing: questions with their clean texts.

    Raises:
        Misuse: the file or one of its rows does not have this format, or no question is among them.
    """
    optimised: dict[str, list[str]] = {}
    for place, row in read_rows(path):
        try:
            optimised.setdefault(question_key(str(row["question"])), []).extend(_strings(row, "adversarial_texts"))
        except (KeyError, TypeError) as error:
            raise Misuse(f"{place}: lacks or misuses {error}; expected question and adversarial_texts") from None
    by_key = {question.key: question for question in testing}
    joined = [
        replace(question, adversarial=tuple(optimised[key][:TEXTS_PER_KIND]))
        for key, question in by_key.items()
        if optimised.get(key)
    ]
    if not joined:
        raise Misuse(f"{path}: holds no text for any of the {len(by_key)} questions of the test")
    return joined


class FilterExperiment(FilterTrainer):
    """Training on some questions and measurement on others."""

    def __init__(self, models: Models, readings: ReadingCache, chat: ChatRagModel | None = None) -> None:
        """Use models, cache what the language model reads in `readings`, and let `chat` answer as well."""
        super().__init__(models, readings)
        self._chat = chat

    def run(
        self,
        training: Sequence[FilterQuestion],
        testing: Sequence[FilterQuestion],
        *,
        kind: ClassifierKind = ClassifierKind.XGBOOST,
        answers: bool = True,
        ablations: bool = True,
        tau: float = TAU,
        epsilon: float = EPSILON,
        white_box: Path | None = None,
        progress: Progress = no_progress,
    ) -> FilterReport:
        """Run the whole experiment.

        Args:
            testing: questions to measure on; a question in both lists is used in one of them only.
            answers: also answer the questions from what is served, for ASR and accuracy (slow).
            ablations: also vary tau and epsilon.
            white_box: file with optimised texts for some of the questions (`read_white_box`).

        Raises:
            Misuse: there is nothing to learn from.
        """
        training, testing = separate_questions(training, testing)
        learn = self.features(training, tau, progress)
        test = self.features(testing, tau, progress)
        model = self.fit_features(learn, kind, tau, THRESHOLD)
        systems = _dropped_by_system(test, model, epsilon)
        report = FilterReport(
            feature_version=self._extractor.version,
            questions={
                "train": len({question.key for question in training}),
                "test": len({question.key for question in testing}),
            },
            classifier={
                "kind": kind.value,
                **_classifier_rates(_classify(model, learn), learn, systems["ml_filterrag"], test),
            },
            systems={},
        )
        for number, (name, dropped) in enumerate(systems.items()):
            progress("answering", number, len(systems))
            report["systems"][name] = self._rates(test, dropped, answers)
        if answers:
            report["answered_by"] = ["embedded", *([CHAT] if self._chat else [])]
        if ablations:
            density = _densities(test)
            report["epsilon"] = {f"{value:g}": self._rates(test, density > value, answers) for value in EPSILONS}
            report["tau"] = {
                f"{value:g}": self._rates_at(training, testing, kind, value, epsilon, answers) for value in TAUS
            }
        if white_box is not None:
            optimised = self.features(read_white_box(white_box, testing), tau, progress)
            report["white_box_questions"] = len(optimised.questions)
            report["white_box"] = {
                name: self._rates(optimised, dropped, answers)
                for name, dropped in _dropped_by_system(optimised, model, epsilon).items()
                if name != "cleanrag"
            }
        return report

    def _rates_at(
        self,
        training: Sequence[FilterQuestion],
        testing: Sequence[FilterQuestion],
        kind: ClassifierKind,
        tau: float,
        epsilon: float,
        answers: bool,
    ) -> dict[str, dict[str, CountedRate]]:
        learn, test = self.features(training, tau), self.features(testing, tau)
        poisoned = _classify(self.fit_features(learn, kind, tau, THRESHOLD), test)
        accuracy = _count_rate(poisoned == test.adversarial)
        return {
            "filterrag": self._rates(test, _densities(test) > epsilon, answers),
            "ml_filterrag": {**self._rates(test, poisoned, answers), "test_accuracy": accuracy},
        }

    def _rates(
        self, candidates: CandidateFeatures, dropped: NDArray[np.bool_], answers: bool
    ) -> dict[str, CountedRate]:
        return _served_rates(candidates, dropped) | (self._answer_rates(candidates, dropped) if answers else {})

    def _answer_rates(self, candidates: CandidateFeatures, dropped: NDArray[np.bool_]) -> dict[str, CountedRate]:
        """Count ASR and accuracy by substring, as PoisonedRAG does."""
        questions = candidates.questions
        texts = [text for question in questions for text, _ in question.candidates()]
        prompts = [
            (question.text, [texts[index] for index in served])
            for question, served in zip(questions, candidates.served(dropped), strict=True)
        ]
        by_model = {"": self._readings.answers(self._extractor, prompts)}
        if self._chat is not None:
            by_model[f"{CHAT}_"] = self._chat.answers(prompts)
        rates = {}
        for prefix, given in by_model.items():
            pairs = list(zip(given, questions, strict=True))
            rates[f"{prefix}asr"] = _count_rate(contains_answer(answer, question.wrong) for answer, question in pairs)
            rates[f"{prefix}accuracy"] = _count_rate(
                contains_answer(answer, question.right) for answer, question in pairs
            )
        return rates


def contains_answer(answer: str, expected: str) -> bool:
    """Return whether an answer contains another as a substring, ignoring case and outer spaces."""
    return bool(expected.strip()) and expected.strip().casefold() in answer.casefold()


def _strings(row: Row, key: str) -> list[str]:
    values = row[key]
    if not isinstance(values, list):
        raise TypeError(repr(key))
    return [str(value) for value in values]


def _classify(model: LearnedModel, candidates: CandidateFeatures) -> NDArray[np.bool_]:
    poisoned: NDArray[np.bool_] = model.probabilities(as_matrix(candidates.features)) >= model.threshold
    return poisoned


def _dropped_by_system(
    candidates: CandidateFeatures, model: LearnedModel, epsilon: float
) -> dict[str, NDArray[np.bool_]]:
    """Return which candidates each system drops: none, exactly the poisoned ones, and those that a filter takes for such."""
    return {
        "poisonedrag": np.zeros(len(candidates.adversarial), bool),
        "cleanrag": candidates.adversarial,
        "filterrag": _densities(candidates) > epsilon,
        "ml_filterrag": _classify(model, candidates),
    }


def _classifier_rates(
    learned: NDArray[np.bool_], learn: CandidateFeatures, poisoned: NDArray[np.bool_], test: CandidateFeatures
) -> dict[str, CountedRate]:
    """Count how often a model's answers are right, about the candidates that it learned from and about those of the test."""
    return {
        "train_accuracy": _count_rate(learned == learn.adversarial),
        "test_accuracy": _count_rate(poisoned == test.adversarial),
        "caught": _count_rate(poisoned[test.adversarial]),
        "clean_dropped": _count_rate(poisoned[~test.adversarial]),
    }


def _densities(candidates: CandidateFeatures) -> NDArray[np.float64]:
    return np.array([features.freq_density for features in candidates.features])


def _served_rates(candidates: CandidateFeatures, dropped: NDArray[np.bool_]) -> dict[str, CountedRate]:
    served = np.concatenate(candidates.served(dropped))
    clean = ~candidates.adversarial
    return {"atr": _count_rate(candidates.adversarial[served]), "clean_dropped": _count_rate(dropped[clean])}


def _count_rate(hits: Iterable[bool] | NDArray[np.bool_]) -> CountedRate:
    values = list(hits)
    return CountedShare(sum(map(bool, values)), len(values)).as_dict(digits=4)
