"""Evaluation of one attack against one judge: poison a temporary corpus, complain, trace, count.

    corpus     = clean texts of all rows + the texts that the attack plants for all rows
    complaint  = one per row: its question was answered with its first incorrect answer, reported in a form of
                 `corpus_guard.detectors.report_forms`

With `Events.RAG` the RAG model decides which questions are reported, and how (`rag_events`).

With `Attack.NONE` nothing is planted and every complaint is honest: the model was wrong by itself, and no
text may be accused. Wrong answers to other questions that begin with the same word are then reported as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corpus_guard.detectors.attack_simulation import attack_simulation
from corpus_guard.detectors.attacked_corpus import AttackedCorpus
from corpus_guard.detectors.planting import Attack, Planting, ReportForm
from corpus_guard.detectors.samples import Half
from corpus_guard.detectors.target_questions import RequiredField, TargetQuestion, add_other_answers, read_targets
from corpus_guard.detectors.trace_figures import TraceFigures, count_figures
from corpus_guard.detectors.traced_questions import TracedQuestion, accused_ids
from corpus_guard.domain import Progress, no_progress, sha256_bytes
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.defences import AttackedQuestion, Defence
from corpus_guard.evaluation.defences.table import DefenceResult, measure_defences
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge, Events
from corpus_guard.evaluation.traceback.judge_factory import JudgeFactories, JudgeFactory, check_defences, check_judge
from corpus_guard.evaluation.traceback.rag_events import observe_events
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.kinds import JudgePrompt
from corpus_guard.traceback.rag_model import RagModel

FORMAT = "traceback-evaluation/v1"
MAX_RETRIEVED = 100  # texts
TRACEBACK_DEFENCES = ("none", "ptr", "bte", "ptr+bte")
"""Without a defence, and with those that a traceback makes possible; some of the others take minutes per hundred questions."""

Accusation = tuple[TargetQuestion, frozenset[str]]
"""Question under attack, and the ids of the texts that are accused of its wrong answer."""

MakeJudge = Callable[[JudgeFactory, EvaluatedJudge], Judge]


@dataclass(frozen=True, slots=True)
class TracebackRequest:
    """Options of an evaluation."""

    targets: Path
    planting: Planting
    judge: EvaluatedJudge = EvaluatedJudge.EMBEDDED
    k: int = 5  # texts that the RAG application retrieves
    limit: int | None = None  # reads so many rows, from the first; the corpus consists of these rows
    asr: bool = False  # also ask the RAG model, before and after each defence
    defences: tuple[str, ...] = TRACEBACK_DEFENCES  # for `asr`
    ask: bool = False  # ask the RAG model again if a conclusion is in doubt
    form: ReportForm = ReportForm.BARE  # in which people report the wrong answer
    half: Half = Half.WHOLE  # of the questions
    other_answers: int = 0  # more honest reports of each question, with wrong answers to others
    events: Events = Events.REPORTS
    prompt: JudgePrompt = JudgePrompt.OWN  # of the judge `llm`

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            Misuse: a number is out of range, or a defence is unknown.
        """
        if not 1 <= self.k <= MAX_RETRIEVED:
            raise Misuse(f"--k {self.k}: expected 1 to {MAX_RETRIEVED} texts")
        check_defences(self.defences)
        if self.events is Events.RAG and (self.planting.attack is Attack.NONE or self.form is not ReportForm.BARE):
            raise Misuse(
                "--events rag: reports what the RAG model answers under an attack; leave out --attack none and --form"
            )

    @property
    def required(self) -> set[RequiredField]:
        """Return the fields that every row must have."""
        return self.planting.required | ({RequiredField.CORRECT} if self.asr else set())


