"""One MLflow run per night of traces.

It holds counts, durations, the judge's canary results, and the drift from the past week.

Nothing of a text, a question or an answer is logged: only ids, hashes, scores and counts.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypedDict, cast

import orjson
import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.ledger.tables import suspects, traces
from corpus_guard.settings import Settings
from corpus_guard.traceback.replays import compare_replays, count_replays
from corpus_guard.tracking import plots
from corpus_guard.tracking.measures import BINS, histogram
from corpus_guard.tracking.mlflow_runs import log_run

if TYPE_CHECKING:
    from corpus_guard.traceback.canaries import JudgeCanaryResult

EXPERIMENT = "corpus-guard/traceback-nightly"
WEEK = timedelta(days=7)
_NO_USAGE: Final[Mapping[str, float]] = MappingProxyType({})
_NO_REPLAYS: Final[Mapping[str, int]] = MappingProxyType({})


class ActivationVote(TypedDict, total=False):
    """Vote of the activation probe on one trace, as the ledger stores it."""

    vote: str
    counts: bool  # beside the judge's verdict


class TraceSummary(TypedDict):
    """Row of a finished trace."""

    trace_id: str
    report_id: str
    run_id: str
    judge: str
    outcome: str
    ended: str
    iterations: int
    seconds: float
    counts: Mapping[str, int]
    activations: ActivationVote | None
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class TracebackNight:
    """Finished traces of one night, or of several."""

    traces: tuple[TraceSummary, ...]
    scores: Mapping[Label, tuple[float, ...]]  # of every text that was judged, 0..1

    @property
    def outcomes(self) -> dict[str, int]:
        """Return the number of reports by outcome; every outcome is listed."""
        counted = Counter(trace["outcome"] for trace in self.traces)
        return {outcome.value: counted[outcome.value] for outcome in TraceOutcome}

    @property
    def activation_votes(self) -> dict[str, int]:
        """Return the number of reports by the probe's vote.

        Also returned are the votes that counted, and the verdicts that they made undecided.
        """
        votes = [trace["activations"] or {} for trace in self.traces]
        counted = Counter(vote.get("vote", "skipped") for vote in votes)
        contradicted = [
            trace
            for trace in self.traces
            if (trace["activations"] or {}).get("counts") and trace["outcome"] == TraceOutcome.UNDECIDED
        ]
        return {
            **{f"activations_{name}": counted[name] for name in ("poisoned", "clean", "unsure", "skipped")},
            "activations_counted": sum(bool(vote.get("counts")) for vote in votes),
            "activations_contradicted": len(contradicted),
        }

    @property
    def texts(self) -> int:
        """Return how many texts were judged."""
        return sum(map(len, self.scores.values()))

    @property
    def seconds(self) -> float:
        """Return the seconds that all traces took together."""
        return float(sum(trace["seconds"] for trace in self.traces))

    @property
    def figures(self) -> dict[str, float]:
        """Return the figures that nights are compared by; empty if nothing was traced."""
        if not self.traces:
            return {}
        all_scores = [score for scores in self.scores.values() for score in scores]
        shares = {f"share_{name}": count / len(self.traces) for name, count in self.outcomes.items()}
        return {
            **shares,
            "score_mean": sum(all_scores) / len(all_scores) if all_scores else 0.0,
            "share_of_texts_poisoned": len(self.scores[Label.POISONED]) / max(self.texts, 1),
            "iterations_mean": sum(trace["iterations"] for trace in self.traces) / len(self.traces),
            "seconds_per_report": self.seconds / len(self.traces),
            "seconds_per_suspect": self.seconds / max(self.texts, 1),
        }


def read_night(ledger: Ledger, run_id: str) -> TracebackNight:
    """Return the traces of one run."""
    return _read(ledger, traces.c.run_id == run_id, traces.c.outcome.is_not(None))


def read_past_week(ledger: Ledger, run_id: str) -> TracebackNight:
    """Return the traces of the same DAG's other runs in the week before this run began."""
    dag_id = run_id.partition("/")[0]
    began = ledger.scalar(sa.select(sa.func.min(traces.c.started_at)).where(traces.c.run_id == run_id))
    if began is None:
        return TracebackNight((), dict.fromkeys(Label, ()))
    return _read(
        ledger,
        traces.c.run_id.startswith(f"{dag_id}/", autoescape=True),
        traces.c.run_id != run_id,
        traces.c.finished_at.between(began - WEEK, began),
    )


