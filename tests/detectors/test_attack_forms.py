"""The texts of one question in the forms that an attacker may give them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from corpus_guard.detectors.attack_forms import ask_siblings, rewrite_siblings
from corpus_guard.detectors.samples import Family, TextForm
from labelled import sibling_samples


def test_rewritten_siblings_are_told_apart_and_come_in_both_forms() -> None:
    samples = sibling_samples(3)

    made = list(rewrite_siblings(samples))

    assert Counter(sample.form for sample in made) == {TextForm.BARE: 15, TextForm.LED: 15}
    assert {sample.family for sample in made} == {Family.REWRITTEN}
    assert {sample.slice for sample in made} == {"lies, rewritten"}
    assert {sample.key for sample in made} == {sample.key for sample in samples}
    assert not {sample.text for sample in made} & {sample.text for sample in samples}


def test_a_question_is_asked_as_a_page_would_ask_it() -> None:
    samples = [replace(sample, question="how deep is it .") for sample in sibling_samples(1)]

    made = list(ask_siblings(samples))

    assert [sample.form for sample in made] == [TextForm.ASKED] * 5
    assert [sample.text for sample in made] == [f"How deep is it? {sample.text}" for sample in samples]
    assert list(ask_siblings(made)) == []
