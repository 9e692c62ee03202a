"""What people are told: counts that add up, nothing of a text, and not the same thing twice."""

from __future__ import annotations

from datetime import timedelta

import pytest

from corpus_guard.batches import Storage
from corpus_guard.corpus import publishing
from corpus_guard.domain import Severity, Verdict
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import versions
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.labels import load_labels
from corpus_guard.review.notices import (
    count_waiting,
    escalate_undecided,
    mark_overdue_reported,
    overdue_message,
    overdue_to_report,
)
from corpus_guard.review.queue import QueueFilter, load_page
from corpus_guard.screening.policy import ReviewRules
from deciding import ADA, ALONE, MO, decided
from material import Shelf, a_finding, a_version, judged

RULES = ReviewRules(two_person_severity=Severity.LOW)
SEEN_BY = ("instructions.override",) * 3 + ("perplexity.rare",) * 2 + ("provenance.claim",)


@pytest.fixture
def six(ledger: Ledger) -> Ledger:
    """Six items by their worst findings; each has a second, lesser one of another check."""
    pairs = []
    for number, code in enumerate(SEEN_BY):
        version = a_version(f"{number}.md", (f"SECRET {number}",), source=f"s{number % 2}")
        found = (a_finding(code), a_finding("unicode.bidi", severity=Severity.LOW))
        pairs.append((version, judged(version, Verdict.QUARANTINE, findings=found)))
    for part, run in ((pairs[:4], "run-1"), (pairs[4:], "run-2")):
        with ledger.write() as connection:
            publishing.record(connection, run, "b.parquet", part, collection=str, vectors="", model="")
    return ledger


def grow_old(ledger: Ledger, hours: float) -> None:
    ledger.execute(versions.update().values(waits_since=now() - timedelta(hours=hours)))


def test_each_item_is_counted_once_by_its_worst_finding(six: Ledger) -> None:
    assert count_waiting(six).sentence == "6 to review: 3 instructions, 2 perplexity, 1 provenance"
    assert count_waiting(six, ["run-2"]).sentence == "2 to review: 1 perplexity, 1 provenance"
    assert dict(count_waiting(six).by_source) == {"s0": 3, "s1": 3}
    assert count_waiting(six, ["run-9"]).sentence == "nothing new to review"


def test_half_an_approval_still_waits_and_a_decision_does_not(six: Ledger) -> None:
    first, second, *_ = load_page(six).items
    decided(six, first.version_id, by=ADA, rules=RULES)
    assert count_waiting(six).items == 6

    decided(six, first.version_id, by=MO, rules=RULES)
    decided(six, second.version_id, "reject")

    assert count_waiting(six).items == 4


@pytest.mark.parametrize(("runs", "expected"), [(["run-1"], 4), (["run-1", "run-2"], 6), ([], 6), (["run-9"], 0)])
def test_a_run_is_escalated_whole(six: Ledger, runs: list[str], expected: int) -> None:
    done = escalate_undecided(six, ALONE, runs, ReviewAct(ADA, "answered"))

    assert done == expected == sum(item.escalated for item in load_page(six).items)
    assert load_page(six, QueueFilter(state="quarantined")).total == 6


def test_what_is_overdue_is_told_again_when_it_grows_or_a_day_later(six: Ledger, storage: Storage) -> None:
    assert overdue_to_report(six, storage, ALONE) is None
    grow_old(six, 30)
    decided(six, next(item for item in load_page(six).items if item.source == "s1").version_id, "reject")

    late = overdue_to_report(six, storage, ALONE)

    assert late is not None
    assert (late["items"], sum(late["by_source"].values())) == (5, 5)
    assert overdue_message(late).startswith("5 items have waited longer than 24 hours: 3 s0, 2 s1; the oldest since ")
    assert "SECRET" not in overdue_message(late)
    assert overdue_to_report(six, storage, ALONE) is not None, "nobody was told yet"
    mark_overdue_reported(storage, late)
    assert overdue_to_report(six, storage, ALONE) is None
    assert overdue_to_report(six, storage, ALONE, now() + timedelta(hours=25)) is not None
    mark_overdue_reported(storage, {**late, "items": 4})
    assert overdue_to_report(six, storage, ALONE) is not None


def test_labels_are_the_last_word_of_people_and_hold_no_text(shelf: Shelf) -> None:
    made = {name: a_version(f"{name}.md", (f"SECRET {name}",)) for name in ("a", "b", "c", "d")}
    shelf.record(*((version, Verdict.QUARANTINE) for version in made.values()))
    decided(shelf.ledger, made["a"].version_id, "release")
    decided(shelf.ledger, made["b"].version_id, "release")
    decided(shelf.ledger, made["b"].version_id, "reject")
    decided(shelf.ledger, made["c"].version_id, "release", rules=RULES)  # half

    found = {one.version_id: one for one in load_labels(shelf.ledger)}

    assert {name: found[made[name].version_id].label for name in ("a", "b")} == {"a": "honest", "b": "attack"}
    assert len(found) == 2
    assert found[made["a"].version_id].codes == ("instructions.override",)
    assert "SECRET" not in str([one.as_dict() for one in found.values()])
    assert list(load_labels(shelf.ledger, source="nowhere")) == []
    assert list(load_labels(shelf.ledger, since=now() + timedelta(days=1))) == []
