"""Training of ML-FilterRAG's classifier on questions with adversarial and clean texts.

A text is read by the language model once, whatever tau the features are computed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.features import TAU, FeatureExtractor, Features, as_matrix
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.corpus.filterrag.learned import LearnedModel, train
from corpus_guard.detectors.readings import ReadingCache
from corpus_guard.detectors.samples import question_key
from corpus_guard.domain import Progress, no_progress
from corpus_guard.models import Models

TEXTS_PER_KIND = 5  # adversarial, and as many clean texts, of a question (section IV-A of the paper)
SERVED_TEXTS = 5  # k, ours: the paper's ATR of 0.825 is no whole number of texts among 5 of each of 100 questions


@dataclass(frozen=True, slots=True)
class FilterQuestion:
    """Question with the texts written to poison its answer and those retrieved for it."""

    text: str
    right: str
    wrong: str
    adversarial: tuple[str, ...]
    clean: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return a key that is the same for all spellings of the question."""
        return question_key(self.text)

    def candidates(self) -> list[tuple[str, bool]]:
        """Return (text, adversarial) pairs."""
        return [*((text, True) for text in self.adversarial), *((text, False) for text in self.clean)]


def foreign_questions(questions: Sequence[FilterQuestion]) -> list[FilterQuestion]:
    """Return each question with one text of either kind that belongs to another question, both as clean.

    Texts written for another question do not poison this one. Without such pairs a model learns that short
    plain texts are adversarial, as those of PoisonedRAG are, and drops the short pages of a manual for every
    question.
    """
    following = [*questions[2:], *questions[:2]]  # the next but one, as a list may hold each question twice in a row
    return [
        FilterQuestion(question.text, question.right, question.wrong, (), (*other.adversarial[:1], *other.clean[:1]))
        for question, other in zip(questions, following, strict=True)
        if question.key != other.key
    ]


@dataclass(frozen=True)
class CandidateFeatures:
    """Candidate texts of several questions with their features at one tau."""

    questions: Sequence[FilterQuestion]
    adversarial: NDArray[np.bool_]  # of all candidates, question by question
    owner: NDArray[np.intp]  # index of the candidate's question
    similarity: NDArray[np.float64]  # to the question; the most similar candidates are served first
    features: Sequence[Features]

    def served(self, dropped: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Return the indices of the candidates that are served for each question, nearest first."""
        lists = []
        for number in range(len(self.questions)):
            passed = np.flatnonzero((self.owner == number) & ~dropped)
            lists.append(passed[np.argsort(-self.similarity[passed], kind="stable")][:SERVED_TEXTS])
        return lists


class FilterTrainer:
    """Trainer that computes features of candidate texts and fits classifiers."""

    def __init__(self, models: Models, readings: ReadingCache) -> None:
        """Use models, and cache what the language model reads in `readings`."""
        self._models = models
        self._extractor = FeatureExtractor(models)
        self._readings = readings
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def fit(
        self, questions: Sequence[FilterQuestion], kind: ClassifierKind, threshold: float | None = None
    ) -> LearnedModel:
        """Train a classifier for use, on all candidates of `questions` and of their `foreign_questions`.

        Args:
            threshold: decision threshold, 0..1; None: chosen by cross-validation.

        Raises:
            Misuse: there is nothing to learn from.
        """
        return self.fit_features(self.features([*questions, *foreign_questions(questions)], TAU), kind, TAU, threshold)

    def features(
        self, questions: Sequence[FilterQuestion], tau: float, progress: Progress = no_progress
    ) -> CandidateFeatures:
        """Compute the features of all candidates; no text is read twice."""
        pairs = [(question.text, text) for question in questions for text, _ in question.candidates()]
        readings = self._readings.read(self._extractor, pairs, progress)
        return CandidateFeatures(
            questions,
            np.array([poisoned for question in questions for _, poisoned in question.candidates()], bool),
            np.repeat(np.arange(len(questions)), [len(question.candidates()) for question in questions]),
            self._similarity(pairs),
            self._extractor.match(pairs, readings, tau),
        )

    def fit_features(
        self, candidates: CandidateFeatures, kind: ClassifierKind, tau: float, threshold: float | None = None
    ) -> LearnedModel:
        """Train a classifier on computed features; see `fit`."""
        return train(
            as_matrix(candidates.features),
            list(candidates.adversarial),
            [candidates.questions[owner].key for owner in candidates.owner],
            feature_version=self._extractor.version,
            kind=kind,
            tau=tau,
            threshold=threshold,
        )

    def _similarity(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        new = list(dict.fromkeys(text for pair in pairs for text in pair if text not in self._vectors))
        self._vectors.update(zip(new, self._models.embedder.embed(new), strict=True))
        return np.array([float(self._vectors[question] @ self._vectors[text]) for question, text in pairs])
