"""Play of the paper's experiments, cell by cell; a stopped play continues where it ended.

Each finished cell is appended to ``cells.jsonl`` in the folder of the results, with the digest of everything that its
figures depend on: questions, judge, models, options. Lines of another digest are left alone and not used. Cheap cells
come first: those that ask a language model take seconds for each question, and can be limited to fewer questions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from corpus_guard.detectors.attack_simulation import AttackReport, AttackSimulation, PoisonedCorpus, attack_simulation
from corpus_guard.detectors.planting import Attack, Planting
from corpus_guard.detectors.samples import Half
from corpus_guard.detectors.target_questions import RequiredField, TargetQuestions, read_targets
from corpus_guard.detectors.trace_figures import count_figures
from corpus_guard.detectors.traced_questions import TracedQuestion, complaint_about
from corpus_guard.domain import Progress, digest, no_progress, sha256_bytes
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.baselines.perplexity import SAMPLE_SIZE
from corpus_guard.evaluation.defences.table import CachingRagModel
from corpus_guard.evaluation.traceback.evaluated_judges import Events
from corpus_guard.evaluation.traceback.experiment import MakeJudge, accusations, measure_answers
from corpus_guard.evaluation.traceback.judge_factory import JudgeFactories, JudgeFactory, check_defences, check_judge
from corpus_guard.evaluation.traceback.paper_plan import DATA_SETS, Cell, PaperPlan, Scene
from corpus_guard.evaluation.traceback.rag_events import RagEvents, observe_events
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.judge_selection import create_judge, create_rag_model
from corpus_guard.traceback.kinds import JudgePrompt

CELLS_FILE: Final = "cells.jsonl"
_VERSION: Final = "ragforensics/v1"
_REQUIRED: Final = frozenset(RequiredField)

CellResult = Mapping[str, Any]
"""`TraceFigures.as_dict` or `DefenceResult.as_dict`, and ``cpu_seconds``."""


@dataclass(frozen=True, slots=True)
class PaperRequest:
    """Options of a play."""

    targets: Mapping[str, Path]  # by name, of DATA_SETS
    plan: PaperPlan
    judge_models: Mapping[str, Path] = field(default_factory=dict)  # by name; else the embedded judge of the settings
    limit: int = 20  # questions of each data set
    asked_limit: int | None = None  # of these, in cells that ask the RAG model; None: all
    half: Half = Half.WHOLE
    seed: int = 0
    optimised_texts: int = 5  # per question whose words in front are optimised (HotFlip)
    sample: int = SAMPLE_SIZE  # texts that thresholds of perplexity are taken from
    events: Events = Events.REPORTS
    prompt: JudgePrompt = JudgePrompt.OWN

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            Misuse: there are no data sets, or a name is unknown; or a judge is given for a data set that is not played.
        """
        unknown = [name for name in self.targets if name not in DATA_SETS]
        if unknown or not self.targets:
            raise Misuse(f"data sets: got {unknown or 'none'}; expected files for some of {', '.join(DATA_SETS)}")
        judged_only = [name for name in self.judge_models if name not in self.targets]
        if judged_only:
            raise Misuse(f"judge of {judged_only[0]!r}: no such data set is played; expected {', '.join(self.targets)}")
        check_defences(tuple(self.plan.defences))


@dataclass(frozen=True, slots=True)
class PaperResult:
    """Figures of all cells."""

    request: PaperRequest
    cells: Mapping[str, CellResult]  # by `Cell.key`
    about: Mapping[str, object]  # models and data that the figures depend on


def play_paper(
    settings: Settings,
    request: PaperRequest,
    folder: Path,
    *,
    models: Models | None = None,
    make: MakeJudge = JudgeFactory.judge,
    progress: Progress = no_progress,
) -> PaperResult:
    """Measure every cell that is not in `folder` yet.

    Raises:
        Misuse: a file, a row or an option is wrong.
        StoreUnavailable: Chroma does not start.
    """
    for judge in request.plan.judges:
        check_judge(settings, judge)
    questions = {
        data: read_targets(path, _REQUIRED, request.limit, request.half) for data, path in request.targets.items()
    }
    about = _describe(settings, request, models or Models(settings), questions)
    wanted = dict.fromkeys(cell for cells in request.plan.cells().values() for cell in cells)
    store = _CellStore(folder / CELLS_FILE, {cell.key: _context(cell, request, about) for cell in wanted})
    scenes = list(dict.fromkeys(cell.scene for cell in wanted))
    missing = sorted(
        (cell for cell in wanted if cell.key not in store.results),
        key=lambda cell: (cell.asks_model, cell.defence.startswith("ke-"), scenes.index(cell.scene)),
    )
    for data in dict.fromkeys(cell.scene.data for cell in missing):
        with attack_simulation(settings, models, questions[data], progress) as simulation:
            player = _Player(_judged_by(settings, request, data), request, simulation, make, progress)
            for cell in missing:
                if cell.scene.data == data:
                    began = time.process_time()
                    figures = player.measure(cell)
                    store.add(cell.key, {**figures, "cpu_seconds": round(time.process_time() - began, 2)})
    return PaperResult(request, {cell.key: store.results[cell.key] for cell in wanted}, about)


def _context(cell: Cell, request: PaperRequest, about: Mapping[str, Any]) -> str:
    """Return the digest of everything that the figures of a cell depend on: only of its own judge and data."""
    tracer = cell.tracer(request.plan.judges[0])
    common = {**about, "judges": "", "targets": "", "questions": "", "asked": cell.asks_model and about["asked"]}
    del common["sampled_texts"]  # follows from the targets and the sample
    data = cell.scene.data
    own = (about["targets"][data], about["questions"][data], about["judges"][data].get(tracer and tracer.value))
    return digest(_VERSION, [json.dumps(common, sort_keys=True), json.dumps(own)])[:16]


