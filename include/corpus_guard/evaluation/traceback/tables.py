"""Tables 1 and 6 of RAGForensics, with the paper's figures beside those found.

The paper's RAGForensics judged with GPT-4o-mini, and its baselines used that model and Llama-2-7b; it drew 50 questions an attack, with
K = M = 5, and retrieved with Contriever. So its figures say what to expect of a large model elsewhere, not what these judges ought to give.
They stand as printed; some of the perplexity baselines' on HotpotQA do not fit each other. Figures of Table 6: `defences.table.PAPER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from corpus_guard.evaluation.defences.table import PAPER, Line
from corpus_guard.evaluation.traceback.figures import Figures, Share
from corpus_guard.evaluation.traceback.judging import JudgeName
from corpus_guard.evaluation.traceback.planting import Attack


class Published(NamedTuple):
    """One cell of the paper's Table 1, in per cent."""

    dacc: float
    fpr: float
    fnr: float


DATA_SETS: Final = ("NQ", "HotpotQA", "MS-MARCO")
_JUDGES: Final = (
    JudgeName.PPL_100, JudgeName.PPL_90, JudgeName.EXPGEN, JudgeName.RKM, JudgeName.TKM, JudgeName.POIFOR, JudgeName.LLM,
)  # fmt: skip
_B, _W, _I = Attack.POISONEDRAG_B, Attack.HOTFLIP, Attack.INSTRUINJECT
# (data set, attack) → DACC, FPR and FNR of each judge, in the order of `_JUDGES`; the last is RAGForensics.
_TABLE: Final[Mapping[tuple[str, Attack], tuple[tuple[float, ...], ...]]] = {
    ("NQ", _B): ((37.5, 37.5, 90.3, 84.3, 81.0, 83.1, 99.6), (0, 0, 0, 7.6, 34.1, 2.2, 0.8),
                 (100, 100, 19.4, 23.9, 3.9, 31.5, 0)),
    ("NQ", _W): ((16.7, 16.7, 91.2, 84.9, 72.9, 81.1, 99.2), (0, 0, 0.5, 8.8, 38.8, 0, 1.6),
                 (100, 100, 17.1, 24.1, 15.4, 37.9, 0)),
    ("NQ", _I): ((28.6, 28.6, 100, 69.6, 86.3, 100, 99.6), (0, 0, 0, 0.8, 11.5, 0, 0.4),
                 (100, 100, 0, 60.0, 16.0, 0, 0.4)),
    ("HotpotQA", _B): ((0, 68.2, 87.5, 77.7, 85.4, 75.5, 97.4), (0, 18.1, 2.6, 6.7, 29.1, 19.6, 2.4),
                       (100, 45.6, 22.5, 37.8, 0, 29.5, 2.8)),
    ("HotpotQA", _W): ((0, 60.1, 89.2, 80.3, 64.1, 75.1, 97.6), (85.6, 79.7, 1.6, 7.9, 35.4, 21.7, 1.6),
                       (57.2, 0, 20.0, 31.4, 36.4, 44.4, 3.2)),
    ("HotpotQA", _I): ((15.6, 60.5, 99.1, 68.6, 87.5, 98.9, 98.2), (3.3, 79.1, 1.8, 0.7, 8.9, 2.2, 2.3),
                       (98.0, 0, 0, 62.1, 16.0, 0, 1.2)),
    ("MS-MARCO", _B): ((44.4, 67.6, 83.4, 76.6, 74.4, 73.0, 98.4), (0, 8.3, 0, 18.1, 49.2, 1.0, 2.3),
                       (100, 56.4, 33.3, 28.7, 2.0, 53.0, 0.8)),
    ("MS-MARCO", _W): ((69.5, 64.1, 87.8, 78.5, 40.2, 66.6, 98.3), (0, 71.7, 0, 17.9, 47.7, 3.5, 2.7),
                       (61.0, 0, 24.4, 25.1, 71.9, 63.3, 0.8)),
    ("MS-MARCO", _I): ((86.2, 64.1, 99.2, 53.8, 73.7, 97.8, 99.4), (0, 71.7, 0, 8.7, 11.4, 2.5, 1.2),
                       (27.6, 0, 1.6, 83.8, 41.2, 2.0, 0)),
}  # fmt: skip
PUBLISHED: Final[Mapping[tuple[str, Attack, JudgeName], Published]] = MappingProxyType(
    {
        (data, attack, judge): Published(*values)
        for (data, attack), rows in _TABLE.items()
        for judge, *values in zip(_JUDGES, *rows, strict=True)
    }
)
"""(data set, attack, judge) → the paper's figures. RAGForensics stands under the judge `llm`."""

