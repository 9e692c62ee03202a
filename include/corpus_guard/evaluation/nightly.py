"""A night of traces as a run in MLflow: counts, seconds, how the judge fared on its canaries, and how far it drifted from the past week.

Nothing of a text, a question or an answer is logged: ids, hashes, scores and counts.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from corpus_guard.evaluation import drawing
from corpus_guard.evaluation.measures import BINS, histogram
from corpus_guard.evaluation.tracking import log_run
from corpus_guard.ledger.tables import suspects, traces
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import Label
from corpus_guard.traceback.verdict import Outcome

if TYPE_CHECKING:
    from corpus_guard.ledger import Ledger
    from corpus_guard.traceback.canaries import Seen

EXPERIMENT = "corpus-guard/traceback-nightly"
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Night:
    """What was traced, tonight or in the nights before."""

    traces: tuple[
        Mapping[str, Any], ...
    ]  # trace_id, report_id, judge, outcome, ended, iterations, seconds, counts, activations
    scores: Mapping[Label, tuple[float, ...]]  # of every text that was judged, 0..1

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcome → reports, with all outcomes there are."""
        counted = Counter(one["outcome"] for one in self.traces)
        return {outcome.value: counted[outcome.value] for outcome in Outcome}

    @property
    def heard(self) -> dict[str, int]:
        """Vote of the activations → reports; and how many votes counted, and how many verdicts they made undecided."""
        votes = [one.get("activations") or {} for one in self.traces]
        counted = Counter(one.get("vote", "skipped") for one in votes)
        told = {f"activations_{vote}": counted[vote] for vote in ("poisoned", "clean", "unsure", "skipped")}
        against = [
            one for one in self.traces if (one.get("activations") or {}).get("counts") and one["outcome"] == "undecided"
        ]
        return {
            **told,
            "activations_counted": sum(bool(one.get("counts")) for one in votes),
            "activations_contradicted": len(against),
        }

    @property
    def texts(self) -> int:
        """How many were judged."""
        return sum(map(len, self.scores.values()))

    @property
    def seconds(self) -> float:
        """Of all traces together."""
        return float(sum(one["seconds"] for one in self.traces))

    @property
    def figures(self) -> dict[str, float]:
        """What can be compared between nights; empty where nothing was traced."""
        if not self.traces:
            return {}
        every = [score for scores in self.scores.values() for score in scores]
        shares = {f"share_{name}": count / len(self.traces) for name, count in self.outcomes.items()}
        return {
            **shares,
            "score_mean": sum(every) / len(every) if every else 0.0,
            "share_of_texts_poisoned": len(self.scores[Label.POISONED]) / max(self.texts, 1),
            "iterations_mean": sum(one["iterations"] for one in self.traces) / len(self.traces),
            "seconds_per_report": self.seconds / len(self.traces),
            "seconds_per_suspect": self.seconds / max(self.texts, 1),
        }


def night_of(ledger: Ledger, run_id: str) -> Night:
    """What one run traced."""
    return _read(ledger, traces.c.run_id == run_id, traces.c.outcome.is_not(None))


def week_before(ledger: Ledger, run_id: str) -> Night:
    """What other runs of the same DAG traced in the week before this run began."""
    kind = run_id.partition("/")[0]
    with ledger.read() as connection:
        began = connection.scalar(sa.select(sa.func.min(traces.c.started_at)).where(traces.c.run_id == run_id))
    if began is None:
        return Night((), dict.fromkeys(Label, ()))
    return _read(
        ledger,
        traces.c.run_id.startswith(f"{kind}/", autoescape=True),
        traces.c.run_id != run_id,
        traces.c.finished_at.between(began - WEEK, began),
    )


