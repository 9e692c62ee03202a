"""Tables 1 and 6 of RAGForensics: our figures beside the published ones.

The paper's RAGForensics judged with GPT-4o-mini, and its baselines used that model and Llama-2-7b; it drew 50
questions per attack, with K = M = 5, and retrieved with Contriever. Its figures show what to expect of a
large model in another setting, not what these judges should reach. They are copied as printed; some figures
of the perplexity baselines on HotpotQA contradict each other. The figures of Table 6 are
`corpus_guard.evaluation.defences.table.PUBLISHED_RATES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from corpus_guard.detectors.planting import Attack
from corpus_guard.detectors.trace_figures import CountedShare, TraceFigures
from corpus_guard.evaluation.defences.table import PUBLISHED_RATES, DefenceResult
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge


class PublishedFigures(NamedTuple):
    """Cell of the paper's Table 1, in per cent."""

    dacc: float
    fpr: float
    fnr: float


DATA_SETS: Final = ("NQ", "HotpotQA", "MS-MARCO")
_JUDGES: Final = (
    EvaluatedJudge.PPL_100,
    EvaluatedJudge.PPL_90,
    EvaluatedJudge.EXPGEN,
    EvaluatedJudge.RKM,
    EvaluatedJudge.TKM,
    EvaluatedJudge.POIFOR,
    EvaluatedJudge.LLM,
)
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
PUBLISHED: Final[Mapping[tuple[str, Attack, EvaluatedJudge], PublishedFigures]] = MappingProxyType(
    {
        (data, attack, judge): PublishedFigures(*values)
        for (data, attack), rows in _TABLE.items()
        for judge, *values in zip(_JUDGES, *rows, strict=True)
    }
)
"""(data set, attack, judge) → published figures; RAGForensics is listed as the judge `llm`."""

TABLE1_ATTACKS: Final = (Attack.POISONEDRAG_B, Attack.BARE, Attack.HOTFLIP, Attack.INSTRUINJECT)
"""Attacks of Table 1; the paper has no bare one, and its PoisonedRAG-W is `hotflip`."""
TABLE6_ATTACKS: Final = (Attack.POISONEDRAG_B, Attack.HOTFLIP, Attack.INSTRUINJECT)
TABLE1_COLUMNS: Final = ("attack", "judge", "DACC", "FPR", "FNR", "judged", "paper DACC", "paper FPR", "paper FNR")
TABLE6_COLUMNS: Final = ("attack", "defence", "ASR", "ACC", "no answer", "paper ASR", "paper ACC")


def table1_rows(cells: Mapping[tuple[Attack, EvaluatedJudge], TraceFigures]) -> Iterator[tuple[str, ...]]:
    """Return one row per attack and judge, as `TABLE1_COLUMNS`, in per cent.

    Published figures read ``NQ / HotpotQA / MS-MARCO``.
    """
    for (attack, judge), figures in cells.items():
        yield (
            attack.value,
            judge.value,
            *(percent(share) for share in (figures.dacc, figures.fpr, figures.fnr)),
            f"{figures.judged:,}",
            *(table1_published(attack, judge, name) for name in PublishedFigures._fields),
        )


def table6_rows(cells: Mapping[tuple[Attack, str], DefenceResult]) -> Iterator[tuple[str, ...]]:
    """Return one row per attack and defence, as `TABLE6_COLUMNS`, in per cent.

    Published rates read ``NQ / HotpotQA / MS-MARCO``.
    """
    for (attack, defence), result in cells.items():
        yield (
            attack.value,
            defence,
            percent(CountedShare(result.attacked, result.queries)),
            percent(CountedShare(result.right, result.queries)),
            f"{result.failed:,}",
            table6_published(attack, defence, 0),
            table6_published(attack, defence, 1),
        )


def percent(share: CountedShare) -> str:
    """Return a share like ``98.0 [96.1, 99.0]``, in per cent; empty for no cases."""
    low, high = share.interval
    return f"{100 * share.rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]" if share.n else ""


def table1_published(attack: Attack, judge: EvaluatedJudge, metric: str) -> str:
    """Return the published figures of the three data sets, RAGForensics' for the embedded judge.

    The text is empty if there are none.
    """
    compared = EvaluatedJudge.LLM if judge is EvaluatedJudge.EMBEDDED else judge
    published = [PUBLISHED.get((data, attack, compared)) for data in DATA_SETS]
    return " / ".join(f"{getattr(cell, metric):.1f}" for cell in published if cell)


def table6_published(attack: Attack, defence: str, column: int) -> str:
    """Return the published ASR (column 0) or ACC (1) of the three data sets; empty if there are none."""
    name = "poisonedrag-w" if attack is Attack.HOTFLIP else attack.value
    published = [PUBLISHED_RATES.get((data.casefold().replace("-", ""), name), {}).get(defence) for data in DATA_SETS]
    return " / ".join(f"{100 * cell[column]:.0f}" for cell in published if cell)


def table1_metrics(cells: Mapping[tuple[Attack, EvaluatedJudge], TraceFigures]) -> dict[str, float]:
    """Return metrics for MLflow, such as ``bare/ppl-90/dacc``."""
    return {
        f"{attack.value}/{judge.value}/{name}": value
        for (attack, judge), figures in cells.items()
        for name, value in figure_metrics(figures).items()
    }


def table6_metrics(cells: Mapping[tuple[Attack, str], DefenceResult]) -> dict[str, float]:
    """Return metrics for MLflow, such as ``bare/ptr/asr``."""
    return {
        f"{attack.value}/{defence.replace('+', '_')}/{name}": value
        for (attack, defence), result in cells.items()
        for name, value in (("asr", result.asr), ("acc", result.acc))
    }


def figure_metrics(figures: TraceFigures) -> dict[str, float]:
    """Return the figures of one attack and judge as metrics."""
    return {
        "dacc": figures.dacc.rate,
        "fpr": figures.fpr.rate,
        "fnr": figures.fnr.rate,
        "judged": figures.judged,
        "seconds_per_suspect": figures.judge_seconds / figures.judged if figures.judged else 0.0,
        "iterations_mean": figures.iterations / figures.queries if figures.queries else 0.0,
    }


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
