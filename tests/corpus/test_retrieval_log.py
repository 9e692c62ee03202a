"""Questions are counted once each, kept as long as promised, and cannot break the log."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import (
    MAX_LISTED_RECORDS,
    MAX_NAME_CHARS,
    MAX_QUERY_CHARS,
    LoggedChunk,
    LoggedRetrieval,
    RetrievalLog,
    prune,
    query_id,
    question_key,
)
from corpus_guard.errors import SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import QueryOrigin
from corpus_guard.ledger.tables import events, queries, retrievals, retrieved_chunks
from material import START, add_question

DAY = timedelta(days=1)


def ask(log: RetrievalLog, text: str, day: float = 0, **fields: object) -> None:
    log.add([LoggedRetrieval(**{"query": text, "served": (), "at": START + day * DAY, **fields})])  # type: ignore[arg-type]


def asked(ledger: Ledger) -> dict[str, tuple[str, int]]:
    return {row.text: (row.origin, row.count) for row in ledger.rows(sa.select(queries))}


def logged(ledger: Ledger) -> int:
    return ledger.scalar(sa.select(sa.func.count()).select_from(retrievals)) or 0


@pytest.mark.parametrize("other", ["HOW deep is the quay", "how  deep is\nthe quay?", "Ｈow deep is the quay ?!"])
def test_spelling_makes_no_other_question(other: str) -> None:
    assert query_id(other) == query_id("How deep is the quay?")
    assert query_id("How deep is the other quay?") != query_id("How deep is the quay?")


def test_equal_questions_are_counted_and_the_first_spelling_stays(ledger: Ledger) -> None:
    log = RetrievalLog(ledger, days=3_000)
    for day, text in enumerate(("How deep is the quay?", "how deep is the quay", "Who opens?")):
        ask(log, text, day)

    assert asked(ledger) == {"How deep is the quay?": ("log", 2), "Who opens?": ("log", 1)}
    [row] = ledger.rows(sa.select(queries).where(queries.c.count == 2))
    assert (row.first_seen_at, row.last_seen_at) == (START, START + DAY)
    assert logged(ledger) == 3


def test_a_late_report_moves_no_clock_back(ledger: Ledger) -> None:
    add_question(ledger, "Who opens?", at=START + 5 * DAY)
    add_question(ledger, "who opens", QueryOrigin.LOG)

    [row] = ledger.rows(sa.select(queries))
    assert (row.last_seen_at, row.origin, row.count) == (START + 5 * DAY, "report", 2)


def test_what_is_old_is_forgotten_but_reports_stay(ledger: Ledger) -> None:
    log = RetrievalLog(ledger, days=3_000)
    for day, text in ((0, "old"), (0, "old but asked again"), (9, "old but asked again"), (9, "new"), (0, "reported")):
        ask(log, text, day)
    add_question(ledger, "reported")

    assert prune(ledger, 5, START + 10 * DAY) == (3, 1)

    assert set(asked(ledger)) == {"old but asked again", "new", "reported"}
    assert logged(ledger) == 2
    assert prune(ledger, 5, START + 10 * DAY) == (0, 0)


def test_writing_forgets_by_itself(ledger: Ledger) -> None:
    """By the clock of the machine: what a record says of its time deletes nothing."""
    ask(RetrievalLog(ledger, days=3_650), "old", day=0)
    assert set(asked(ledger)) == {"old"}

    RetrievalLog(ledger, days=30).add([LoggedRetrieval("new", ())])

    assert set(asked(ledger)) == {"new"}


@pytest.mark.parametrize("text", ["", "a\x00b", "\ud800", "x" * 100_000, "'; DROP TABLE queries; --"])
def test_hostile_questions_and_ids_are_stored_in_bounded_length(ledger: Ledger, text: str) -> None:
    record = {"chunk_id": text, "collection": text}

    ask(RetrievalLog(ledger, days=3_000), text, session=text, withheld=(record,) * (MAX_LISTED_RECORDS + 5))

    [row] = ledger.rows(sa.select(retrievals, queries.c.text).join(queries))
    assert len(row.text) <= MAX_QUERY_CHARS
    assert len(row.session) <= MAX_NAME_CHARS
    assert len(row.withheld) == MAX_LISTED_RECORDS
    assert all(len(one["chunk_id"]) <= MAX_NAME_CHARS and "\x00" not in one["chunk_id"] for one in row.withheld)


def test_with_a_key_neither_question_nor_answer_is_stored(ledger: Ledger) -> None:
    key = b"k" * 32
    RetrievalLog(ledger, days=3_000, key=key).add(
        [LoggedRetrieval("Who opens?", (), at=START, answer="Ann", sketch="0" * 32)]
    )

    [row] = ledger.rows(sa.select(queries, retrievals.c.answer).join(retrievals))
    assert (row.text, row.answer, row.sketch) == ("", None, "0" * 32)
    assert row.query_id == query_id("who opens", key)
    assert row.query_id not in {query_id("who opens"), query_id("who opens", b"other")}


def test_the_key_is_made_once_and_is_nobody_elses(tmp_path: Path) -> None:
    key = question_key(tmp_path / "keys")

    assert question_key(tmp_path / "keys") == key
    assert len(key) == 32
    [file] = (tmp_path / "keys").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o640)
    with pytest.raises(SettingsError, match=r"questions\.key has mode 640, so others can read it .*; run chmod 600"):
        question_key(tmp_path / "keys")


def test_a_key_that_a_cluster_mounts_for_the_group_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = question_key(tmp_path)
    (tmp_path / "questions.key").chmod(0o440)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # the file is another's, as a mounted secret is

    assert question_key(tmp_path) == key
    (tmp_path / "questions.key").chmod(0o444)
    with pytest.raises(SettingsError, match="chmod 600"):
        question_key(tmp_path)


def test_what_became_of_a_retrieval_is_recorded(ledger: Ledger) -> None:
    log = RetrievalLog(ledger, days=3_000)
    served = (LoggedChunk("a"), LoggedChunk("b"), LoggedChunk("a", 0.5))
    [first, second] = log.add([LoggedRetrieval("Q?", served, at=START)] * 2)
    assert first is not None

    log.record_use(first, shown=["b"], answer="Thirty.")

    with ledger.read() as connection:
        rows = connection.execute(sa.select(retrieved_chunks).order_by("retrieval_id", "rank")).all()
        answers = connection.scalars(sa.select(retrievals.c.answer).order_by(retrievals.c.retrieval_id)).all()
    assert [(row.retrieval_id, row.chunk_id, row.rank, row.shown) for row in rows] == [
        (first, "a", 1, False),
        (first, "b", 2, True),
        (second, "a", 1, None),
        (second, "b", 2, None),
    ]
    assert answers == ["Thirty.", None]


def test_a_record_with_a_key_is_stored_once(ledger: Ledger) -> None:
    log = RetrievalLog(ledger, days=3_000)
    keyed = LoggedRetrieval("Q?", (LoggedChunk("a"),), at=START, record_key="k1")

    assert [number is not None for number in log.add([keyed, keyed])] == [True, False]
    assert log.add([keyed]) == [None]
    assert asked(ledger) == {"Q?": ("log", 1)}


def test_pruning_is_told_by_an_event(ledger: Ledger) -> None:
    ask(RetrievalLog(ledger, days=3_000), "old", day=0, served=(LoggedChunk("a"),))

    prune(ledger, 5, START + 10 * DAY)
    prune(ledger, 5, START + 10 * DAY)

    with ledger.read() as connection:
        [event] = connection.execute(sa.select(events).where(events.c.kind == "retrievals_pruned")).all()
        assert connection.execute(sa.select(retrieved_chunks)).all() == []
    assert event.subject == (START + 5 * DAY).isoformat()
    assert event.body == {"retrievals": 1, "days": 5}
