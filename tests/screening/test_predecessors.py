"""What a new version follows, read from the batches that the ledger names; what cannot be read stops the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from sample_versions import FETCHED, a_version

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import versions_to_table
from corpus_guard.corpus import publishing
from corpus_guard.domain import Judgement, Verdict, Version
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import RunKind
from corpus_guard.ledger.tables import decisions, documents, runs, versions
from corpus_guard.screening.history import record_signals
from corpus_guard.screening.predecessors import MOVING_TIME, find_predecessors, read_predecessors
from corpus_guard.screening.survey.signals import measure_signals
from corpus_guard.screening.survey.survey import Survey

Keep = Callable[..., str]


def load_predecessors(ledger: Ledger, storage: Storage, versions: list[Version]) -> dict[str, Version]:
    return read_predecessors(storage, find_predecessors(ledger, "r2", versions))


def page(text: str, uri: str = "a.md", parent: Version | None = None) -> Version:
    return a_version(f"The pier is {text}.", uri=uri, parent_version=parent.version_id if parent else None)


def keeping(ledger: Ledger, storage: Storage) -> Keep:
    """Records versions in one batch, as a run does; gives the batch's name."""

    def keep(*made: Version, verdict: Verdict = Verdict.ACCEPT) -> str:
        batch = f"batches/{made[0].version_id}/versions.parquet"
        storage.write_table(batch, versions_to_table(made))
        with ledger.write() as connection:
            publishing.record(
                connection,
                "r1",
                batch,
                [(version, Judgement(version.version_id, verdict, 0.1, "0" * 64, ())) for version in made],
                collection=lambda trust: f"corpus-{trust.value}",
                vectors="v.parquet",
                model="m/float32",
            )
            record_signals(connection, [measure_signals(version) for version in made])
        return batch

    return keep


@pytest.fixture
def keep(sqlite_ledger: Ledger, storage: Storage) -> Keep:
    return keeping(sqlite_ledger, storage)


def test_each_version_gets_what_it_follows_whole(ledger: Ledger, storage: Storage) -> None:
    keep = keeping(ledger, storage)
    a, b, other = page("long"), page("wide", "b.md"), page("old", "c.md")
    keep(a, other)
    keep(b)
    new = [page("short", parent=a), page("narrow", "b.md", b), page("new", "d.md")]

    found = load_predecessors(ledger, storage, new)

    assert found == {new[0].version_id: a, new[1].version_id: b}


@pytest.mark.parametrize(
    ("known", "verdict", "new"),
    [
        (page("long"), Verdict.ACCEPT, "long"),
        (page("short"), Verdict.QUARANTINE, "shorter"),
        (page("wide", "b.md"), Verdict.ACCEPT, "short"),
    ],
    ids=["bytes that were known before", "never accepted", "a parent of another document"],
)
def test_nothing_is_followed(
    sqlite_ledger: Ledger, storage: Storage, keep: Keep, known: Version, verdict: Verdict, new: str
) -> None:
    keep(known, verdict=verdict)

    assert not load_predecessors(sqlite_ledger, storage, [page(new, parent=known)])


@pytest.mark.parametrize("verdict", [Verdict.QUARANTINE, Verdict.REJECT])
def test_a_version_that_was_stopped_does_not_clear_the_way(
    sqlite_ledger: Ledger, storage: Storage, keep: Keep, verdict: Verdict
) -> None:
    served = page("long")
    stopped = page("short", parent=served)
    keep(served)
    keep(stopped, verdict=verdict)
    new = page("shorter", parent=stopped)

    assert load_predecessors(sqlite_ledger, storage, [new]) == {new.version_id: served}


def test_what_a_reviewer_released_is_followed(sqlite_ledger: Ledger, storage: Storage, keep: Keep) -> None:
    released = page("short")
    keep(released, verdict=Verdict.QUARANTINE)
    with sqlite_ledger.write() as connection:
        row = {"decision_id": "d", "version_id": released.version_id, "content_sha256": "0" * 64, "verdict": "release"}
        row |= {"reviewer": "ana", "reason": "honest", "policy_digest": "0" * 64}
        connection.execute(decisions.insert().values(**row, decided_at=FETCHED, applied_at=FETCHED))
    keep(released, verdict=Verdict.QUARANTINE)
    new = page("shorter", parent=released)

    assert set(load_predecessors(sqlite_ledger, storage, [new])) == {new.version_id}


