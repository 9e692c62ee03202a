"""One whole evaluation: read targets, poison a throw-away corpus, complain, trace, count.

    throw-away corpus = clean texts of all rows + what the attack plants for all rows
    each row          = one complaint: its question was answered with its first incorrect answer

With `Attack.NONE` nothing is planted and every complaint is an honest one: the model was wrong by itself, and no text may be accused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.defences.table import Line
from corpus_guard.evaluation.traceback.answering import OWN, answered
from corpus_guard.evaluation.traceback.arena import arena, nobody
from corpus_guard.evaluation.traceback.corpus import Progress
from corpus_guard.evaluation.traceback.figures import Figures, figures
from corpus_guard.evaluation.traceback.judging import Bench, JudgeName, check_defences, check_judge
from corpus_guard.evaluation.traceback.planting import Attack, Planting
from corpus_guard.evaluation.traceback.playing import Played
from corpus_guard.evaluation.traceback.targets import Needed, Targets, read_targets
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback import Judge

FORMAT = "traceback-evaluation/v1"
MOST_K = 100

MakeJudge = Callable[[Bench, JudgeName], Judge]


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted."""

    targets: Path
    planting: Planting
    judge: JudgeName = JudgeName.EMBEDDED
    k: int = 5  # texts the RAG application retrieves
    limit: int | None = None  # rows, from the first; the corpus is made of these rows alone
    asr: bool = False  # also ask the RAG model, before and after each defence
    defences: tuple[str, ...] = OWN  # for `asr`
    ask: bool = False  # let the verdict ask the RAG model where it is in doubt

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            Misuse: a number is out of range, or a defence unknown.
        """
        if not 1 <= self.k <= MOST_K:
            raise Misuse(f"--k {self.k}: expected 1 to {MOST_K} texts")
        check_defences(self.defences)

    @property
    def needed(self) -> set[Needed]:
        """What every row must have."""
        return self.planting.needed | ({Needed.CORRECT} if self.asr else set())


@dataclass(frozen=True, slots=True)
class Result:
    """What was found."""

    request: Request
    figures: Figures
    played: tuple[Played, ...]
    answered: Mapping[str, Line]  # by defence; empty unless `Request.asr`
    about: Mapping[str, Any]  # what the figures depend on, and the size of what was played

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; holds no text of the corpus."""
        planting = self.request.planting
        asked = {"defences": {name: line.as_dict() for name, line in self.answered.items()}} if self.answered else {}
        return {
            **self.figures.as_dict(honest=planting.attack is Attack.NONE),
            **asked,
            "format": FORMAT,
            "attack": planting.attack.value,
            "adaptive": planting.adaptive.value,
            "m": planting.m,
            "k": self.request.k,
            "seed": planting.seed,
            "typos": planting.typos,
            "optimised": planting.optimised,
            "asked_again": self.request.ask,
            **self.about,
        }

    def lines(self) -> Iterator[dict[str, object]]:
        """One row a judged text, question by question in the file's order."""
        for one in self.played:
            yield from one.lines()


def evaluate(
    settings: Settings,
    request: Request,
    *,
    models: Models | None = None,
    make: MakeJudge = Bench.judge,
    progress: Progress = nobody,
) -> Result:
    """Play one attack against one judge.

    Args:
        settings: of the guard that is measured.
        request: what is wanted.
        models: loaded ones; None: those of the settings.
        make: a judge by its name.
        progress: told what is being done.

    Raises:
        Misuse: a file, a row or an option is wrong.
        StoreUnavailable: Chroma does not start.
    """
    check_judge(settings, request.judge)
    read = read_targets(request.targets, request.needed, request.limit)
    with arena(settings, models, read, progress) as games:
        scene = games.scene(request.planting)
        bench = scene.bench
        judge = make(bench, request.judge)
        defences = bench.defences(request.defences) if request.asr else {}
        played = games.play(scene, judge, request.k, bench.answers if request.ask else None)
        said = answered(played, scene.corpus, request.k, bench.answers, defences, progress) if defences else {}
        about = {
            "judge": {"name": judge.name, "digest": judge.digest},
            **({"rag_model": bench.answers.name} if request.ask or defences else {}),
            **described(request.targets, read),
            "embedder": games.embedder,
            "corpus_texts": scene.texts,
            "planted_texts": scene.planted,
        }
    return Result(request, figures(played), played, said, about)


def described(path: Path, read: Targets) -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "targets_sha256": sha256_bytes(path.read_bytes()),
        "rows": len(read.targets),
        "blank_texts_left_out": read.blank,
    }
