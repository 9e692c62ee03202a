"""Reports of a screening evaluation, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpus_guard.detectors.samples import Half
from corpus_guard.evaluation.screening.experiment import ScreeningPlan, ScreeningResult, SliceFigure, slice_title
from corpus_guard.evaluation.screening.protocols import PROTOCOL_MEANINGS
from corpus_guard.evaluation.screening.targets import MAX_LANGUAGE_MODEL_SHARE, MIN_RULE_TIER_CHUNKS
from corpus_guard.evaluation.screening.throughput import CascadeProof, Throughput
from corpus_guard.tracking.measures import Tally

FORMAT = "screening-evaluation/v1"


def as_dict(
    result: ScreeningResult, plan: ScreeningPlan, screeners: Sequence[str], **sections: object
) -> dict[str, object]:
    """Return counts, intervals, finding codes, risk histograms and curves for JSON, without texts.

    Args:
        screeners: names, ours first.
        sections: further sections (policy, models, throughput, …).
    """
    curves = result.curves(screeners[0])
    return {
        "format": FORMAT,
        "seed": plan.seed,
        "sample": plan.sample,
        "halves": [half.value for half in plan.halves],
        "screeners": list(screeners),
        "lines": [figure.as_dict() for figure in result.figures],
        "roc": {
            name: {"auc": curve.auc, "fpr": list(curve.false_positives), "tpr": list(curve.true_positives)}
            for name, curve in curves.items()
        },
        **sections,
    }


COLUMNS = ("slice", "caught", "rate", "95 %", "tuning", "target", "")


def table_rows(figures: Sequence[SliceFigure], screeners: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return one row per slice: `COLUMNS`, and before the target the rate of every further screener."""
    ours, *peers = screeners
    for figure in figures:
        counted = figure.headline(ours)
        yield (
            slice_title(figure.slice_key),
            f"{counted.caught:,} / {counted.n:,}" if counted else "",
            percent(counted),
            interval(counted),
            percent(figure.tallies[ours].get(Half.TUNING)),
            *(percent(figure.headline(peer)) for peer in peers),
            str(figure.target or ""),
            {True: "met", False: "missed", None: ""}[figure.met(ours)],
        )


@dataclass(frozen=True, slots=True)
class TextTable:
    """Table to print; cells are plain text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def report_tables(result: ScreeningResult, screeners: Sequence[str]) -> Iterator[TextTable]:
    """Return tables of attacks and of clean texts for each protocol that was run."""
    for protocol, meaning in PROTOCOL_MEANINGS.items():
        for attack, label in ((True, "attacks caught"), (False, "clean texts held back")):
            chosen = [
                figure for figure in result.figures if figure.protocol is protocol and figure.slice_key.attack is attack
            ]
            if chosen:
                columns = (*COLUMNS[:-2], *screeners[1:], *COLUMNS[-2:])
                yield TextTable(f"{protocol}: {label} ({meaning})", columns, tuple(table_rows(chosen, screeners)))


def report_demands(throughput: Throughput | None, proof: CascadeProof | None) -> Iterator[tuple[str, str, str, bool]]:
    """Return (demand, value, bound, met) for each demand beside the rates."""
    if throughput:
        tier, share = throughput.rule_tier, throughput.scored_share
        yield (
            "rule tier, chunks per second and core",
            f"{tier:,.0f}",
            f"≥ {MIN_RULE_TIER_CHUNKS:,}",
            tier >= MIN_RULE_TIER_CHUNKS,
        )
        bound = MAX_LANGUAGE_MODEL_SHARE
        yield "clean chunks the language model scores", f"{share:.1%}", f"≤ {bound:.0%}", share <= bound
    if proof:
        differing = sum(proof.differing.values())
        yield "verdicts that scoring every chunk changes", f"{differing:,} of {proof.documents:,}", "0", proof.equal


def interval(counted: Tally | None) -> str:
    """Return the interval like ``96.1–99.0``, in per cent; empty without texts."""
    if not counted or not counted.n:
        return ""
    low, high = counted.interval
    return f"{100 * low:.1f}–{100 * high:.1f}"


def percent(counted: Tally | None) -> str:
    """Return the rate like ``98.0 %``; empty without texts."""
    return f"{100 * counted.rate:.1f} %" if counted and counted.n else ""


def report_metrics(result: ScreeningResult, screener: str) -> Mapping[str, float]:
    """Return metrics for MLflow, such as ``siblings/poisonedrag_nq/question_text/recall/validation``."""
    metrics = {}
    for figure in result.figures:
        key = figure.slice_key
        name = "/".join(_metric_name(part) for part in (figure.protocol.value, key.slice, key.form.value))
        for half, counted in figure.tallies[screener].items():
            metrics[f"{name}/{'recall' if key.attack else 'quarantined'}/{half.value}"] = counted.rate
    for name, curve in result.curves(screener).items():
        metrics[f"auc/{_metric_name(name)}"] = curve.auc
    return metrics


def _metric_name(text: str) -> str:
    # MLflow allows letters, digits, underscores, dashes, periods, spaces, colons and slashes.
    return "_".join("".join(c if c.isascii() and (c.isalnum() or c in "-.") else " " for c in text).split())
