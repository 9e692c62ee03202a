"""Published figures of RAGForensics, in per cent, as printed.

The paper judged with GPT-4o-mini, and its baselines used that model and Llama-2-7b; it drew 50 questions per
attack, with K = M = 5, and retrieved with Contriever. Its figures show what to expect of a large model in another
setting, not what these judges should reach. Some figures of the perplexity baselines on HotpotQA contradict each
other. Figures 2 to 4 are drawn without numbers; the paper calls them consistent from M = 5 to 40.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from corpus_guard.attacks.adaptive import AdaptiveAttack
from corpus_guard.detectors.planting import Attack
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge


class PublishedFigures(NamedTuple):
    """DACC, FPR and FNR of a cell, in per cent."""

    dacc: float
    fpr: float
    fnr: float


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
_TABLE_1: Final[Mapping[tuple[str, Attack], tuple[tuple[float, ...], ...]]] = {
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
PUBLISHED: Final[Mapping[tuple[str, Attack, EvaluatedJudge], PublishedFigures]] = {
    (data, attack, judge): PublishedFigures(*values)
    for (data, attack), rows in _TABLE_1.items()
    for judge, *values in zip(_JUDGES, *rows, strict=True)
}
"""Table 1: (data set, attack, judge) → figures; RAGForensics, with GPT-4o-mini, is listed as the judge `llm`."""

PUBLISHED_MODELS: Final[Mapping[tuple[str, Attack], str]] = {
    ("NQ", _B): "97.4 / 4.1 / 1.2; 99.4 / 0.8 / 0.4",
    ("NQ", _W): "99.6 / 0.4 / 0.4; 99.6 / 0.0 / 0.8",
    ("NQ", _I): "97.5 / 5.0 / 0.0; 98.0 / 0.8 / 3.2",
    ("HotpotQA", _B): "98.6 / 0.8 / 2.0; 98.4 / 0.0 / 3.2",
    ("HotpotQA", _W): "98.4 / 0.4 / 2.8; 99.0 / 0.0 / 2.0",
    ("HotpotQA", _I): "98.6 / 2.7 / 0.0; 97.4 / 2.0 / 3.2",
    ("MS-MARCO", _B): "98.6 / 0.4 / 2.4; 98.6 / 1.2 / 1.6",
    ("MS-MARCO", _W): "98.6 / 0.8 / –; 99.2 / 0.8 / 0.8",  # one figure cannot be read in our copy
    ("MS-MARCO", _I): "99.2 / 1.6 / 0.0; 95.4 / 1.6 / 7.6",
}
"""Tables 2 and 5: GPT-4-turbo; GPT-4o. GPT-4o-mini's are those of Table 1."""

_DECEIVE, _DISGUISE = AdaptiveAttack.DECEIVE, AdaptiveAttack.DISGUISE
PUBLISHED_ADAPTIVE: Final[Mapping[tuple[str, Attack, AdaptiveAttack], tuple[float, PublishedFigures]]] = {
    (data, attack, adaptive): (asr, PublishedFigures(*figures))
    for data, attack, adaptive, asr, *figures in (
        ("NQ", _B, _DECEIVE, 72.0, 99.5, 1.1, 0.0),
        ("NQ", _W, _DECEIVE, 78.0, 98.5, 3.0, 0.0),
        ("NQ", _I, _DECEIVE, 66.0, 99.1, 1.8, 0.0),
        ("HotpotQA", _B, _DECEIVE, 80.0, 97.3, 3.4, 2.0),
        ("HotpotQA", _W, _DECEIVE, 92.0, 98.2, 1.3, 2.3),
        ("HotpotQA", _I, _DECEIVE, 72.0, 99.0, 2.1, 0.0),
        ("MS-MARCO", _B, _DECEIVE, 58.0, 99.7, 0.7, 0.0),
        ("MS-MARCO", _W, _DECEIVE, 82.0, 98.8, 2.4, 0.0),
        ("MS-MARCO", _I, _DECEIVE, 40.0, 99.0, 2.0, 0.0),
        ("NQ", _B, _DISGUISE, 54.0, 97.5, 4.3, 0.7),
        ("NQ", _W, _DISGUISE, 80.0, 99.5, 1.0, 0.0),
        ("NQ", _I, _DISGUISE, 74.0, 99.5, 1.1, 0.0),
        ("HotpotQA", _B, _DISGUISE, 62.0, 96.4, 2.6, 4.7),
        ("HotpotQA", _W, _DISGUISE, 98.0, 98.2, 1.3, 2.5),
        ("HotpotQA", _I, _DISGUISE, 64.0, 98.5, 2.4, 0.6),
        ("MS-MARCO", _B, _DISGUISE, 56.0, 98.0, 4.0, 0.0),
        ("MS-MARCO", _W, _DISGUISE, 94.0, 98.2, 3.6, 0.0),
        ("MS-MARCO", _I, _DISGUISE, 48.0, 100.0, 0.0, 0.0),
    )
}
"""Tables 3 and 4: (data set, attack, adaptive attack) → ASR without a defence, and RAGForensics' figures."""

_DEFENCES: Final = ("none", "ppl-90", "ppl-100", "robustrag", "ke-10", "ke-20", "ke-50", "ptr", "ptr+bte")
PUBLISHED_RATES: Final[Mapping[tuple[str, Attack], Mapping[str, tuple[int, int]]]] = {
    (data, attack): dict(zip(_DEFENCES, zip(asrs, accs, strict=True), strict=True))
    for data, attack, asrs, accs in (
        ("NQ", _B, (100, 98, 100, 50, 84, 78, 72, 0, 0), (0, 0, 0, 46, 8, 16, 20, 52, 100)),
        ("NQ", _W, (100, 100, 100, 44, 86, 76, 72, 0, 0), (0, 0, 0, 52, 10, 20, 28, 56, 100)),
        ("NQ", _I, (100, 98, 100, 28, 82, 80, 72, 0, 0), (0, 0, 0, 66, 6, 10, 14, 52, 100)),
        ("HotpotQA", _B, (100, 64, 100, 80, 82, 84, 82, 6, 0), (0, 16, 0, 14, 12, 12, 14, 54, 98)),
        ("HotpotQA", _W, (100, 6, 94, 82, 82, 80, 84, 12, 0), (0, 50, 6, 14, 14, 16, 14, 46, 98)),
        ("HotpotQA", _I, (100, 4, 96, 54, 86, 82, 82, 6, 0), (0, 54, 0, 40, 8, 10, 10, 40, 96)),
        ("MS-MARCO", _B, (100, 62, 100, 38, 72, 64, 56, 0, 0), (0, 32, 0, 60, 26, 34, 36, 80, 100)),
        ("MS-MARCO", _W, (100, 0, 70, 36, 76, 68, 66, 0, 0), (0, 80, 22, 62, 22, 30, 34, 80, 100)),
        ("MS-MARCO", _I, (100, 0, 28, 14, 60, 52, 52, 0, 0), (0, 82, 58, 82, 32, 44, 46, 84, 100)),
    )
}
"""Table 6: (data set, attack) → defence → ASR and ACC, with GPT-4o-mini."""
