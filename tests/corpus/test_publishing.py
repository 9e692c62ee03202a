"""From verdicts to what is served: which version of a document, in which collection, at every moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import deciding
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import vectors_to_table
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.store import Store
from corpus_guard.domain import TrustLevel, Verdict, Version
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, decisions, events, findings, publications
from corpus_guard.review.decisions import Choice
from corpus_guard.review.queue import load_page
from material import MODEL, Shelf, a_version, judged, vector_of

ON_BOTH_STORES = True

QUARANTINE, REJECT, ACCEPT = Verdict.QUARANTINE, Verdict.REJECT, Verdict.ACCEPT

A = a_version(passages=("first: ", "quay"), minute=0)
B = a_version(passages=("second: ", "pier", ", mole"), minute=1)
A_AGAIN = a_version(passages=("first: ", "quay"), minute=2)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Return a ledger of either kind: the outbox keeps its promises on both."""
    opened: Ledger = request.getfixturevalue(f"{request.param}_ledger")
    return opened


def test_the_accepted_is_served_and_the_others_are_not(shelf: Shelf) -> None:
    good, doubtful, bad = (a_version(uri) for uri in ("good", "doubtful", "bad"))

    shelf.record((good, ACCEPT), (doubtful, QUARANTINE), (bad, REJECT))

    assert shelf.drain() == (2, 0)
    assert shelf.check_agreement() == shelf.held_by(good)
    assert [shelf.state(one) for one in (good, doubtful, bad)] == ["accepted", "quarantined", "rejected"]


def test_a_served_record_carries_the_stamp_and_the_text_of_its_chunk(shelf: Shelf) -> None:
    shelf.serve(A)

    records = sorted(shelf.in_chroma().values(), key=lambda record: int(record.metadata["ordinal"]))

    assert [record.text for record in records] == ["first: ", "quay"]
    assert records[1].metadata == {
        "doc_id": A.doc_id,
        "version_id": A.version_id,
        "source": "harbour",
        "owner": "harbour office",
        "trust": "open",
        "uri": "pumps.md",
        "ordinal": 1,
        "start": 7,
        "end": 11,
        "content_sha256": A.stamp.content_sha256,
        "fetched_at": "2026-03-01T12:00:00+00:00",
        "verdict": "accept",
        "title": "pumps.md",
    }


def test_recording_and_draining_again_changes_nothing(shelf: Shelf) -> None:
    shelf.serve(A)
    before = shelf.in_ledger()

    shelf.accept(A)

    assert shelf.drain() == (0, 0)
    assert shelf.in_ledger() == before


def test_of_equal_chunks_one_is_served(shelf: Shelf) -> None:
    """Hundreds of equal vectors would hide those of other documents from a search."""
    log = a_version("log", passages=("quay ",) * 400)
    pages = [a_version(f"page {number}", passages=(f"{number} boats",)) for number in range(14)]

    shelf.serve(*pages, log)

    assert shelf.check_agreement() == shelf.held_by(*pages) | {
        (shelf.store.collection_name(log.stamp.trust), log.chunks[0].chunk_id)
    }
    vectors = np.stack([vector_of(page.chunks[0].text) for page in pages])
    answers = shelf.store.nearest_ids(shelf.store.collection_name(log.stamp.trust), vectors, 1)
    assert [answer[0][0] for answer in answers] == [page.chunks[0].chunk_id for page in pages]