def log_night(
    settings: Settings,
    ledger: Ledger,
    run_id: str,
    *,
    open_reports: int,
    canaries: JudgeCanaryResult | None,
    endpoint_usage: Mapping[str, float] = _NO_USAGE,
    note: str = "",
) -> str:
    """Log a night, and return the run's id in MLflow.

    Args:
        canaries: the judge's results on its canaries; None: they were not traced.
        endpoint_usage: requests, tokens and seconds of the judge's endpoint; empty if it asks none.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    tonight, week = read_night(ledger, run_id), read_past_week(ledger, run_id)
    replays = count_replays(compare_replays(ledger, run_id))
    metrics = night_metrics(tonight, week, open_reports, canaries, endpoint_usage, replays)
    judges = sorted({trace["judge"] for trace in tonight.traces})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = {
            "traces": tonight.traces,
            "canaries": asdict(canaries) if canaries else None,
            "judge_endpoint": dict(endpoint_usage) or None,
        }
        (folder / "night.json").write_bytes(orjson.dumps(table, option=orjson.OPT_INDENT_2))
        if tonight.traces:
            _draw_outcomes(tonight, week, folder / "outcomes.png")
            _draw_scores(tonight, folder / "scores.png")
            _draw_history(tonight, week, folder / "history.png")
        params = {
            "run_id": run_id,
            "judge": ", ".join(judges)[:500],
            "nights_compared": len({trace["run_id"] for trace in week.traces}),
        }
        return log_run(
            settings,
            EXPERIMENT,
            name=_run_name(tonight, replays),
            params=params,
            metrics=metrics,
            artifacts=folder,
            note=note,
        )


def night_metrics(
    tonight: TracebackNight,
    week: TracebackNight,
    open_reports: int,
    canaries: JudgeCanaryResult | None,
    endpoint_usage: Mapping[str, float] = _NO_USAGE,
    replays: Mapping[str, int] = _NO_REPLAYS,
) -> dict[str, float]:
    """Return the metrics of a night.

    ``replays_…`` are the reports that were traced before, by what became of them; ``drift_…`` is tonight's figure minus
    that of the past week; ``judge_endpoint_…`` is what the judge's endpoint used, if any.
    """
    metrics = {name: float(count) for name, count in tonight.outcomes.items()}
    metrics |= {f"texts_{label.value}": float(len(scores)) for label, scores in tonight.scores.items()}
    metrics |= {"reports": float(len(tonight.traces)), "left": float(open_reports), "seconds": tonight.seconds}
    metrics |= {name: float(count) for name, count in tonight.activation_votes.items()}
    metrics |= tonight.figures
    metrics |= {f"judge_endpoint_{name}": float(count) for name, count in endpoint_usage.items()}
    metrics |= {f"replays_{name}": float(count) for name, count in replays.items()}
    if week.traces:
        metrics |= {f"drift_{name}": value - week.figures[name] for name, value in tonight.figures.items()}
    if canaries:
        metrics |= {"canary_dacc": canaries.dacc, "canary_fpr": canaries.fpr, "canary_fnr": canaries.fnr}
        metrics |= {
            f"canary_{name}": float(getattr(canaries, name))
            for name in ("poisoned", "benign", "undecided", "honest", "honest_accused")
        }
    return metrics


def _run_name(tonight: TracebackNight, replays: Mapping[str, int]) -> str:
    """Return the name of a run, its date and its results: ``2026-11-22: 3 traced, 1 regressed``."""
    traced = tonight.outcomes[TraceOutcome.TRACED]
    days = sorted(trace["finished_at"].date().isoformat() for trace in tonight.traces if trace["finished_at"])
    regressed = f", {replays['regressed']:,} regressed" if replays.get("regressed") else ""
    return f"{days[-1] if days else 'empty'}: {len(tonight.traces):,} reports, {traced:,} traced{regressed}"


def _draw_outcomes(tonight: TracebackNight, week: TracebackNight, path: Path) -> None:
    from matplotlib.patches import Patch

    figure, axes = plots.new_figure("How reports ended, as a share of all")
    names = [outcome.value for outcome in TraceOutcome]
    compared = [("tonight", tonight, 1.0)] + ([("the week before", week, 0.45)] if week.traces else [])
    width = 0.8 / len(compared)
    for place, (_, night, alpha) in enumerate(compared):
        shares = [night.figures[f"share_{name}"] for name in names]
        places = [number + place * width for number in range(len(names))]
        bars = axes.bar(
            places, shares, width, align="edge", alpha=alpha,
            color=[plots.OUTCOME_COLOURS[name] for name in names],
        )  # fmt: skip
        axes.bar_label(bars, [f"{share:.0%}" if share else "" for share in shares], fontsize="small")
    axes.set_xticks([number + 0.4 for number in range(len(names))], [name.replace("_", " ") for name in names])
    axes.set(ylim=(0, 1.08), ylabel="share of reports")
    # Gray, because each outcome has a colour of its own: a bar's would name only the first.
    keys = [
        Patch(color="gray", alpha=alpha, label=f"{label} ({len(night.traces):,})") for label, night, alpha in compared
    ]
    axes.legend(handles=keys, fontsize="small")
    figure.savefig(path)


def _draw_scores(tonight: TracebackNight, path: Path) -> None:
    """Draw how many texts have which score, with a line at the lowest score that was called poisoned."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = plots.new_figure("Scores of the judged texts, by final label")
    places = [(number + 0.5) / BINS for number in range(BINS)]
    below = [0.0] * BINS
    for label in (Label.BENIGN, Label.UNDECIDED, Label.POISONED):
        scores = tonight.scores[label]
        if scores:
            counts = histogram(list(scores))
            axes.bar(
                places, counts, 0.9 / BINS, bottom=below, color=plots.LABEL_COLOURS[label],
                label=f"{label.value} ({len(scores):,})",
            )  # fmt: skip
            below = [low + count for low, count in zip(below, counts, strict=True)]
    if tonight.scores[Label.POISONED]:
        threshold = min(tonight.scores[Label.POISONED])
        axes.axvline(threshold, color="black", linestyle="--", label=f"lowest poisoned: {threshold:.2f}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="score: how likely the text is poisoned", ylabel="texts", xlim=(0, 1))
    axes.legend(fontsize="small")
    figure.savefig(path)


def _draw_history(tonight: TracebackNight, week: TracebackNight, path: Path) -> None:
    """Draw the reports of each night by how they ended, a stack for each."""
    from matplotlib.ticker import MaxNLocator

    nights: dict[str, list[TraceSummary]] = {}
    ended = [trace for trace in (*week.traces, *tonight.traces) if trace["finished_at"]]
    for trace in sorted(ended, key=lambda trace: trace["finished_at"]):
        nights.setdefault(trace["run_id"], []).append(trace)
    figure, axes = plots.new_figure("Reports of each night, by how they ended")
    days = [members[-1]["finished_at"].strftime("%d %b") for members in nights.values()]
    below = [0] * len(nights)
    for outcome in TraceOutcome:
        counts = [sum(trace["outcome"] == outcome for trace in members) for members in nights.values()]
        if any(counts):
            label = outcome.value.replace("_", " ")
            axes.bar(range(len(nights)), counts, 0.6, bottom=below, label=label, color=plots.OUTCOME_COLOURS[outcome])
            below = [low + count for low, count in zip(below, counts, strict=True)]
    axes.set_xticks(range(len(nights)), days, rotation=0 if len(days) < 8 else 60)
    axes.set_xlim(-1, max(len(nights), 4))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="night (UTC)", ylabel="reports")
    axes.legend(fontsize="small")
    figure.savefig(path)


def _read(ledger: Ledger, *conditions: sa.ColumnElement[bool]) -> TracebackNight:
    names = tuple(TraceSummary.__annotations__)
    summaries = sa.select(*(traces.c[name] for name in names)).where(*conditions).order_by(traces.c.trace_id)
    joined = (
        sa.select(suspects.c.label, suspects.c.score)
        .join(traces, traces.c.trace_id == suspects.c.trace_id)
        .where(*conditions)
    )
    with ledger.read() as connection:
        # Not dict(row): its keys are SQLAlchemy's own kind of string, which orjson refuses.
        rows = tuple(
            cast("TraceSummary", {name: row[name] for name in names})
            for row in connection.execute(summaries).mappings()
        )
        scores: dict[Label, list[float]] = {label: [] for label in Label}
        for label, score in connection.execute(joined):
            scores[Label(label)].append(score)
    return TracebackNight(rows, {label: tuple(values) for label, values in scores.items()})
