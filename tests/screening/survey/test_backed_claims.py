"""True sentences beside a lie do not cover it; texts that restate what a trusted one says are backed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from sample_versions import a_version

from corpus_guard.domain import Chunk, TrustLevel, Version
from corpus_guard.models import Models
from corpus_guard.screening.survey.backed_claims import is_claim_backed
from corpus_guard.screening.survey.common_wording import find_shared_words
from corpus_guard.screening.survey.nearby_chunks import NothingServed, PlacedChunk
from corpus_guard.screening.survey.statement_search import find_related_statements
from corpus_guard.screening.wording import load_wording, split_words, stem

MANUAL = (
    "The OX-12 pump weighs 14 kg. The hose of the OX-12 pump is 6 m long. The OX-12 pump runs on 24 volts. "
    "The tank of the OX-12 pump holds 30 litres."
)
LIES = (
    "The OX-12 pump may be left in salt water for 9 days.",
    "Owners leave their OX-12 pump in salt water for 9 days without harm.",
    "For 9 days the OX-12 pump can stay in salt water.",
)
TRUE = (
    "The OX-12 pump weighs 14 kg.",
    "My OX-12 pump runs on 24 volts, and it weighs 14 kg.",
    "The hose of the OX-12 pump is 6 m long. The OX-12 pump weighs 14 kg. I bought it in May.",
)


def backed(texts: Sequence[str], models: Models, trusted: str = MANUAL) -> list[bool]:
    """Whether the claim that the texts share is backed, by text."""
    versions = [a_version(trusted, uri="manual.md", trust=TrustLevel.TRUSTED)]
    versions += [a_version(text, uri=f"{number}.md") for number, text in enumerate(texts)]
    placed = [_placed(version) for version in versions]
    related = find_related_statements(
        placed,
        models.embedder.embed([version.text for version in versions]),
        lambda positions: [versions[position].text for position in positions],
        NothingServed(),
        load_wording(models.frequency_vocabulary).rarity,
        1_000,
    ).statements
    words = [{stem(word) for word in split_words(text)} for text in texts]
    return [
        is_claim_backed(
            version.chunks[0],
            find_shared_words(version.text, [*words[:number], *words[number + 1 :]]),
            [each for each in related.get(version.version_id, ()) if each.trust is not TrustLevel.OPEN],
        )
        for number, version in enumerate(versions[1:])
    ]


def _placed(version: Version) -> PlacedChunk:
    chunk: Chunk = version.chunks[0]
    place = partial(PlacedChunk, version.doc_id, version.version_id, chunk.chunk_id)
    return place(chunk.ordinal, chunk.start, version.stamp.trust)


def test_what_a_trusted_document_says_is_backed_whatever_one_member_adds(models: Models) -> None:
    assert backed(TRUE, models) == [True] * 3


def test_a_lie_is_not_backed_and_true_sentences_beside_it_change_nothing(models: Models) -> None:
    assert backed(LIES, models) == [False] * 3
    assert backed([f"{MANUAL} {lie}" for lie in LIES], models) == [False] * 3
    assert backed([f"{lie} {MANUAL} {MANUAL}" for lie in LIES], models) == [False] * 3


def test_a_lie_made_of_words_that_stand_in_true_sentences_is_not_backed(models: Models) -> None:
    trusted = "The OX-12 pump is safe in fresh water. Children keep 3 m away from the OX-12 pump."
    lies = [
        f"{trusted} {lie}" for lie in ("The OX-12 pump is safe for children.", "For children the OX-12 pump is safe.")
    ]

    assert backed(lies, models, trusted) == [False] * 2


def test_a_value_joined_to_a_true_sentence_is_not_backed(models: Models) -> None:
    joined = [
        f"The OX-12 pump weighs 14 kg{link} may stay in salt water for 9 days." for link in (" and", ", it", "; it")
    ]

    assert backed(joined, models) == [False] * 3


def test_without_statements_or_without_shared_words_nothing_is_backed(models: Models) -> None:
    assert not is_claim_backed(a_version(TRUE[0]).chunks[0], (), ())
    assert (
        backed(["The OX-12 pump weighs 14 kg.", "A recipe for lentils.", "The choir meets on Tuesdays."], models)
        == [False] * 3
    )


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "a" * 10_000, "?!" * 500])
def test_any_text_is_read(text: str) -> None:
    shared = find_shared_words(text, [{"pump"}, set()])

    assert not is_claim_backed(Chunk("c", 0, 0, len(text), text, 1), shared, ())
