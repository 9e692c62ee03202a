"""Samples from texts of this package.

They have no half: they are no collection that could be split.
"""

from __future__ import annotations

from collections.abc import Iterator

from corpus_guard.attacks.obfuscation import OBFUSCATIONS
from corpus_guard.attacks.overrides import CARRIERS, PHRASES, plant_phrase
from corpus_guard.detectors.samples import Family, Sample
from corpus_guard.evaluation.screening.joiners import JOINERS


def override_samples() -> Iterator[Sample]:
    """Return every phrase under every obfuscation in every carrier; one slice per obfuscation."""
    for name, obfuscate in OBFUSCATIONS.items():
        for phrase in PHRASES:
            for carrier in CARRIERS:
                yield Sample(
                    plant_phrase(obfuscate(phrase), carrier), True, f"override, {name}", Family.OVERRIDE, key=phrase
                )


def carrier_samples() -> Iterator[Sample]:
    """Return the carriers without a phrase, which must pass."""
    for carrier in CARRIERS:
        yield Sample(carrier.format(""), False, "override carriers", Family.ORDINARY, key=carrier)


def joiner_samples() -> Iterator[Sample]:
    """Return honest texts with invisible characters."""
    for name, text in JOINERS.items():
        yield Sample(text, False, "joiners", Family.JOINERS, key=name)
