"""A text of another day is found in the corpus of now, and says how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from corpus_guard.corpus import publishing
from corpus_guard.domain import doc_id
from corpus_guard.models import Models
from corpus_guard.traceback import attribution
from corpus_guard.traceback.attribution import (
    MIN_CONFIDENCE,
    Attribution,
    AttributionMethod,
    attribute,
    find_candidates,
    find_in_live_store,
    split_into_probes,
)
from corpus_guard.traceback.retrieval import InMemoryCorpus, RetrievedText
from deploying import Workspace

OLD = (
    "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty. Whoever needs it asks the harbour "
    "office first, writes the hour into the blue book, and brings it back before the evening tide turns at the outer mole."
)
OTHERS = [
    "The harbour office has new lamps over both of its doors, and the boat house was painted white in summer.",
    "The tide gauge at the outer mole is read every morning; the hour and the value are written into the log book.",
    "Bread is baked in the village on Tuesdays and Fridays, and the shop beside the church opens at eight.",
    "A plank of the jetty was replaced in spring after the storm had torn it away, and the ferryman helped.",
    "Invoices are paid within thirty days; reminders are sent by the accounts department on the first of each month.",
]


def found_in(models: Models, texts: Sequence[str], text: str = OLD) -> list[Attribution]:
    vectors = models.embedder.embed(list(texts))
    suspects = [RetrievedText(f"id{number}", one, 0.0, vectors[number]) for number, one in enumerate(texts)]
    corpus = InMemoryCorpus(suspects, vectors, models.embedder)
    return attribute(text, find_candidates(text, corpus), models.embedder.embed([text])[0])


@pytest.mark.parametrize(
    ("new", "how"),
    [
        (OLD, AttributionMethod.HASH),
        (OLD.replace(" ", "\n", 3).upper().replace(".", " !"), AttributionMethod.NORMALISED),
        (OLD.replace("e", "\u0435").replace("book", "b\u200book"), AttributionMethod.NORMALISED),
        (
            OLD.replace("ferryman", "boatman").replace("third", "fourth").replace("blue", "red"),
            AttributionMethod.SHINGLES,
        ),
        ("It is an old custom. " + OLD[: len(OLD) // 2], AttributionMethod.SHINGLES),
    ],
    ids=["bytes", "spelling", "look-alikes", "edited", "re-chunked"],
)
def test_the_surest_step_that_finds_it_is_named(models: Models, new: str, how: AttributionMethod) -> None:
    found = found_in(models, [*OTHERS, new])

    assert (found[0].chunk_id, found[0].how) == ("id5", how)
    assert found[0].confidence >= MIN_CONFIDENCE
    assert (found[0].confidence == 1.0) is (how is AttributionMethod.HASH)


def test_copies_are_all_named_the_surest_first(models: Models) -> None:
    edited = OLD.replace("ferryman", "boatman").replace("third", "fourth")
    found = found_in(models, [edited, *OTHERS, OLD, OLD.upper()])

    assert [one.chunk_id for one in found[:3]] == ["id6", "id7", "id0"]
    assert found[0].confidence > found[1].confidence >= found[2].confidence


def test_what_is_not_there_is_attributed_to_nothing(models: Models) -> None:
    assert found_in(models, OTHERS) == []
    assert found_in(models, []) == []
    assert found_in(models, OTHERS, "") == []
    assert found_in(models, ["...", *OTHERS], "!!!") == []


def test_a_long_text_is_looked_for_in_parts() -> None:
    long = " ".join(f"word{number}" for number in range(400))

    assert split_into_probes("short") == ["short"]
    assert split_into_probes(long)[0] == long
    assert [len(one.split()) for one in split_into_probes(long)[1:]] == [60] * 6 + [40]
    assert len(split_into_probes("x " * 30_000)) <= 8


def test_every_share_is_of_the_shorter_text(models: Models) -> None:
    inside = f"{OTHERS[2]} {OLD} {OTHERS[4]} {OTHERS[1]}"
    found = found_in(models, [*OTHERS[:1], OTHERS[3], inside])

    assert [one.chunk_id for one in found] == ["id2"]


@pytest.fixture
def filled(deployment: Workspace) -> Workspace:
    for number, text in enumerate(OTHERS):
        deployment.page(f"{number}.md", text)
    return deployment


def test_it_is_found_in_the_live_store_after_an_edit(filled: Workspace) -> None:
    page = filled.page("keys.md", OLD)
    with filled.guard() as guard:
        guard.refresh("r1")
        (same, *_) = find_in_live_store(guard.ledger, guard.store, guard.models.embedder, OLD)
        assert (same.how, same.suspect.uri, same.suspect.source) == (AttributionMethod.HASH, "keys.md", "pages")

        page.write_text(OLD.replace("ferryman", "boatman").replace("third plank", "fourth step"))
        guard.refresh("r2")
        (now, *_) = find_in_live_store(guard.ledger, guard.store, guard.models.embedder, OLD)
        assert (now.how, now.suspect.uri) == (AttributionMethod.SHINGLES, "keys.md")
        assert now.chunk_id != same.chunk_id
        assert now.as_dict()["uri"] == "keys.md"


def test_what_no_vector_leads_to_is_found_by_what_the_ledger_knows(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.page("keys.md", OLD)
    monkeypatch.setattr(attribution, "find_candidates", lambda text, corpus: [])
    with filled.guard() as guard:
        guard.refresh("r1")
        (same,) = find_in_live_store(guard.ledger, guard.store, guard.models.embedder, OLD)
        (alike,) = find_in_live_store(
            guard.ledger, guard.store, guard.models.embedder, OLD.replace("ferryman", "boatman")
        )  # by MinHash bands

        assert (same.how, same.suspect.uri) == (AttributionMethod.HASH, "keys.md")
        assert (alike.how, alike.suspect.uri) == (AttributionMethod.SHINGLES, "keys.md")
        with guard.ledger.write() as connection:
            publishing.retire(connection, "x", [doc_id("pages", "keys.md")], "gone")
        assert find_in_live_store(guard.ledger, guard.store, guard.models.embedder, OLD) == []


def test_lone_surrogates_and_long_texts_do_no_harm(filled: Workspace) -> None:
    with filled.guard() as guard:
        guard.refresh("r1")
        assert find_in_live_store(guard.ledger, guard.store, guard.models.embedder, "\ud800") == []
        assert np.isfinite(
            [
                one.confidence
                for one in find_in_live_store(guard.ledger, guard.store, guard.models.embedder, "x" * 100_000)
            ]
        ).all()
