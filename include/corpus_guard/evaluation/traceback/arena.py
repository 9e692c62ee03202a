"""Where attacks are played: a poisoned corpus a scene, and everything that scenes and judges share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard.corpus.store import Store
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.traceback.corpus import AttackedCorpus, Progress, Vectors, plant, throwaway
from corpus_guard.evaluation.traceback.judging import Bench
from corpus_guard.evaluation.traceback.planting import Optimise, Planting
from corpus_guard.evaluation.traceback.playing import Played, planted_for, play, prepare
from corpus_guard.evaluation.traceback.targets import Target, Targets
from corpus_guard.evaluation.vectors import RememberingModels
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback import Judge
from corpus_guard.traceback.asking import Answers

if TYPE_CHECKING:
    from corpus_guard.evaluation.attacks.hotflip import HotFlip


def nobody(what: str, done: int, total: int | None) -> None:
    """A progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A poisoned corpus, and what was planted in it."""

    targets: tuple[Target, ...]
    poisoned: Mapping[tuple[str, str], frozenset[str]]  # ids, by `Target.key`
    corpus: AttackedCorpus
    bench: Bench
    texts: int  # in the corpus
    planted: int  # of them


class Arena:
    """Targets, models, vectors and a store, shared by all attacks and judges of one evaluation."""

    def __init__(
        self, settings: Settings, models: Models, vectors: Vectors, store: Store, read: Targets, progress: Progress
    ) -> None:
        self._settings, self._models, self._vectors = settings, models, vectors
        self._store, self._targets, self.progress = store, read.targets, progress
        self._optimiser: HotFlip | None = None
        self._benches: dict[tuple[tuple[str, ...], int], Bench] = {}
        self._scenes = 0

    @property
    def embedder(self) -> str:
        """What the corpus is embedded with: weights and number format."""
        return self._models.embedder.digest

    def scene(self, planting: Planting) -> Scene:
        """Plant an attack in a corpus of its own.

        Raises:
            Misuse: there is no text at all.
        """
        optimise = self._optimise(planting.seed) if planting.optimised else None
        planted = []
        for done, target in enumerate(self._targets):
            self.progress("writing attacks", done, len(self._targets))
            planted.append((target, planting.texts(target, optimise)))
        clean = {text for target in self._targets for text in target.clean}
        attacking = {text for _, texts in planted for text in texts}
        if not clean | attacking:
            raise Misuse("no row has clean_texts, and nothing is planted: there is no corpus to ask; give some")
        # Clean texts and questions in batches of their own: they get the same vectors under every attack.
        self._vectors.prepare(clean, self.progress)
        self._vectors.prepare([target.question for target in self._targets], self.progress)
        self._scenes += 1
        name = f"attacked-{self._scenes}"
        corpus = plant(self._store, name, clean | attacking, self._vectors, self.embedder, self.progress)
        bench = self._bench(tuple(sorted(clean - attacking)), planting.seed)
        return Scene(self._targets, planted_for(planted), corpus, bench, len(clean | attacking), len(attacking))

    def _bench(self, ordinary: tuple[str, ...], seed: int) -> Bench:
        """One for all attacks that leave the same ordinary texts, so that what it learned of them is learned once."""
        key = ordinary, seed
        if key not in self._benches:
            self._benches[key] = Bench(self._settings, self._models, ordinary, seed)
        return self._benches[key]

    def play(self, scene: Scene, judge: Judge, k: int, answers: Answers | None = None) -> tuple[Played, ...]:
        """Every question's complaint.

        Args:
            scene: the corpus.
            judge: of the texts.
            k: texts the RAG application retrieves.
            answers: the RAG model, asked again where a verdict is in doubt; None: not asked.
        """
        self.progress(f"preparing, judge {judge.name}", 0, None)
        prepare(judge, scene.targets)
        played = []
        for done, target in enumerate(scene.targets):
            self.progress(f"tracing, judge {judge.name}", done, len(scene.targets))
            poisoned = scene.poisoned.get(target.key, frozenset())
            played.append(play(target, poisoned, scene.corpus, judge, k=k, answers=answers))
        return tuple(played)

    def _optimise(self, seed: int) -> Optimise:
        from corpus_guard.evaluation.attacks.hotflip import HotFlip

        optimiser = self._optimiser = self._optimiser or HotFlip(self._models.embedder_weights)
        return lambda question, text: optimiser.optimise(question, text, seed)


@contextlib.contextmanager
def arena(settings: Settings, models: Models | None, read: Targets, progress: Progress = nobody) -> Iterator[Arena]:
    """An arena with a store of its own, gone at the end.

    Args:
        settings: of the guard that is measured.
        models: loaded ones; None: those of the settings, and vectors of corpus texts are remembered below CORPUS_GUARD_HOME.
        read: the targets.
        progress: told what is being done.

    Raises:
        StoreUnavailable: Chroma does not start.
    """
    embedder = (models or RememberingModels(settings)).embedder
    with throwaway(settings) as store:
        yield Arena(settings, models or Models(settings), Vectors(embedder), store, read, progress)
