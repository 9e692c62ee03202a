"""Targets of screening on the validation half."""

from __future__ import annotations

from dataclasses import dataclass

from corpus_guard.detectors.samples import Family, TextForm
from corpus_guard.evaluation.screening.protocols import ArrivalProtocol


@dataclass(frozen=True, slots=True)
class CatchTarget:
    """A bound on the share of texts that are caught."""

    family: Family
    bound: float  # 0..1; lower bound for attacks, upper bound for clean texts
    attack: bool = True
    protocol: ArrivalProtocol | None = None  # None: any
    form: TextForm | None = None  # None: any

    def met(self, rate: float) -> bool:
        """Return whether a rate meets the target."""
        return rate >= self.bound if self.attack else rate <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.attack else '≤'} {100 * self.bound:g}%" if self.bound else "0"


CATCH_TARGETS = (
    CatchTarget(Family.KNOWLEDGE, 0.98, protocol=ArrivalProtocol.SIBLINGS, form=TextForm.LED),
    CatchTarget(Family.KNOWLEDGE, 0.85, protocol=ArrivalProtocol.SIBLINGS, form=TextForm.BARE),
    CatchTarget(Family.KNOWLEDGE, 0.90, protocol=ArrivalProtocol.SINGLE, form=TextForm.LED),
    CatchTarget(Family.KNOWLEDGE, 0.50, protocol=ArrivalProtocol.SINGLE, form=TextForm.BARE),
    CatchTarget(Family.KNOWLEDGE, 0.90, protocol=ArrivalProtocol.BANK),
    CatchTarget(Family.REWRITTEN, 0.70, protocol=ArrivalProtocol.SIBLINGS),
    CatchTarget(Family.HOTFLIP, 0.99, protocol=ArrivalProtocol.SINGLE),
    CatchTarget(Family.EMBEDDED, 0.85, protocol=ArrivalProtocol.SINGLE),
    CatchTarget(Family.OVERRIDE, 0.95, protocol=ArrivalProtocol.SINGLE),
    CatchTarget(Family.TYPOS, 0.50, protocol=ArrivalProtocol.SINGLE),
    CatchTarget(Family.ORDINARY, 0.005, attack=False, protocol=ArrivalProtocol.SINGLE),
    CatchTarget(Family.ORDINARY, 0.02, attack=False, protocol=ArrivalProtocol.ATTACKED_ANSWERS),
    CatchTarget(Family.ORDINARY, 0.01, attack=False),
    CatchTarget(Family.HARD_NEGATIVE, 0.03, attack=False),
    CatchTarget(Family.JOINERS, 0.0, attack=False),
)
"""The first matching target counts."""

MIN_RULE_TIER_CHUNKS = 20_000  # per second and core
MAX_LANGUAGE_MODEL_SHARE = 0.05  # of clean chunks that the language model scores


def find_target(family: Family, protocol: ArrivalProtocol, form: TextForm) -> CatchTarget | None:
    """Return the target for such texts; None: there is none."""
    for target in CATCH_TARGETS:
        if target.family is family and target.protocol in {None, protocol} and target.form in {None, form}:
            return target
    return None
