"""Evaluation of screening: read samples, run all trials, time the checks, log the result."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpus_guard.detectors.samples import Family, Half, Sample, read_samples
from corpus_guard.domain import Progress, TrustLevel, no_progress
from corpus_guard.evaluation.screening import plots, report
from corpus_guard.evaluation.screening.experiment import ScreeningPlan, ScreeningResult, run_trials
from corpus_guard.evaluation.screening.honest_pages import honest_page_samples
from corpus_guard.evaluation.screening.own_texts import carrier_samples, joiner_samples, override_samples
from corpus_guard.evaluation.screening.screener import GuardScreener, Screener
from corpus_guard.evaluation.screening.throughput import CascadeProof, Throughput, measure_throughput, prove_cascade
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.tracking.mlflow_runs import log_run

EXPERIMENT = "corpus-guard/screening"


@dataclass(frozen=True, slots=True)
class ScreeningRequest:
    """Options of an evaluation."""

    poison: tuple[Path, ...]
    clean: tuple[Path, ...]
    plan: ScreeningPlan = field(default_factory=ScreeningPlan)
    trust: TrustLevel = TrustLevel.OPEN
    own: bool = True  # also use the phrases, obfuscations, joiners and honest pages of this package
    timed: int = 1_000  # clean texts to time the checks on; 0: do not time
    proved: int = 0  # clean texts to prove the cascade on; 0: do not prove it
    checks: tuple[str, ...] = ()  # the only checks that judge, shadowed or not; empty: all, as the policy has them


@dataclass(frozen=True, slots=True)
class ScreeningEvaluation:
    """Figures of an evaluation."""

    request: ScreeningRequest
    result: ScreeningResult
    screeners: tuple[str, ...]  # ours first
    blank: int  # texts left out
    policy: str  # digest of the screening policy
    models: dict[str, str]  # role → digest
    throughput: Throughput | None = None
    proof: CascadeProof | None = None

    def as_dict(self) -> dict[str, object]:
        """Return all figures for JSON."""
        return report.as_dict(
            self.result,
            self.request.plan,
            self.screeners,
            blank_texts_left_out=self.blank,
            trust=self.request.trust.value,
            checks=list(self.request.checks),
            policy=self.policy,
            models=self.models,
            throughput=self.throughput.as_dict() if self.throughput else None,
            cascade=self.proof.as_dict() if self.proof else None,
        )


def evaluate_screening(
    settings: Settings, request: ScreeningRequest, peers: Sequence[Screener] = (), progress: Progress = no_progress
) -> ScreeningEvaluation:
    """Screen labelled texts and count.

    Raises:
        Misuse: a file or a row is wrong.
    """
    labelled = read_samples(request.poison, request.clean)
    samples = list(labelled.samples)
    if request.own:
        samples += [*override_samples(), *carrier_samples(), *joiner_samples(), *honest_page_samples()]
    plan = request.plan
    guard = GuardScreener(settings, request.trust, progress, request.checks)
    result = run_trials(samples, plan, [guard, *peers])
    honest = _honest_texts(samples, plan)
    progress("timing the checks", 0, None)
    models = Models(settings)
    return ScreeningEvaluation(
        request=request,
        result=result,
        screeners=(guard.name, *(peer.name for peer in peers)),
        blank=labelled.blank,
        policy=guard.policy_digest,
        models={"embedder": models.embedder_weights.digest, "language_model": models.language_model_digest},
        throughput=measure_throughput(settings, honest[: request.timed], request.trust)
        if request.timed and honest
        else None,
        proof=prove_cascade(settings, honest[: request.proved], request.trust) if request.proved and honest else None,
    )


def log_screening(settings: Settings, evaluation: ScreeningEvaluation) -> str:
    """Log an evaluation in MLflow, figures as metrics, plots and all JSON as artifacts; return the run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    ours = evaluation.screeners[0]
    plan, throughput = evaluation.request.plan, evaluation.throughput
    metrics = dict(report.report_metrics(evaluation.result, ours))
    speeds = {cost.check: cost.chunks_per_second for cost in throughput.costs if cost.chunks} if throughput else {}
    metrics |= {f"chunks_per_second/{check}": speed for check, speed in speeds.items()}
    if throughput:
        metrics |= {"chunks_per_second/rule_tier": throughput.rule_tier, "lm_share": throughput.scored_share}
    params = {
        "policy": evaluation.policy,
        **evaluation.models,
        "seed": plan.seed,
        "sample": plan.sample or "all",
        "trust": evaluation.request.trust.value,
        "checks": ", ".join(evaluation.request.checks) or "all",
        "files": ", ".join(path.name for path in (*evaluation.request.poison, *evaluation.request.clean))[:500],
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as name:
        folder = Path(name)
        (folder / "evaluation.json").write_text(json.dumps(evaluation.as_dict(), indent=1), encoding="utf-8")
        plots.draw_result(evaluation.result, ours, folder, speeds)
        return log_run(settings, EXPERIMENT, params=params, metrics=metrics, artifacts=folder)


def _honest_texts(samples: Sequence[Sample], plan: ScreeningPlan) -> list[str]:
    """Return the ordinary clean texts of the validation half, in an order that the seed decides."""
    texts = list(
        dict.fromkeys(
            sample.text
            for sample in samples
            if sample.family is Family.ORDINARY and sample.half in {Half.VALIDATION, Half.WHOLE}
        )
    )
    random.Random(f"honest {plan.seed}").shuffle(texts)  # noqa: S311 - an order, no secret
    return texts