def _judged_by(settings: Settings, request: PaperRequest, data: str) -> Settings:
    """Return the settings with the embedded judge of a data set."""
    path = request.judge_models.get(data)
    return settings.model_copy(update={"judge_model": path}) if path else settings


def _describe(
    settings: Settings, request: PaperRequest, models: Models, questions: Mapping[str, TargetQuestions]
) -> dict[str, Any]:
    """Return everything that the figures depend on."""
    judges = {
        data: {
            judge.value: create_judge(own.model_copy(update={"judge": judge.value}), models).digest
            for judge in request.plan.judges
        }
        for data, own in ((data, _judged_by(settings, request, data)) for data in request.targets)
    }
    return {
        "targets": {data: sha256_bytes(path.read_bytes()) for data, path in request.targets.items()},
        "questions": {data: len(read.targets) for data, read in questions.items()},
        "asked": request.asked_limit,
        "half": request.half.value,
        "seed": request.seed,
        "sample": request.sample,
        "sampled_texts": {
            data: min(request.sample, len({text for target in read.targets for text in target.clean}))
            for data, read in questions.items()
        },
        "optimised_texts": request.optimised_texts,
        "events": request.events.value,
        "prompt": request.prompt.value,
        "judges": judges,
        "embedder": models.embedder_weights.digest,
        "rag_model": f"chat, {settings.chat_model}"
        if settings.rag_model == "chat"
        else f"embedded, {models.language_model_digest[:12]}",
    }


@dataclass
class _Player:
    """Measurements on one data set; corpora, traces and answers are shared."""

    settings: Settings
    request: PaperRequest
    simulation: AttackSimulation
    make: MakeJudge
    progress: Progress
    _scene: tuple[Scene, PoisonedCorpus] | None = None
    _events: dict[tuple[Scene, int], RagEvents] = field(default_factory=dict)
    _traced: dict[Cell, tuple[TracedQuestion, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._factories = JudgeFactories(
            self.settings, self.simulation.models, self.request.prompt, self.request.sample
        )
        self._rag_model = CachingRagModel(create_rag_model(self.settings, self.simulation.models))

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Return the figures of a cell."""
        self.progress(cell.key, 0, None)
        if cell.judge is not None:
            traced = self._trace(cell)
            figures = count_figures(traced).as_dict(honest=False)
            return figures | (self._observed(cell).as_dict() if self.request.events is Events.RAG else {})
        corpus, factory = self._poisoned(cell.scene)
        tracer = cell.tracer(self.request.plan.judges[0])
        accused_targets = (
            accusations(self._trace(Cell(cell.scene, cell.k, tracer)))
            if tracer
            else [(target, frozenset[str]()) for target, _ in self._reports(cell, corpus)]
        )[: self.request.asked_limit]
        defences = factory.defences([cell.defence])
        result = measure_answers(accused_targets, corpus.corpus, cell.k, self._rag_model, defences, self.progress)
        return result[cell.defence].as_dict()

    def _trace(self, cell: Cell) -> tuple[TracedQuestion, ...]:
        if cell not in self._traced and cell.judge is not None:
            corpus, factory = self._poisoned(cell.scene)
            judge = self.make(factory, cell.judge)
            self._traced[cell] = self.simulation.trace(corpus, judge, cell.k, reports=self._reports(cell, corpus))
        return self._traced[cell]

    def _reports(self, cell: Cell, corpus: PoisonedCorpus) -> Sequence[AttackReport]:
        if self.request.events is Events.RAG:
            return self._observed(cell).succeeded
        targets = corpus.targets[: self.request.asked_limit if cell.asks_model else None]
        return [(target, complaint_about(target)) for target in targets]

    def _observed(self, cell: Cell) -> RagEvents:
        key = cell.scene, cell.k
        if key not in self._events:
            corpus, _ = self._poisoned(cell.scene)
            targets = corpus.targets[: self.request.asked_limit]
            self._events[key] = observe_events(corpus, cell.k, self._rag_model, targets, self.progress)
        return self._events[key]

    def _poisoned(self, scene: Scene) -> tuple[PoisonedCorpus, JudgeFactory]:
        if self._scene is None or self._scene[0] != scene:
            self._traced = {cell: traced for cell, traced in self._traced.items() if cell.scene == scene}
            planting = Planting(
                scene.attack,
                scene.adaptive,
                scene.m,
                seed=self.request.seed,
                optimised=scene.attack is Attack.HOTFLIP,
                optimised_texts=self.request.optimised_texts,
            )
            self._scene = scene, self.simulation.poison(planting)
        corpus = self._scene[1]
        return corpus, self._factories.factory_for(corpus)


class _CellStore:
    """Finished cells in a file, one JSON object a line."""

    def __init__(self, path: Path, contexts: Mapping[str, str]) -> None:
        """Read the cells of `contexts`, by key, that were measured under the same digest."""
        self._path, self._contexts = path, contexts
        self.results = dict(self._read())

    def add(self, key: str, result: CellResult) -> None:
        """Keep a finished cell."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"context": self._contexts[key], "cell": key, "result": result}) + "\n")
        self.results[key] = result

    def _read(self) -> Iterator[tuple[str, CellResult]]:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue  # a killed play may leave half a line: the cell is measured again
            if row.get("cell") in self._contexts and row.get("context") == self._contexts[row["cell"]]:
                yield row["cell"], row["result"]
