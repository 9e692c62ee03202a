"""Cost of each check, the language model's share of the chunks, and proof that sparing it changes no verdict.

Times are CPU seconds of this process, so figures are per core and hardly depend on other programs. Ratios
between checks are more reliable than single figures.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from corpus_guard import domain
from corpus_guard.domain import Finding, TrustLevel, Verdict, Version
from corpus_guard.errors import Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.models import Models
from corpus_guard.screening.check import Check, SecondStage
from corpus_guard.screening.check_kit import make_version
from corpus_guard.screening.checks.perplexity import Perplexity
from corpus_guard.screening.checks.token_rarity import WindowRarity
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.registry import CHECKS
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.survey.resemblance import EmptyHistory
from corpus_guard.screening.survey.signals import measure_signals
from corpus_guard.screening.survey.survey import Survey, build_survey
from corpus_guard.settings import Settings, validate

if TYPE_CHECKING:
    from corpus_guard.models.language_model import LanguageModel

RULE_TIER_CHECKS = ("unicode", "instructions")  # they read every character of every chunk
DOCUMENTS_PER_BATCH = 512
WARM_UP_DOCUMENTS = 32  # before the clock starts: rules are compiled, vocabularies read


@dataclass(frozen=True, slots=True)
class CheckCost:
    """Cost of one check."""

    check: str
    chunks: int  # seen by the check
    seconds: float  # CPU, this process
    chunks_per_second: float
    share: float  # of all checks' time, 0..1


@dataclass(frozen=True, slots=True)
class Throughput:
    """Cost of screening."""

    documents: int
    chunks: int
    costs: tuple[CheckCost, ...]
    rule_tier: float  # chunks per second and core through all `RULE_TIER_CHECKS` in turn
    scored: int  # readings of chunks by the language model; a suspect one may be read twice

    @property
    def scored_share(self) -> float:
        """Return the share of chunks that the language model scored, 0..1."""
        return self.scored / self.chunks if self.chunks else 0.0

    def as_dict(self) -> dict[str, object]:
        """Return the figures for JSON."""
        return {**asdict(self), "scored_share": round(self.scored_share, 5)}


@dataclass(frozen=True, slots=True)
class CascadeProof:
    """Verdicts of the cascade compared with those of scoring every chunk."""

    documents: int
    differing: Mapping[str, int]  # such as "accept → quarantine" → documents
    scored: int  # readings of chunks by the language model in the cascade
    scored_without: int  # the same without it

    @property
    def equal(self) -> bool:
        """Return whether no verdict differs."""
        return not self.differing

    def as_dict(self) -> dict[str, object]:
        """Return the figures for JSON."""
        return {**asdict(self), "equal": self.equal}


def measure_throughput(settings: Settings, texts: Sequence[str], trust: TrustLevel = TrustLevel.OPEN) -> Throughput:
    """Screen clean texts, and time every check.

    Raises:
        Misuse: there are no texts.
    """
    models = _CountingModels(settings)
    versions = _versions(settings, models, texts, trust)
    policy = load_policy(settings.policy_file)
    timed = [_TimedCheck(check) for check in _checks(policy, models)]
    screening = Screening(policy, cast("list[Check]", timed))
    survey = _survey(versions)
    screening.judge(versions[:WARM_UP_DOCUMENTS], survey)
    for timer in timed:
        timer.reset()
    models.scored = 0
    for start in range(0, len(versions), DOCUMENTS_PER_BATCH):
        screening.judge(versions[start : start + DOCUMENTS_PER_BATCH], survey)
    total = sum(timer.seconds for timer in timed) or 1.0
    rules = [timer for timer in timed if timer.name in RULE_TIER_CHECKS]
    chunks = sum(len(version.chunks) for version in versions)
    each = sum(timer.seconds / timer.chunks for timer in rules if timer.chunks)
    return Throughput(
        documents=len(versions),
        chunks=chunks,
        costs=tuple(
            CheckCost(timer.name, timer.chunks, timer.seconds, timer.rate, timer.seconds / total) for timer in timed
        ),
        rule_tier=1 / each if each else 0.0,
        scored=models.scored,
    )


def prove_cascade(settings: Settings, texts: Sequence[str], trust: TrustLevel = TrustLevel.OPEN) -> CascadeProof:
    """Judge each text twice: as the policy says, and with every chunk scored by the language model.

    Raises:
        Misuse: there are no texts, or the policy has no perplexity check.
    """
    models = _CountingModels(settings)
    versions = _versions(settings, models, texts, trust)
    policy = load_policy(settings.policy_file)
    checks = _checks(policy, models)
    if not any(isinstance(check, Perplexity) for check in checks):
        raise Misuse(f"policy {policy.name}: checks.perplexity is switched off, so there is no cascade to prove")
    survey = _survey(versions)
    spared = _verdicts(Screening(policy, checks), versions, survey)
    scored, models.scored = models.scored, 0
    without_cascade = Screening(
        policy, [_score_everything(policy, models) if isinstance(check, Perplexity) else check for check in checks]
    )
    full = _verdicts(without_cascade, versions, survey)
    differing = Counter(
        f"{cascade} → {other}" for cascade, other in zip(spared, full, strict=True) if cascade is not other
    )
    return CascadeProof(len(versions), dict(differing), scored, models.scored)


class EveryChunk(Perplexity):
    """Perplexity check with the same limits that scores every chunk."""

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None = None) -> str | None:
        """Return None: no version is passed over."""
        return None

    def _is_rare(self, rarity: WindowRarity) -> bool:
        return True

    def _with_unlikely_passages(
        self, read: Sequence[tuple[int, domain.Chunk, str]]
    ) -> list[tuple[int, domain.Chunk, str]]:
        return list(read)


class _TimedCheck:
    """Check with a stopwatch; otherwise the check itself."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._check, name)

    def reset(self) -> None:
        self.seconds, self.chunks = 0.0, 0

    @property
    def rate(self) -> float:
        return self.chunks / self.seconds if self.seconds else 0.0

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Iterator[tuple[int, Finding]]:
        if not self._check.second_stage:
            self.chunks += sum(len(version.chunks) for version in batch)
        began = time.process_time()
        findings = list(self._check.run(batch, survey))
        self.seconds += time.process_time() - began
        return iter(findings)

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None) -> str | None:
        """Ask a second stage; the chunks that it closes count for it, too."""
        self.chunks += len(version.chunks)
        began = time.process_time()
        reason = cast("SecondStage", self._check).wants(version, findings, survey)
        self.seconds += time.process_time() - began
        return reason


