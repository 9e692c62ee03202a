"""Tables 1 and 6 of RAGForensics, reproduced with the embedded models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpus_guard.detectors.attack_simulation import attack_simulation
from corpus_guard.detectors.planting import Attack, Planting
from corpus_guard.detectors.target_questions import RequiredField, TargetQuestions, read_targets
from corpus_guard.detectors.trace_figures import TraceFigures, count_figures
from corpus_guard.domain import Progress, no_progress
from corpus_guard.evaluation.defences.table import DefenceResult
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge
from corpus_guard.evaluation.traceback.experiment import (
    FORMAT,
    MakeJudge,
    TracebackRequest,
    describe_targets,
    measure_answers,
)
from corpus_guard.evaluation.traceback.judge_factory import JudgeFactories, JudgeFactory, check_judge
from corpus_guard.models import Models
from corpus_guard.settings import Settings


@dataclass(frozen=True, slots=True)
class Table1:
    """Figures by attack and judge."""

    cells: Mapping[tuple[Attack, EvaluatedJudge], TraceFigures]
    about: Mapping[str, object]

    def as_dict(self) -> dict[str, object]:
        """Return the table for JSON, without texts of the corpus."""
        table: dict[str, dict[str, object]] = {}
        for (attack, judge), cell in self.cells.items():
            table.setdefault(attack.value, {})[judge.value] = cell.as_dict(honest=False)
        return {"format": f"{FORMAT}, table 1", "table": table, **self.about}


@dataclass(frozen=True, slots=True)
class Table6:
    """Answers by attack and defence."""

    cells: Mapping[tuple[Attack, str], DefenceResult]
    about: Mapping[str, object]

    def as_dict(self) -> dict[str, object]:
        """Return the table for JSON, without texts of the corpus."""
        table: dict[str, dict[str, object]] = {}
        for (attack, defence), result in self.cells.items():
            table.setdefault(attack.value, {})[defence] = result.as_dict()
        return {"format": f"{FORMAT}, table 6", "table": table, **self.about}


def reproduce_table1(
    settings: Settings,
    request: TracebackRequest,
    attacks: Sequence[Attack],
    judges: Sequence[EvaluatedJudge],
    *,
    models: Models | None = None,
    make: MakeJudge = JudgeFactory.judge,
    progress: Progress = no_progress,
) -> Table1:
    """Evaluate every judge under every attack.

    Args:
        settings: of the guard that is measured.
        request: rows, m, k, adaptive attack and seed; its attack and judge are ignored.
        attacks: rows of the table; the words in front of HotFlip's texts are optimised here.
        judges: columns of the table.
        models: loaded ones; None: those of the settings.
        make: builds a judge from its name.
        progress: called for each step.

    Raises:
        Misuse: a file, a row or an option is wrong.
        StoreUnavailable: Chroma does not start.
    """
    for name in judges:
        check_judge(settings, name)
    plantings = _plantings(request, attacks)
    questions = _read_targets(request, plantings)
    cells: dict[tuple[Attack, EvaluatedJudge], TraceFigures] = {}
    digests = {}
    with attack_simulation(settings, models, questions, progress) as simulation:
        factories = JudgeFactories(settings, simulation.models)
        for planting in plantings:
            corpus = simulation.poison(planting)
            factory = factories.factory_for(corpus)
            for name in judges:
                judge = make(factory, name)
                rag_model = factory.rag_model if request.ask else None
                cells[planting.attack, name] = count_figures(simulation.trace(corpus, judge, request.k, rag_model))
                digests[f"{planting.attack.value}/{name.value}"] = judge.digest
        about = {**_about(request, questions), "embedder": simulation.embedder, "judges": digests}
    return Table1(cells, about)


def reproduce_table6(
    settings: Settings,
    request: TracebackRequest,
    attacks: Sequence[Attack],
    *,
    models: Models | None = None,
    make: MakeJudge = JudgeFactory.judge,
    progress: Progress = no_progress,
) -> Table6:
    """Evaluate every defence of `request` under every attack, traced by its judge.

    The arguments are those of `reproduce_table1`.
    """
    check_judge(settings, request.judge)
    plantings = _plantings(request, attacks)
    questions = _read_targets(request, plantings, RequiredField.CORRECT)
    cells: dict[tuple[Attack, str], DefenceResult] = {}
    with attack_simulation(settings, models, questions, progress) as simulation:
        factories = JudgeFactories(settings, simulation.models)
        for planting in plantings:
            corpus = simulation.poison(planting)
            factory = factories.factory_for(corpus)
            defences = factory.defences(request.defences)
            judge = make(factory, request.judge)
            traced = simulation.trace(corpus, judge, request.k, factory.rag_model if request.ask else None)
            results = measure_answers(traced, corpus.corpus, request.k, factory.rag_model, defences, progress)
            cells |= {(planting.attack, name): result for name, result in results.items()}
        about = {
            **_about(request, questions),
            "embedder": simulation.embedder,
            "judge": judge.digest,
            "rag_model": factory.rag_model.name,
        }
    return Table6(cells, about)


def _plantings(request: TracebackRequest, attacks: Sequence[Attack]) -> list[Planting]:
    base = request.planting
    return [
        Planting(attack, base.adaptive, base.m, base.typos, base.seed, optimised=attack is Attack.HOTFLIP)
        for attack in attacks
    ]


def _read_targets(request: TracebackRequest, plantings: Sequence[Planting], *more: RequiredField) -> TargetQuestions:
    required = set(more).union(*(planting.required for planting in plantings))
    return read_targets(request.targets, required, request.limit)


def _about(request: TracebackRequest, questions: TargetQuestions) -> dict[str, object]:
    base = request.planting
    return {
        "adaptive": base.adaptive.value,
        "m": base.m,
        "k": request.k,
        "seed": base.seed,
        "typos": base.typos,
        "asked_again": request.ask,
        **describe_targets(request.targets, questions),
    }