ATTACKS1: Final = (Attack.POISONEDRAG_B, Attack.BARE, Attack.HOTFLIP, Attack.INSTRUINJECT)
"""Of Table 1; the paper has no bare one, and its PoisonedRAG-W is `hotflip`."""
ATTACKS6: Final = (Attack.POISONEDRAG_B, Attack.HOTFLIP, Attack.INSTRUINJECT)
COLUMNS1: Final = ("attack", "judge", "DACC", "FPR", "FNR", "judged", "paper DACC", "paper FPR", "paper FNR")
COLUMNS6: Final = ("attack", "defence", "ASR", "ACC", "no answer", "paper ASR", "paper ACC")


def rows1(found: Mapping[tuple[Attack, JudgeName], Figures]) -> Iterator[tuple[str, ...]]:
    """One row an attack and judge, `COLUMNS1`, in per cent; the paper's as ``NQ / HotpotQA / MS-MARCO``."""
    for (attack, judge), figures in found.items():
        yield (
            attack.value,
            judge.value,
            *(percent(share) for share in (figures.dacc, figures.fpr, figures.fnr)),
            f"{figures.judged:,}",
            *(published1(attack, judge, name) for name in Published._fields),
        )


def rows6(found: Mapping[tuple[Attack, str], Line]) -> Iterator[tuple[str, ...]]:
    """One row an attack and defence, `COLUMNS6`, in per cent; the paper's as ``NQ / HotpotQA / MS-MARCO``."""
    for (attack, defence), line in found.items():
        yield (
            attack.value,
            defence,
            percent(Share(line.attacked, line.queries)),
            percent(Share(line.right, line.queries)),
            f"{line.failed:,}",
            published6(attack, defence, 0),
            published6(attack, defence, 1),
        )


def percent(share: Share) -> str:
    """``98.0 [96.1, 99.0]``, in per cent; empty of nothing."""
    low, high = share.interval
    return f"{100 * share.rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]" if share.n else ""


def published1(attack: Attack, judge: JudgeName, metric: str) -> str:
    """The paper's figures of the three data sets; the embedded judge stands beside RAGForensics; empty where there are none."""
    asked = JudgeName.LLM if judge is JudgeName.EMBEDDED else judge
    cells = [PUBLISHED.get((data, attack, asked)) for data in DATA_SETS]
    return " / ".join(f"{getattr(cell, metric):.1f}" for cell in cells if cell)


def published6(attack: Attack, defence: str, column: int) -> str:
    """The paper's ASR (column 0) or ACC (1) of the three data sets; empty where there are none."""
    name = "poisonedrag-w" if attack is Attack.HOTFLIP else attack.value
    cells = [PAPER.get((data.casefold().replace("-", ""), name), {}).get(defence) for data in DATA_SETS]
    return " / ".join(f"{100 * cell[column]:.0f}" for cell in cells if cell)


def metrics1(found: Mapping[tuple[Attack, JudgeName], Figures]) -> dict[str, float]:
    """Names and values as MLflow takes them: ``bare/ppl-90/dacc``."""
    return {
        f"{attack.value}/{judge.value}/{name}": value
        for (attack, judge), figures in found.items()
        for name, value in plain(figures).items()
    }


def metrics6(found: Mapping[tuple[Attack, str], Line]) -> dict[str, float]:
    """Names and values as MLflow takes them: ``bare/ptr/asr``."""
    return {
        f"{attack.value}/{defence.replace('+', '_')}/{name}": value
        for (attack, defence), line in found.items()
        for name, value in (("asr", line.asr), ("acc", line.acc))
    }


def plain(figures: Figures) -> dict[str, float]:
    """What one game comes to, as metrics."""
    return {
        "dacc": figures.dacc.rate,
        "fpr": figures.fpr.rate,
        "fnr": figures.fnr.rate,
        "judged": figures.judged,
        "seconds_per_suspect": figures.judge_seconds / figures.judged if figures.judged else 0.0,
        "iterations_mean": figures.iterations / figures.queries if figures.queries else 0.0,
    }


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a file."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
