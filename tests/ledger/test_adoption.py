"""Rows of older releases: adopted once, when the ledger is migrated, and compared from then on."""

from __future__ import annotations

import sqlalchemy as sa

from corpus_guard.domain import no_progress
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.row_digests import GROUPS_PER_EVENT
from corpus_guard.ledger.tables import documents, events, results
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.proof.verify.rows import check_rows
from every_row import GROUPS, insert_rows
from older_ledgers import go_back_to_0010

MANY = 2 * GROUPS_PER_EVENT


def of_an_older_release(ledger: Ledger) -> str:
    """Fill a ledger without a word in its log, and return its URL."""
    with ledger.engine.begin() as connection:  # past `Ledger.write`
        insert_rows(connection)
        connection.execute(results.insert(), [{"key": f"key {number}", "findings": []} for number in range(MANY)])
        go_back_to_0010(lambda statement: connection.execute(sa.text(statement)))
    return ledger.url.render_as_string(hide_password=False)


def problems(ledger: Ledger) -> list[str]:
    collector = DeviationCollector()
    check_rows(ledger, collector, no_progress)
    return [deviation.message for deviation in collector.deviations]


def test_rows_of_an_older_release_are_adopted_page_by_page(ledger: Ledger) -> None:
    opened = Ledger(of_an_older_release(ledger))

    assert problems(opened) == []
    adopted = opened.rows(sa.select(events).where(events.c.subject == "results"))
    assert {event.kind for event in adopted} == {"adopted"}
    assert [len(event.body["groups"]) for event in adopted] == [GROUPS_PER_EVENT, GROUPS_PER_EVENT, GROUPS]
    opened.close()


def test_what_was_adopted_is_compared_from_then_on(ledger: Ledger) -> None:
    opened = Ledger(of_an_older_release(ledger))
    with opened.write() as connection:  # our own change of an adopted row
        connection.execute(documents.update().where(documents.c.doc_id.in_(first_ids(connection))).values(uri="ours"))
    assert problems(opened) == []

    with opened.engine.begin() as connection:
        connection.execute(results.delete().where(results.c.key == "key 7"))

    [problem] = problems(opened)
    assert problem.startswith("table results, key key 7: what was logged is missing")
    opened.close()


def first_ids(connection: sa.Connection) -> list[str]:
    return list(connection.scalars(sa.select(documents.c.doc_id).order_by(documents.c.doc_id).limit(3)))


def test_opening_again_adopts_nothing_more(ledger: Ledger) -> None:
    url = of_an_older_release(ledger)
    Ledger(url).close()
    count = sa.select(sa.func.count()).select_from(events)
    before = ledger.scalar(count)

    Ledger(url).close()

    assert ledger.scalar(count) == before
