"""Simulated attacks: poisoned corpora, and traces of the complaints about them.

All attacks and judges of one simulation share the targets, the models, the vectors and the store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpus_guard.attacks.hotflip import HotFlip
from corpus_guard.corpus.store import Store
from corpus_guard.detectors.attacked_corpus import AttackedCorpus, TextVectors, fill_collection, temporary_store
from corpus_guard.detectors.planting import Optimiser, Planting, ReportForm
from corpus_guard.detectors.target_questions import TargetQuestion, TargetQuestions
from corpus_guard.detectors.traced_questions import (
    TracedQuestion,
    complaint_about,
    planted_ids,
    prepare_judge,
    trace_question,
)
from corpus_guard.detectors.vector_cache import CachingModels
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.rag_model import RagModel
from corpus_guard.traceback.retrieval import Complaint

AttackReport = tuple[TargetQuestion, Complaint]
"""Question under attack, and what is reported about it."""


@dataclass(frozen=True, slots=True)
class PoisonedCorpus:
    """Corpus with planted texts, and the truth about them."""

    targets: tuple[TargetQuestion, ...]
    poisoned: Mapping[tuple[str, str], frozenset[str]]  # `TargetQuestion.key` → ids of planted texts
    corpus: AttackedCorpus
    ordinary: tuple[str, ...]  # texts that nobody planted, sorted
    seed: int  # of the attack
    texts: int  # number of texts in the corpus
    planted: int  # of them


class AttackSimulation:
    """Poisoned corpora of one evaluation."""

    def __init__(
        self, models: Models, vectors: TextVectors, store: Store, questions: TargetQuestions, progress: Progress
    ) -> None:
        self.models, self._vectors = models, vectors
        self._store, self._targets, self._progress = store, questions.targets, progress
        self._hotflip: HotFlip | None = None
        self._optimised: dict[tuple[str, str, int], str] = {}  # by question, text and seed
        self._corpora = 0

    @property
    def embedder(self) -> str:
        """Return the digest of the embedder: weights and number format."""
        return self.models.embedder.digest

    def poison(self, planting: Planting) -> PoisonedCorpus:
        """Plant an attack in a corpus of its own.

        Raises:
            Misuse: there are no texts at all.
        """
        optimise = self._optimiser(planting.seed) if planting.optimised else None
        planted = []
        for done, target in enumerate(self._targets):
            self._progress("writing attacks", done, len(self._targets))
            planted.append((target, planting.texts(target, optimise)))
        clean = {text for target in self._targets for text in target.clean}
        attacking = {text for _, texts in planted for text in texts}
        if not clean | attacking:
            raise Misuse("no row has clean_texts, and nothing is planted: the corpus is empty; add clean_texts")
        # Clean texts and questions in batches of their own: they get the same vectors under every attack.
        self._vectors.prepare(clean, self._progress)
        self._vectors.prepare([target.question for target in self._targets], self._progress)
        self._corpora += 1
        name = f"attacked-{self._corpora}"
        corpus = fill_collection(self._store, name, clean | attacking, self._vectors, self.embedder, self._progress)
        return PoisonedCorpus(
            self._targets,
            planted_ids(planted),
            corpus,
            tuple(sorted(clean - attacking)),
            planting.seed,
            len(clean | attacking),
            len(attacking),
        )

    def trace(
        self,
        poisoned: PoisonedCorpus,
        judge: Judge,
        k: int,
        rag_model: RagModel | None = None,
        *,
        form: ReportForm = ReportForm.BARE,
        reports: Sequence[AttackReport] | None = None,
    ) -> tuple[TracedQuestion, ...]:
        """Trace the complaint about every question.

        Args:
            rag_model: asked again if a conclusion is in doubt; None: not asked.
            form: in which people report the wrong answer.
            reports: traced instead; None: each question's first wrong answer is reported.
        """
        if reports is None:
            reports = [(target, complaint_about(target, form)) for target in poisoned.targets]
        self._progress(f"preparing, judge {judge.name}", 0, None)
        prepare_judge(judge, [complaint for _, complaint in reports])
        traced = []
        for done, (target, complaint) in enumerate(reports):
            self._progress(f"tracing, judge {judge.name}", done, len(reports))
            planted = poisoned.poisoned.get(target.key, frozenset())
            traced.append(trace_question(target, complaint, planted, poisoned.corpus, judge, k=k, rag_model=rag_model))
        return tuple(traced)

    def _optimiser(self, seed: int) -> Optimiser:
        hotflip = self._hotflip = self._hotflip or HotFlip(self.models.embedder_weights)

        def optimise(question: str, text: str) -> str:
            key = question, text, seed
            if key not in self._optimised:
                self._optimised[key] = hotflip.optimise(question, text, seed)
            return self._optimised[key]

        return optimise


@contextlib.contextmanager
def attack_simulation(
    settings: Settings, models: Models | None, questions: TargetQuestions, progress: Progress = no_progress
) -> Iterator[AttackSimulation]:
    """Yield a simulation with a temporary store.

    Args:
        models: loaded ones; None: those of the settings, with the vectors of corpus texts cached below
            CORPUS_GUARD_HOME.

    Raises:
        StoreUnavailable: Chroma does not start.
    """
    embedder = (models or CachingModels(settings)).embedder
    with temporary_store(settings) as store:
        yield AttackSimulation(models or Models(settings), TextVectors(embedder), store, questions, progress)
