"""Samples made of what this package holds itself; they have no half, because nothing was collected that could be split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from corpus_guard.evaluation.attacks.obfuscation import OBFUSCATIONS
from corpus_guard.evaluation.attacks.overrides import CARRIERS, PHRASES, planted
from corpus_guard.evaluation.attacks.rewriting import rewritten
from corpus_guard.evaluation.clean.joiners import JOINERS
from corpus_guard.evaluation.samples import Family, Form, Sample, led


def overrides() -> Iterator[Sample]:
    """Every phrase under every obfuscation in every carrier; one slice an obfuscation."""
    for name, obfuscate in OBFUSCATIONS.items():
        for phrase in PHRASES:
            for carrier in CARRIERS:
                yield Sample(
                    planted(obfuscate(phrase), carrier), True, f"override, {name}", Family.OVERRIDE, key=phrase
                )


def carriers() -> Iterator[Sample]:
    """The same paragraphs with nothing in them: they must pass."""
    for carrier in CARRIERS:
        yield Sample(carrier.format(""), False, "override carriers", Family.ORDINARY, key=carrier)


def joiners() -> Iterator[Sample]:
    """Honest texts with invisible characters."""
    for name, text in JOINERS.items():
        yield Sample(text, False, "joiners", Family.JOINERS, key=name)


def rewritten_siblings(samples: Iterable[Sample]) -> Iterator[Sample]:
    """For each question, its bare adversarial texts rewritten each in another way, also led by the question."""
    siblings: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.family is Family.KNOWLEDGE and sample.form is Form.BARE:
            siblings[sample.slice, sample.key].append(sample)
    for texts in siblings.values():
        for number, sample in enumerate(texts):
            bare = replace(
                sample,
                text=rewritten(sample.text, number, sample.key),
                slice=f"{sample.slice}, rewritten",
                family=Family.REWRITTEN,
            )
            yield bare
            yield led(bare)
