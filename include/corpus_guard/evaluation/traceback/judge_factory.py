"""Construction of the judges and defences of an evaluation. No model is loaded before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.corpus.filterrag.filters import FilterRAG, MLFilterRAG
from corpus_guard.corpus.filterrag.learned import load_shipped
from corpus_guard.detectors.attack_simulation import PoisonedCorpus
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.baselines import BASELINES, BaselineMaterial
from corpus_guard.evaluation.baselines.interface import create_baseline_rag
from corpus_guard.evaluation.baselines.perplexity import SAMPLE_SIZE
from corpus_guard.evaluation.defences import DEFENCES, Defence, DefenceResources, build_defences
from corpus_guard.evaluation.defences.enhancement import PromptedChat
from corpus_guard.evaluation.traceback.evaluated_judges import BASELINE_JUDGES, EvaluatedJudge
from corpus_guard.models import Models
from corpus_guard.models.chat import ChatEndpoint
from corpus_guard.settings import Settings
from corpus_guard.traceback.judge_selection import create_judge, create_rag_model
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.judges.llm import LLMJudge
from corpus_guard.traceback.kinds import JudgePrompt
from corpus_guard.traceback.rag_model import RagModel


def check_judge(settings: Settings, name: EvaluatedJudge) -> None:
    """Check that a judge is available, before anything is loaded.

    Raises:
        Misuse: the judge needs an endpoint, and none is set.
    """
    if name is EvaluatedJudge.LLM and not settings.chat_url:
        raise Misuse("--judge llm: needs an endpoint; set CORPUS_GUARD_CHAT_URL and CORPUS_GUARD_CHAT_MODEL")


def check_defences(names: Sequence[str]) -> None:
    """Check that all defences exist, before anything is loaded.

    Raises:
        Misuse: a name is unknown.
    """
    unknown = [name for name in names if name not in DEFENCES]
    if unknown:
        raise Misuse(f"--defence {unknown[0][:40]!r}: unknown; expected one of {', '.join(DEFENCES)}")


@dataclass(frozen=True)
class JudgeFactory:
    """Builder of judges and defences; what several of them need is made once.

    Thresholds are taken from the texts that nobody planted. The paper's corpora hold millions of texts, so
    that planted ones do not matter; here every fifth text may be planted.
    """

    settings: Settings
    models: Models
    ordinary: Sequence[str] = field(repr=False)  # texts of the corpus that nobody planted
    seed: int = 0
    prompt: JudgePrompt = JudgePrompt.OWN  # of the judge `llm`
    sample: int = SAMPLE_SIZE  # ordinary texts that thresholds of perplexity are taken from

    def judge(self, name: EvaluatedJudge) -> Judge:
        """Build a judge; answers of an endpoint are cached as long as the judge lives.

        Raises:
            Misuse: as `check_judge`.
            SettingsError: the endpoint's address or key is invalid.
        """
        check_judge(self.settings, name)
        if name is EvaluatedJudge.LLM:
            return LLMJudge(ChatEndpoint.from_settings(self.settings), prompt=self.prompt)
        if name not in BASELINE_JUDGES:
            return create_judge(self.settings.model_copy(update={"judge": name.value}), self.models)
        return BASELINES[name.value](self._material)

    @cached_property
    def rag_model(self) -> RagModel:
        """Return the RAG model that the settings name."""
        return create_rag_model(self.settings, self.models)

    def defences(self, names: Sequence[str]) -> dict[str, Defence]:
        """Build defences.

        Raises:
            Misuse: as `check_defences`, or a defence needs ordinary texts and there are none.
        """
        check_defences(names)
        return build_defences(self._resources, tuple(names))

    @cached_property
    def _resources(self) -> DefenceResources:
        perplexities = self._material.perplexities
        extractor = FeatureExtractor(self.models)
        return DefenceResources(
            perplexities.of,
            perplexities.sample,
            FilterRAG(extractor),
            MLFilterRAG(extractor, load_shipped()),
            self._prompted,
        )

    @property
    def _prompted(self) -> RagModel | None:
        """Return the RAG model under the prompt of benign text enhancement.

        The embedded model does not follow it.
        """
        return PromptedChat(ChatEndpoint.from_settings(self.settings)) if self.settings.rag_model == "chat" else None

    @cached_property
    def _material(self) -> BaselineMaterial:
        rag = create_baseline_rag(self.settings, self.models)
        return BaselineMaterial(self.models, rag, self.ordinary, self.seed, self.sample)


class JudgeFactories:
    """Factories of one evaluation.

    Attacks that leave the same ordinary texts share a factory, and what it learned of them.
    """

    def __init__(
        self, settings: Settings, models: Models, prompt: JudgePrompt = JudgePrompt.OWN, sample: int = SAMPLE_SIZE
    ) -> None:
        self._settings, self._models, self._prompt, self._sample = settings, models, prompt, sample
        self._factories: dict[tuple[tuple[str, ...], int], JudgeFactory] = {}

    def factory_for(self, corpus: PoisonedCorpus) -> JudgeFactory:
        """Return the factory for the ordinary texts and the seed of a corpus."""
        key = corpus.ordinary, corpus.seed
        if key not in self._factories:
            self._factories[key] = JudgeFactory(self._settings, self._models, *key, self._prompt, self._sample)
        return self._factories[key]
