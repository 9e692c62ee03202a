"""What an evaluation found, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpus_guard.evaluation.measures import Tally
from corpus_guard.evaluation.samples import Half
from corpus_guard.evaluation.screening.experiment import Figure, Plan, Result, title
from corpus_guard.evaluation.screening.protocols import MEANING
from corpus_guard.evaluation.screening.targets import LANGUAGE_MODEL_SHARE, RULE_TIER
from corpus_guard.evaluation.screening.throughput import Proof, Throughput

FORMAT = "screening-evaluation/v1"


def as_dict(result: Result, plan: Plan, screeners: Sequence[str], **more: Any) -> dict[str, Any]:
    """JSON-ready: counts, intervals, finding codes, risk histograms and curves; no text.

    Args:
        result: of the run.
        plan: it followed.
        screeners: names, ours first.
        more: further sections (policy, models, throughput, …).
    """
    curves = result.curves(screeners[0])
    return {
        "format": FORMAT,
        "seed": plan.seed,
        "sample": plan.sample,
        "halves": [half.value for half in plan.halves],
        "screeners": list(screeners),
        "skipped": {protocol.value: reason for protocol, reason in result.skipped.items()},
        "lines": [figure.as_dict() for figure in result.figures],
        "roc": {
            name: {"auc": curve.auc, "fpr": list(curve.false_positives), "tpr": list(curve.true_positives)}
            for name, curve in curves.items()
        },
        **more,
    }


COLUMNS = ("slice", "caught", "rate", "95 %", "tuning", "target", "")


def rows(figures: Sequence[Figure], screeners: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """One row a line: `COLUMNS`, and before the target the rate of every screener after the first."""
    ours, *peers = screeners
    for figure in figures:
        counted = figure.headline(ours)
        yield (
            title(figure.line),
            f"{counted.caught:,} / {counted.n:,}" if counted else "",
            percent(counted),
            interval(counted),
            percent(figure.tallies[ours].get(Half.TUNING)),
            *(percent(figure.headline(peer)) for peer in peers),
            str(figure.target or ""),
            {True: "met", False: "missed", None: ""}[figure.met(ours)],
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Ready to be shown; cells are plain text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(result: Result, screeners: Sequence[str]) -> Iterator[Table]:
    """Attacks and clean texts of each protocol that was run."""
    for protocol, meaning in MEANING.items():
        for attack, what in ((True, "attacks caught"), (False, "clean texts held back")):
            chosen = [one for one in result.figures if one.protocol is protocol and one.line.attack is attack]
            if chosen:
                columns = (*COLUMNS[:-2], *screeners[1:], *COLUMNS[-2:])
                yield Table(f"{protocol}: {what} ({meaning})", columns, tuple(rows(chosen, screeners)))


def demands(throughput: Throughput | None, proof: Proof | None) -> Iterator[tuple[str, str, str, bool]]:
    """(what, found, bound, met) of what is asked beside rates."""
    if throughput:
        tier, share = throughput.rule_tier, throughput.scored_share
        yield "rule tier, chunks a second and core", f"{tier:,.0f}", f"≥ {RULE_TIER:,}", tier >= RULE_TIER
        bound = LANGUAGE_MODEL_SHARE
        yield "clean chunks the language model scores", f"{share:.1%}", f"≤ {bound:.0%}", share <= bound
    if proof:
        differing = sum(proof.differing.values())
        yield "verdicts that scoring every chunk changes", f"{differing:,} of {proof.documents:,}", "0", proof.equal


def interval(counted: Tally | None) -> str:
    """``96.1–99.0``, in per cent."""
    if not counted or not counted.n:
        return ""
    low, high = counted.interval
    return f"{100 * low:.1f}–{100 * high:.1f}"


def percent(counted: Tally | None) -> str:
    """``98.0 %``."""
    return f"{100 * counted.rate:.1f} %" if counted and counted.n else ""


def metrics(result: Result, screener: str) -> Mapping[str, float]:
    """Names and values as MLflow takes them: ``siblings/poisonedrag_nq/question_text/recall``."""
    found = {}
    for figure in result.figures:
        line = figure.line
        name = "/".join(_plain(part) for part in (figure.protocol.value, line.slice, line.form.value))
        for half, counted in figure.tallies[screener].items():
            found[f"{name}/{'recall' if line.attack else 'quarantined'}/{half.value}"] = counted.rate
    for name, curve in result.curves(screener).items():
        found[f"auc/{_plain(name)}"] = curve.auc
    return found


def _plain(text: str) -> str:
    # MLflow allows letters, digits, underscores, dashes, periods, spaces, colons and slashes.
    return "_".join("".join(c if c.isascii() and (c.isalnum() or c in "-.") else " " for c in text).split())
