"""A text of another day is found in the corpus of now, and says how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from corpus_guard.corpus import publishing
from corpus_guard.domain import doc_id
from corpus_guard.models import Models
from corpus_guard.refresh.run import refresh
from corpus_guard.traceback import attribution
from corpus_guard.traceback.attribution import (
    LEAST,
    Attribution,
    How,
    attribute,
    candidates_of,
    find_now,
    probes,
)
from corpus_guard.traceback.suspects import Suspect, TextsInMemory
from deploying import Deployment

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
    suspects = [Suspect(f"id{number}", one, 0.0, vectors[number]) for number, one in enumerate(texts)]
    corpus = TextsInMemory(suspects, vectors, models.embedder)
    return attribute(text, candidates_of(text, corpus), models.embedder.embed([text])[0])


@pytest.mark.parametrize(
    ("new", "how"),
    [
        (OLD, How.HASH),
        (OLD.replace(" ", "\n", 3).upper().replace(".", " !"), How.NORMALISED),
        (OLD.replace("e", "\u0435").replace("book", "b\u200book"), How.NORMALISED),
        (OLD.replace("ferryman", "boatman").replace("third", "fourth").replace("blue", "red"), How.SHINGLES),
        ("It is an old custom. " + OLD[: len(OLD) // 2], How.SHINGLES),
    ],
    ids=["bytes", "spelling", "look-alikes", "edited", "re-chunked"],
)
def test_the_surest_step_that_finds_it_is_named(models: Models, new: str, how: How) -> None:
    found = found_in(models, [*OTHERS, new])

    assert (found[0].chunk_id, found[0].how) == ("id5", how)
    assert found[0].confidence >= LEAST
    assert (found[0].confidence == 1.0) is (how is How.HASH)


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

    assert probes("short") == ["short"]
    assert probes(long)[0] == long
    assert [len(one.split()) for one in probes(long)[1:]] == [60] * 6 + [40]
    assert len(probes("x " * 30_000)) <= 8


def test_every_share_is_of_the_shorter_text(models: Models) -> None:
    inside = f"{OTHERS[2]} {OLD} {OTHERS[4]} {OTHERS[1]}"
    found = found_in(models, [*OTHERS[:1], OTHERS[3], inside])

    assert [one.chunk_id for one in found] == ["id2"]


@pytest.fixture
def filled(deployment: Deployment) -> Deployment:
    for number, text in enumerate(OTHERS):
        deployment.page(f"{number}.md", text)
    return deployment


def test_it_is_found_in_the_live_store_after_an_edit(filled: Deployment) -> None:
    page = filled.page("keys.md", OLD)
    with filled.guard() as guard:
        refresh(guard, "r1")
        (same, *_) = find_now(guard, OLD)
        assert (same.how, same.suspect.uri, same.suspect.source) == (How.HASH, "keys.md", "pages")

        page.write_text(OLD.replace("ferryman", "boatman").replace("third plank", "fourth step"))
        refresh(guard, "r2")
        (now, *_) = find_now(guard, OLD)
        assert (now.how, now.suspect.uri) == (How.SHINGLES, "keys.md")
        assert now.chunk_id != same.chunk_id
        assert now.as_dict()["uri"] == "keys.md"


def test_what_no_vector_leads_to_is_found_by_what_the_ledger_knows(
    filled: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.page("keys.md", OLD)
    monkeypatch.setattr(attribution, "candidates_of", lambda text, corpus: [])
    with filled.guard() as guard:
        refresh(guard, "r1")
        (same,) = find_now(guard, OLD)
        (alike,) = find_now(guard, OLD.replace("ferryman", "boatman"))  # by MinHash bands

        assert (same.how, same.suspect.uri) == (How.HASH, "keys.md")
        assert (alike.how, alike.suspect.uri) == (How.SHINGLES, "keys.md")
        with guard.ledger.write() as connection:
            publishing.retire(guard.ledger, connection, "x", [doc_id("pages", "keys.md")], "gone")
        assert find_now(guard, OLD) == []


def test_lone_surrogates_and_long_texts_do_no_harm(filled: Deployment) -> None:
    with filled.guard() as guard:
        refresh(guard, "r1")
        assert find_now(guard, "\ud800") == []
        assert np.isfinite([one.confidence for one in find_now(guard, "x" * 100_000)]).all()
