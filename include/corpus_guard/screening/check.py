"""Interface of a check, and the parts that most checks share.

A check looks at a batch of versions and yields findings. It is pure: no network, no clock, no ledger. It may
assume that every text is hostile. It never raises for a text; if it does, the runner quarantines every
version it was looking at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from corpus_guard.domain import Counterstatement, Finding, Severity, Span, Version, digest
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.screening.tags import tag_ids

Hits: TypeAlias = Iterator[tuple[int, Finding]]
"""(position in the batch, finding)."""


class Params(BaseModel):
    """A check's section in policy.yaml.

    Unknown keys are refused, so a misspelt threshold cannot pass unnoticed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = True


class Check(Protocol):
    """One way to look at versions."""

    @property
    def name(self) -> str:
        """Stable; the first part of its findings' codes and its section in policy.yaml."""

    @property
    def across_documents(self) -> bool:
        """Needs a survey of the whole run; ``--one-by-one`` turns it off."""

    @property
    def second_stage(self) -> bool:
        """Expensive: the runner runs it only on what the first stage leaves open (see `wants`)."""

    @property
    def digest(self) -> str:
        """Return a digest that changes when the same text could get other findings.

        It covers parameters, rules, model and the version of the code.
        """

    def applies_to(self, version: Version) -> bool:
        """Return False for a version that the check cannot judge."""

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at `batch`. `survey` is None when documents are screened one by one."""


class AcrossDocuments(Check, Protocol):
    """A check that compares a version with others, and may have too few to compare with."""

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Return the reason why the check cannot judge `version`; None: it can."""


class SecondStage(Check, Protocol):
    """A check that chooses the versions it must see."""

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None) -> str | None:
        """Return the reason why the check need not look at `version`; None: it must."""

    def evidence(self, version: Version, survey: Survey | None) -> Sequence[str]:
        """Return what the findings rest on beside the text and the check; part of the key they are kept under."""


class ReadsFindings(Check, Protocol):
    """A check that reads the findings of the first stage. It has ``reads_findings = True``."""

    def reading(self, findings: Mapping[str, Sequence[Finding]]) -> Check:
        """Return the check with these findings, by version id; only those that count."""


ParamsType = TypeVar("ParamsType", bound=Params)


class ConfiguredCheck(Generic[ParamsType]):
    """Parameters, digest and defaults of a check with a section in policy.yaml."""

    name: ClassVar[str]
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = False
    reads_findings: ClassVar[bool] = False
    params_class: ClassVar[type[Params]]
    code_version: ClassVar[tuple[str, ...]]
    """Raised by hand when the code finds something else in the same text. Part of the digest, hence of every
    verdict."""

    def __init__(self, params: ParamsType | None = None) -> None:
        self.params = params or cast("ParamsType", self.params_class())

    @cached_property
    def digest(self) -> str:
        """Return the digest of the code's version, the parameters and `resources`."""
        return digest("check/v1", [*self.code_version, self.params.model_dump_json(), *self.resources()])

    def resources(self) -> Sequence[str]:
        """Return the digests of rules, weights and models that the check uses."""
        return ()

    def evidence(self, version: Version, survey: Survey | None) -> Sequence[str]:
        """Return nothing: the findings rest on the text alone."""
        return ()

    def applies_to(self, version: Version) -> bool:
        """Return True for every version with text."""
        return bool(version.text)

    def finding(
        self,
        code: str,
        severity: Severity,
        score: float,
        message: str,
        *,
        span: Span | None = None,
        tags: Iterable[str] = (),
        counterstatement: Counterstatement | None = None,
    ) -> Finding:
        """Return a finding of this check.

        Args:
            code: the part after the check's name.
            score: how sure the check is, 0..1.
            counterstatement: the sentence of another document that contradicts the evidence.
        """
        return Finding(
            self.name,
            f"{self.name}.{code}",
            severity,
            score,
            message,
            span=span,
            tags=tag_ids(tags),
            counterstatement=counterstatement,
        )


class TextCheck(ConfiguredCheck[ParamsType], ABC):
    """Check that looks at one version after the other, and at nothing else."""

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at each version."""
        for position, version in enumerate(batch):
            for finding in self.judge(version):
                yield position, finding

    @abstractmethod
    def judge(self, version: Version) -> Iterable[Finding]:
        """Return the findings of a version."""


class SurveyCheck(ConfiguredCheck[ParamsType], ABC):
    """Check that looks at one version after the other, beside what a survey says; without a survey it finds nothing."""

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Return None: any number of other documents is enough."""
        return None

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at each version."""
        if survey is None:
            return
        for position, version in enumerate(batch):
            for finding in self.judge(version, survey):
                yield position, finding

    @abstractmethod
    def judge(self, version: Version, survey: Survey) -> Iterable[Finding]:
        """Return the findings of a version."""
