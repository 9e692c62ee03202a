"""Served versions that are brought before a person again: served until somebody decides, and asked about once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.corpus import publishing
from corpus_guard.domain import Finding, Judgement, Severity, Verdict
from corpus_guard.errors import Stale
from corpus_guard.ledger.tables import events, findings, versions
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.queue import QueueFilter, QueueItem, find_item, load_page
from corpus_guard.review.reopening import CompletedGroup, completed_groups, reopen
from corpus_guard.review.undo import undo_decision
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.survey.agreement import Agreement
from corpus_guard.settings import Settings
from deciding import MO, decided
from deploying import BAD, Workspace
from material import Shelf, a_finding, a_version, judged

POLICY = load_policy(Settings().policy_file)
GROUP = "f" * 32


def reopened(shelf: Shelf, *doc_ids: str, version_id: str = GROUP, run_id: str = "run-2") -> int:
    with shelf.ledger.write() as connection:
        return reopen(connection, run_id, POLICY, [CompletedGroup(version_id, doc_ids, 0.9)])


def row(shelf: Shelf, version_id: str) -> Any:
    with shelf.ledger.read() as connection:
        return connection.execute(sa.select(versions).where(versions.c.version_id == version_id)).one()


def test_it_stays_served_and_waits_in_the_queue_with_a_finding_and_an_event(shelf: Shelf) -> None:
    one, other = a_version(), a_version("winch.md", ("The winch is greased in May. ",))
    shelf.serve(one, other)

    assert reopened(shelf, one.doc_id) == 1

    assert shelf.check_agreement() == shelf.held_by(one, other)
    page = load_page(shelf.ledger)
    (item,) = page.items
    assert (item.version_id, item.state, page.total) == (one.version_id, "accepted", 1)
    assert item.reopened_at == item.waits_since is not None
    (finding,) = item.findings
    assert (finding.code, finding.severity) == ("coordination.reopened", Severity.MEDIUM)
    assert GROUP in finding.message
    assert item.risk == POLICY.risk([finding]) > 0.1
    (event,) = shelf.ledger.rows(sa.select(events).where(events.c.kind == "reopened"))
    assert (event.subject, event.run_id) == (one.version_id, "run-2")
    assert event.body["completed_by"] == [GROUP]
    assert (event.body["state"], event.body["verdict"]) == ("accepted", "accept")


def test_repeated_it_changes_nothing(shelf: Shelf) -> None:
    one = a_version()
    shelf.serve(one)
    reopened(shelf, one.doc_id)
    before = row(shelf, one.version_id)

    assert reopened(shelf, one.doc_id, version_id="e" * 32, run_id="run-3") == 0

    assert row(shelf, one.version_id) == before
    assert shelf.ledger.scalar(sa.select(sa.func.count()).select_from(findings)) == 1


def test_only_what_is_served_and_newest_is_reopened(shelf: Shelf) -> None:
    waiting, older = a_version(), a_version("winch.md", ("The winch is greased in May. ",))
    newer = a_version("winch.md", ("The winch is greased in June. ",), minute=5)
    shelf.record((waiting, Verdict.QUARANTINE))
    shelf.serve(older)
    shelf.record((newer, Verdict.QUARANTINE))

    assert reopened(shelf, waiting.doc_id, older.doc_id, "no such document") == 0


def test_judged_again_it_stays_reopened_as_long_as_it_may_be_served(shelf: Shelf) -> None:
    one = a_version()
    shelf.serve(one)
    reopened(shelf, one.doc_id)
    before = row(shelf, one.version_id)

    shelf.accept(one)  # a run that is repeated

    after = row(shelf, one.version_id)
    assert (after.reopened_at, after.waits_since, after.campaign) == (
        before.reopened_at,
        before.waits_since,
        before.campaign,
    )
    assert (after.risk, after.severity, after.checks) == (before.risk, before.severity, before.checks)
    assert [finding.code for finding in find_item(shelf.ledger, one.version_id).findings] == ["coordination.reopened"]

    shelf.record((one, Verdict.QUARANTINE))
    shelf.drain()

    refused = row(shelf, one.version_id)
    assert (refused.state, refused.reopened_at) == ("quarantined", None)
    assert refused.waits_since == before.waits_since
    assert shelf.check_agreement() == set()


def test_what_was_never_reopened_gains_nothing_from_being_judged_again(shelf: Shelf) -> None:
    one = a_version()
    shelf.serve(one)
    shelf.accept(one)

    assert load_page(shelf.ledger).total == 0
    assert row(shelf, one.version_id).waits_since is None


@pytest.fixture
def item(deployment: Workspace) -> QueueItem:
    deployment.page("good.md")
    deployment.page("bad.md", BAD)
    with deployment.guard() as guard:
        guard.refresh("r1")
        (bad,) = load_page(guard.ledger).items
        (good,) = load_page(guard.ledger, QueueFilter(state="accepted")).items
        with guard.ledger.write() as connection:
            assert reopen(connection, "r1", guard.policy, [CompletedGroup(bad.version_id, (good.doc_id,), 0.8)]) == 1
        return find_item(guard.ledger, good.version_id)


def served(deployment: Workspace) -> set[str]:
    with deployment.guard() as guard:
        return {str(record.metadata["uri"]) for name in guard.store.names() for record in guard.store.scan(name)}


def test_the_ledger_verifies_while_it_waits_and_it_waits_beside_what_reopened_it(
    deployment: Workspace, item: QueueItem
) -> None:
    with deployment.guard() as guard:
        page = load_page(guard.ledger)
        holds = guard.verify()

    assert page.total == 2
    assert len({each.campaign for each in page.items}) == 1
    assert holds.holds, holds.as_dict()


def test_a_release_closes_it_for_good(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id)
        result = guard.apply_decisions("d1")
        holds = guard.verify()
        with guard.ledger.write() as connection:
            again = reopen(connection, "r2", guard.policy, [CompletedGroup(GROUP, (item.doc_id,), 0.9)])
        waiting = load_page(guard.ledger).items

    assert (result["released"], result["published"], result["retired"], again) == (1, 0, 0, 0)
    assert [each.uri for each in waiting] == ["bad.md"]
    assert served(deployment) == {"good.md"}
    assert holds.holds, holds.as_dict()


def test_a_rejection_takes_it_out_of_service(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        decided(guard.ledger, item.version_id, "reject")
        assert served(deployment) == {"good.md"}, "deciding alone changes nothing that is served"
        result = guard.apply_decisions("d1")
        holds = guard.verify()
        shown = find_item(guard.ledger, item.version_id)

    assert (result["rejected"], result["retired"]) == (1, 1)
    assert (shown.state, shown.reopened_at) == ("rejected", None)
    assert served(deployment) == set()
    assert holds.holds, holds.as_dict()

    deployment.refresh("r2")  # the same bytes are listed again
    assert served(deployment) == set()


def test_an_undone_rejection_leaves_it_served_and_waiting(deployment: Workspace, item: QueueItem) -> None:
    with deployment.guard() as guard:
        (made,) = decided(guard.ledger, item.version_id, "reject")
        undo_decision(guard.ledger, made.decision_id, ReviewAct(MO, "wrong one"))
        guard.apply_decisions("d1")
        waiting = load_page(guard.ledger).items
        holds = guard.verify()

    assert item.version_id in {each.version_id for each in waiting}
    assert served(deployment) == {"good.md"}
    assert holds.holds, holds.as_dict()


def test_who_saw_it_before_it_was_reopened_does_not_decide(deployment: Workspace) -> None:
    deployment.page("good.md")
    with deployment.guard() as guard:
        guard.refresh("r1")
        (good,) = load_page(guard.ledger, QueueFilter(state="accepted")).items
        with pytest.raises(Stale, match="does not wait"):
            decided(guard.ledger, good.version_id)
        with guard.ledger.write() as connection:
            reopen(connection, "r1", guard.policy, [CompletedGroup(GROUP, (good.doc_id,), 0.8)])

        assert find_item(guard.ledger, good.version_id).revision != good.revision


# --- which groups count --------------------------------------------------------------------------------------------


def judgement(*found: Finding) -> Judgement:
    return replace(judged(a_version()), findings=found)


COORDINATED = a_finding("coordination.group", severity=Severity.MEDIUM, score=0.8)
AGREEMENT = Agreement(0, 0.9, 4, 0.8, ("a", "b", "c"), served=("a", "b"))


def groups(policy: Policy, *found: Finding, agreement: Agreement = AGREEMENT) -> list[CompletedGroup]:
    waiting = judgement(*found)
    return completed_groups(policy, [waiting], {waiting.version_id: [agreement]})


def test_a_version_that_waits_because_of_its_group_reopens_the_served_members() -> None:
    (group,) = groups(POLICY, a_finding(), COORDINATED)

    assert group == CompletedGroup(a_version().version_id, ("a", "b"), 0.8)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (a_finding(), "it waits for something else"),
        (replace(COORDINATED, severity=Severity.LOW), "the group is harmless"),
        (replace(COORDINATED, muted=True), "two people said that it means nothing here"),
    ],
)
def test_other_findings_reopen_nothing(found: Finding, why: str) -> None:
    assert groups(POLICY, found) == [], why


def test_a_check_on_trial_reopens_nothing() -> None:
    assert groups(POLICY.model_copy(update={"shadow": frozenset({"coordination"})}), COORDINATED) == []


def test_a_group_that_arrived_together_reopens_nothing() -> None:
    assert groups(POLICY, COORDINATED, agreement=replace(AGREEMENT, served=())) == []


def test_the_code_belongs_to_the_check() -> None:
    assert publishing.REOPENED.startswith("coordination.")
