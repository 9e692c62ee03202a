"""Release and reject: about bytes, kept, and the last one stands."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

import deciding
from corpus_guard.errors import Misuse, StoreUnavailable, UnknownSubject
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import decisions as table
from corpus_guard.ledger.tables import documents, events, publications, seals, versions
from corpus_guard.review.decisions import Choice
from corpus_guard.review.queue import QueueItem, load_page
from corpus_guard.review.release import ReleaseResult, count_pending_decisions
from deploying import BAD, GOOD, Workspace

OTHER = BAD.replace("spare pump", "spare winch")


def queue(deployment: Workspace) -> tuple[QueueItem, ...]:
    with deployment.guard() as guard:
        return load_page(guard.ledger).items


def decided(
    deployment: Workspace, item: str, verdict: Choice, reason: str = "looked at it", reviewer: str = "ada"
) -> None:
    with deployment.guard() as guard:
        digest = guard.screening.digest
        deciding.decided(guard.ledger, item, verdict, by=reviewer, reason=reason, policy_digest=digest)


def applied(deployment: Workspace, run_id: str = "d1") -> ReleaseResult:
    with deployment.guard() as guard:
        return guard.apply_decisions(run_id)


def state(deployment: Workspace, item: QueueItem) -> str:
    (row,) = deployment.read(sa.select(versions.c.state).where(versions.c.version_id == item.version_id))
    return str(row.state)


@pytest.fixture
def item(deployment: Workspace) -> QueueItem:
    """One bad page that waits, beside a good one that is served."""
    deployment.page("good.md")
    deployment.page("bad.md", BAD)
    deployment.refresh("r1")
    (one,) = queue(deployment)
    return one


def test_deciding_changes_nothing_that_is_served(deployment: Workspace, item: QueueItem) -> None:
    before = deployment.served()

    decided(deployment, item.version_id, "release")

    assert deployment.served() == before
    assert state(deployment, item) == "quarantined"
    with deployment.guard() as guard:
        assert count_pending_decisions(guard.ledger) == 1


def test_a_release_is_published_marked_and_sealed(deployment: Workspace, item: QueueItem) -> None:
    decided(deployment, item.version_id, "release")

    result = applied(deployment)

    assert (result["released"], result["rejected"], result["published"], result["retired"]) == (1, 0, 1, 0)
    assert state(deployment, item) == "released"
    assert any("Ignore all previous" in text for text in deployment.served())
    assert queue(deployment) == ()
    with deployment.guard() as guard:
        assert count_pending_decisions(guard.ledger) == 0
        (name,) = guard.store.names()
        verdicts = {record.metadata["uri"]: record.metadata["verdict"] for record in guard.store.scan(name)}
    assert verdicts == {"good.md": "accept", "bad.md": "release"}


def test_a_rejection_keeps_it_out(deployment: Workspace, item: QueueItem) -> None:
    before = deployment.served()
    decided(deployment, item.version_id, "reject")

    result = applied(deployment)

    assert (result["released"], result["rejected"], result["published"]) == (0, 1, 0)
    assert state(deployment, item) == "rejected"
    assert deployment.served() == before
    assert queue(deployment) == ()


def test_applying_twice_changes_nothing(deployment: Workspace, item: QueueItem) -> None:
    decided(deployment, item.version_id, "release")
    first = applied(deployment)
    # Each run has a row in `runs`, whose digest is logged.
    told_statement = sa.select(events).where(events.c.kind != "rows")
    texts, told = deployment.served(), deployment.read(told_statement)
    marks = deployment.read(sa.select(table.c.applied_at))

    for run_id in ("d1", "d2"):
        again = applied(deployment, run_id)
        assert (again["released"], again["published"], again["retired"]) == (0, 0, 0)
        assert again["manifest_sha256"] == first["manifest_sha256"]

    assert deployment.served() == texts
    assert deployment.read(told_statement) == told
    assert deployment.read(sa.select(table.c.applied_at)) == marks
    assert len(deployment.read(sa.select(seals))) == 2


@pytest.mark.parametrize(
    ("verdicts", "end", "public"),
    [(["release", "reject"], "rejected", False), (["reject", "release"], "released", True)],
    ids=["reject last", "release last"],
)
def test_of_several_decisions_the_last_stands(
    deployment: Workspace, item: QueueItem, verdicts: list[Choice], end: str, public: bool
) -> None:
    for verdict in verdicts:
        decided(deployment, item.version_id, verdict)

    applied(deployment)

    assert state(deployment, item) == end
    assert any("Ignore all previous" in text for text in deployment.served()) is public
    with deployment.guard() as guard:
        assert count_pending_decisions(guard.ledger) == 0
    assert len(deployment.read(sa.select(table))) == 2  # both are kept


@pytest.mark.parametrize(("reviewer", "reason"), [("ada", ""), ("ada", " \n"), ("", "because"), (" ", "because")])
def test_a_decision_needs_a_reviewer_and_a_reason(
    deployment: Workspace, item: QueueItem, reviewer: str, reason: str
) -> None:
    with pytest.raises(Misuse, match="a decision needs a reviewer"):
        decided(deployment, item.version_id, "release", reason=reason, reviewer=reviewer)

    assert deployment.read(sa.select(table)) == []


def test_an_unknown_item_cannot_be_decided(deployment: Workspace) -> None:
    with pytest.raises(UnknownSubject, match="'ffffffff' is not in the ledger"):
        decided(deployment, "ffffffff", "release")


@pytest.mark.parametrize("verdict", ["release", "reject"])
def test_what_was_decided_cannot_be_decided_again(deployment: Workspace, item: QueueItem, verdict: Choice) -> None:
    decided(deployment, item.version_id, verdict)
    applied(deployment)

    with pytest.raises(Misuse, match=r"does not wait: it is (released|rejected); nothing was changed"):
        decided(deployment, item.version_id, "reject")

    assert len(deployment.read(sa.select(table))) == 1


def test_what_was_accepted_does_not_wait(deployment: Workspace, item: QueueItem) -> None:
    (good,) = deployment.read(sa.select(versions.c.version_id).where(versions.c.state == "accepted"))

    with pytest.raises(Misuse, match="it is accepted"):
        decided(deployment, good.version_id, "reject")


def test_what_was_replaced_at_its_source_cannot_be_decided(deployment: Workspace, item: QueueItem) -> None:
    deployment.page("bad.md", OTHER)
    deployment.refresh("r2")
    (newer,) = queue(deployment)

    with pytest.raises(Misuse, match=f"was replaced by {newer.version_id} at its source; decide on that one"):
        decided(deployment, item.version_id, "release")


def test_what_vanished_cannot_be_decided(deployment: Workspace, item: QueueItem) -> None:
    vanish(deployment, item)

    with pytest.raises(Misuse, match="vanished from its source"):
        decided(deployment, item.version_id, "release")


def test_what_vanishes_after_it_was_released_is_not_served(deployment: Workspace, item: QueueItem) -> None:
    before = deployment.served()
    decided(deployment, item.version_id, "release")
    vanish(deployment, item)

    applied(deployment)

    assert deployment.served() == before
    (row,) = deployment.read(sa.select(documents.c.retired_at).where(documents.c.doc_id == item.doc_id))
    assert row.retired_at is not None


def test_a_release_of_what_was_replaced_before_it_took_effect_does_not_undo_the_newer(
    deployment: Workspace, item: QueueItem
) -> None:
    decided(deployment, item.version_id, "release")
    deployment.page("bad.md", GOOD)
    deployment.refresh("r2")
    before = deployment.served()

    applied(deployment)

    assert deployment.served() == before
    assert not any("Ignore all previous" in text for text in before)


@pytest.mark.parametrize(("verdict", "end"), [("release", "released"), ("reject", "rejected")])
def test_the_same_bytes_fetched_again_keep_the_decision(
    deployment: Workspace, item: QueueItem, verdict: Choice, end: str
) -> None:
    decided(deployment, item.version_id, verdict)
    applied(deployment)
    deployment.page("bad.md", GOOD)
    deployment.refresh("r2")
    deployment.page("bad.md", BAD)

    sealed = deployment.refresh("r3")

    assert sealed["quarantined"] == 1  # the policy's verdict is what it was; the person's stands
    assert queue(deployment) == ()
    assert state(deployment, item) == end
    assert any("Ignore all previous" in text for text in deployment.served()) is (end == "released")


def test_other_bytes_are_a_new_question(deployment: Workspace, item: QueueItem) -> None:
    decided(deployment, item.version_id, "release")
    applied(deployment)
    deployment.page("bad.md", OTHER)

    deployment.refresh("r2")

    (again,) = queue(deployment)
    assert again.version_id != item.version_id
    assert any("spare pump" in text for text in deployment.served())  # what was released stays until somebody decides
    assert not any("spare winch" in text for text in deployment.served())


def test_a_decision_is_kept_with_everything_it_rests_on(deployment: Workspace, item: QueueItem) -> None:
    decided(deployment, item.version_id[:8], "release", reason="  it is a quotation  ", reviewer=" ada ")

    (row,) = deployment.read(sa.select(table))
    with deployment.guard() as guard:
        digest = guard.screening.digest
    assert (row.version_id, row.verdict, row.reviewer, row.reason) == (
        item.version_id, "release", "ada", "it is a quotation",
    )  # fmt: skip
    assert row.policy_digest == digest
    assert row.applied_at is None
    (told,) = deployment.read(sa.select(events).where(events.c.kind == "decided"))
    assert (told.subject, told.body["reviewer"], told.body["verdict"]) == (item.version_id, "ada", "release")


def test_when_chroma_is_gone_the_decision_is_kept_and_a_second_try_converges(
    deployment: Workspace, item: QueueItem
) -> None:
    decided(deployment, item.version_id, "release")
    cut_off = Workspace(
        deployment.root, deployment.settings.model_copy(update={"chroma_url": "http://192.0.2.1:9"}), deployment.models
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corpus_guard.corpus.server.is_answering", lambda url: False)
        with pytest.raises(StoreUnavailable, match=r"192\.0\.2\.1:9"):
            applied(cut_off)

    applied(deployment, "d2")

    assert any("Ignore all previous" in text for text in deployment.served())
    assert {row.state for row in deployment.read(sa.select(publications.c.state))} == {"published"}


def vanish(deployment: Workspace, item: QueueItem) -> None:
    """What the end of a refresh does when the grace of a document is over."""
    from corpus_guard.corpus import publishing

    with deployment.guard() as guard, guard.ledger.write() as connection:
        publishing.retire(connection, "r2", [item.doc_id], "vanished")
        assert connection.scalar(sa.select(documents.c.retired_at).where(documents.c.doc_id == item.doc_id)) <= now()
