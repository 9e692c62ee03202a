"""Questions are counted once each, kept as long as promised, and cannot break the log."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from corpus_guard.corpus import query_bank
from corpus_guard.corpus.retrieval_log import (
    MAX_LISTED_RECORDS,
    MAX_NAME_CHARS,
    MAX_QUERY_CHARS,
    RetrievalLog,
    prune,
    query_id,
)
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import queries, retrievals
from material import START

DAY = timedelta(days=1)


def ask(log: RetrievalLog, text: str, day: float = 0, **fields: object) -> None:
    made = {"session": "", "checked_by": "off", "served": [], "filtered": [], "withheld": [], **fields}
    log.write(text, at=START + day * DAY, **made)  # type: ignore[arg-type]


def asked(ledger: Ledger) -> dict[str, tuple[str, int]]:
    with ledger.read() as connection:
        return {row.text: (row.origin, row.count) for row in connection.execute(sa.select(queries))}


def logged(ledger: Ledger) -> int:
    with ledger.read() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(retrievals)) or 0


@pytest.mark.parametrize("other", ["HOW deep is the quay", "how  deep is\nthe quay?", "Ｈow deep is the quay ?!"])
def test_spelling_makes_no_other_question(other: str) -> None:
    assert query_id(other) == query_id("How deep is the quay?")
    assert query_id("How deep is the other quay?") != query_id("How deep is the quay?")


def test_equal_questions_are_counted_and_the_first_spelling_stays(ledger: Ledger) -> None:
    log = RetrievalLog(ledger, days=3_000)
    for day, text in enumerate(("How deep is the quay?", "how deep is the quay", "Who opens?")):
        ask(log, text, day)

    assert asked(ledger) == {"How deep is the quay?": ("log", 2), "Who opens?": ("log", 1)}
    with ledger.read() as connection:
        row = connection.execute(sa.select(queries).where(queries.c.count == 2)).one()
    assert (row.first_seen_at, row.last_seen_at) == (START, START + DAY)
    assert logged(ledger) == 3


def test_a_late_report_moves_no_clock_back(ledger: Ledger) -> None:
    query_bank.add_question(ledger, "Who opens?", at=START + 5 * DAY)
    query_bank.add_question(ledger, "who opens", "log", at=START)

    with ledger.read() as connection:
        row = connection.execute(sa.select(queries)).one()
    assert (row.last_seen_at, row.origin, row.count) == (START + 5 * DAY, "report", 2)


def test_what_is_old_is_forgotten_but_reports_stay(ledger: Ledger) -> None:
    log = RetrievalLog(ledger, days=3_000)
    for day, text in ((0, "old"), (0, "old but asked again"), (9, "old but asked again"), (9, "new"), (0, "reported")):
        ask(log, text, day)
    query_bank.add_question(ledger, "reported", at=START)

    assert prune(ledger, 5, START + 10 * DAY) == (3, 1)

    assert set(asked(ledger)) == {"old but asked again", "new", "reported"}
    assert logged(ledger) == 2
    assert prune(ledger, 5, START + 10 * DAY) == (0, 0)


def test_writing_forgets_by_itself(ledger: Ledger) -> None:
    ask(RetrievalLog(ledger, days=30), "old", day=0)

    ask(RetrievalLog(ledger, days=30), "new", day=31)

    assert set(asked(ledger)) == {"new"}


@pytest.mark.parametrize("text", ["", "a\x00b", "\ud800", "x" * 100_000, "'; DROP TABLE queries; --"])
def test_hostile_questions_and_ids_are_stored_in_bounded_length(ledger: Ledger, text: str) -> None:
    record = {"chunk_id": text, "collection": text}

    ask(RetrievalLog(ledger, days=30), text, session=text, withheld=[record] * (MAX_LISTED_RECORDS + 5))

    with ledger.read() as connection:
        row = connection.execute(sa.select(retrievals, queries.c.text).join(queries)).one()
    assert len(row.text) <= MAX_QUERY_CHARS
    assert len(row.session) <= MAX_NAME_CHARS
    assert len(row.withheld) == MAX_LISTED_RECORDS
    assert all(len(one["chunk_id"]) <= MAX_NAME_CHARS and "\x00" not in one["chunk_id"] for one in row.withheld)