def test_each_chunk_gets_the_vector_of_its_own_file(shelf: Shelf) -> None:
    """A chunk embedded in two batches has two vectors, and both files may be in one group."""
    files = [a_version("first", passages=("quay",)), a_version("second", passages=("pier",))]
    for version in files:
        shelf.accept(version)
    ids = [version.chunks[0].chunk_id for version in files]
    names = [row.vectors for row in (shelf.in_ledger("pending")[key] for key in sorted(shelf.held_by(*files)))]
    by_chunk = dict(zip(sorted(ids), names, strict=True))
    for own in files:
        chunk = own.chunks[0]
        table = np.stack([vector_of(chunk.text if name == chunk.chunk_id else "another") for name in ids])
        shelf.storage.write(by_chunk[chunk.chunk_id], parquet_bytes(vectors_to_table(ids, table, MODEL)))

    shelf.drain()

    vectors = {name: record.vector for (_, name), record in shelf.in_chroma().items()}
    for version in files:
        assert np.allclose(vectors[version.chunks[0].chunk_id], vector_of(version.chunks[0].text), atol=1e-6)


def test_a_changed_document_replaces_its_chunks(shelf: Shelf) -> None:
    shelf.serve(A)
    shelf.accept(B)

    assert shelf.drain() == (3, 2)
    assert shelf.check_agreement() == shelf.held_by(B)
    assert set(shelf.in_ledger("retired")) == shelf.held_by(A)


def test_a_document_is_served_at_every_moment_of_its_replacement(
    lite_shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "CHUNKS_PER_GROUP", 2)  # B needs two groups
    lite_shelf.serve(A)
    lite_shelf.accept(B)
    moments = []

    def watched(name: str) -> None:
        do = getattr(Store, name)

        def then_look(self: Store, *arguments: object) -> object:
            done = do(self, *arguments)
            moments.append((name, set(lite_shelf.in_chroma()), set(lite_shelf.in_ledger())))
            return done

        monkeypatch.setattr(Store, name, then_look)

    watched("upsert")
    watched("delete")
    lite_shelf.drain()

    old, new = lite_shelf.held_by(A), lite_shelf.held_by(B)
    assert [name for name, *_ in moments] == ["upsert", "upsert", "delete"]
    for _, in_chroma, in_ledger in moments:
        assert old <= in_chroma or new <= in_chroma
        assert (old <= in_ledger and old <= in_chroma) or (new <= in_ledger and new <= in_chroma)


def test_a_document_that_vanished_is_retired_and_comes_back(shelf: Shelf) -> None:
    shelf.serve(A)

    shelf.retire(A.doc_id)
    assert shelf.drain() == (0, 2)
    assert shelf.check_agreement() == set()
    assert shelf.document(A).retired_at is not None

    back = replace(A, stamp=replace(A.stamp, fetched_at=now()))
    shelf.accept(back)
    assert shelf.drain() == (2, 0)
    assert shelf.check_agreement() == shelf.held_by(A)
    assert shelf.document(A).retired_at is None


def test_a_document_that_comes_back_doubtful_waits_in_the_queue(shelf: Shelf) -> None:
    shelf.serve(A)
    shelf.retire(A.doc_id)
    shelf.drain()

    back = a_version(passages=("changed while it was away",), fetched_at=now())
    shelf.record((back, QUARANTINE))

    assert [item.version_id for item in load_page(shelf.ledger).items] == [back.version_id]


def test_what_was_fetched_before_the_retirement_does_not_undo_it(shelf: Shelf) -> None:
    shelf.serve(A)
    shelf.retire(A.doc_id)

    shelf.accept(B)  # fetched long before now, recorded late
    shelf.drain()

    assert shelf.check_agreement() == set()
    assert shelf.document(A).retired_at is not None


def test_an_earlier_version_returns(shelf: Shelf) -> None:
    shelf.serve(A)
    shelf.serve(B)

    shelf.serve(A_AGAIN)

    assert shelf.check_agreement() == shelf.held_by(A)
    fetched = {record.metadata["fetched_at"] for record in shelf.in_chroma().values()}
    assert fetched == {A_AGAIN.stamp.fetched_at.isoformat()}


def test_an_earlier_version_returns_before_the_later_was_published(shelf: Shelf) -> None:
    shelf.serve(A)
    shelf.accept(B)

    shelf.accept(A_AGAIN)

    assert shelf.drain() == (0, 3)
    assert shelf.check_agreement() == shelf.held_by(A)


