"""What the package brings itself."""

from __future__ import annotations

from collections import Counter

from corpus_guard.detectors.samples import Half
from corpus_guard.evaluation.screening.own_texts import carrier_samples, joiner_samples, override_samples


def test_every_phrase_meets_every_obfuscation_in_every_carrier() -> None:
    made = list(override_samples())
    slices = Counter(sample.slice for sample in made)

    assert len(slices) >= 9
    assert set(slices.values()) == {15 * 4}
    assert len({sample.text for sample in made}) == len(made)
    assert all(sample.attack and sample.half is Half.WHOLE for sample in made)
    assert not any(sample.attack for sample in (*carrier_samples(), *joiner_samples()))
