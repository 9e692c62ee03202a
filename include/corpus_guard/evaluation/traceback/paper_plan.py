"""Cells of RAGForensics' tables 1 to 6 and figures 2 to 4.

=========  ===========================================================  ================================================
part       rows                                                         columns
=========  ===========================================================  ================================================
table 1    attacks                                                      the judge and the paper's six baselines
table 2    attacks on NQ                                                judges: embedded, language model
table 3    attacks that claim to lead to the right answer (*deceive*)   ASR without a defence; the judge's figures
table 4    attacks that hold the right answer (*disguise*)              the same
table 5    attacks on HotpotQA and MS-MARCO                             as table 2
table 6    attacks                                                      ASR and ACC under each defence
figures    attacks with M = 5, 10, 20, 30, 40 texts a question          the judge's figures
k          attacks with K = 5, 10, 20 texts retrieved                   the judge's figures; not in the paper
=========  ===========================================================  ================================================

Several parts share a cell: each is measured once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corpus_guard.attacks.adaptive import AdaptiveAttack
from corpus_guard.detectors.planting import Attack
from corpus_guard.evaluation.traceback.evaluated_judges import BASELINE_JUDGES, EvaluatedJudge

DATA_SETS: Final = ("NQ", "HotpotQA", "MS-MARCO")
ATTACKS: Final = (Attack.POISONEDRAG_B, Attack.HOTFLIP, Attack.INSTRUINJECT)
TEXTS: Final = 5  # M and K where a part does not vary them
PLANTED: Final = (5, 10, 20, 30, 40)  # M of the figures
RETRIEVED: Final = (5, 10, 20)  # K
DEFENCES: Final = ("none", "ppl-90", "ppl-100", "robustrag", "ke-10", "ke-20", "ke-50", "ptr", "ptr+bte")
ASKS_MODEL: Final = frozenset(BASELINE_JUDGES) - {EvaluatedJudge.TKM}
"""Baselines that ask a language model: seconds of CPU for each question with the embedded one."""


TRACED_DEFENCES: Final = frozenset({"ptr", "ptr+bte"})
"""Defences that use what a trace accused; the others need no judge."""


class PaperPart(StrEnum):
    """Table or group of figures."""

    TABLE_1 = "table-1"
    TABLE_2 = "table-2"
    TABLE_3 = "table-3"
    TABLE_4 = "table-4"
    TABLE_5 = "table-5"
    TABLE_6 = "table-6"
    FIGURES = "figures"
    K = "k"


@dataclass(frozen=True, slots=True)
class Scene:
    """Attack on one data set."""

    data: str  # of DATA_SETS
    attack: Attack
    adaptive: AdaptiveAttack = AdaptiveAttack.NONE
    m: int = TEXTS


@dataclass(frozen=True, slots=True)
class Cell:
    """Measurement: a judge's labels, or the RAG model's answers under a defence."""

    scene: Scene
    k: int = TEXTS
    judge: EvaluatedJudge | None = None
    defence: str = ""

    @property
    def asks_model(self) -> bool:
        """Return whether the RAG model is asked about every question."""
        return self.judge in ASKS_MODEL or bool(self.defence)

    def tracer(self, first: EvaluatedJudge) -> EvaluatedJudge | None:
        """Return the judge whose labels the figures depend on, if any; `first` traces for the defences."""
        return first if self.defence in TRACED_DEFENCES else self.judge

    @property
    def key(self) -> str:
        """Return the cell's name: unique, and the same in every run."""
        scene = self.scene
        measured = f"judge {self.judge.value}" if self.judge else f"defence {self.defence}"
        return f"{scene.data}/{scene.attack.value}/{scene.adaptive.value}/m{scene.m}/k{self.k}/{measured}"


@dataclass(frozen=True, slots=True)
class PaperPlan:
    """Choice of what is reproduced."""

    parts: Sequence[PaperPart] = tuple(PaperPart)
    data: Sequence[str] = DATA_SETS
    attacks: Sequence[Attack] = ATTACKS
    judges: Sequence[EvaluatedJudge] = (EvaluatedJudge.EMBEDDED,)  # the first one traces for the other parts
    baselines: Sequence[EvaluatedJudge] = BASELINE_JUDGES
    defences: Sequence[str] = DEFENCES
    planted: Sequence[int] = PLANTED
    retrieved: Sequence[int] = RETRIEVED

    def cells(self) -> Mapping[PaperPart, list[Cell]]:
        """Return the cells of each part, row by row."""
        return {part: list(self._part(part)) for part in self.parts}

    def _part(self, part: PaperPart) -> Iterator[Cell]:
        first = self.judges[0]
        for data in self.data:
            for attack in self.attacks:
                scene = Scene(data, attack)
                match part:
                    case PaperPart.TABLE_1:
                        yield from (Cell(scene, judge=judge) for judge in (*self.judges, *self.baselines))
                    case PaperPart.TABLE_2 | PaperPart.TABLE_5:
                        if (data == DATA_SETS[0]) is (part is PaperPart.TABLE_2):
                            yield from (Cell(scene, judge=judge) for judge in self.judges)
                    case PaperPart.TABLE_3 | PaperPart.TABLE_4:
                        adaptive = AdaptiveAttack.DECEIVE if part is PaperPart.TABLE_3 else AdaptiveAttack.DISGUISE
                        adapted = Scene(data, attack, adaptive)
                        yield Cell(adapted, judge=first)
                        if "none" in self.defences:
                            yield Cell(adapted, defence="none")
                    case PaperPart.TABLE_6:
                        yield from (Cell(scene, defence=defence) for defence in self.defences)
                    case PaperPart.FIGURES:
                        yield from (Cell(Scene(data, attack, m=m), judge=first) for m in self.planted)
                    case PaperPart.K:
                        yield from (Cell(scene, k, first) for k in self.retrieved)
