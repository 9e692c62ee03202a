"""Alerts stay within their budget, are told once, and a flood of forged entries names nobody but itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.forensics.watch import alerts as watching
from corpus_guard.forensics.watch.alerts import WatchResult, choose_alerts, list_alerts, watch_retrievals
from corpus_guard.forensics.watch.detectors import WatchDetector
from corpus_guard.forensics.watch.log_reader import read_window
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, events, seals, versions
from forensics_material import write_corpus
from material import START

NOW = START + timedelta(days=28)
SKETCHES = [f"{number % 16:x}" * 32 for number in range(100)]


@pytest.fixture
def served(sqlite_ledger: Ledger) -> Ledger:
    """Forty documents that are there from the beginning, and one that arrived in the last week."""
    write_corpus(sqlite_ledger, {f"d{n}": ("wiki", f"{n}.md", (f"c{n}",)) for n in range(40)})
    arrival = (NOW - timedelta(days=2)).isoformat()
    write_corpus(sqlite_ledger, {"late": ("wiki", "late.md", ("late-c",))}, fetched_at=arrival)
    return sqlite_ledger


def log(ledger: Ledger, records: Iterator[LoggedRetrieval] | list[LoggedRetrieval]) -> None:
    RetrievalLog(ledger, days=3_000).add(list(records))


def honest() -> Iterator[LoggedRetrieval]:
    """Each document is retrieved by a dozen sessions in each of two weeks."""
    for number in range(40):
        for asker in range(24):
            yield LoggedRetrieval(
                f"What does page {number} say?",
                (LoggedChunk(f"c{number}"),),
                at=NOW - timedelta(days=10 if asker % 2 else 3, minutes=asker),
                session=f"s{number}-{asker}",
                sketch=SKETCHES[number],
            )


def burst(session: str = "author", chunk: str = "late-c", times: int = 30) -> Iterator[LoggedRetrieval]:
    for number in range(times):
        yield LoggedRetrieval(
            "Who pays?",
            (LoggedChunk(chunk),),
            at=NOW - timedelta(days=1, minutes=number % 300),
            session=session,
            sketch=SKETCHES[3],
        )


def watch(ledger: Ledger) -> WatchResult:
    return watch_retrievals(ledger, NOW, "watch-1")


def named(result: WatchResult) -> set[tuple[str, str]]:
    return {(alert.detector, alert.subject) for alert in result.alerts}


def test_honest_traffic_raises_nothing(served: Ledger) -> None:
    log(served, honest())

    result = watch(served)

    assert named(result) == set()
    assert result.retrievals == 960
    assert len(result.limits) == 1 and result.limits[0].startswith("no answer is in the log: no turned answer is seen")


def test_a_document_that_was_edited_is_named_for_its_new_demand(served: Ledger) -> None:
    demand = [
        LoggedRetrieval(
            "Who pays?", (LoggedChunk("c3"),), at=NOW - timedelta(days=1), session=f"new-{number}", sketch=SKETCHES[3]
        )
        for number in range(500)
    ]
    long_ago = LoggedRetrieval(
        "Who?", (LoggedChunk("c9"),), at=NOW - timedelta(days=20), session="s", sketch=SKETCHES[9]
    )
    log(served, [*honest(), *demand, long_ago])
    with served.write() as connection:
        first = connection.execute(sa.select(versions).where(versions.c.version_id == "v-d3")).mappings().one()

        def add_version(version_id: str, text: str, days: int) -> None:
            stamp = {**first["stamp"], "fetched_at": (NOW - timedelta(days=days)).isoformat()}
            row = {**first, "version_id": version_id, "text_sha256": text, "stamp": stamp}
            connection.execute(versions.insert().values(row))

        add_version("same-text", "d3", 4)
        add_version("not-served", "another text", 3)
        add_version("edited", "a new text", 2)
        add_version("edited-again", "a new text", 1)

    assert named(watch(served)) == set(), "the text that is served is as old as the document"
    with served.write() as connection:
        newest = documents.update().where(documents.c.doc_id == "d3").values(target_version="edited-again")
        connection.execute(newest)
    changed = read_window(served, NOW).window
    assert named(watch(served)) == {("surge", "d3")}
    position = list(changed.documents).index("d3")
    assert changed.changed[position] == (NOW - timedelta(days=2)).timestamp()
    assert changed.entered[position] == START.timestamp()
    [alert] = list_alerts(served)
    assert alert.sentence == "edited lately, and retrieved by 512 askers in a week, far more than before"


def test_a_burst_is_told_once_by_an_event_without_texts(served: Ledger) -> None:
    log(served, [*honest(), *burst()])

    first, second = watch(served), watch(served)

    assert named(first) == {("burst", "late")}
    assert second.alerts == ()
    [alert] = list_alerts(served)
    assert (alert.source, alert.uri, alert.chunk_id) == ("wiki", "late.md", "late-c")
    [event] = served.rows(sa.select(events).where(events.c.kind == "retrieval_alert"))
    assert "author" not in str(event)
    assert "pays" not in str(event)


def test_a_flood_of_forged_entries_raises_nobody_elses_alert(served: Ledger) -> None:
    forged = [
        LoggedRetrieval(
            f"Forged {number % 700}?",
            tuple(LoggedChunk(f"c{(number + more) % 40}") for more in range(5)),
            at=NOW - timedelta(days=1, seconds=number),
            session="forger",
            sketch=SKETCHES[number % 100],
        )
        for number in range(10_000)
    ]
    log(served, [*honest(), *burst(), *forged])

    assert named(watch(served)) == {("burst", "late")}


def test_a_flood_from_many_sessions_names_its_own_document_at_most(served: Ledger) -> None:
    forged = [
        LoggedRetrieval(
            f"Forged {number}?",
            (LoggedChunk("c5"),),
            at=NOW - timedelta(days=1, seconds=number),
            session=f"forger {number}",
            sketch=SKETCHES[number % 100],
        )
        for number in range(2_000)
    ]
    log(served, [*honest(), *burst(), *forged])

    assert {subject for _, subject in named(watch(served))} <= {"late", "d5"}


def test_a_flood_of_invented_ids_is_one_alert_and_crowds_nothing_out(served: Ledger) -> None:
    invented = [
        LoggedRetrieval(
            "Q?", (LoggedChunk(f"invented-{n}"), LoggedChunk("c1")), at=NOW - timedelta(hours=2), session="x"
        )
        for n in range(15)
    ]
    planted = [
        LoggedRetrieval("Q?", (LoggedChunk("planted"),), at=NOW - timedelta(hours=1), session=f"s{n}") for n in range(5)
    ]
    log(served, [*honest(), *invented, *planted])

    alerts = [alert for alert in watch(served).alerts if alert.detector == WatchDetector.FOREIGN]

    assert [(alert.subject, alert.askers, alert.retrievals) for alert in alerts] == [
        ("planted", 5, 5),
        ("invented-0", 1, 15),
    ]


def test_an_application_with_its_own_names_is_one_alert(served: Ledger) -> None:
    log(
        served,
        [
            LoggedRetrieval(
                "Q?", (LoggedChunk(f"theirs-{n}"),), at=NOW - timedelta(hours=2), session=f"s{n}", origin="otlp"
            )
            for n in range(50)
        ],
    )

    assert named(watch(served)) == {("foreign", "origin:otlp")}


def test_an_answer_that_turns_with_a_seal_is_named_with_its_new_text(served: Ledger) -> None:
    served.execute(
        seals.insert().values(
            run_id="r", manifest="m", manifest_sha256="0", chunks=1, sealed_at=NOW - timedelta(days=2)
        )
    )

    def answers(question: str, texts: tuple[str, str]) -> Iterator[LoggedRetrieval]:
        for side, (days, chunk) in enumerate(((4, "c1"), (1, "late-c"))):
            for asker in range(3):
                yield LoggedRetrieval(
                    question,
                    (LoggedChunk("c2"), LoggedChunk(chunk)),
                    at=NOW - timedelta(days=days, minutes=asker),
                    session=f"{question}{asker}",
                    answer=texts[side],
                )

    log(served, answers("How deep is the quay?", ("It is 12 m deep.", "It is 30 m deep.")))
    log(served, answers("How long is the guarantee?", ("36 months", "three years")))

    result = watch(served)

    assert [(alert.detector, alert.subject, alert.chunk_id) for alert in result.alerts] == [("flip", "late", "late-c")]
    assert (result.answered, [limit for limit in result.limits if "answer" in limit]) == (2, [])


def test_the_budget_holds_back_and_says_so(served: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MIN_BUDGET", 1)
    planted = [
        LoggedRetrieval(
            "Q?",
            (LoggedChunk(f"planted-{n % 4}"), LoggedChunk(f"c{n % 40}")),
            at=NOW - timedelta(hours=1),
            session=f"s{n}",
        )
        for n in range(80)
    ]
    log(served, planted)

    result = watch(served)

    assert (len(result.alerts), result.over_budget, result.budget) == (1, 3, 1)
    assert "3 candidates are over the budget of 1 alerts a week" in result.limits
    [event] = served.rows(sa.select(events).where(events.c.kind == "retrieval_alerts_over_budget"))
    assert event.body == {"candidates": 3, "budget": 1}


def test_an_older_interval_can_be_watched_later(served: Ledger) -> None:
    log(served, [*honest(), *burst()])
    watch_retrievals(served, NOW + timedelta(hours=1), "watch-2")

    assert watch(served).alerts == ()
    assert [alert.until for alert in list_alerts(served)] == [NOW + timedelta(hours=1)]


def test_an_empty_log_is_not_a_clean_one(served: Ledger) -> None:
    assert watch(served).limits == ["the retrieval log of these weeks is empty: nothing was watched"]


def test_the_detectors_take_turns_within_the_budget() -> None:
    def of(detector: WatchDetector, count: int) -> list[watching.RetrievalAlert]:
        return [watching.RetrievalAlert(detector, f"{detector}-{n}", "", "1.00", 1, 1, 1, 0, NOW) for n in range(count)]

    found = {WatchDetector.NEWCOMER: of(WatchDetector.NEWCOMER, 50), WatchDetector.HUB: of(WatchDetector.HUB, 2)}

    alerts, over = choose_alerts(found, [], NOW, budget=5)

    assert [alert.detector for alert in alerts].count("hub") == 2
    assert (len(alerts), over) == (5, 47)
