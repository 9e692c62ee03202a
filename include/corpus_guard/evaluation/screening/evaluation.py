"""One whole evaluation: read, run, time, keep."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus_guard.domain import TrustLevel
from corpus_guard.evaluation.material import carriers, joiners, overrides
from corpus_guard.evaluation.samples import Family, Half, Sample, read_samples
from corpus_guard.evaluation.screening import plots, report
from corpus_guard.evaluation.screening.experiment import Plan, Result, run
from corpus_guard.evaluation.screening.screener import CorpusGuard, Progress, Screener
from corpus_guard.evaluation.screening.throughput import Proof, Throughput, measure, prove_cascade
from corpus_guard.evaluation.tracking import log_run
from corpus_guard.models import Models
from corpus_guard.settings import Settings

EXPERIMENT = "corpus-guard/screening"


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted."""

    poison: tuple[Path, ...]
    clean: tuple[Path, ...]
    plan: Plan = field(default_factory=Plan)
    trust: TrustLevel = TrustLevel.OPEN
    own: bool = True  # also the phrases, obfuscations and joiners of this package
    timed: int = 1_000  # clean texts to time the checks on; 0: none
    proved: int = 0  # clean texts to prove the cascade on; 0: none


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was found."""

    request: Request
    result: Result
    screeners: tuple[str, ...]  # ours first
    blank: int
    policy: str  # digest
    models: dict[str, str]  # role → digest
    throughput: Throughput | None = None
    proof: Proof | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return report.as_dict(
            self.result,
            self.request.plan,
            self.screeners,
            blank_texts_left_out=self.blank,
            trust=self.request.trust.value,
            policy=self.policy,
            models=self.models,
            throughput=self.throughput.as_dict() if self.throughput else None,
            cascade=self.proof.as_dict() if self.proof else None,
        )


def evaluate(
    settings: Settings,
    request: Request,
    peers: Sequence[Screener] = (),
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Run what is asked for.

    Args:
        settings: of the guard that is measured.
        request: data, protocols, what else to take.
        peers: other screeners, put to the same texts.
        progress: told what is being done.

    Raises:
        Misuse: a file or a row is wrong.
    """
    read = read_samples(request.poison, request.clean)
    samples = [*read.samples, *overrides(), *carriers(), *joiners()] if request.own else list(read.samples)
    plan = request.plan
    guard = CorpusGuard(settings, request.trust, progress)
    result = run(samples, plan, [guard, *peers])
    honest = _honest(samples, plan)
    progress("timing the checks", 0, None)
    models = Models(settings)
    return Evaluation(
        request=request,
        result=result,
        screeners=(guard.name, *(peer.name for peer in peers)),
        blank=read.blank,
        policy=guard.policy_digest,
        models={"embedder": models.embedder_weights.digest, "language_model": models.language_model_digest},
        throughput=measure(settings, honest[: request.timed], request.trust) if request.timed and honest else None,
        proof=prove_cascade(settings, honest[: request.proved], request.trust) if request.proved and honest else None,
    )


def keep(settings: Settings, evaluation: Evaluation) -> str:
    """The run in MLflow: figures as metrics, plots and all of the JSON as artifacts.

    Returns:
        The run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    ours = evaluation.screeners[0]
    plan, throughput = evaluation.request.plan, evaluation.throughput
    metrics = dict(report.metrics(evaluation.result, ours))
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
        "files": ", ".join(path.name for path in (*evaluation.request.poison, *evaluation.request.clean))[:500],
    }
    folder = Path(tempfile.mkdtemp(prefix="corpus-guard-evaluation-"))
    try:
        (folder / "evaluation.json").write_text(json.dumps(evaluation.as_dict(), indent=1), encoding="utf-8")
        plots.draw(evaluation.result, ours, folder, speeds)
        return log_run(settings, EXPERIMENT, params=params, metrics=metrics, artifacts=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _honest(samples: Sequence[Sample], plan: Plan) -> list[str]:
    """Ordinary clean texts of the half that counts, in an order the seed gives."""
    texts = list(
        dict.fromkeys(
            sample.text
            for sample in samples
            if sample.family is Family.ORDINARY and sample.half in {Half.VALIDATION, Half.WHOLE}
        )
    )
    random.Random(f"honest {plan.seed}").shuffle(texts)  # noqa: S311 - an order, no secret
    return texts
