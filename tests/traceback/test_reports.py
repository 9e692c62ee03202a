"""Reports: the same complaint is one, nothing is lost, and nobody can do more than move a report up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import query_id
from corpus_guard.errors import HostileInput, Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import REPORT_STATES
from corpus_guard.ledger.tables import events, filings, queries, traces
from corpus_guard.traceback import filings as filings_module
from corpus_guard.traceback.filings import FILINGS_PER_DAY, Filing, reporter_trust
from corpus_guard.traceback.reports import (
    FilingReceipt,
    Report,
    ReportInbox,
    close_report,
    file_report,
    find_report,
    list_filings,
    list_open_reports,
    list_reports,
)

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SECRET = "the quay is 40 metres deep, says <script>nobody</script>"


def a_filing(query: str = "How deep is the quay?", output: str = "40 metres", **fields: Any) -> Filing:
    made: dict[str, Any] = {"reported_at": NOW - timedelta(days=1), "reporter": "mo", **fields}
    return Filing(query, output, **made)


def file(ledger: Ledger, *batch: Filing, at: datetime = NOW) -> list[FilingReceipt]:
    return ReportInbox(ledger, "run-1", at).file(batch)


def the_only(ledger: Ledger) -> Report:
    found, total = list_reports(ledger)
    assert total == 1
    return found[0]


def count(ledger: Ledger, table: sa.Table, *conditions: Any) -> int:
    return ledger.scalar(sa.select(sa.func.count()).select_from(table).where(*conditions)) or 0


def traced(ledger: Ledger, report: str, outcome: str, ended: datetime) -> None:
    """A trace that closed the report."""
    with ledger.write() as connection:
        connection.execute(
            traces.insert().values(
                trace_id=f"{report[:20]}{ended:%d%H%M%S}",
                report_id=report,
                run_id="run-1",
                judge="j",
                k=5,
                outcome=outcome,
                iterations=1,
                missing=0,
                counts={},
                seconds=1.0,
                started_at=ended - timedelta(minutes=1),
                finished_at=ended,
            )
        )
        close_report(connection, report, outcome)


@pytest.mark.parametrize(
    ("query", "output"),
    [("HOW deep is the quay", "40 Metres."), (" how  deep\nis the quay?! ", "４0 metres")],
    ids=["case and points", "spaces and forms"],
)
def test_spelling_makes_no_other_report(ledger: Ledger, query: str, output: str) -> None:
    first, second = file(ledger, a_filing(), a_filing(query, output, reporter="ann"))

    assert first.report_id == second.report_id
    assert (first.new_report, second.new_report, second.new_filing) == (True, False, True)
    assert (the_only(ledger).query, the_only(ledger).filings) == ("How deep is the quay?", 2)


def test_another_answer_is_another_report_of_the_same_question(ledger: Ledger) -> None:
    first, second = file(ledger, a_filing(), a_filing(output="yes"))

    assert first.report_id != second.report_id
    assert {one.query_id for one in list_open_reports(ledger)} == {query_id("How deep is the quay?")}


def test_answers_that_differ_past_the_length_of_a_question_are_two(ledger: Ledger) -> None:
    long = "a very long answer " * 150
    assert len(long) > filings_module.MAX_QUERY_LENGTH

    first, second = file(ledger, a_filing(output=long + "one"), a_filing(output=long + "two"))

    assert first.report_id != second.report_id


def test_filing_twice_adds_nothing(ledger: Ledger) -> None:
    one = a_filing(session="s-1", correct="12 metres", served=("c1", "c2"))
    file(ledger, one, one)
    before = the_only(ledger)

    (again,) = file(ledger, one)

    assert (again.new_filing, again.new_report, again.counted) == (False, False, 0.0)
    assert the_only(ledger) == before
    assert (before.filings, before.weight, before.correct) == (1, 1.0, "12 metres")
    assert count(ledger, events, events.c.kind == "reported") == 1
    [asked] = ledger.rows(sa.select(queries.c.origin, queries.c.count))
    assert tuple(asked) == ("report", 1)


def test_the_same_moment_in_another_zone_is_the_same_filing() -> None:
    here = a_filing()
    there = a_filing(reported_at=here.reported_at.astimezone(tz=__import__("zoneinfo").ZoneInfo("Europe/Oslo")))

    assert here.filing_id == there.filing_id
    assert here.filing_id != a_filing(session="s-2").filing_id != a_filing(reporter="ann").filing_id


def test_two_thousand_identical_complaints_are_one_report_and_weigh_once(sqlite_ledger: Ledger) -> None:
    inbox = ReportInbox(sqlite_ledger, "run-1", NOW)
    flood = [a_filing(session=f"s-{number}") for number in range(2_000)]
    for start in range(0, len(flood), 500):
        inbox.file(flood[start : start + 500])

    assert (the_only(sqlite_ledger).filings, the_only(sqlite_ledger).weight) == (2_000, 1.0)
    assert count(sqlite_ledger, filings, filings.c.counted > 0) == 1
    assert count(sqlite_ledger, events, events.c.kind != "rows") == 1


def test_several_people_weigh_more_and_are_traced_first(ledger: Ledger) -> None:
    file(
        ledger,
        a_filing("old", reported_at=NOW - timedelta(days=9)),
        a_filing("older", reported_at=NOW - timedelta(days=10)),
    )
    file(ledger, a_filing("many"), a_filing("many", reporter="ann"))

    assert [one.query for one in list_open_reports(ledger)] == ["many", "older", "old"]
    assert [one.query for one in list_open_reports(ledger, limit=1)] == ["many"]


def test_a_reporter_counts_so_often_a_day_and_the_rest_is_kept(ledger: Ledger) -> None:
    more = 7
    batch = [a_filing(f"question {number}") for number in range(FILINGS_PER_DAY + more)]
    first = file(ledger, *batch[:FILINGS_PER_DAY])
    rest = file(
        ledger,
        *batch[FILINGS_PER_DAY:],
        a_filing("other day", reported_at=NOW - timedelta(days=2)),
        a_filing("by ann", reporter="ann"),
    )

    assert {one.counted for one in first} == {1.0}
    assert [one.counted for one in rest] == [0.0] * more + [1.0, 1.0]
    found, total = list_reports(ledger, state="open", limit=1_000)
    assert total == len(found) == FILINGS_PER_DAY + more + 2
    assert [one.weight for one in found[-more:]] == [0.0] * more


def test_the_day_of_a_filing_is_utc(ledger: Ledger) -> None:
    evening = datetime(2026, 3, 8, 23, 59, 59, 999_999, tzinfo=UTC)
    file(ledger, *(a_filing(f"q{number}", reported_at=evening) for number in range(FILINGS_PER_DAY)))

    full, empty = file(
        ledger,
        a_filing("same day", reported_at=evening - timedelta(hours=23)),
        a_filing("next", reported_at=evening + timedelta(microseconds=1)),
    )

    assert (full.counted, empty.counted) == (0.0, 1.0)


def test_trust_starts_whole_falls_with_what_was_no_poisoning_and_never_ends() -> None:
    assert reporter_trust(0, 0) == reporter_trust(9, 0) == 1.0
    assert reporter_trust(0, 2) == 0.5
    assert reporter_trust(8, 2) > reporter_trust(0, 2) > reporter_trust(0, 200) > 0


def test_a_reporter_of_nothing_weighs_less_next_time(ledger: Ledger) -> None:
    for number, outcome in enumerate(("not_poisoning", "not_poisoning", "traced", "undecided")):
        (added,) = file(ledger, a_filing(f"question {number}", reported_at=NOW - timedelta(days=5)))
        traced(ledger, added.report_id, outcome, NOW - timedelta(days=4))

    mo, ann = file(ledger, a_filing("new"), a_filing("newer", reporter="ann"))

    assert (mo.counted, ann.counted) == (reporter_trust(1, 2), 1.0)


@pytest.mark.parametrize("outcome", [state for state in REPORT_STATES if state != "open"])
def test_a_closed_report_opens_when_the_answer_is_seen_after_its_trace(ledger: Ledger, outcome: str) -> None:
    ended = NOW - timedelta(hours=5)
    (added,) = file(ledger, a_filing())
    traced(ledger, added.report_id, outcome, ended - timedelta(days=3))
    traced(ledger, added.report_id, outcome, ended)

    (late,) = file(ledger, a_filing(session="late", reported_at=ended))
    assert (late.new_filing, late.reopened, the_only(ledger).state) == (True, False, outcome)

    again, twice = file(ledger, *(a_filing(session=name, reported_at=ended + timedelta(seconds=1)) for name in "ab"))
    assert (again.reopened, twice.reopened, again.new_report, again.counted) == (True, True, False, 0.0)
    assert the_only(ledger).state == "open"
    assert count(ledger, events, events.c.kind == "reopened") == 1


def test_a_reporter_whose_day_is_full_opens_nothing(ledger: Ledger) -> None:
    (added,) = file(ledger, a_filing())
    traced(ledger, added.report_id, "not_poisoning", NOW - timedelta(hours=20))
    file(ledger, *(a_filing(f"q{number}", reporter="script", reported_at=NOW) for number in range(FILINGS_PER_DAY)))

    (flooded,) = file(ledger, a_filing(reporter="script", reported_at=NOW))

    assert (flooded.new_filing, flooded.reopened) == (True, False)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"query": ""}, "report.empty_query"),
        ({"query": " \n\t\u200b\x00"}, "report.empty_query"),
        ({"output": ""}, "report.empty_output"),
        ({"output": "\u2028\ufeff"}, "report.empty_output"),
        ({"output": "300 m", "correct": " 300 M."}, "report.right_output"),
        ({"reported_at": datetime(2026, 3, 1)}, "report.no_zone"),
        ({"reported_at": NOW + timedelta(minutes=5, seconds=1)}, "report.future"),
    ],
)
def test_what_cannot_be_a_report_is_refused_and_nothing_of_its_batch_is_taken(
    sqlite_ledger: Ledger, fields: dict[str, Any], code: str
) -> None:
    with pytest.raises(HostileInput) as refused:
        file(sqlite_ledger, a_filing("fine"), a_filing(**fields))

    assert refused.value.code == code
    assert list_reports(sqlite_ledger) == ([], 0)


@pytest.mark.parametrize("output", ["7", "yes", "🙂", "?", "0"])
def test_an_answer_of_one_character_is_an_answer(sqlite_ledger: Ledger, output: str) -> None:
    file(sqlite_ledger, a_filing(output=output, reported_at=NOW + timedelta(minutes=4)))

    assert the_only(sqlite_ledger).output == output


def test_what_is_longer_than_is_kept_is_cut_and_said(sqlite_ledger: Ledger) -> None:
    long = "x" * 100_000
    (added,) = file(
        sqlite_ledger,
        a_filing(long, long, correct=f"not {long}", reporter=long, session=long, served=(long,) * 2_000, origin=long),
    )

    report, (filed,) = the_only(sqlite_ledger), list_filings(sqlite_ledger, added.report_id)
    assert added.cut
    assert (len(report.query), len(report.output), len(report.correct or "")) == (2_000, 8_000, 8_000)
    assert (len(filed["reporter"]), len(filed["session"]), len(filed["served"])) == (200, 250, 100)
    assert len(filed["served"][0]) == 250
    assert not file(sqlite_ledger, a_filing("short"))[0].cut


def test_hostile_text_is_stored_and_is_in_no_event(ledger: Ledger) -> None:
    hostile = SECRET + "\x00 \ud800 '; DROP TABLE reports; -- {{ conn.x.password }}"
    (added,) = file(
        ledger,
        a_filing(hostile, hostile, correct=f"not {hostile}", reporter=hostile, session="\x00", served=("\ud800",)),
    )

    report = find_report(ledger, added.report_id)
    assert report.query == report.output == (report.correct or "").removeprefix("not ")
    assert SECRET in report.query
    assert "\x00" not in report.query
    told, *digests = ledger.rows(sa.select(events.c.body, events.c.subject, events.c.kind))
    assert {event.kind for event in digests} == {"rows"}
    assert told.subject == added.report_id
    assert SECRET not in str([event.body for event in (told, *digests)])
    assert told.body["output_characters"] == len(hostile)


def test_the_first_right_answer_stays_and_each_filing_keeps_its_own(ledger: Ledger) -> None:
    file(ledger, a_filing(reporter="a"), a_filing(reporter="b", correct="  "))
    assert the_only(ledger).correct is None

    (added,) = file(ledger, a_filing(reporter="c", correct="12"))
    file(ledger, a_filing(reporter="d", correct="13", reported_at=NOW - timedelta(days=3)))

    report = the_only(ledger)
    assert report.correct == "12"
    assert (report.first_reported_at, report.last_reported_at) == (NOW - timedelta(days=3), NOW - timedelta(days=1))
    assert {row["correct"] for row in list_filings(ledger, added.report_id)} == {None, "12", "13"}


def test_closing_takes_a_known_state_and_a_known_report(sqlite_ledger: Ledger) -> None:
    added = file_report(sqlite_ledger, a_filing(), "run-1", NOW)
    with sqlite_ledger.write() as connection:
        close_report(connection, added.report_id, "traced")
    assert (the_only(sqlite_ledger).state, list_open_reports(sqlite_ledger)) == ("traced", [])

    with sqlite_ledger.write() as connection, pytest.raises(UnknownSubject):
        close_report(connection, "0" * 32, "traced")
    with sqlite_ledger.write() as connection, pytest.raises(ValueError, match="not a valid ReportState"):
        close_report(connection, added.report_id, "done")


def test_a_report_is_found_by_the_beginning_of_its_id(sqlite_ledger: Ledger) -> None:
    added = file_report(sqlite_ledger, a_filing(), "run-1", NOW)

    found = find_report(sqlite_ledger, added.report_id[:6].upper())
    assert found.complaint.output == found.output == "40 metres"
    assert found.complaint.report_id == added.report_id
    assert found.as_dict()["first_reported_at"] == "2026-03-09T12:00:00+00:00"
    with pytest.raises(UnknownSubject):
        find_report(sqlite_ledger, "%%%%%%")
    with pytest.raises(Misuse, match="at least 4"):
        find_report(sqlite_ledger, added.report_id[:3])


def test_memory_of_what_counted_is_bounded_and_only_a_memory(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filings_module, "MAX_CACHED_ENTRIES", 3)
    inbox = ReportInbox(ledger, "run-1", NOW)
    for number in range(FILINGS_PER_DAY + 5):
        inbox.file([a_filing(f"question {number}"), a_filing("the same", session=str(number))])

    assert count(ledger, filings, filings.c.counted > 0) == FILINGS_PER_DAY
    assert max(len(memory) for memory in (inbox._weigher._days, inbox._weigher._pairs, inbox._weigher._trust)) <= 5
