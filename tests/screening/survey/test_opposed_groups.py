"""Two texts that state alike what a trusted one contradicts are a group; honest ones beside them are none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.domain import TrustLevel
from corpus_guard.models import Models
from corpus_guard.screening.survey.agreement import Agreement, NoServedChunks, Passage
from corpus_guard.screening.survey.nearby_chunks import NothingServed, PlacedChunk
from corpus_guard.screening.survey.opposed_groups import _Claim, find_opposed_groups
from corpus_guard.screening.survey.statement_search import find_related_statements
from corpus_guard.screening.wording import load_wording, stem
from opposed import BY_HAND, OpposedCase, made_by_rule

CASES = [*made_by_rule(), *BY_HAND]


class Reader:
    """All texts of the cases, embedded once."""

    def __init__(self, models: Models) -> None:
        self.wording = load_wording(models.frequency_vocabulary)
        texts = sorted({text for case in CASES for text in (case.trusted, *case.lies, case.honest)})
        self._vectors = dict(zip(texts, models.embedder.embed(texts), strict=True))

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vectors[text] for text in texts])


@pytest.fixture(scope="module")
def reader(models: Models) -> Reader:
    return Reader(models)


class Served:
    """Open texts that are served, each with its document's name."""

    def __init__(self, reader: Reader, texts: dict[str, str]) -> None:
        self._texts = list(texts.items())
        self._vectors = reader.vectors(list(texts.values()))

    def near(self, vectors: NDArray[np.float32]) -> list[list[tuple[str, str, float]]]:
        cosines = vectors @ self._vectors.T
        return [[(*self._texts[index], float(row[index])) for index in np.argsort(-row)] for row in cosines]


def groups(
    reader: Reader, trusted: Sequence[str], arriving: Sequence[str], served: Served | None = None
) -> dict[str, list[Agreement]]:
    """What a run finds, by text."""
    texts = [*trusted, *arriving]
    trust = [TrustLevel.TRUSTED] * len(trusted) + [TrustLevel.OPEN] * len(arriving)
    chunks = [PlacedChunk(f"d{at}", f"v{at}", f"c{at}", 0, 0, level) for at, level in enumerate(trust)]
    passages = [Passage(f"v{at}", f"d{at}", 0, open=level is TrustLevel.OPEN) for at, level in enumerate(trust)]
    vectors, wording = reader.vectors(texts), reader.wording

    def fetch(positions: Sequence[int]) -> list[str]:
        return [texts[position] for position in positions]

    related = find_related_statements(chunks, vectors, fetch, NothingServed(), wording.rarity, 10_000).statements
    found: dict[str, list[Agreement]] = {}
    for version, agreement in find_opposed_groups(
        passages, chunks, vectors, fetch, wording, related, served or NoServedChunks()
    ):
        found.setdefault(texts[int(version[1:])], []).append(agreement)
    return found


def shares(reader: Reader, cases: Sequence[OpposedCase], count: int) -> tuple[int, int]:
    """How many lies and honest texts are members, with `count` lies in each case."""
    found = [groups(reader, [case.trusted], [*case.lies[:count], case.honest, case.trusted]) for case in cases]
    caught = sum(lie in members for case, members in zip(cases, found, strict=True) for lie in case.lies[:count])
    honest = sum(
        text in members for case, members in zip(cases, found, strict=True) for text in (case.honest, case.trusted)
    )
    return caught, honest


@pytest.mark.parametrize("count", [2, 3])
def test_two_or_three_against_a_trusted_text_are_seen_and_honest_ones_are_not(reader: Reader, count: int) -> None:
    assert len(made_by_rule()) >= 60
    assert len(BY_HAND) >= 20

    caught, honest = shares(reader, CASES, count)

    print(f"{count} lies a case: {caught} of {count * len(CASES)} seen; {honest} of {2 * len(CASES)} honest texts")
    assert caught >= 0.9 * count * len(CASES)
    assert honest <= 0.01 * 2 * len(CASES)


def test_lies_that_come_on_three_days_are_stopped_or_reopened(reader: Reader) -> None:
    """The first is served before the trusted text is there; the others come later, one a day."""
    seen = honest = 0
    for case in CASES:
        served = Served(reader, {"early": case.lies[0], "honest": case.honest, "restated": case.trusted})
        days = [groups(reader, [case.trusted], [lie], served).get(lie, []) for lie in case.lies[1:]]
        named = {name for agreements in days for agreement in agreements for name in agreement.served}
        seen += sum(map(bool, days)) + ("early" in named)
        honest += len(named - {"early"})

    print(f"three days: {seen} of {3 * len(CASES)} stopped or reopened; {honest} of {2 * len(CASES)} honest texts")
    assert seen >= 0.9 * 3 * len(CASES)
    assert honest <= 0.01 * 2 * len(CASES)


def test_one_alone_is_no_group_and_nothing_is_without_a_contradiction(reader: Reader) -> None:
    case = BY_HAND[7]

    assert groups(reader, [case.trusted], [case.lies[0]]) == {}
    assert groups(reader, [], case.lies) == {}
    assert groups(reader, [case.honest], case.lies) == {}


def test_texts_that_a_second_trusted_document_agrees_with_are_no_opposed_group(reader: Reader) -> None:
    case = BY_HAND[7]

    assert groups(reader, [case.trusted, case.lies[0]], case.lies[1:]) == {}


@pytest.mark.parametrize("count", [0, 60, 1_000])
def test_short_sentences_before_a_lie_do_not_take_it_out_of_its_group(count: int) -> None:
    claim = _Claim({stem("tower"): 1.0}, frozenset([stem("195")]), is_negated=False)

    assert claim.is_held_by("Oh. " * count + "Guides say the tower is 195 metres high.")
    assert not claim.is_held_by("Oh. " * count + "Guides say the tower is 150 metres high.")


def test_an_agreement_says_who_and_that_it_is_opposed(reader: Reader) -> None:
    case = BY_HAND[7]

    ((first, *_),) = [groups(reader, [case.trusted], case.lies[:2])[case.lies[0]]]

    assert first.opposed
    assert (first.documents, first.others, first.served) == (2, ("d2",), ())