def test_a_retired_document_that_comes_back_follows_what_it_was(
    sqlite_ledger: Ledger, storage: Storage, keep: Keep
) -> None:
    a = page("long")
    keep(a)
    sqlite_ledger.execute(documents.update().values(target_version=None, retired_at=FETCHED))
    new = page("short", parent=a)

    assert set(load_predecessors(sqlite_ledger, storage, [new])) == {new.version_id}


def test_two_that_follow_one_both_get_it(sqlite_ledger: Ledger, storage: Storage, keep: Keep) -> None:
    a = page("long")
    keep(a)
    new = [page("short", parent=a), page("shorter", parent=a)]

    assert load_predecessors(sqlite_ledger, storage, new) == {one.version_id: a for one in new}


def test_a_batch_that_is_gone_broken_or_not_the_one_stops_the_step(
    sqlite_ledger: Ledger, storage: Storage, keep: Keep
) -> None:
    a, b = page("long"), page("wide", "b.md")
    batch = keep(a)
    new = [page("short", parent=a)]
    whole = storage.read(batch)

    for content, says in [
        (b"PAR1 no table", "unreadable"),
        (whole[: len(whole) // 2], "unreadable"),
        (b"", "unreadable"),
    ]:
        storage.write(batch, content)
        with pytest.raises(Inconsistent, match=says):
            load_predecessors(sqlite_ledger, storage, new)
    other = keep(b)
    storage.write(batch, storage.read(other))
    with pytest.raises(Inconsistent, match=f"version {a.version_id} is not in it"):
        load_predecessors(sqlite_ledger, storage, new)
    sqlite_ledger.execute(versions.update().values(batch="batches/gone/versions.parquet"))
    with pytest.raises(Inconsistent, match="is missing"):
        load_predecessors(sqlite_ledger, storage, new)


def test_a_text_that_was_altered_in_storage_stops_the_step(sqlite_ledger: Ledger, storage: Storage, keep: Keep) -> None:
    a = page("long")
    keep(a)
    sqlite_ledger.execute(versions.update().where(versions.c.version_id == a.version_id).values(text_sha256="0" * 64))

    with pytest.raises(Inconsistent, match="another text than the ledger says"):
        load_predecessors(sqlite_ledger, storage, [page("short", parent=a)])


def test_a_batch_is_read_once_and_only_what_is_wanted_of_it(
    sqlite_ledger: Ledger, storage: Storage, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [page(f"{number} m", f"{number}.md") for number in range(20)]
    keep(*old)
    read: list[tuple[str, int]] = []
    original = Storage.read_table

    def counted(self: Storage, name: str, **options: object) -> object:
        table = original(self, name, **options)  # type: ignore[arg-type]
        read.append((name, table.num_rows))
        return table

    monkeypatch.setattr(Storage, "read_table", counted)
    load_predecessors(sqlite_ledger, storage, [page("new", one.stamp.uri, one) for one in old[:3]])

    assert [rows for _, rows in read] == [3]


def test_more_documents_than_one_question_takes(sqlite_ledger: Ledger, storage: Storage, keep: Keep) -> None:
    old = [page("long", f"{number}.md") for number in range(1_100)]
    keep(*old)

    assert len(load_predecessors(sqlite_ledger, storage, [page("new", one.stamp.uri, one) for one in old])) == 1_100
    assert sqlite_ledger.scalar(sa.select(sa.func.count()).select_from(versions)) == 1_100


def test_a_survey_carries_them_for_one_shard_and_never_writes_them_down() -> None:
    a, b = page("long"), page("wide", "b.md")
    whole = Survey().with_predecessors({"new-a": a, "new-b": b})

    assert whole.of(["new-a"]).predecessors == {"new-a": a}
    assert not Survey.from_json(whole.to_json()).predecessors
    assert whole.to_json() == Survey().to_json()


# A document that vanished under one name and arrives under another.

STARTED = FETCHED + timedelta(days=1)
PIER = (
    "long and lies behind the boat house, where the spare pump is kept and inspected every spring by the harbour office"
)


@pytest.fixture
def started(ledger: Ledger) -> Ledger:
    """A ledger in which the refresh r2 has listed its sources, and found no document that is known."""
    begin_run(ledger, "r2", RunKind.REFRESH, "0" * 64, ["handbook"])
    ledger.execute(runs.update().values(started_at=STARTED))
    return ledger


def vanished(ledger: Ledger, version: Version, **columns: datetime | str | None) -> None:
    here = documents.c.doc_id == version.doc_id
    ledger.execute(documents.update().where(here).values(last_seen_at=FETCHED, **columns))


@pytest.mark.parametrize(
    "columns",
    [{}, {"target_version": None, "retired_at": STARTED - MOVING_TIME}],
    ids=["missing in this run", "retired shortly before"],
)
@pytest.mark.parametrize("text", [PIER, PIER.replace("every", "no")], ids=["the same text", "with a change"])
def test_a_new_name_follows_the_document_that_vanished(
    started: Ledger, storage: Storage, columns: dict[str, datetime | str | None], text: str
) -> None:
    old, other = page(PIER), page("wide", "b.md")
    keeping(started, storage)(old, other)
    vanished(started, old, **columns)
    new = page(text, "moved.md")

    assert load_predecessors(started, storage, [new, page("narrow", "c.md")]) == {new.version_id: old}


@pytest.mark.parametrize(
    ("columns", "text", "fields"),
    [
        ({"target_version": None, "retired_at": STARTED - MOVING_TIME - timedelta(seconds=1)}, PIER, {}),
        ({}, "another text of which hardly three words in a row are the same as in the page that vanished", {}),
        ({}, PIER, {"source": "wiki"}),
        ({}, "", {}),
    ],
    ids=["retired long ago", "another text", "another source", "no text"],
)
def test_another_document_that_vanished_is_not_followed(
    started: Ledger, storage: Storage, columns: dict[str, datetime | str | None], text: str, fields: dict[str, str]
) -> None:
    old = page(PIER)
    keeping(started, storage)(old)
    vanished(started, old, **columns)
    new = a_version(f"The pier is {text}." if text else "", uri="moved.md", **fields)

    assert not load_predecessors(started, storage, [new])


def test_a_document_that_is_still_there_or_was_never_accepted_is_not_followed(
    started: Ledger, storage: Storage
) -> None:
    keep = keeping(started, storage)
    there, refused = page(PIER), page(PIER.replace("spring", "autumn"), "b.md")
    keep(there)
    keep(refused, verdict=Verdict.QUARANTINE)
    started.execute(documents.update().values(last_seen_at=STARTED))
    vanished(started, refused)

    assert not load_predecessors(started, storage, [page(PIER, "moved.md")])


def test_of_a_document_that_vanished_the_last_accepted_text_counts(started: Ledger, storage: Storage) -> None:
    keep = keeping(started, storage)
    first = page(PIER)
    second = page(PIER.replace("spring", "autumn"), parent=first)
    stopped = page(PIER.replace("spring", "winter"), parent=second)
    keep(first)
    keep(second)
    keep(stopped, verdict=Verdict.QUARANTINE)
    vanished(started, first, target_version=None, retired_at=STARTED)

    (found,) = load_predecessors(started, storage, [page(PIER, "moved.md")]).values()

    assert found == second


def test_a_document_follows_the_more_similar_of_its_own_past_and_one_that_vanished(
    started: Ledger, storage: Storage
) -> None:
    own, other = (
        page("a place for boats, and nobody knows how long it has been standing at the old quay", "b.md"),
        page(PIER),
    )
    keeping(started, storage)(own, other)
    vanished(started, other)
    taken = page(PIER.replace("every", "no"), "b.md", own)
    edited = page("a place for boats, and everybody knows how long it has been standing at the old quay", "b.md", own)

    assert load_predecessors(started, storage, [taken]) == {taken.version_id: other}
    assert load_predecessors(started, storage, [edited]) == {edited.version_id: own}


def test_a_run_that_lists_nothing_takes_the_listing_of_the_refresh_that_fetched(
    started: Ledger, storage: Storage
) -> None:
    old = page(PIER)
    keeping(started, storage)(old)
    vanished(started, old)
    new = a_version(f"The pier is {PIER}.", uri="moved.md", run_id="r2")

    assert set(find_predecessors(started, "rescreening", [new])) == {new.version_id}
    assert not find_predecessors(started, "rescreening", [replace(new, stamp=replace(new.stamp, run_id="preview"))])
