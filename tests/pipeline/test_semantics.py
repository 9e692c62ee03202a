"""A run's vectors brought together, with what is served already and with what people ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.ledger.tables import documents
from corpus_guard.models import Models
from corpus_guard.pipeline import semantics as _semantics
from corpus_guard.review.queue import load_page
from corpus_guard.screening.survey import hub_reach
from corpus_guard.screening.survey.semantics import Semantics
from deploying import TICKETS, Workspace
from material import add_question
from siblings import QUESTION, SIBLINGS, UNRELATED
from stepping import SteppedRun


@pytest.fixture
def workspace_models(models: Models) -> Models:
    """Return the real models: here texts agree in meaning."""
    return models


def unrelated(deployment: Workspace, note: str = "") -> None:
    for number, text in enumerate(UNRELATED):
        deployment.page(f"unrelated/{number:02}.md", f"{text} {note}".strip())


def sibling(deployment: Workspace, number: int) -> str:
    deployment.page(f"sibling-{number}.md", SIBLINGS[number])
    return f"sibling-{number}.md"


def semantics(deployment: Workspace, run_id: str = "looked at") -> Semantics:
    """What a run would see."""
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, run_id)
        taken = stepped.fetch()
        embedded = stepped.embed_changed(taken)
        return _semantics.compare_chunks(
            guard.ledger,
            guard.storage,
            guard.store,
            guard.models,
            guard.screening,
            [(shard["batch"], shard["vectors"]) for shard in embedded],
        )


def test_siblings_of_several_shards_and_sources_are_found_together(make: Any) -> None:
    deployment = make(shard_documents=7)
    unrelated(deployment)
    names = [sibling(deployment, number) for number in range(3)]
    deployment.rows(*({"id": f"s{number}", "text": SIBLINGS[number]} for number in (3, 4)))
    deployment.sources({**TICKETS, "trust": "open"})

    sealed = deployment.refresh("r1")

    assert (sealed["accepted"], sealed["quarantined"]) == (len(UNRELATED), 5)
    members = [*names, "tickets.jsonl#s3", "tickets.jsonl#s4"]
    assert [(row.uri, row.code) for row in deployment.findings("coordination")] == [
        (name, "coordination.group") for name in members
    ]
    assert all(row.message.startswith("5 documents") for row in deployment.findings("coordination"))
    assert {deployment.states()[name] for name in members} == {"quarantined"}


def test_what_three_sources_say_alike_is_a_note(deployment: Workspace) -> None:
    unrelated(deployment)
    names = [sibling(deployment, number) for number in range(2)]
    deployment.rows(*({"id": f"s{number}", "text": SIBLINGS[number]} for number in (2, 3)))
    forum = deployment.root / "forum"
    forum.mkdir()
    (forum / "sibling-4.md").write_text(SIBLINGS[4])
    deployment.sources(
        {**TICKETS, "trust": "open"},
        {"kind": "folder", "name": "forum", "url": "forum", "owner": "town", "trust": "open"},
    )

    deployment.refresh("r1")

    members = [*names, "tickets.jsonl#s2", "tickets.jsonl#s3", "sibling-4.md"]
    assert {row.uri: row.code for row in deployment.findings("coordination")} == dict.fromkeys(
        members, "coordination.independent"
    )
    assert {deployment.states()[name] for name in members} == {"accepted"}


@pytest.mark.slow
def test_one_text_a_day_is_found_when_three_others_are_served(deployment: Workspace) -> None:
    """A drip feed, on days on which other documents arrive too."""
    stopped: list[int] = []
    for day in range(5):
        unrelated(deployment, f"Read again on day {day}.")
        name = sibling(deployment, day)
        deployment.refresh(f"day-{day}")
        if deployment.states()[name] == "quarantined":
            stopped.append(day)

    # The first three are nobody's siblings when they arrive. They stay served, and wait since the fourth came.
    assert stopped == [3, 4]
    *reopened, fourth, fifth = deployment.findings("coordination")
    assert [(row.uri, row.code) for row in reopened] == [
        (f"sibling-{day}.md", "coordination.reopened") for day in range(3)
    ]
    rows = [fourth, fifth]
    assert [(row.uri, row.code) for row in rows] == [
        ("sibling-3.md", "coordination.group"),
        ("sibling-4.md", "coordination.group"),
    ]
    assert all(row.message.startswith("4 documents") for row in rows)
    with deployment.guard() as guard:
        waiting = load_page(guard.ledger).items
        assert {item.uri: item.reopened_at is not None for item in waiting} == {
            f"sibling-{day}.md": day < 3 for day in range(5)
        }
        assert len({item.campaign for item in waiting}) == 1
        assert guard.verify().holds
    with deployment.guard() as guard, guard.ledger.read() as connection:
        served = {row.uri: row.doc_id for row in connection.execute(sa.select(documents.c.uri, documents.c.doc_id))}
    for row in rows:
        assert all(served[f"sibling-{day}.md"] in row.message for day in range(3))


def test_on_a_quiet_day_what_is_served_is_the_background(deployment: Workspace) -> None:
    """A group must stand out from something; those served already are that, and voices of their own."""
    unrelated(deployment)
    for number in range(3):
        sibling(deployment, number)
        deployment.refresh(f"day-{number}")
    sibling(deployment, 3)

    sealed = deployment.refresh("day-3")

    assert (sealed["accepted"], sealed["quarantined"], sealed["reopened"]) == (0, 1, 3)
    assert [row.uri for row in deployment.findings("coordination") if row.code == "coordination.group"] == [
        "sibling-3.md"
    ]
    assert deployment.refresh("day-4")["reopened"] == 0


def test_where_hardly_anything_is_served_nothing_can_be_told(deployment: Workspace) -> None:
    for number in range(5):
        sibling(deployment, number)
        sealed = deployment.refresh(f"day-{number}")

    assert sealed["accepted"] == 1
    assert deployment.findings("coordination") == []


def test_trusted_sources_are_background_and_no_voices(deployment: Workspace) -> None:
    unrelated(deployment)
    for number in range(3):
        sibling(deployment, number)
    deployment.rows(*({"id": f"s{number}", "text": SIBLINGS[number]} for number in (3, 4)))
    deployment.sources(TICKETS, trust="trusted")

    assert semantics(deployment).agreements == {}


def test_a_question_of_the_bank_finds_the_text_written_for_it(deployment: Workspace) -> None:
    unrelated(deployment)
    name = sibling(deployment, 0)
    with deployment.guard() as guard:
        add_question(guard.ledger, QUESTION)

    sealed = deployment.refresh("r1")

    assert (sealed["accepted"], sealed["quarantined"]) == (len(UNRELATED), 1)
    assert [(row.uri, row.code) for row in deployment.findings("targeting")] == [(name, "targeting.question")]


def test_documents_without_text_are_nobodys_neighbours(deployment: Workspace) -> None:
    (deployment.pages / "empty.md").write_bytes(b"")

    assert semantics(deployment) == Semantics()


def test_before_anything_is_served_there_is_no_collection_to_ask(deployment: Workspace) -> None:
    unrelated(deployment)
    for number in range(5):
        sibling(deployment, number)

    found_first = semantics(deployment)

    assert len(found_first.agreements) == 5
    assert {one.documents for each in found_first.agreements.values() for one in each} == {5}


def test_repeated_after_publishing_it_says_the_same(deployment: Workspace) -> None:
    """A survey that is done again must not take the run's own documents for others."""
    unrelated(deployment)
    sibling(deployment, 0)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        taken = stepped.fetch()
        embedded = stepped.embed_changed(taken)
        batches = [(shard["batch"], shard["vectors"]) for shard in embedded]
        first = _semantics.compare_chunks(
            guard.ledger, guard.storage, guard.store, guard.models, guard.screening, batches
        )
        for shard in stepped.survey(embedded):
            stepped.publish(stepped.screen(shard))

        assert guard.store.count(guard.store.names()[0]) == len(UNRELATED) + 1
        assert (
            _semantics.compare_chunks(guard.ledger, guard.storage, guard.store, guard.models, guard.screening, batches)
            == first
        )


