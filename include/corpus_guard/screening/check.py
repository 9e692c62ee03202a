"""What a check is.

A check looks at a batch of versions and yields findings. It is pure: no network, no clock, no ledger. It may assume that
every text is hostile. It never raises for a text; if it does, the runner quarantines every version it was looking at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict

from corpus_guard.domain import Finding, Version
from corpus_guard.screening.survey import Survey

Hits: TypeAlias = Iterator[tuple[int, Finding]]
"""(position in the batch, finding)."""


class Params(BaseModel):
    """A check's section in policy.yaml. Unknown keys are refused, so a misspelt threshold cannot pass unnoticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = True


class Check(Protocol):
    """One way to look at versions."""

    name: ClassVar[str]
    """Stable; the first part of its findings' codes and its section in policy.yaml."""
    across_documents: ClassVar[bool]
    """Needs a survey of the whole run; ``--one-by-one`` turns it off."""
    second_stage: ClassVar[bool]
    """Expensive: the runner shows it only what the first stage leaves open (see `wants`)."""

    @property
    def digest(self) -> str:
        """Changes when the same text could get other findings: parameters, rule pack, model, the code's own version."""

    def applies_to(self, version: Version) -> bool:
        """False where the check has nothing to say about such a version."""

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at `batch`. `survey` is None when documents are screened one by one."""


class AcrossDocuments(Check, Protocol):
    """A check that compares a version with others, and may have too few to compare with."""

    def skips(self, version: Version, survey: Survey) -> str | None:
        """None: look at it. Otherwise the reason why nothing can be said of it."""


class SecondStage(Check, Protocol):
    """A check that chooses what it must see."""

    def wants(self, version: Version, findings: Iterable[Finding]) -> str | None:
        """None: look at it. Otherwise the reason why it need not be looked at."""