@dataclass(frozen=True, slots=True)
class TracebackResult:
    """Figures of an evaluation, and every trace behind them."""

    request: TracebackRequest
    figures: TraceFigures
    traced: tuple[TracedQuestion, ...]
    answered: Mapping[str, DefenceResult]  # by defence; empty unless `TracebackRequest.asr`
    judge_name: str
    judge_digest: str
    about: Mapping[str, object]  # models and data that the figures depend on

    def as_dict(self) -> dict[str, object]:
        """Return everything but the texts, for JSON."""
        planting = self.request.planting
        defences = {name: result.as_dict() for name, result in self.answered.items()}
        return {
            **self.figures.as_dict(honest=planting.attack is Attack.NONE),
            **({"defences": defences} if defences else {}),
            "format": FORMAT,
            "attack": planting.attack.value,
            "adaptive": planting.adaptive.value,
            "m": planting.m,
            "k": self.request.k,
            "seed": planting.seed,
            "typos": planting.typos,
            "optimised": planting.optimised,
            "asked_again": self.request.ask,
            "form": self.request.form.value,
            "half": self.request.half.value,
            "events": self.request.events.value,
            "judge": {"name": self.judge_name, "digest": self.judge_digest},
            **self.about,
        }

    def rows(self) -> Iterator[dict[str, object]]:
        """Return one row per judged text, question by question in the file's order."""
        for question in self.traced:
            yield from question.rows()


def evaluate_traceback(
    settings: Settings,
    request: TracebackRequest,
    *,
    models: Models | None = None,
    make: MakeJudge = JudgeFactory.judge,
    progress: Progress = no_progress,
) -> TracebackResult:
    """Evaluate one attack against one judge.

    Raises:
        Misuse: a file, a row or an option is wrong.
        StoreUnavailable: Chroma does not start.
    """
    check_judge(settings, request.judge)
    questions = read_targets(request.targets, request.required, request.limit, request.half)
    rows = len(questions.targets)
    if request.planting.attack is Attack.NONE:
        questions = add_other_answers(questions, request.other_answers)
    with attack_simulation(settings, models, questions, progress) as simulation:
        corpus = simulation.poison(request.planting)
        factory = JudgeFactories(settings, simulation.models, request.prompt).factory_for(corpus)
        judge = make(factory, request.judge)
        events = (
            observe_events(corpus, request.k, factory.rag_model, progress=progress)
            if request.events is Events.RAG
            else None
        )
        defences = factory.defences(request.defences) if request.asr else {}
        traced = simulation.trace(
            corpus,
            judge,
            request.k,
            factory.rag_model if request.ask else None,
            form=request.form,
            reports=events.succeeded if events else None,
        )
        answered = (
            measure_answers(accusations(traced), corpus.corpus, request.k, factory.rag_model, defences, progress)
            if defences
            else {}
        )
        about = {
            **({"rag_model": factory.rag_model.name} if request.ask or defences else {}),
            **(events.as_dict() if events else {}),
            **describe_targets(request.targets, rows, questions.blank),
            "embedder": simulation.embedder,
            "corpus_texts": corpus.texts,
            "planted_texts": corpus.planted,
        }
    return TracebackResult(request, count_figures(traced), traced, answered, judge.name, judge.digest, about)


def accusations(traced: Sequence[TracedQuestion]) -> list[Accusation]:
    """Return each traced question with the ids of the texts that its trace accused."""
    return [(question.target, frozenset(accused_ids(question.conclusion.judged))) for question in traced]


def measure_answers(
    accused_targets: Sequence[Accusation],
    corpus: AttackedCorpus,
    k: int,
    rag_model: RagModel,
    defences: Mapping[str, Defence],
    progress: Progress = no_progress,
) -> dict[str, DefenceResult]:
    """Ask every question under every defence, for ASR and ACC."""
    rows = [
        AttackedQuestion(
            target.question, target.correct, target.incorrect, partial(corpus.retrieve, target.question), accused, k
        )
        for target, accused in accused_targets
    ]
    results = measure_defences(
        rows, rag_model, defences, lambda name, done, total: progress(f"defence {name}", done, total)
    )
    return {result.defence: result for result in results}


def describe_targets(path: Path, rows: int, blank: int) -> dict[str, object]:
    """Return the origin of the figures: the file's hash, the number of rows, and of blank texts."""
    return {"targets_sha256": sha256_bytes(path.read_bytes()), "rows": rows, "blank_texts_left_out": blank}