def test_hubs_are_looked_for_among_all_that_is_served(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, fewer in (("MIN_CHUNKS", 10), ("MIN_SERVED", 10), ("MIN_SENTINELS", 5)):
        monkeypatch.setattr(hub_reach, name, fewer)
    half = len(UNRELATED) // 2
    for number, text in enumerate(UNRELATED[:half]):
        deployment.page(f"unrelated/{number:02}.md", text)
    deployment.rows(*({"id": f"t{number}", "text": text} for number, text in enumerate(UNRELATED[half:])))
    deployment.sources({**TICKETS, "trust": "reviewed"})
    with deployment.guard() as guard:
        for text in (*UNRELATED[:6], *UNRELATED[-6:]):
            add_question(guard.ledger, f"What about {' '.join(text.split()[-3:])}?")
    deployment.refresh("r1")
    new = "A list of everything: boats, bread, stones, notices, schools and trains."
    deployment.page("list.md", new)

    seen = semantics(deployment).hubness

    with deployment.guard() as guard:
        served = [record.vector for name in guard.store.names() for record in guard.store.scan(name)]
        bank = QueryBank.load(guard.ledger, guard.storage, guard.models)
        (vector,) = guard.models.embedder.embed([new])
        assert len(guard.store.names()) == 2 and len(served) >= hub_reach.MIN_SERVED
    cosines = bank.vectors @ np.stack(served).T
    nearer = (cosines > (bank.vectors @ vector)[:, None] + hub_reach.ROUNDING).sum(axis=1)
    assert seen is not None
    assert [reach.share for reach in seen.values()] == [round(float((nearer < 10).mean()), 4)]
