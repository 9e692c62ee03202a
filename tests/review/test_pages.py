"""Pages of the queue: five statements, nothing lost and nothing twice, filters and counts that agree; also with 50,000 items."""

from __future__ import annotations

import base64
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from corpus_guard.corpus import publishing
from corpus_guard.domain import Severity, TrustLevel, Verdict
from corpus_guard.errors import Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, findings, versions
from corpus_guard.review import campaigns
from corpus_guard.review.decisions import decide
from corpus_guard.review.health import measure_health
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.notices import count_waiting
from corpus_guard.review.queue import SORTS, QueueFilter, QueueItem, Sort, list_revisions, load_page
from corpus_guard.screening.survey.signals import measure_signals
from deciding import ADA, ALONE, MO, decided
from material import a_finding, a_version, judged

CODES = ("instructions.override", "perplexity.rare", "provenance.claim", "duplicates.burst", "targeting.question")
PAGE_SECONDS = 0.3  # the promise; measured 0.16 to 0.2 on two shared cores
BULK_SECONDS = 5.0


def fill(ledger: Ledger, count: int, run_id: str = "run-1") -> None:
    """Items that wait, of 7 sources, 3 trust levels, 5 checks and 900 authors."""
    chance = random.Random(7)
    for start in range(0, count, 1_000):
        pairs = []
        for number in range(start, min(count, start + 1_000)):
            version = a_version(
                f"d/{number}.md",
                (f"text {number}",),
                source=f"s{number % 7}",
                trust=list(TrustLevel)[number % 3],
                declared={"author": f"a{number % 900}"},
            )
            found = tuple(
                a_finding(code, severity=chance.choice(list(Severity)[1:]), score=chance.random())
                for code in chance.sample(CODES, chance.choice([1, 2, 3]))
            )
            judgement = judged(version, Verdict.QUARANTINE, findings=found, risk=round(chance.random(), 2))
            pairs.append((version, judgement))
        with ledger.write() as connection:
            publishing.record(
                connection, run_id, "batch.parquet", pairs, collection=lambda trust: f"x-{trust}", vectors="", model=""
            )