def track(
    settings: Settings,
    ledger: Ledger,
    run_id: str,
    *,
    left: int,
    seen: Seen | None,
    used: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """Log a night. Returns the run's id in MLflow.

    Args:
        settings: whose home holds the runs where no server is named.
        ledger: of the traces.
        run_id: of the night.
        left: reports that wait for another night.
        seen: how the judge fared on its canaries; None: they were not followed.
        used: what the judge's endpoint was asked and took; empty where it asks none.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    tonight, week = night_of(ledger, run_id), week_before(ledger, run_id)
    metrics = metrics_of(tonight, week, left, seen, used)
    judges = sorted({str(one["judge"]) for one in tonight.traces})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = {
            "traces": [dict(one) for one in tonight.traces],
            "canaries": asdict(seen) if seen else None,
            "judge_endpoint": dict(used) or None,
        }
        (folder / "night.json").write_bytes(orjson.dumps(table, option=orjson.OPT_INDENT_2))
        draw(tonight, week, folder)
        params = {"run_id": run_id, "judge": ", ".join(judges)[:500], "nights_compared": _nights(week)}
        return log_run(settings, EXPERIMENT, params=params, metrics=metrics, artifacts=folder)


def metrics_of(
    tonight: Night, week: Night, left: int, seen: Seen | None, used: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """Name → value; `drift_…` is tonight's figure less that of the past week, `judge_endpoint_…` what it took, where there is one."""
    metrics = {name: float(count) for name, count in tonight.outcomes.items()}
    metrics |= {f"texts_{label.value}": float(len(scores)) for label, scores in tonight.scores.items()}
    metrics |= {"reports": float(len(tonight.traces)), "left": float(left), "seconds": tonight.seconds}
    metrics |= {name: float(count) for name, count in tonight.heard.items()}
    metrics |= tonight.figures
    metrics |= {f"judge_endpoint_{name}": float(count) for name, count in used.items()}
    if week.traces:
        metrics |= {f"drift_{name}": value - week.figures[name] for name, value in tonight.figures.items()}
    if seen:
        metrics |= {"canary_dacc": seen.dacc, "canary_fpr": seen.fpr, "canary_fnr": seen.fnr}
        metrics |= {
            f"canary_{name}": float(getattr(seen, name))
            for name in ("poisoned", "benign", "undecided", "honest", "honest_accused")
        }
    return metrics


def draw(tonight: Night, week: Night, folder: Path) -> list[Path]:
    """Draw ``outcomes.png`` and ``scores.png`` into `folder`; none where nothing was traced."""
    if not tonight.traces:
        return []
    return [_outcomes(tonight, week, folder / "outcomes.png"), _scores(tonight, folder / "scores.png")]


def _outcomes(tonight: Night, week: Night, path: Path) -> Path:
    figure, axes = drawing.axes("How reports ended, as a share of all")
    names = [outcome.value for outcome in Outcome]
    compared = [("tonight", tonight)] + ([("the week before", week)] if week.traces else [])
    width = 0.8 / len(compared)
    for place, (label, night) in enumerate(compared):
        shares = [night.figures[f"share_{name}"] for name in names]
        places = [number + place * width for number in range(len(names))]
        axes.bar(places, shares, width, align="edge", label=f"{label} ({len(night.traces):,})")
    axes.set_xticks([number + 0.4 for number in range(len(names))], [name.replace("_", " ") for name in names])
    axes.set(ylim=(0, 1), ylabel="share of reports")
    axes.legend(fontsize="small")
    figure.savefig(path)
    return path


def _scores(tonight: Night, path: Path) -> Path:
    figure, axes = drawing.axes("Scores of the judged texts, by what was said of them in the end")
    places = [(number + 0.5) / BINS for number in range(BINS)]
    for label, scores in tonight.scores.items():
        if scores:
            axes.bar(places, histogram(list(scores)), 0.9 / BINS, alpha=0.6, label=f"{label.value} ({len(scores):,})")
    axes.set_yscale("symlog")
    axes.set(xlabel="score", ylabel="texts", xlim=(0, 1))
    axes.legend(fontsize="small")
    figure.savefig(path)
    return path


def _read(ledger: Ledger, *conditions: sa.ColumnElement[bool]) -> Night:
    names = (
        "trace_id",
        "report_id",
        "run_id",
        "judge",
        "outcome",
        "ended",
        "iterations",
        "seconds",
        "counts",
        "activations",
    )
    summary = sa.select(*(traces.c[name] for name in names)).where(*conditions).order_by(traces.c.trace_id)
    joined = (
        sa.select(suspects.c.label, suspects.c.score)
        .join(traces, traces.c.trace_id == suspects.c.trace_id)
        .where(*conditions)
    )
    with ledger.read() as connection:
        found = [{name: row[name] for name in names} for row in connection.execute(summary).mappings()]
        scores: dict[Label, list[float]] = {label: [] for label in Label}
        for label, score in connection.execute(joined):
            scores[Label(label)].append(score)
    return Night(tuple(found), {label: tuple(values) for label, values in scores.items()})


def _nights(week: Night) -> int:
    return len({one["run_id"] for one in week.traces})
