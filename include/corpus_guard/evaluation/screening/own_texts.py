"""Samples from texts of this package.

They have no half: they are no collection that could be split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from corpus_guard.attacks.obfuscation import OBFUSCATIONS
from corpus_guard.attacks.overrides import CARRIERS, PHRASES, plant_phrase
from corpus_guard.attacks.rewriting import rewrite
from corpus_guard.detectors.samples import Family, Sample, TextForm, ask_sample, lead_sample
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


def asked_samples(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Return the bare adversarial texts, each behind its question as a page would write it."""
    for sample in samples:
        if sample.family is Family.KNOWLEDGE and sample.form is TextForm.BARE:
            yield ask_sample(sample)


def rewritten_siblings(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Return the bare adversarial texts of each question, rewritten each in another way.

    Each is returned with and without the question in front.
    """
    siblings: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.family is Family.KNOWLEDGE and sample.form is TextForm.BARE:
            siblings[sample.slice, sample.key].append(sample)
    for texts in siblings.values():
        for number, sample in enumerate(texts):
            bare = replace(
                sample,
                text=rewrite(sample.text, number, sample.key),
                slice=f"{sample.slice}, rewritten",
                family=Family.REWRITTEN,
            )
            yield bare
            yield lead_sample(bare)
