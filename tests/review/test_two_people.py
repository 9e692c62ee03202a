"""Two reviewers, two approvals, undoing, expiry: who may do what to whose decision. On both kinds of ledger."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.domain import Severity, TrustLevel, Verdict, Version
from corpus_guard.errors import Misuse, NotAllowed, Stale, UnknownSubject
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import acts, decisions, documents, events, versions
from corpus_guard.review.decisions import MAX_ITEMS, Decision, decide, preview_decision
from corpus_guard.review.history import load_history
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.queue import QueueItem, find_item
from corpus_guard.review.records import ItemRevision, load_reviews
from corpus_guard.review.release import count_pending_decisions
from corpus_guard.review.reviewer import MAX_REASON_CHARS, Reviewer
from corpus_guard.review.undo import SYSTEM_REVIEWER, escalate_expired, undo_decision
from corpus_guard.screening.policy import ReviewRules
from deciding import ADA, ALONE, MO, decided
from material import Shelf, a_finding, a_version

QUARANTINE = Verdict.QUARANTINE
RULES = ReviewRules(two_person_severity=Severity.HIGH)
A, B = (a_version(f"{name}.md", (f"The {name} is old.",)) for name in ("pump", "winch"))
TRUSTED = a_version("law.md", ("The law is old.",), trust=TrustLevel.TRUSTED)


@pytest.fixture
def waiting(shelf: Shelf) -> Shelf:
    shelf.record((A, QUARANTINE), (B, QUARANTINE), (TRUSTED, QUARANTINE))
    return shelf


def seen(shelf: Shelf, version: Version = A) -> QueueItem:
    return find_item(shelf.ledger, version.version_id)


def as_seen(*items: QueueItem) -> list[ItemRevision]:
    return [ItemRevision(item.version_id, item.revision) for item in items]


def say(
    shelf: Shelf, items: list[ItemRevision], by: Reviewer = ADA, choice: str = "release", rules: ReviewRules = ALONE
) -> list[Decision]:
    return decide(shelf.ledger, rules, items, choice, ReviewAct(by, "seen", "0" * 64))  # type: ignore[arg-type]


def count(shelf: Shelf, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
    return shelf.ledger.scalar(sa.select(sa.func.count()).select_from(table).where(*conditions)) or 0


def test_who_decided_is_kept_with_what_they_saw(waiting: Shelf) -> None:
    item = seen(waiting)

    (made,) = say(waiting, as_seen(item))

    with waiting.ledger.read() as connection:
        row = connection.execute(sa.select(decisions)).one()
        event = connection.execute(sa.select(events).where(events.c.kind == "decided")).one()
    assert (row.decision_id, row.reviewer_id, row.reviewer, row.auth) == (
        made.decision_id,
        "17",
        "ada",
        "SomeAuthManager",
    )
    assert (row.revision, row.policy_digest, row.content_sha256) == (item.revision, "0" * 64, A.stamp.content_sha256)
    assert (event.body["reviewer_id"], event.body["revision"], event.body["rules"]) == (
        "17",
        item.revision,
        ALONE.digest,
    )


def test_the_second_of_two_reviewers_is_told(waiting: Shelf) -> None:
    items = as_seen(seen(waiting))
    say(waiting, items, ADA, "reject")

    with pytest.raises(Stale, match=r"changed since you looked at it \(ada: reject\); look again, nothing was changed"):
        say(waiting, items, MO)

    assert count(waiting, decisions) == 1


def test_of_two_reviewers_at_one_moment_one_is_told(waiting: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    items, both_looked, ended = as_seen(seen(waiting)), threading.Barrier(2), []

    def slowly(*arguments: Any) -> Any:
        """Between looking and writing: only without a lock do both of them come here."""
        found = load_reviews(*arguments)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_looked.wait(1)
        return found

    monkeypatch.setattr("corpus_guard.review.decisions.load_reviews", slowly)

    def reviewer(by: Reviewer) -> None:
        try:
            say(waiting, items, by)
            ended.append("kept")
        except Stale:
            ended.append("told")

    threads = [threading.Thread(target=reviewer, args=(by,)) for by in (ADA, MO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(ended) == ["kept", "told"]
    assert count(waiting, decisions) == 1


@pytest.mark.parametrize("choice", ["reject", "escalate", "undo", "judge", "replace", "retire"])
def test_everything_that_matters_changes_the_revision(waiting: Shelf, choice: str) -> None:
    before = seen(waiting)
    made = decided(waiting.ledger, B.version_id) if choice == "undo" else []
    if choice in ("reject", "escalate"):
        decided(waiting.ledger, A.version_id, choice)  # type: ignore[arg-type]
    elif choice == "undo":
        before = seen(waiting, B)
        undo_decision(waiting.ledger, made[0].decision_id, ReviewAct(MO, "no"))
    elif choice == "judge":
        waiting.record((A, QUARANTINE), run_id="run-2")
    elif choice == "replace":
        waiting.record((a_version("pump.md", ("The pump is new.",), minute=5), QUARANTINE))
    else:
        waiting.retire(A.doc_id)

    after = find_item(waiting.ledger, before.version_id)

    assert after.revision != before.revision
    assert seen(waiting, TRUSTED).revision == seen(waiting, TRUSTED).revision
    with pytest.raises(Stale):
        say(waiting, as_seen(before), MO, "reject")


def test_a_call_decides_all_or_none(waiting: Shelf) -> None:
    both = as_seen(seen(waiting), seen(waiting, B))
    decided(waiting.ledger, B.version_id, "reject")

    with pytest.raises(Stale, match=B.version_id):
        say(waiting, both)
    assert seen(waiting).pending is None
    with pytest.raises(UnknownSubject, match=r"'f{32}' is not in the ledger"):
        say(waiting, [*as_seen(seen(waiting)), ItemRevision("f" * 32, "x")])
    assert count(waiting, decisions) == 1

    assert len(say(waiting, as_seen(seen(waiting), seen(waiting, TRUSTED)))) == 2


@pytest.mark.parametrize(
    ("chosen", "reason", "says"),
    [
        (lambda one: [], "because", "1 to 1,000 items, got 0"),
        (lambda one: [one, one], "because", "named twice"),
        (lambda one: [one] * (MAX_ITEMS + 1), "because", "1 to 1,000 items, got 1,001"),
        (lambda one: [one], " \x00 ".replace("\x00", ""), "needs a reviewer and a reason"),
        (lambda one: [one], "x" * (MAX_REASON_CHARS + 1), "at most 2,000 characters"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    waiting: Shelf, chosen: Callable[[ItemRevision], list[ItemRevision]], reason: str, says: str
) -> None:
    (one,) = as_seen(seen(waiting))

    with pytest.raises(Misuse, match=says):
        decide(waiting.ledger, ALONE, chosen(one), "release", ReviewAct(ADA, reason))

    assert count(waiting, decisions) == 0


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "{{ conn.x }}", "\u202eover", "nul\x00nul", "half \ud800 pair"]
)
def test_hostile_words_are_kept_as_words(waiting: Shelf, text: str) -> None:
    by = Reviewer(text, text, "cli")

    (made,) = decide(waiting.ledger, ALONE, as_seen(seen(waiting)), "reject", ReviewAct(by, text))

    (entry,) = load_history(waiting.ledger).entries
    assert (entry.reason, entry.reviewer) == (made.reason, by.name)
    assert "\x00" not in entry.reason
    assert entry.reason.encode()


# Two people


def test_the_first_of_two_has_no_effect_and_the_second_completes_it(waiting: Shelf) -> None:
    (first,) = say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)

    item = seen(waiting)
    assert (first.approval, first.of, first.is_complete) == (1, 2, False)
    assert (item.pending, item.waits_for_second, item.approved_by) == ("release", True, "ada")
    assert count_pending_decisions(waiting.ledger) == 0

    (second,) = say(waiting, as_seen(item), MO, rules=RULES)

    item = seen(waiting)
    assert (second.approval, second.of, second.is_complete) == (2, 2, True)
    assert (item.pending, item.waits_for_second, item.decisions) == ("release", False, 2)
    assert count_pending_decisions(waiting.ledger) == 1


@pytest.mark.parametrize(
    "same",
    [ADA, Reviewer("17", "ada m.", "SomeAuthManager"), Reviewer("ADA", "Ada", "SomeAuthManager")],
    ids=["", "id", "name"],
)
def test_one_person_is_not_two(waiting: Shelf, same: Reviewer) -> None:
    say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)

    with pytest.raises(NotAllowed, match="was already released by ada; another person must agree"):
        say(waiting, as_seen(seen(waiting)), same, rules=RULES)

    assert count_pending_decisions(waiting.ledger) == 0


def test_the_policy_says_what_needs_two(waiting: Shelf) -> None:
    def of(version: Version, rules: ReviewRules, choice: str = "release") -> int:
        shown = preview_decision(waiting.ledger, rules, [version.version_id], choice, ADA)  # type: ignore[arg-type]
        return shown.first_of_two

    default = ReviewRules()
    assert of(A, default) == 0, "a high finding in an open source needs one person"
    assert of(TRUSTED, default) == 1
    assert of(TRUSTED, default, "reject") == 0, "keeping out never needs two"
    assert of(A, RULES) == 1
    assert of(TRUSTED, ALONE) == 0


def test_a_loosened_policy_does_not_complete_a_first_approval_by_itself(waiting: Shelf) -> None:
    say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)

    with pytest.raises(NotAllowed):
        say(waiting, as_seen(seen(waiting)), ADA, rules=ALONE)

    assert count_pending_decisions(waiting.ledger) == 0


def test_a_rejection_between_the_two_begins_anew(waiting: Shelf) -> None:
    say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)
    say(waiting, as_seen(seen(waiting)), MO, "reject", rules=RULES)

    (again,) = say(waiting, as_seen(seen(waiting)), Reviewer("zoe", "zoe", "SomeAuthManager"), rules=RULES)

    assert (again.approval, again.of) == (1, 2)
    assert count_pending_decisions(waiting.ledger) == 1, "the rejection stands"


def test_a_preview_counts_and_changes_nothing(waiting: Shelf) -> None:
    decided(waiting.ledger, B.version_id, by=ADA, rules=RULES)
    waiting.retire(TRUSTED.doc_id)
    names = [A.version_id, B.version_id, TRUSTED.version_id, "f" * 32]
    before = count(waiting, events)

    shown = preview_decision(waiting.ledger, RULES, names, "release", MO)

    assert (shown.items, shown.first_of_two, shown.second_of_two) == (2, 1, 1)
    assert (dict(shown.by_source), dict(shown.by_trust), dict(shown.by_severity)) == (
        {"harbour": 2},
        {"open": 2},
        {"high": 2},
    )
    assert [name for name, _ in shown.refused] == names[2:]
    assert "vanished" in shown.refused[0][1]
    assert count(waiting, events) == before
    say(waiting, [ItemRevision(name, revision) for name, revision in shown.revisions.items()], MO, rules=RULES)


# Undoing


def test_a_decision_is_undone_until_it_is_applied(waiting: Shelf) -> None:
    (made,) = decided(waiting.ledger, A.version_id)

    assert undo_decision(waiting.ledger, made.decision_id, ReviewAct(MO, "wrong one")) == [made.decision_id]

    item = seen(waiting)
    assert (item.pending, item.decisions, count_pending_decisions(waiting.ledger)) == (None, 1, 0)
    assert [(one.kind, one.reviewer, one.subject) for one in load_history(waiting.ledger).entries] == [
        ("undo", "mo", made.decision_id),
        ("release", "ada", None),
    ]
    with pytest.raises(Stale, match="was already undone"):
        undo_decision(waiting.ledger, made.decision_id, ReviewAct(MO, "again"))


def test_what_took_effect_is_not_undone(waiting: Shelf) -> None:
    (made,) = decided(waiting.ledger, A.version_id)
    waiting.ledger.execute(decisions.update().values(applied_at=now()))

    with pytest.raises(Stale, match="has taken effect; nothing was changed"):
        undo_decision(waiting.ledger, made.decision_id, ReviewAct(MO, "too late"))

    assert count(waiting, acts) == 0


def test_without_the_first_approval_the_second_falls(waiting: Shelf) -> None:
    (first,) = say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)
    (second,) = say(waiting, as_seen(seen(waiting)), MO, rules=RULES)

    assert set(undo_decision(waiting.ledger, first.decision_id, ReviewAct(ADA, "no"))) == {
        first.decision_id,
        second.decision_id,
    }

    assert count_pending_decisions(waiting.ledger) == 0
    assert seen(waiting).pending is None


def test_without_the_second_approval_the_first_waits_again(waiting: Shelf) -> None:
    say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)
    (second,) = say(waiting, as_seen(seen(waiting)), MO, rules=RULES)

    undo_decision(waiting.ledger, second.decision_id, ReviewAct(MO, "no"))

    assert (seen(waiting).waits_for_second, count_pending_decisions(waiting.ledger)) == (True, 0)


def test_undoing_what_counts_brings_nothing_older_back(waiting: Shelf) -> None:
    (release,) = decided(waiting.ledger, A.version_id)
    (rejection,) = decided(waiting.ledger, A.version_id, "reject")

    undone = undo_decision(waiting.ledger, rejection.decision_id, ReviewAct(MO, "no"))

    assert set(undone) == {release.decision_id, rejection.decision_id}
    assert (seen(waiting).pending, count_pending_decisions(waiting.ledger)) == (None, 0)


def test_undoing_what_was_replaced_leaves_what_counts(waiting: Shelf) -> None:
    (release,) = decided(waiting.ledger, A.version_id)
    decided(waiting.ledger, A.version_id, "reject")

    assert undo_decision(waiting.ledger, release.decision_id, ReviewAct(MO, "no")) == [release.decision_id]

    assert (seen(waiting).pending, count_pending_decisions(waiting.ledger)) == ("reject", 1)


def test_an_escalation_marks_and_can_be_undone(waiting: Shelf) -> None:
    (made,) = decided(waiting.ledger, A.version_id, "escalate")
    assert (seen(waiting).escalated, seen(waiting).pending, seen(waiting).state) == (True, None, "quarantined")

    undo_decision(waiting.ledger, made.decision_id, ReviewAct(MO, "no need"))

    assert not seen(waiting).escalated
    assert count_pending_decisions(waiting.ledger) == 0


@pytest.mark.parametrize("name", ["f" * 32, "", "' OR 1=1", "\x00".replace("\x00", "z")])
def test_what_was_never_decided_is_not_undone(waiting: Shelf, name: str) -> None:
    with pytest.raises(UnknownSubject):
        undo_decision(waiting.ledger, name, ReviewAct(MO, "?"))


# Time


def late(shelf: Shelf, version: Version, days: float) -> None:
    with shelf.ledger.write() as connection:
        here = versions.c.version_id == version.version_id
        connection.execute(versions.update().where(here).values(waits_since=now() - timedelta(days=days)))


def test_what_waits_too_long_is_escalated_once_and_never_released(waiting: Shelf) -> None:
    late(waiting, A, 31)
    late(waiting, B, 31)
    decided(waiting.ledger, B.version_id, "reject")

    assert [escalate_expired(waiting.ledger, ALONE), escalate_expired(waiting.ledger, ALONE)] == [1, 0]

    item = seen(waiting)
    assert (item.state, item.pending, item.escalated, item.expired) == ("quarantined", None, True, True)
    assert count(waiting, decisions, decisions.c.verdict == "release") == 0
    (entry,) = load_history(waiting.ledger, kind="escalate").entries
    assert (entry.reviewer, entry.cause) == (SYSTEM_REVIEWER.name, "expired")
    assert not seen(waiting, TRUSTED).expired


def test_half_an_approval_expires_too(waiting: Shelf) -> None:
    say(waiting, as_seen(seen(waiting)), ADA, rules=RULES)
    late(waiting, A, 31)

    assert escalate_expired(waiting.ledger, RULES) == 1
    assert seen(waiting).state == "quarantined"


def test_judging_anew_does_not_hide_how_long_it_waits(waiting: Shelf) -> None:
    late(waiting, A, 40)
    before = seen(waiting).waits_since

    waiting.record((A, QUARANTINE), run_id="run-2")

    assert seen(waiting).waits_since == before


# What is kept


@pytest.mark.parametrize("statement", ["UPDATE acts SET reason = 'better'", "DELETE FROM acts"])
def test_acts_are_append_only(waiting: Shelf, statement: str) -> None:
    decided(waiting.ledger, A.version_id, "escalate")

    with pytest.raises(sa.exc.DatabaseError, match="append-only"), waiting.ledger.write() as connection:
        connection.execute(sa.text(statement))


def test_the_history_is_read_page_by_page_without_loss(waiting: Shelf) -> None:
    for number in range(7):
        decided(waiting.ledger, A.version_id, "escalate", by=f"reviewer {number}")
    told, after = [], None
    for _ in range(10):
        page = load_history(waiting.ledger, after=after, size=3)
        told += [one.reviewer for one in page.entries]
        assert page.total == 7
        after = page.next
        if after is None:
            break

    assert told == [f"reviewer {number}" for number in range(6, -1, -1)]
    assert load_history(waiting.ledger, reviewer="reviewer 3").total == 1
    assert load_history(waiting.ledger, source="nowhere").total == 0
    with pytest.raises(Misuse, match="cursor"):
        load_history(waiting.ledger, after="AAAA")


def test_what_is_retired_keeps_its_decisions(waiting: Shelf) -> None:
    decided(waiting.ledger, A.version_id, "reject")
    waiting.retire(A.doc_id)

    assert count(waiting, decisions) == 1
    assert count(waiting, documents, documents.c.retired_at.is_not(None)) == 1
    assert a_finding().severity is Severity.HIGH