def copy(ledger: Ledger, times: int) -> None:
    """Multiply all items in the ledger: recording so many one by one takes minutes."""
    with ledger.write() as connection:
        for table in (documents, versions, findings):
            rows = [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            copies = [(number, row) for number in range(1, times) for row in rows]
            connection.execute(table.insert(), [_renamed(row, number) for number, row in copies])


def _renamed(row: dict[str, Any], number: int) -> dict[str, Any]:
    ids = {"doc_id", "version_id", "latest_version"} & row.keys()
    path = {"uri": f"{number}/{row['uri']}"} if "uri" in row else {}
    return {**row, **path, **{name: f"{row[name][:28]}-{number:03}" for name in ids}}


def processor_clock(ledger: Ledger) -> Callable[[], float]:
    """Return a clock of the processor time of this process and of PostgreSQL's server: other work on the machine does not count."""
    if ledger.engine.dialect.name == "sqlite":
        return time.process_time
    with ledger.read() as connection:
        server = psutil.Process(int(connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one())).parents()[0]

    def used() -> float:
        times = [process.cpu_times() for process in server.children()]
        return time.process_time() + sum(each.user + each.system for each in times)

    return used


@contextmanager
def counted(ledger: Ledger) -> Iterator[list[str]]:
    """The statements of the block, transactions left out."""
    seen: list[str] = []

    def note(connection: Any, cursor: Any, text: str, *rest: Any) -> None:
        if not text.startswith(("BEGIN", "SELECT pg_catalog", "SHOW")):
            seen.append(text)

    sa.event.listen(ledger.engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(ledger.engine, "before_cursor_execute", note)


def walk(ledger: Ledger, chosen: QueueFilter, sort: Sort, size: int) -> list[QueueItem]:
    items: list[QueueItem] = []
    after: str | None = None
    while True:
        found = load_page(ledger, chosen, sort=sort, after=after, size=size)
        items += found.items
        after = found.next
        if after is None:
            return items


@pytest.fixture
def hundred(ledger: Ledger) -> Ledger:
    fill(ledger, 100)
    return ledger


@pytest.mark.parametrize("sort", SORTS)
def test_every_item_stands_on_exactly_one_page_in_order(hundred: Ledger, sort: Sort) -> None:
    items = walk(hundred, QueueFilter(), sort, 7)

    assert len({item.version_id for item in items}) == len(items) == 100
    whole = load_page(hundred, sort=sort, size=200).items
    assert {item.version_id for item in whole} == {item.version_id for item in items}
    if sort == "risk":
        firsts = [load_page(hundred, size=1).items[0].risk, min(item.risk for item in items)]
        assert firsts == [max(item.risk for item in items), items[-1].risk]
    elif sort == "source":
        assert [item.source for item in walk(hundred, QueueFilter(), sort, 1)] == sorted(item.source for item in items)
    else:
        since = [item.waits_since for item in walk(hundred, QueueFilter(), sort, 1)]
        assert since == sorted(since)  # type: ignore[type-var]


def test_what_is_decided_meanwhile_moves_nobody_to_another_page(hundred: Ledger) -> None:
    everything = [item.version_id for item in walk(hundred, QueueFilter(), "risk", 1)]
    first = load_page(hundred, size=10)
    with hundred.write() as connection:
        gone = versions.update().where(versions.c.version_id.in_(everything[:5]))
        connection.execute(gone.values(state="rejected"))

    second = load_page(hundred, after=first.next, size=10)

    assert {item.version_id for item in second.items} == set(everything[10:20])
    assert second.total == 95


@pytest.mark.parametrize(
    ("chosen", "holds"),
    [
        (QueueFilter(source="s3"), lambda item: item.source == "s3"),
        (QueueFilter(trust="open"), lambda item: item.trust == "open"),
        (QueueFilter(severity="high"), lambda item: item.severity == "high"),
        (QueueFilter(check="perplexity"), lambda item: any(one.check == "perplexity" for one in item.findings)),
        (QueueFilter(text="D/1"), lambda item: "d/1" in item.uri),
        (QueueFilter(text="100%_"), lambda item: False),
        (QueueFilter(run_id="run-2"), lambda item: False),
        (QueueFilter(state="rejected"), lambda item: False),
        (QueueFilter(older_than=timedelta(days=1)), lambda item: False),
        (QueueFilter(older_than=timedelta(0)), lambda item: True),
        (QueueFilter(source="s1", check="duplicates", severity="critical"), lambda item: item.source == "s1"
         and item.severity == "critical" and any(one.check == "duplicates" for one in item.findings)),
    ],
)  # fmt: skip
def test_a_filter_finds_what_it_says_and_counts_it(
    hundred: Ledger, chosen: QueueFilter, holds: Callable[[QueueItem], bool]
) -> None:
    expected = {item.version_id: item for item in walk(hundred, QueueFilter(), "risk", 200) if holds(item)}

    found = load_page(hundred, chosen, size=200)

    assert {item.version_id for item in found.items} == set(expected)
    assert found.total == len(expected)
    assert found.facets["source"] == Counter(item.source for item in expected.values())
    assert found.facets["severity"] == Counter(item.severity for item in expected.values())
    checks = Counter(check for item in expected.values() for check in {one.check for one in item.findings})
    assert found.facets["check"] == checks
    assert {item.version_id for item in list_revisions(hundred, chosen)} == set(expected)


def test_what_is_decided_can_be_left_out(hundred: Ledger) -> None:
    first, second = load_page(hundred, size=2).items
    decided(hundred, first.version_id, "reject")
    decided(hundred, second.version_id, "escalate")

    assert load_page(hundred).total == 100
    assert load_page(hundred, QueueFilter(undecided=True)).total == 99
    shown = {item.version_id: item for item in load_page(hundred, size=5).items}
    assert (shown[first.version_id].pending, shown[first.version_id].decisions) == ("reject", 1)
    assert (shown[second.version_id].pending, shown[second.version_id].escalated) == (None, True)
    assert count_waiting(hundred).items == 99


@pytest.mark.parametrize(
    "token",
    ["", "AAAA", "§", "=" * 9, base64.urlsafe_b64encode(b'["risk",1]').decode(), base64.urlsafe_b64encode(b'["age","x","y"]').decode(),
     base64.urlsafe_b64encode(b'["risk","x","a","b"]').decode(), base64.urlsafe_b64encode(b'["risk",0.5,"a","b\\u0000"]').decode(),
     base64.urlsafe_b64encode(b'["risk",0.5,7,"b"]').decode(), base64.urlsafe_b64encode(b'{"risk":1}').decode()],
)  # fmt: skip
def test_a_page_that_nobody_gave_out_is_refused(sqlite_ledger: Ledger, token: str) -> None:
    with pytest.raises(Misuse, match="cursor does not belong to this queue"):
        load_page(sqlite_ledger, after=token)


@pytest.mark.parametrize("change", [{"sort": "name"}, {"size": 0}, {"size": 201}])
def test_what_is_no_page_is_refused(sqlite_ledger: Ledger, change: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        load_page(sqlite_ledger, **change)


@pytest.mark.parametrize("field", ["source", "trust", "check", "severity", "run_id", "campaign", "text"])
@pytest.mark.parametrize("value", ["\x00", "' OR 1=1 --", "%", "_", "\u202e", "x" * 5_000])
def test_hostile_words_in_a_filter_find_nothing(hundred: Ledger, field: str, value: str) -> None:
    if field in {"severity", "trust"}:
        with pytest.raises(Misuse):
            QueueFilter(**{field: value})  # type: ignore[arg-type]
        return
    found = load_page(hundred, QueueFilter(**{field: value})).total  # type: ignore[arg-type]
    assert found == 0 or (value == "\x00" and found == 100), "an empty word does not filter"


def test_a_page_costs_five_statements_however_long_the_queue(hundred: Ledger) -> None:
    with counted(hundred) as few:
        load_page(hundred, size=5)
    fill(hundred, 400, run_id="run-2")
    with counted(hundred) as many:
        load_page(hundred, size=200)

    assert len(few) == len(many) <= 5


# Campaigns


def test_near_duplicates_and_one_authors_items_stand_together(ledger: Ledger) -> None:
    words = [f"word{number}" for number in range(120)]
    lie = " ".join(words)
    near = [
        a_version(f"n{i}.md", (" ".join([*words[:-1], f"end{i}"]),), declared={"author": f"nick {i}"}) for i in range(4)
    ]
    apart = [a_version(f"o{i}.md", (f"The {i} boats are painted in another colour each spring of the year {i}.",),
                       declared={"author": "mallory"}) for i in range(3)]  # fmt: skip
    stranger = a_version(
        "s.md", ("Nobody else writes like this about ropes, knots and the weather.",), declared={"author": "zoe"}
    )
    everything = [*near, *apart, stranger]
    pairs = [(version, judged(version, Verdict.QUARANTINE)) for version in everything]

    for part in (pairs[:3], pairs[3:]):  # a later run joins what waits already
        with ledger.write() as connection:
            publishing.record(connection, "run-1", "batch.parquet", part, collection=str, vectors="", model="")
            campaigns.assign_campaigns(connection, [measure_signals(version) for version, _ in part])

    found = load_page(ledger)
    by_uri = {item.uri: item.campaign for item in found.items}
    assert len(lie) > 500
    assert len({by_uri[f"n{i}.md"] for i in range(4)}) == 1
    assert len({by_uri[f"o{i}.md"] for i in range(3)}) == 1
    assert len(set(by_uri.values())) == 3
    assert found.facets["campaign"][str(by_uri["n0.md"])] == 4
    order = [item.campaign for item in found.items]
    assert [one for one, before in zip(order, [None, *order], strict=False) if one != before] == list(
        dict.fromkeys(order)
    )
    assert load_page(ledger, QueueFilter(campaign=by_uri["o1.md"])).total == 3


def test_items_that_state_the_same_stand_together(ledger: Ledger) -> None:
    """Though no two share their words: the first two arrive in one run, the third later."""
    texts = (
        "Gate 4 closes at noon.",
        "From twelve o'clock on nobody passes the fourth gate.",
        "Noon is when gate 4 shuts.",
    )
    group = [a_version(f"g{number}.md", (text,)) for number, text in enumerate(texts)]
    stranger = a_version("s.md", ("Nobody else writes like this about ropes, knots and the weather.",))
    groups = {version.version_id: {other.doc_id for other in group if other is not version} for version in group}

    for part in ([*group[:2], stranger], group[2:]):
        with ledger.write() as connection:
            pairs = [(version, judged(version, Verdict.QUARANTINE)) for version in part]
            publishing.record(connection, "run-1", "batch.parquet", pairs, collection=str, vectors="", model="")
            campaigns.assign_campaigns(connection, [measure_signals(version) for version in part], groups)

    by_uri = {item.uri: item.campaign for item in load_page(ledger).items}
    assert by_uri["g0.md"] == by_uri["g1.md"] == by_uri["g2.md"] != by_uri["s.md"]


# Health


def test_health_counts_what_people_said(hundred: Ledger) -> None:
    items = walk(hundred, QueueFilter(), "risk", 200)
    hundred.execute(versions.update().values(waits_since=now() - timedelta(hours=30)))
    for item, choice in zip(items, ("release", "release", "reject", "reject", "reject"), strict=False):
        decided(hundred, item.version_id, choice)  # type: ignore[arg-type]
    (undone,) = decided(hundred, items[5].version_id, "release")
    from corpus_guard.review.undo import undo_decision

    undo_decision(hundred, undone.decision_id, ReviewAct(MO, "no"))

    told = measure_health(hundred, ALONE)

    assert told["decided"] == {"released": 2, "rejected": 3}
    assert (told["waiting"]["items"], told["waiting"]["overdue"], told["waiting"]["decided_not_applied"]) == (95, 95, 5)
    assert told["seconds_to_decision"]["count"] == 5
    assert 30 * 3600 <= told["seconds_to_decision"]["median"] < 30 * 3600 + 600
    assert told["days"][-1]["released"] + told["days"][-2]["released"] == 2
    expected = Counter(check for item in items[:5] for check in {one.check for one in item.findings})
    released = Counter(check for item in items[:2] for check in {one.check for one in item.findings})
    assert {one["name"]: one["false_alarms"]["of"] for one in told["checks"]} == expected
    assert {
        one["name"]: one["false_alarms"]["count"] for one in told["checks"] if one["false_alarms"]["count"]
    } == released
    for one in told["checks"]:
        assert 0 <= one["false_alarms"]["low"] <= one["false_alarms"]["share"] <= one["false_alarms"]["high"] <= 1


# The promises


@pytest.mark.slow
def test_fifty_thousand_items_are_paged_and_decided_in_time(ledger: Ledger) -> None:
    fill(ledger, 1_000)
    copy(ledger, 50)
    if ledger.engine.dialect.name == "postgresql":
        with ledger.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))
    clock = processor_clock(ledger)
    took = {}
    after: str | None = None
    for number in range(3):
        with counted(ledger) as seen:
            begun = clock()
            found = load_page(ledger, after=after)
            took[f"page {number + 1}"] = clock() - begun
        assert (found.total, len(found.items)) == (50_000, 50)
        assert len(seen) <= 5
        after = found.next
    begun = clock()
    load_page(ledger, sort="age")
    took["by age"] = clock() - begun

    chosen = list_revisions(ledger, QueueFilter(source="s3"), limit=50_000)[:1_000]
    begun = clock()
    made = decide(ledger, ALONE, chosen, "reject", ReviewAct(ADA, "a flood", "0" * 64))
    bulk = clock() - begun

    assert len(made) == 1_000
    assert max(took.values()) <= PAGE_SECONDS, took
    assert bulk <= BULK_SECONDS
