"""What each check costs, how much the language model sees, and whether sparing it changes a verdict.

Timed in CPU seconds of this process, so a figure is per core and other programs do not change it much; ratios between checks say
more than any single figure.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

from corpus_guard import domain
from corpus_guard.domain import Finding, Stamp, TrustLevel, Verdict, Version
from corpus_guard.errors import Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.stamps import FETCHED_BY
from corpus_guard.models import Models
from corpus_guard.screening.check import Check
from corpus_guard.screening.perplexity import Perplexity
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.registry import CHECKS
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.signals import signals_of
from corpus_guard.screening.survey import EmptyHistory, Survey, build_survey
from corpus_guard.settings import Settings, validate

RULE_TIER = ("unicode", "instructions")  # what reads every character of every chunk
AT_ONCE = 512  # documents
WARM_UP = 32  # documents before the clock starts: rules are compiled, vocabularies read


@dataclass(frozen=True, slots=True)
class Cost:
    """What one check cost."""

    check: str
    chunks: int  # it looked at
    seconds: float  # CPU, this process
    chunks_per_second: float
    share: float  # of all checks' time, 0..1


@dataclass(frozen=True, slots=True)
class Throughput:
    """What screening cost."""

    documents: int
    chunks: int
    costs: tuple[Cost, ...]
    rule_tier: float  # chunks a second and core, through all of `RULE_TIER` one after the other
    scored: int  # chunks shown to the language model

    @property
    def scored_share(self) -> float:
        """Of all chunks, 0..1."""
        return self.scored / self.chunks if self.chunks else 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "scored_share": round(self.scored_share, 5)}


@dataclass(frozen=True, slots=True)
class Proof:
    """Verdicts of the cascade beside those of scoring every chunk."""

    documents: int
    differing: Mapping[str, int]  # "accept → quarantine": how often
    scored: int  # chunks the language model saw in the cascade
    scored_without: int  # and when it saw every chunk

    @property
    def equal(self) -> bool:
        """Whether no verdict differs."""
        return not self.differing

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "equal": self.equal}


def measure(settings: Settings, texts: Sequence[str], trust: TrustLevel = TrustLevel.OPEN) -> Throughput:
    """Screen clean texts with a stopwatch at every check.

    Raises:
        Misuse: no texts.
    """
    models = _Watched(settings)
    versions = _versions(settings, models, texts, trust)
    policy = load_policy(settings.policy_file)
    timed = [_Timed(check) for check in _checks(policy, models)]
    screening = Screening(policy, cast("list[Check]", timed))
    survey = _survey(versions)
    screening.judge(versions[:WARM_UP], survey)
    for timer in timed:
        timer.reset()
    models.scored = 0
    for start in range(0, len(versions), AT_ONCE):
        screening.judge(versions[start : start + AT_ONCE], survey)
    total = sum(timer.seconds for timer in timed) or 1.0
    rules = [timer for timer in timed if timer.name in RULE_TIER]
    chunks = sum(len(version.chunks) for version in versions)
    each = sum(timer.seconds / timer.chunks for timer in rules if timer.chunks)
    return Throughput(
        documents=len(versions),
        chunks=chunks,
        costs=tuple(
            Cost(timer.name, timer.chunks, timer.seconds, timer.rate, timer.seconds / total) for timer in timed
        ),
        rule_tier=1 / each if each else 0.0,
        scored=models.scored,
    )


def prove_cascade(settings: Settings, texts: Sequence[str], trust: TrustLevel = TrustLevel.OPEN) -> Proof:
    """Judge each text twice: as the policy says, and with the language model shown every chunk.

    Raises:
        Misuse: no texts, or the policy has no perplexity check.
    """
    models = _Watched(settings)
    versions = _versions(settings, models, texts, trust)
    policy = load_policy(settings.policy_file)
    checks = _checks(policy, models)
    if not any(isinstance(check, Perplexity) for check in checks):
        raise Misuse(f"policy {policy.name}: checks.perplexity is switched off, so there is no cascade to prove")
    survey = _survey(versions)
    spared = _verdicts(Screening(policy, checks), versions, survey)
    seen, models.scored = models.scored, 0
    all_of_it = Screening(
        policy, [_score_everything(policy, models) if isinstance(c, Perplexity) else c for c in checks]
    )
    full = _verdicts(all_of_it, versions, survey)
    differing = Counter(f"{one} → {other}" for one, other in zip(spared, full, strict=True) if one is not other)
    return Proof(len(versions), dict(differing), seen, models.scored)


class EveryChunk(Perplexity):
    """The same limits, but nothing is closed before the language model has seen it."""

    def wants(self, version: Version, findings: Any) -> str | None:
        """Every version."""
        return None

    def _open_chunks(self, batch: Sequence[Version]) -> list[list[domain.Chunk]]:
        return [list(version.chunks) for version in batch]


class _Timed:
    """A check with a stopwatch; in all else the check itself."""

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
        found = list(self._check.run(batch, survey))
        self.seconds += time.process_time() - began
        return iter(found)

    def wants(self, version: Version, findings: Any) -> Any:
        """Only second stages are asked; they are charged for what they close, too."""
        self.chunks += len(version.chunks)
        began = time.process_time()
        reason = self._check.wants(version, findings)  # type: ignore[attr-defined]
        self.seconds += time.process_time() - began
        return reason


class _Watched(Models):
    """The models, counting the chunks whose surprise is asked for."""

    scored = 0

    @cached_property
    def language_model(self) -> Any:
        """The language model."""
        return _Counting(self, super().language_model)


class _Counting:
    def __init__(self, models: _Watched, model: Any) -> None:
        self._models, self._model = models, model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def surprise(self, texts: Sequence[str]) -> Any:
        self._models.scored += len(texts)
        return self._model.surprise(texts)


def _checks(policy: Policy, models: Models) -> list[Check]:
    built = []
    for name, (model, build) in CHECKS.items():
        params = validate(dict(policy.checks[name]), model, where=f"policy {policy.name}: checks.{name}")
        if params.enabled:
            built.append(build(params, models))
    return built


def _score_everything(policy: Policy, models: Models) -> EveryChunk:
    params = validate(dict(policy.checks[Perplexity.name]), Perplexity.Params, where="perplexity")
    return EveryChunk(params, models.frequency_vocabulary, models.language_model_digest, lambda: models.language_model)


def _verdicts(screening: Screening, versions: Sequence[Version], survey: Survey) -> list[Verdict]:
    batches = (versions[start : start + AT_ONCE] for start in range(0, len(versions), AT_ONCE))
    return [judgement.verdict for batch in batches for judgement in screening.judge(batch, survey)]


def _survey(versions: Sequence[Version]) -> Survey:
    return build_survey([signals_of(version) for version in versions], EmptyHistory())


def _versions(settings: Settings, models: Models, texts: Sequence[str], trust: TrustLevel) -> list[Version]:
    if not texts:
        raise Misuse("no clean text to measure with; give --clean a file that has some")
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    return [_version(text, f"texts/{number}", trust, chunker) for number, text in enumerate(texts)]


def _version(text: str, uri: str, trust: TrustLevel, chunker: Chunker) -> Version:
    data = text.encode("utf-8", "surrogatepass")
    document = domain.doc_id("evaluation", uri)
    version = domain.version_id(document, domain.sha256_bytes(data))
    stamp = Stamp(
        source="evaluation",
        owner="(evaluation)",
        trust=trust,
        uri=uri,
        content_sha256=domain.sha256_bytes(data),
        size=len(data),
        media_type="text/plain",
        fetched_at=datetime(2026, 1, 1, tzinfo=UTC),
        fetched_by=FETCHED_BY,
        run_id="evaluation",
    )
    return Version(document, version, stamp, text, "", chunker.cut(document, version, text))
