"""Tables 1 and 6 of RAGForensics played with the embedded models: every attack, every judge or defence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpus_guard.evaluation.defences.table import Line
from corpus_guard.evaluation.traceback.answering import answered
from corpus_guard.evaluation.traceback.arena import Arena, Scene, arena, nobody
from corpus_guard.evaluation.traceback.corpus import Progress
from corpus_guard.evaluation.traceback.experiment import FORMAT, MakeJudge, Request, described
from corpus_guard.evaluation.traceback.figures import Figures, figures
from corpus_guard.evaluation.traceback.judging import Bench, JudgeName, check_judge
from corpus_guard.evaluation.traceback.planting import Attack, Planting
from corpus_guard.evaluation.traceback.targets import Needed, Targets, read_targets
from corpus_guard.models import Models
from corpus_guard.settings import Settings


@dataclass(frozen=True, slots=True)
class Table1:
    """How judges do under attacks."""

    cells: Mapping[tuple[Attack, JudgeName], Figures]
    about: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; holds no text of the corpus."""
        found: dict[str, dict[str, Any]] = {}
        for (attack, judge), cell in self.cells.items():
            found.setdefault(attack.value, {})[judge.value] = cell.as_dict(honest=False)
        return {"format": f"{FORMAT}, table 1", "table": found, **self.about}


@dataclass(frozen=True, slots=True)
class Table6:
    """What is answered under attacks and defences."""

    cells: Mapping[tuple[Attack, str], Line]
    about: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; holds no text of the corpus."""
        found: dict[str, dict[str, Any]] = {}
        for (attack, defence), line in self.cells.items():
            found.setdefault(attack.value, {})[defence] = line.as_dict()
        return {"format": f"{FORMAT}, table 6", "table": found, **self.about}


def table1(
    settings: Settings,
    request: Request,
    attacks: Sequence[Attack],
    judges: Sequence[JudgeName],
    *,
    models: Models | None = None,
    make: MakeJudge = Bench.judge,
    progress: Progress = nobody,
) -> Table1:
    """Play every attack against every judge.

    Args:
        settings: of the guard that is measured.
        request: rows, m, k, adaptive attack and seed; its attack and judge do not count.
        attacks: to play; HotFlip's words are made here.
        judges: to put to the test.
        models: loaded ones; None: those of the settings.
        make: a judge by its name.
        progress: told what is being done.

    Raises:
        Misuse: a file, a row or an option is wrong.
        StoreUnavailable: Chroma does not start.
    """
    for name in judges:
        check_judge(settings, name)
    plantings = _plantings(request, attacks)
    read = _read(request, plantings)
    cells: dict[tuple[Attack, JudgeName], Figures] = {}
    digests = {}
    with arena(settings, models, read, progress) as games:
        for planting, scene in _scenes(games, plantings):
            for name in judges:
                judge = make(scene.bench, name)
                answers = scene.bench.answers if request.ask else None
                cells[planting.attack, name] = figures(games.play(scene, judge, request.k, answers))
                digests[f"{planting.attack.value}/{name.value}"] = judge.digest
        about = {**_about(request, read), "embedder": games.embedder, "judges": digests}
    return Table1(cells, about)


def table6(
    settings: Settings,
    request: Request,
    attacks: Sequence[Attack],
    *,
    models: Models | None = None,
    make: MakeJudge = Bench.judge,
    progress: Progress = nobody,
) -> Table6:
    """Play every attack under every defence of `request`, traced by its judge; otherwise as `table1`."""
    check_judge(settings, request.judge)
    plantings = _plantings(request, attacks)
    read = _read(request, plantings, Needed.CORRECT)
    cells: dict[tuple[Attack, str], Line] = {}
    with arena(settings, models, read, progress) as games:
        for planting, scene in _scenes(games, plantings):
            bench = scene.bench
            defences = bench.defences(request.defences)
            judge = make(bench, request.judge)
            played = games.play(scene, judge, request.k, bench.answers if request.ask else None)
            lines = answered(played, scene.corpus, request.k, bench.answers, defences, progress)
            cells |= {(planting.attack, name): line for name, line in lines.items()}
        about = {
            **_about(request, read),
            "embedder": games.embedder,
            "judge": judge.digest,
            "rag_model": bench.answers.name,
        }
    return Table6(cells, about)


def _plantings(request: Request, attacks: Sequence[Attack]) -> list[Planting]:
    base = request.planting
    return [
        Planting(attack, base.adaptive, base.m, base.typos, base.seed, optimised=attack is Attack.HOTFLIP)
        for attack in attacks
    ]


def _read(request: Request, plantings: Sequence[Planting], *more: Needed) -> Targets:
    needed = set(more).union(*(one.needed for one in plantings))
    return read_targets(request.targets, needed, request.limit)


def _scenes(games: Arena, plantings: Sequence[Planting]) -> Iterator[tuple[Planting, Scene]]:
    for planting in plantings:
        yield planting, games.scene(planting)


def _about(request: Request, read: Targets) -> dict[str, Any]:
    base = request.planting
    return {
        "adaptive": base.adaptive.value,
        "m": base.m,
        "k": request.k,
        "seed": base.seed,
        "typos": base.typos,
        "asked_again": request.ask,
        **described(request.targets, read),
    }
