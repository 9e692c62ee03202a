"""What the package brings itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from corpus_guard.detectors.samples import Family, Half, TextForm
from corpus_guard.evaluation.screening.own_texts import (
    asked_samples,
    carrier_samples,
    joiner_samples,
    override_samples,
    rewritten_siblings,
)
from labelled import sibling_samples


def test_every_phrase_meets_every_obfuscation_in_every_carrier() -> None:
    made = list(override_samples())
    slices = Counter(sample.slice for sample in made)

    assert len(slices) >= 9
    assert set(slices.values()) == {15 * 4}
    assert len({sample.text for sample in made}) == len(made)
    assert all(sample.attack and sample.half is Half.WHOLE for sample in made)
    assert not any(sample.attack for sample in (*carrier_samples(), *joiner_samples()))


def test_rewritten_siblings_are_told_apart_and_come_in_both_forms() -> None:
    samples = sibling_samples(3)

    made = list(rewritten_siblings(samples))

    assert Counter(sample.form for sample in made) == {TextForm.BARE: 15, TextForm.LED: 15}
    assert {sample.family for sample in made} == {Family.REWRITTEN}
    assert {sample.slice for sample in made} == {"lies, rewritten"}
    assert {sample.key for sample in made} == {sample.key for sample in samples}
    assert not {sample.text for sample in made} & {sample.text for sample in samples}


def test_a_question_is_asked_as_a_page_would_ask_it() -> None:
    samples = [replace(sample, question="how deep is it .") for sample in sibling_samples(1)]

    made = list(asked_samples(samples))

    assert [sample.form for sample in made] == [TextForm.ASKED] * 5
    assert [sample.text for sample in made] == [f"How deep is it? {sample.text}" for sample in samples]
    assert list(asked_samples(made)) == []
