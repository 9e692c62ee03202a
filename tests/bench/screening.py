"""Screening and two peers on the same texts, where the environment variable CORPUS_GUARD_DATA names a folder that holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.bench import peers

from corpus_guard.detectors.samples import Half
from corpus_guard.evaluation.screening.evaluation import ScreeningEvaluation, ScreeningRequest, evaluate_screening
from corpus_guard.evaluation.screening.experiment import ScreeningPlan
from corpus_guard.models import Models
from corpus_guard.settings import Settings

DATA = "CORPUS_GUARD_DATA"
POISON = (
    "poisonedrag_nq",
    "poisonedrag_hotpotqa",
    "revprag_nq",
    "revprag_hotpotqa",
    "whitebox_hotflip",
    "attack_variants",
    "injection_eval",
    "bipia_embedded",
)
CLEAN = (
    "clean_retrieved_corpus",
    "clean_wiki_corpus",
    "docs_markdown_corpus",
    "security_docs_hard_negatives",
    "injection_eval",
    "bipia_embedded",
)
SAMPLE, QUICK_SAMPLE = 200, 20  # texts of a slice and form


def compare(
    data: Path, folder: Path, models_home: Path, say: Callable[[str], None], *, quick: bool
) -> ScreeningEvaluation:
    """The guard and, where they can be installed, the peers.

    Args:
        data: JSONL files of these names; those that are missing are left out.
        folder: an empty one.
        models_home: home of prepared models.
        say: is told what is missing.
        quick: a small sample.
    """
    found = {
        side: tuple(data / f"{name}.jsonl" for name in names if (data / f"{name}.jsonl").is_file())
        for side, names in (("poison", POISON), ("clean", CLEAN))
    }
    settings = Settings(home=models_home)
    sample = QUICK_SAMPLE if quick else SAMPLE
    request = ScreeningRequest(
        found["poison"], found["clean"], ScreeningPlan(halves=(Half.VALIDATION, Half.WHOLE), sample=sample)
    )
    request = replace(request, timed=sample if quick else request.timed)
    try:
        with peers.running(folder, Models(settings)) as others:
            return evaluate_screening(settings, request, others)
    except peers.Unavailable as error:
        say(f"the peers are not measured: {error}")
        return evaluate_screening(settings, request)
