"""A candidate for ML-FilterRAG, measured beside the one in use on what held-out questions retrieve.

Each question stands with its planted texts (with the question in front and without), its honest ones, and texts of either kind that belong
to another question: those poison nothing here. Both classifiers decide at their own threshold.

    poisoned texts dropped    of those that were planted for the question
    honest texts dropped      of all others

What the language model reads is kept below the home, in the file that `guard evaluate filter` uses: nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from corpus_guard.corpus.filterrag import MLFilterRAG, make_filter
from corpus_guard.corpus.filterrag.features import TAU, as_matrix
from corpus_guard.corpus.filterrag.learned import Kind, LearnedModel, parse
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.evaluation.detectors.candidate import (
    Candidate,
    Figure,
    described,
    named_by,
    offer,
    questions,
)
from corpus_guard.evaluation.filter_experiment import EACH, FilterExperiment, Question, unrelated
from corpus_guard.evaluation.readings import NOBODY, Progress, Readings
from corpus_guard.evaluation.traceback.figures import Share
from corpus_guard.evaluation.traceback.targets import Target
from corpus_guard.models.champion import Detector

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

READINGS: Final = ("evaluation", "readings.jsonl")  # below the home


def prepare(guard: Guard, *, limit: int | None = None, progress: Progress = NOBODY) -> Candidate:
    """Train a classifier, measure it beside the one in use, keep it and register it as the challenger.

    Args:
        guard: the deployment; `Settings.detector_files` are the questions.
        limit: questions of a file, at most.
        progress: told what is being done.

    Raises:
        NotEnough: too few questions.
        Misuse: a file or a row is wrong.
        Infrastructure: MLflow cannot be reached.
    """
    training, testing = questions(guard, Detector.FILTER, limit)
    told = described(guard, training)
    experiment = FilterExperiment(guard.models, Readings(guard.settings.home.joinpath(*READINGS)))
    asked = [one for target in training for one in candidates_of(target)]
    experiment.judge([*asked, *unrelated(asked)], TAU, progress)  # reads, and tells of it
    content = experiment.fit(asked, Kind.XGBOOST).dumps()
    own = parse(content, "the candidate")
    theirs, against = current(guard)
    held_out = [one for target in testing for one in candidates_of(target)]
    figures = compared(experiment, [*held_out, *unrelated(held_out)], own, theirs, progress)
    return offer(guard, Detector.FILTER, content, figures, told, against)


def candidates_of(target: Target) -> list[Question]:
    """A target as the filter meets it: once with the question in front of what is planted, once without."""
    planted, clean = target.adversarial[:EACH], target.clean[:EACH]
    right, wrong = target.correct[0], target.incorrect[0]
    led = tuple(f"{target.question}.{one}" for one in planted)
    return [Question(target.question, right, wrong, texts, clean) for texts in (led, planted)]


def current(guard: Guard) -> tuple[LearnedModel | None, str]:
    """The classifier in use, and what it is, in words; None where it cannot be used, as with another language model: nothing is served.

    Raises:
        SettingsError: a setting names a file that is none.
    """
    named = guard.settings.filter_model
    settings = guard.settings.model_copy(update={"retrieval_filter": "ml_filterrag"})
    try:
        found = make_filter(settings, guard.models, guard.ledger, guard.storage)
    except (Inconsistent, Misuse) as error:
        if named:
            raise
        return None, f"none that can be used ({error})"
    assert isinstance(found, MLFilterRAG)  # noqa: S101 - for type checkers: the settings say so
    off = "" if guard.settings.retrieval_filter == "ml_filterrag" else "; CORPUS_GUARD_RETRIEVAL_FILTER asks for none"
    return found.model, f"{found.digest[:16]}{named_by(Detector.FILTER, named)}{off}"


def compared(
    experiment: FilterExperiment,
    asked: Sequence[Question],
    own: LearnedModel,
    theirs: LearnedModel | None,
    progress: Progress = NOBODY,
) -> list[Figure]:
    """What is decided on."""
    found, dropped = _shares(experiment, asked, own, progress)
    beside = _shares(experiment, asked, theirs, progress) if theirs else (None, None)
    return [
        Figure("poisoned texts dropped", True, found, beside[0]),
        Figure("honest texts dropped", False, dropped, beside[1]),
    ]


def _shares(
    experiment: FilterExperiment, asked: Sequence[Question], model: LearnedModel, progress: Progress
) -> tuple[Share, Share]:
    judged = experiment.judge(asked, model.tau, progress)
    dropped = ~(model.probabilities(as_matrix(judged.features)) < model.threshold)  # no number is no acquittal
    planted = judged.adversarial
    found = Share(int((dropped & planted).sum()), int(planted.sum()))
    return found, Share(int((dropped & ~planted).sum()), int((~planted).sum()))
