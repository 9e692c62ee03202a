"""Names of the judges and reports that can be evaluated. Importing this module is cheap."""

from __future__ import annotations

from enum import StrEnum


class EvaluatedJudge(StrEnum):
    """Judge by its name on the command line."""

    EMBEDDED = "embedded"
    LLM = "llm"
    PPL_100 = "ppl-100"
    PPL_90 = "ppl-90"
    EXPGEN = "expgen"
    RKM = "rkm"
    TKM = "tkm"
    POIFOR = "poifor"


class Events(StrEnum):
    """Origin of the reports that are traced."""

    REPORTS = "reports"  # every question's first wrong answer is reported
    RAG = "rag"  # answers of the RAG model that match the attacker's


BASELINE_JUDGES = tuple(name for name in EvaluatedJudge if name not in {EvaluatedJudge.EMBEDDED, EvaluatedJudge.LLM})
"""Judges that RAGForensics is compared with in its paper."""