class _CountingModels(Models):
    """Models that count the chunks scored by the language model."""

    scored = 0

    @cached_property
    def language_model(self) -> LanguageModel:
        """Return the counting language model."""
        return cast("LanguageModel", _CountingLanguageModel(self, super().language_model))


class _CountingLanguageModel:
    def __init__(self, models: _CountingModels, model: LanguageModel) -> None:
        self._models, self._model = models, model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        self._models.scored += len(texts)
        return self._model.surprisals(texts)


def _checks(policy: Policy, models: Models) -> list[Check]:
    built = []
    for name, (model, build) in CHECKS.items():
        params = validate(dict(policy.checks[name]), model, where=f"policy {policy.name}: checks.{name}")
        if params.enabled:
            built.append(build(params, models))
    return built


def _score_everything(policy: Policy, models: Models) -> EveryChunk:
    params = validate(dict(policy.checks[Perplexity.name]), Perplexity.params_class, where="perplexity")
    return EveryChunk(params, models.frequency_vocabulary, models.language_model_digest, lambda: models.language_model)


def _verdicts(screening: Screening, versions: Sequence[Version], survey: Survey) -> list[Verdict]:
    batches = (versions[start : start + DOCUMENTS_PER_BATCH] for start in range(0, len(versions), DOCUMENTS_PER_BATCH))
    return [judgement.verdict for batch in batches for judgement in screening.judge(batch, survey)]


def _survey(versions: Sequence[Version]) -> Survey:
    return build_survey([measure_signals(version) for version in versions], EmptyHistory())


def _versions(settings: Settings, models: Models, texts: Sequence[str], trust: TrustLevel) -> list[Version]:
    if not texts:
        raise Misuse("no clean text to measure with; pass a file that has some with --clean")
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    versions = (
        make_version(text, uri=f"texts/{number}", trust=trust, media_type="text/plain")
        for number, text in enumerate(texts)
    )
    return [
        replace(version, chunks=chunker.cut(version.doc_id, version.version_id, version.text)) for version in versions
    ]
