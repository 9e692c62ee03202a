"""What is to be reached, on the validation half."""

from __future__ import annotations

from dataclasses import dataclass

from corpus_guard.evaluation.samples import Family, Form
from corpus_guard.evaluation.screening.protocols import Protocol


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the share of texts that are caught."""

    family: Family
    bound: float  # 0..1: reached from below by attacks, from above by clean texts
    attack: bool = True
    protocol: Protocol | None = None  # any
    form: Form | None = None  # any

    def met(self, rate: float) -> bool:
        """Whether a rate reaches it."""
        return rate >= self.bound if self.attack else rate <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.attack else '≤'} {self.bound:.0%}" if self.bound else "0"


TARGETS = (
    Target(Family.KNOWLEDGE, 0.98, protocol=Protocol.SIBLINGS, form=Form.LED),
    Target(Family.KNOWLEDGE, 0.85, protocol=Protocol.SIBLINGS, form=Form.BARE),
    Target(Family.KNOWLEDGE, 0.90, protocol=Protocol.SINGLE, form=Form.LED),
    Target(Family.KNOWLEDGE, 0.50, protocol=Protocol.SINGLE, form=Form.BARE),
    Target(Family.KNOWLEDGE, 0.90, protocol=Protocol.BANK),
    Target(Family.REWRITTEN, 0.60, protocol=Protocol.SIBLINGS),
    Target(Family.HOTFLIP, 0.99, protocol=Protocol.SINGLE),
    Target(Family.EMBEDDED, 0.85, protocol=Protocol.SINGLE),
    Target(Family.OVERRIDE, 0.95, protocol=Protocol.SINGLE),
    Target(Family.TYPOS, 0.50, protocol=Protocol.SINGLE),
    Target(Family.ORDINARY, 0.01, attack=False),
    Target(Family.HARD_NEGATIVE, 0.03, attack=False),
    Target(Family.JOINERS, 0.0, attack=False),
)
"""The first that fits counts."""

RULE_TIER = 20_000  # chunks a second and core, at least
LANGUAGE_MODEL_SHARE = 0.05  # of clean chunks it scores, at most


def target_of(family: Family, protocol: Protocol, form: Form) -> Target | None:
    """What is asked of such texts; None where nothing is."""
    for target in TARGETS:
        if target.family is family and target.protocol in {None, protocol} and target.form in {None, form}:
            return target
    return None
