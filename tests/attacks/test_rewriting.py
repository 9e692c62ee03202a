"""Siblings that differ, the same ones every time."""

from __future__ import annotations

import itertools

from corpus_guard.attacks.rewriting import REWRITINGS, SYNONYMS, rewrite
from corpus_guard.screening.survey.survey import NEIGHBOUR_SIMILARITY

TEXT = (
    "The old lighthouse, which was built in 1871, is known for its famous green lamp. It was located on the western "
    "pier, and many people came to see it. The lamp is nine metres high. However, the keeper received only a small wage."
)


def test_the_same_sibling_is_rewritten_the_same_way_and_another_otherwise() -> None:
    versions = [rewrite(TEXT, number, "seed") for number in range(len(REWRITINGS))]

    assert versions == [rewrite(TEXT, number, "seed") for number in range(len(REWRITINGS))]
    assert len({*versions, TEXT}) == len(versions) + 1
    assert rewrite(TEXT, 0, "other seed") != versions[0]


def test_siblings_become_of_different_length_and_no_near_copies_of_each_other() -> None:
    versions = [rewrite(TEXT, number, "seed") for number in range(5)]
    lengths = sorted(len(text.split()) for text in versions)

    assert lengths[-1] > 1.5 * lengths[0]
    for one, other in itertools.combinations([shingles(text) for text in versions], 2):
        assert len(one & other) / len(one | other) < NEIGHBOUR_SIMILARITY


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.casefold().split()
    return set(zip(words, words[1:], words[2:], strict=False))


def test_a_text_of_one_word_or_none_comes_through() -> None:
    for number in range(len(REWRITINGS)):
        assert rewrite("Nine", number, "seed").strip()
        assert isinstance(rewrite("", number, "seed"), str)


def test_every_synonym_is_another_word() -> None:
    assert all(word not in others and others for word, others in SYNONYMS.items())
