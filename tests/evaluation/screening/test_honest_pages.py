"""Honest pages: enough of each kind, all different, the same for a seed."""

from __future__ import annotations

from collections import Counter

from corpus_guard.detectors.samples import Family, Half
from corpus_guard.evaluation.screening.honest_pages import honest_page_samples


def test_each_slice_has_a_hundred_texts_and_every_one_is_honest() -> None:
    samples = list(honest_page_samples())
    slices = Counter(sample.slice for sample in samples)

    assert set(slices) == {
        f"own {kind}"
        for kind in (
            "FAQ pages",
            "product pages",
            "forum replies",
            "changelogs",
            "mirrored READMEs",
            "news reports",
            "glossaries",
        )
    }
    assert min(slices.values()) >= 100
    assert len({sample.text for sample in samples}) == len(samples)
    assert {(sample.attack, sample.family, sample.half) for sample in samples} == {(False, Family.ORDINARY, Half.WHOLE)}
    assert not any("{" in sample.text or "}" in sample.text for sample in samples)


def test_a_seed_decides_the_wording() -> None:
    assert list(honest_page_samples(3)) == list(honest_page_samples(3)) != list(honest_page_samples(4))
