"""Candidate for ML-FilterRAG, measured beside the classifier in use on what held-out questions retrieve.

Each question is paired with its planted texts (with and without the question in front), its honest texts, and
texts of either kind that belong to another question and so poison nothing here. Each classifier decides at
its own threshold.

    poisoned texts dropped    of those that were planted for the question
    honest texts dropped      of all others

The language model's readings are cached below the home, in the file that `guard evaluate filter` uses:
nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corpus_guard.attacks.poisonedrag import lead_with_question
from corpus_guard.batches import Storage
from corpus_guard.corpus.filterrag.features import as_matrix
from corpus_guard.corpus.filterrag.filters import MLFilterRAG, make_filter
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.corpus.filterrag.learned import LearnedModel, parse
from corpus_guard.detectors.candidates import (
    ComparedFigure,
    DetectorCandidate,
    describe_training,
    register_candidate,
    setting_note,
    split_questions,
)
from corpus_guard.detectors.filter_training import TEXTS_PER_KIND, FilterQuestion, FilterTrainer, foreign_questions
from corpus_guard.detectors.readings import ReadingCache
from corpus_guard.detectors.target_questions import TargetQuestion
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings
from corpus_guard.tracking.measures import CountedShare

READINGS_PATH: Final = ("evaluation", "readings.jsonl")  # below the home


def train_filter_candidate(
    ledger: Ledger,
    storage: Storage,
    models: Models,
    settings: Settings,
    *,
    limit: int | None = None,
) -> DetectorCandidate:
    """Train a classifier, measure it beside the one in use, and register it as the challenger.

    Raises:
        NotEnough: too few questions.
        Misuse: a file or a row is wrong.
        Infrastructure: MLflow cannot be reached.
    """
    training, testing = split_questions(settings, Detector.FILTER, limit)
    trainer = FilterTrainer(models, ReadingCache(settings.home.joinpath(*READINGS_PATH)))
    questions = [question for target in training for question in filter_questions(target)]
    content = trainer.fit(questions, ClassifierKind.XGBOOST).dumps()
    candidate = parse(content, "the candidate")
    in_use, description = current_filter(ledger, storage, models, settings)
    held_out = [question for target in testing for question in filter_questions(target)]
    figures = compare_filters(trainer, [*held_out, *foreign_questions(held_out)], candidate, in_use)
    trained_on = describe_training(settings, training)
    return register_candidate(storage, settings, Detector.FILTER, content, figures, trained_on, description)


def filter_questions(target: TargetQuestion) -> list[FilterQuestion]:
    """Return a target with the question in front of the planted texts, and without."""
    planted, clean = target.adversarial[:TEXTS_PER_KIND], target.clean[:TEXTS_PER_KIND]
    right, wrong = target.correct[0], target.incorrect[0]
    led = tuple(lead_with_question(target.question, text) for text in planted)
    return [FilterQuestion(target.question, right, wrong, texts, clean) for texts in (led, planted)]


def current_filter(
    ledger: Ledger, storage: Storage, models: Models, settings: Settings
) -> tuple[LearnedModel | None, str]:
    """Return the classifier in use and a description of it.

    The classifier is None if it cannot be used, for example with another language model; then no texts are
    served.

    Raises:
        SettingsError: a setting names a file that cannot be read.
    """
    configured = settings.filter_model
    filter_settings = settings.model_copy(update={"retrieval_filter": "ml_filterrag"})
    try:
        retrieval_filter = make_filter(filter_settings, models, ledger, storage)
    except (Inconsistent, Misuse) as error:
        if configured:
            raise
        return None, f"none that can be used ({error})"
    assert isinstance(retrieval_filter, MLFilterRAG)  # noqa: S101 - for type checkers: the settings say so
    off = "" if settings.retrieval_filter == "ml_filterrag" else "; CORPUS_GUARD_RETRIEVAL_FILTER turns it off"
    return retrieval_filter.model, f"{retrieval_filter.digest[:16]}{setting_note(Detector.FILTER, configured)}{off}"


def compare_filters(
    trainer: FilterTrainer,
    questions: Sequence[FilterQuestion],
    candidate: LearnedModel,
    in_use: LearnedModel | None,
) -> list[ComparedFigure]:
    """Measure both classifiers; `in_use` is None where the one in use cannot be used."""
    poisoned, honest = _dropped_shares(trainer, questions, candidate)
    compared = _dropped_shares(trainer, questions, in_use) if in_use else (None, None)
    return [
        ComparedFigure("poisoned texts dropped", True, poisoned, compared[0]),
        ComparedFigure("honest texts dropped", False, honest, compared[1]),
    ]


def _dropped_shares(
    trainer: FilterTrainer, questions: Sequence[FilterQuestion], model: LearnedModel
) -> tuple[CountedShare, CountedShare]:
    """Return the shares of poisoned and of honest texts that a classifier drops."""
    candidates = trainer.features(questions, model.tau)
    # Not `>=`: a probability that is not a number must not pass a text.
    dropped = ~(model.probabilities(as_matrix(candidates.features)) < model.threshold)
    planted = candidates.adversarial
    return (
        CountedShare(int((dropped & planted).sum()), int(planted.sum())),
        CountedShare(int((dropped & ~planted).sum()), int((~planted).sum())),
    )
