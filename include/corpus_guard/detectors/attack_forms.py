"""Forms that an attacker may give the texts of one question: behind the question, or rewritten so that they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from corpus_guard.attacks.rewriting import rewrite
from corpus_guard.detectors.samples import Family, Sample, TextForm, ask_sample, lead_sample


def ask_siblings(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Return the bare adversarial texts, each behind its question as a page would write it."""
    for sample in samples:
        if sample.family is Family.KNOWLEDGE and sample.form is TextForm.BARE:
            yield ask_sample(sample)


def rewrite_siblings(samples: Iterable[Sample]) -> Iterator[Sample]:
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