def test_an_earlier_version_returns_when_the_later_was_published_in_part(
    lite_shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "CHUNKS_PER_GROUP", 2)
    lite_shelf.serve(A)
    lite_shelf.accept(B)
    monkeypatch.setattr(Store, "upsert", _once(Store.upsert))
    with pytest.raises(ConnectionError):
        lite_shelf.drain()
    assert set(lite_shelf.in_ledger()) & lite_shelf.held_by(B)
    monkeypatch.undo()

    lite_shelf.serve(A_AGAIN)

    assert lite_shelf.check_agreement() == lite_shelf.held_by(A)


def test_an_earlier_version_returns_while_it_is_being_retired(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.serve(A)
    shelf.accept(B)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", _fails)
        with pytest.raises(ConnectionError):
            shelf.drain()
    assert set(shelf.in_ledger("retiring")) == shelf.held_by(A)

    untitled = replace(A_AGAIN, stamp=replace(A_AGAIN.stamp, declared={}))  # Chroma still holds the title
    shelf.serve(untitled)

    assert shelf.check_agreement() == shelf.held_by(A)


def test_late_recording_of_an_older_fetch_does_not_win(shelf: Shelf) -> None:
    shelf.serve(B)

    shelf.accept(A)

    assert shelf.drain() == (0, 0)
    assert shelf.check_agreement() == shelf.held_by(B)
    assert shelf.document(A).latest_version == B.version_id


def test_late_recording_of_an_older_fetch_wins_over_nothing(shelf: Shelf) -> None:
    shelf.record((B, QUARANTINE))

    shelf.serve(A)

    assert shelf.check_agreement() == shelf.held_by(A)
    assert shelf.document(A).latest_version == B.version_id
    assert shelf.document(A).target_version == A.version_id


@pytest.mark.parametrize("verdict", [QUARANTINE, REJECT])
def test_a_refused_successor_leaves_the_accepted_version_where_it_is(shelf: Shelf, verdict: Verdict) -> None:
    shelf.serve(A)

    shelf.record((B, verdict))

    assert shelf.drain() == (0, 0)
    assert shelf.check_agreement() == shelf.held_by(A)
    assert shelf.document(A).latest_version == B.version_id


def test_an_accepted_version_without_chunks_still_replaces_the_one_before(shelf: Shelf) -> None:
    shelf.serve(A)

    shelf.serve(a_version(passages=(), minute=1))

    assert shelf.check_agreement() == set()


def test_a_version_without_chunks_that_is_refused_later_gives_way_to_an_older_fetch(shelf: Shelf) -> None:
    shelf.serve(a_version(passages=(), minute=1))

    shelf.record((a_version(passages=(), minute=2), QUARANTINE))
    assert shelf.document(A).target_version is None

    shelf.serve(A)
    assert shelf.check_agreement() == shelf.held_by(A)


def test_another_trust_level_is_another_collection(shelf: Shelf) -> None:
    shelf.serve(A)

    moved = replace(A_AGAIN, stamp=replace(A_AGAIN.stamp, trust=TrustLevel.REVIEWED))
    shelf.accept(moved)

    assert shelf.drain() == (2, 2)
    assert shelf.check_agreement() == shelf.held_by(moved)
    assert {record.metadata["trust"] for record in shelf.in_chroma().values()} == {"reviewed"}


def test_a_trust_level_taken_back_before_it_took_effect_is_never_served(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.serve(A)
    shelf.accept(replace(A, stamp=replace(A.stamp, trust=TrustLevel.TRUSTED)))
    shelf.accept(A_AGAIN)

    seen: list[str] = []
    upsert = Store.upsert

    def watched(self: Store, name: str, *rest: Any) -> None:
        seen.append(name)
        upsert(self, name, *rest)

    monkeypatch.setattr(Store, "upsert", watched)
    shelf.drain()

    assert seen == []
    assert shelf.check_agreement() == shelf.held_by(A)


@pytest.mark.parametrize("drained", [True, False])
def test_bytes_that_are_refused_when_judged_again_are_served_no_longer(shelf: Shelf, drained: bool) -> None:
    trusted = replace(A, stamp=replace(A.stamp, trust=TrustLevel.TRUSTED))
    shelf.accept(trusted)
    if drained:
        shelf.drain()

    shelf.record((A_AGAIN, QUARANTINE))  # the same bytes, their source only open now
    shelf.drain()

    assert shelf.check_agreement() == set()
    assert shelf.document(A).target_version is None


def test_what_was_accepted_at_a_trust_level_its_source_lost_is_served_no_longer(shelf: Shelf) -> None:
    shelf.serve(replace(A, stamp=replace(A.stamp, trust=TrustLevel.TRUSTED)))

    shelf.record((B, QUARANTINE))
    shelf.drain()

    assert shelf.check_agreement() == set()


def test_an_older_fetch_at_a_trust_level_its_source_lost_is_not_served(shelf: Shelf) -> None:
    shelf.record((B, QUARANTINE))

    shelf.accept(replace(A, stamp=replace(A.stamp, trust=TrustLevel.TRUSTED)))

    assert shelf.drain() == (0, 0)
    assert shelf.document(A).target_version is None


def test_an_older_fetch_that_is_refused_moves_nothing(shelf: Shelf) -> None:
    shelf.serve(B)

    shelf.record((replace(A, stamp=replace(A.stamp, trust=TrustLevel.TRUSTED)), QUARANTINE))
    shelf.drain()

    assert shelf.check_agreement() == shelf.held_by(B)


@pytest.mark.parametrize(("choice", "state", "served"), [("release", "released", True), ("reject", "rejected", False)])
def test_a_decision_on_the_same_bytes_is_kept(shelf: Shelf, choice: Choice, state: str, served: bool) -> None:
    shelf.record((A, QUARANTINE))
    decided(shelf, choice)
    shelf.record((B, REJECT))

    shelf.record((A_AGAIN, QUARANTINE if served else ACCEPT))
    shelf.drain()

    assert shelf.state(A) == state
    assert shelf.check_agreement() == (shelf.held_by(A) if served else set())
    if served:
        assert {record.metadata["verdict"] for record in shelf.in_chroma().values()} == {"release"}


def test_a_decision_does_not_reach_other_bytes(shelf: Shelf) -> None:
    shelf.record((A, QUARANTINE))
    decided(shelf, "release")

    shelf.record((B, QUARANTINE))
    shelf.drain()

    assert shelf.state(B) == "quarantined"
    assert shelf.check_agreement() == set()


def test_a_release_that_was_not_applied_yet_is_left_to_be_applied(shelf: Shelf) -> None:
    shelf.record((A, QUARANTINE))
    decided(shelf, "release", applied=False)

    shelf.record((A, QUARANTINE))  # the retried task of a run whose vectors are older than the decision

    assert shelf.drain() == (0, 0)
    assert shelf.state(A) == "quarantined"


def test_a_verdict_leaves_its_findings_chunks_and_events(shelf: Shelf) -> None:
    shelf.record((A, QUARANTINE))
    shelf.record((A, QUARANTINE))

    with shelf.ledger.read() as connection:
        assert connection.execute(sa.select(findings.c.code)).scalars().all() == ["instructions.override"]
        assert connection.scalar(sa.select(sa.func.count()).select_from(chunks)) == 2
        bodies = connection.execute(sa.select(events.c.body).where(events.c.kind == "judged")).scalars().all()
    assert [body["verdict"] for body in bodies] == ["quarantine", "quarantine"]


def test_a_verdict_and_what_goes_with_it_are_written_together_or_not_at_all(shelf: Shelf) -> None:
    with pytest.raises(ConnectionError), shelf.ledger.write() as connection:
        publishing.record(
            connection,
            "run-1",
            "batch",
            [(A, judged(A))],
            collection=shelf.store.collection_name,
            vectors="v",
            model="m/f",
        )
        raise ConnectionError

    assert not shelf.in_ledger("pending")
    assert shelf.ledger.scalar(sa.select(sa.func.count()).select_from(events)) == 0


def test_without_work_no_store_is_opened(shelf: Shelf) -> None:
    shelf.record((A, QUARANTINE))

    def connect() -> str:
        raise AssertionError("connected")

    assert outbox.drain(shelf.ledger, shelf.storage, ChromaStore(connect, "corpus"), "run-1") == (0, 0)


def test_a_batch_that_lacks_its_chunk_is_named(lite_shelf: Shelf) -> None:
    lite_shelf.accept(A)
    row = next(iter(lite_shelf.in_ledger("pending").values()))
    with lite_shelf.ledger.write() as connection:
        connection.execute(chunks.insert().values(_foreign_chunk()))
        connection.execute(publications.insert().values({**row._mapping, "chunk_id": "f" * 32}))

    with pytest.raises(
        Inconsistent, match=r"chunk f{32} is to be published, and \S+/versions\.parquet does not hold it"
    ):
        lite_shelf.drain()

    assert not lite_shelf.in_chroma()


def test_many_documents_leave_in_as_many_statements_as_one(shelf: Shelf) -> None:
    pages = [a_version(f"page {number}", passages=(f"{number} boats", ", moored")) for number in range(201)]
    refused, retired = pages[:101], pages[101:]
    shelf.serve(*pages)

    def refuse(*made: Version) -> None:
        with shelf.ledger.write() as connection:
            pairs = [(version.doc_id, version.version_id) for version in made]
            publishing.stop_serving(connection, "run-2", pairs, shelf.store.collection_name)

    for_one = [
        statements_of(shelf.ledger, lambda: refuse(refused[0])),
        statements_of(shelf.ledger, lambda: shelf.retire(retired[0].doc_id)),
    ]
    for_many = [
        statements_of(shelf.ledger, lambda: refuse(*refused[1:])),
        statements_of(shelf.ledger, lambda: shelf.retire(*(version.doc_id for version in retired[1:]))),
    ]

    assert for_many == for_one
    assert set(shelf.in_ledger("retiring")) == shelf.held_by(*pages)
    assert all(shelf.document(version).target_version is None for version in pages)
    assert [shelf.document(version).retired_at is None for version in pages] == [True] * 101 + [False] * 100
    with shelf.ledger.read() as connection:
        subjects = connection.scalars(sa.select(events.c.subject).where(events.c.kind == "retired").order_by("seq"))
        assert subjects.all() == [version.doc_id for version in retired]


def statements_of(ledger: Ledger, change: Callable[[], None]) -> int:
    """Return how many statements the database gets; one for many rows counts once."""
    statements: list[str] = []

    def count(connection: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    sa.event.listen(ledger.engine, "before_cursor_execute", count)
    try:
        change()
    finally:
        sa.event.remove(ledger.engine, "before_cursor_execute", count)
    return len(statements)


def decided(shelf: Shelf, choice: Choice, *, applied: bool = True) -> None:
    (made,) = deciding.decided(shelf.ledger, A.version_id, choice)
    if applied:
        shelf.ledger.execute(
            decisions.update().where(decisions.c.decision_id == made.decision_id).values(applied_at=now())
        )


def _foreign_chunk() -> dict[str, object]:
    return {
        "chunk_id": "f" * 32,
        "version_id": A.version_id,
        "ordinal": 9,
        "span_start": 0,
        "span_end": 1,
        "tokens": 1,
        "text_sha256": "0" * 64,
    }


def _fails(*arguments: object) -> None:
    raise ConnectionError


def _once(do: object) -> object:
    done: list[bool] = []

    def one_time(*arguments: object) -> object:
        if done:
            raise ConnectionError
        done.append(True)
        return do(*arguments)  # type: ignore[operator]

    return one_time
