"""The judges an evaluation can be asked for, and what each of them is made of. Importing this loads no model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from corpus_guard.errors import Misuse
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import Judge

if TYPE_CHECKING:
    from corpus_guard.evaluation.defences import Defence
    from corpus_guard.traceback.asking import Answers
    from corpus_guard.traceback.baselines import Material
    from corpus_guard.traceback.baselines.rag import RagModel

SAMPLE = 1_000  # ordinary texts that thresholds are taken from, as in the paper


class JudgeName(StrEnum):
    """As the command line calls them."""

    EMBEDDED = "embedded"
    LLM = "llm"
    PPL_100 = "ppl-100"
    PPL_90 = "ppl-90"
    EXPGEN = "expgen"
    RKM = "rkm"
    TKM = "tkm"
    POIFOR = "poifor"


BASELINES = tuple(name for name in JudgeName if name not in {JudgeName.EMBEDDED, JudgeName.LLM})


def check_judge(settings: Settings, name: JudgeName) -> None:
    """See, before anything is loaded, that a judge can be had.

    Raises:
        Misuse: it needs an endpoint, and none is set.
    """
    if name is JudgeName.LLM and not settings.chat_url:
        raise Misuse(
            "--judge llm: asks an endpoint, and CORPUS_GUARD_CHAT_URL is not set; set it and CORPUS_GUARD_CHAT_MODEL"
        )


def check_defences(names: Sequence[str]) -> None:
    """See, before anything is loaded, that defences can be had.

    Raises:
        Misuse: one is unknown.
    """
    from corpus_guard.evaluation.defences import DEFENCES

    unknown = [name for name in names if name not in DEFENCES]
    if unknown:
        raise Misuse(f"--defence {unknown[0][:40]!r}: unknown; expected one of {', '.join(DEFENCES)}")


@dataclass(frozen=True)
class Bench:
    """What judges and defences are made of; what several of them need is made once.

    Thresholds are taken from the texts that were not planted: the paper's corpora hold millions of texts, among which the planted ones do
    not count, while here they may be every fifth.
    """

    settings: Settings
    models: Models
    ordinary: Sequence[str] = field(repr=False)  # texts of the corpus that nobody planted
    seed: int = 0

    def judge(self, name: JudgeName) -> Judge:
        """A judge by its name; what an endpoint answers is kept as long as the judge.

        Raises:
            Misuse: as `check_judge`.
            SettingsError: the endpoint's address or key is none.
        """
        check_judge(self.settings, name)
        if name not in BASELINES:
            from corpus_guard.traceback.making import make_judge

            return make_judge(self.settings.model_copy(update={"judge": name.value}), self.models)
        from corpus_guard.traceback.baselines import BASELINES as FACTORIES

        return FACTORIES[name.value](self._material)

    @cached_property
    def answers(self) -> Answers:
        """The RAG model that the settings name."""
        from corpus_guard.traceback.making import make_answers

        return make_answers(self.settings, self.models)

    def defences(self, names: Sequence[str]) -> dict[str, Defence]:
        """Defences by their names.

        Raises:
            Misuse: as `check_defences`, or one needs ordinary texts and there are none.
        """
        from corpus_guard.evaluation.defences import Means, build

        check_defences(names)
        chance = random.Random(f"ordinary {self.seed}")  # noqa: S311 - a sample, no secret
        sample = chance.sample(list(self.ordinary), min(SAMPLE, len(self.ordinary)))
        return build(Means.of(self.models, sample, self._prompted), tuple(names))

    @property
    def _prompted(self) -> Answers | None:
        """The RAG model under the system prompt of benign text enhancement; the embedded one follows none."""
        if self.settings.rag_model != "chat":
            return None
        from corpus_guard.evaluation.defences.prompted import PromptedChat
        from corpus_guard.models.chat import ChatEndpoint

        return PromptedChat(ChatEndpoint.of(self.settings))

    @cached_property
    def _material(self) -> Material:
        from corpus_guard.traceback.baselines import Material

        made = Material.of(self.settings, self.models, self.ordinary, seed=self.seed)
        return replace(made, rag=RememberingRag(made.rag))


class RememberingRag:
    """A RAG model that is asked the same only once: every attack leaves the clean texts as they are."""

    def __init__(self, rag: RagModel) -> None:
        self._rag = rag
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}

    @property
    def digest(self) -> str:
        """Of the model."""
        return self._rag.digest

    @property
    def splits(self) -> bool:
        """As the model."""
        return self._rag.splits

    def answers(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """As they were given the first time."""
        keys = [(question, tuple(texts)) for question, texts in asked]
        new = list(dict.fromkeys(key for key in keys if key not in self._known))
        if new:
            self._known.update(zip(new, self._rag.answers(new), strict=True))
        return [self._known[key] for key in keys]

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """As the model; such requests seldom come twice."""
        return self._rag.say(instruction, texts, request)
