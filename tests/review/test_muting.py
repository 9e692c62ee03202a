"""Two people mute a rule for a source: its findings stay, marked, and count no longer; everything else sees on."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from corpus_guard.domain import Severity, Verdict
from corpus_guard.errors import Misuse, NotAllowed, Stale, UnknownSubject
from corpus_guard.ledger.tables import events, findings, versions
from corpus_guard.pipeline.status import read_status
from corpus_guard.review.history import load_history
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.muting import active_mutes, confirm_mute, lift_mute, list_mutes, mutable_codes, propose_mute
from corpus_guard.review.queue import QueueFilter, load_page
from corpus_guard.screening.calibration import forecast_sources
from corpus_guard.screening.history import load_judged_documents
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.settings import Settings
from deciding import ADA, MO
from deploying import BAD, TICKETS, Workspace
from material import Shelf, a_version

CODE = "instructions.override"
DIGEST = "0" * 64


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(Settings().policy_file)


@pytest.fixture
def waiting_shelf(shelf: Shelf) -> Shelf:
    shelf.record((a_version(), Verdict.QUARANTINE))
    return shelf


def test_a_mute_needs_two_people_and_one_lifts_it(waiting_shelf: Shelf, policy: Policy) -> None:
    ledger = waiting_shelf.ledger
    made = propose_mute(ledger, policy, "harbour", CODE, ReviewAct(ADA, "it teaches", DIGEST))
    assert (made.state, dict(active_mutes(ledger))) == ("proposed", {})
    with pytest.raises(NotAllowed, match="was proposed by ada; another person must agree"):
        confirm_mute(ledger, made.mute_id, ReviewAct(ADA, "me too", DIGEST))

    active = confirm_mute(ledger, made.mute_id, ReviewAct(MO, "agreed", DIGEST))
    assert (active.state, active.confirmed_by, active_mutes(ledger)) == ("active", MO, {"harbour": frozenset({CODE})})
    with pytest.raises(Stale, match="is active"):
        confirm_mute(ledger, made.mute_id, ReviewAct(MO, "again", DIGEST))
    with pytest.raises(Stale, match="already active for harbour"):
        propose_mute(ledger, policy, "harbour", CODE, ReviewAct(MO, "again", DIGEST))

    lifted = lift_mute(ledger, made.mute_id, ReviewAct(ADA, "no longer", DIGEST))
    assert (lifted.state, dict(active_mutes(ledger))) == ("lifted", {})
    with pytest.raises(Stale, match="already lifted"):
        lift_mute(ledger, made.mute_id, ReviewAct(ADA, "again", DIGEST))

    again = propose_mute(ledger, policy, "harbour", CODE, ReviewAct(MO, "again", DIGEST))
    assert [one.mute_id for one in list_mutes(ledger)] == [again.mute_id, made.mute_id]
    assert [(one.kind, one.reviewer) for one in load_history(ledger).entries] == [
        ("mute", "mo"), ("lift", "ada"), ("confirm", "mo"), ("mute", "ada"),
    ]  # fmt: skip
    kinds = ledger.scalars(sa.select(events.c.kind).where(events.c.kind.startswith("review_")).order_by(events.c.seq))
    assert kinds == ["review_mute", "review_confirm", "review_lift", "review_mute"]


@pytest.mark.parametrize("code", ["instructions.unchecked", "parsing.hidden", "parsing.blocked", "parsing.empty"])
def test_what_says_that_nobody_looked_cannot_be_muted(waiting_shelf: Shelf, policy: Policy, code: str) -> None:
    with pytest.raises(Misuse, match="cannot be muted"):
        propose_mute(waiting_shelf.ledger, policy, "harbour", code, ReviewAct(ADA, "noise", DIGEST))


def test_what_does_not_exist_cannot_be_muted(waiting_shelf: Shelf, policy: Policy) -> None:
    ledger = waiting_shelf.ledger
    with pytest.raises(UnknownSubject, match="'nowhere' has no document"):
        propose_mute(ledger, policy, "nowhere", CODE, ReviewAct(ADA, "noise", DIGEST))
    with pytest.raises(UnknownSubject, match="no check ever found"):
        propose_mute(ledger, policy, "harbour", "typos.nothing", ReviewAct(ADA, "noise", DIGEST))
    with pytest.raises(UnknownSubject):
        confirm_mute(ledger, "f" * 32, ReviewAct(MO, "agreed", DIGEST))
    with pytest.raises(Misuse, match="reason is recorded permanently"):
        propose_mute(ledger, policy, "harbour", CODE, ReviewAct(ADA, " ", DIGEST))


def mute_all(deployment: Workspace, source: str) -> list[str]:
    """Everything that was found in the waiting item of a source."""
    with deployment.guard() as guard:
        (item,) = load_page(guard.ledger, QueueFilter(source=source)).items
        names = []
        for code in mutable_codes(item.findings):
            made = propose_mute(guard.ledger, guard.policy, source, code, ReviewAct(ADA, "it teaches", DIGEST))
            confirm_mute(guard.ledger, made.mute_id, ReviewAct(MO, "agreed", DIGEST))
            names.append(made.mute_id)
        return names


def test_screening_honours_a_mute_of_its_source_alone_until_it_is_lifted(deployment: Workspace) -> None:
    deployment.page("bad.md", BAD)
    deployment.rows({"id": "t1", "text": BAD})
    deployment.sources(TICKETS)
    with deployment.guard() as guard:
        guard.refresh("r1")
        plain = guard.screening.digest
    names = mute_all(deployment, "tickets")

    with deployment.guard() as guard:
        assert guard.screening.digest == plain
        assert guard.screening.digest_of("pages") == plain
        assert guard.screening.digest_of("tickets") != plain
        result = guard.rescreen("s1")
        waits = {item.uri for item in load_page(guard.ledger).items}
        kept = guard.ledger.rows(
            sa.select(findings.c.code, findings.c.muted, versions.c.severity)
            .join(versions, versions.c.version_id == findings.c.version_id)
            .where(versions.c.state == "accepted", findings.c.severity != Severity.INFO.value)
        )
        assert list(read_status(guard.ledger, guard.storage, guard.screening, guard.settings)["muted"]) == [
            "tickets"
        ], "whoever asks is told what counts no longer"
        told = {one.source: one for one in forecast_sources(guard.policy, load_judged_documents(guard.ledger), 0.01)}
        assert guard.verify().holds

    assert result["examined"] == 1, "a mute is news for its own source alone"
    assert waits == {"bad.md"}
    assert {row.code for row in kept if row.muted} >= {"instructions.override"}, "kept, and marked"
    assert told["tickets"].stopped.count == 0

    with deployment.guard() as guard:
        for name in names:
            lift_mute(guard.ledger, name, ReviewAct(ADA, "no longer", DIGEST))
    with deployment.guard() as guard:
        guard.rescreen("s2")
        assert {item.uri for item in load_page(guard.ledger).items} == {"bad.md", "tickets.jsonl#t1"}


def test_what_comes_in_after_a_mute_is_screened_with_it(deployment: Workspace) -> None:
    deployment.rows({"id": "t1", "text": BAD})
    deployment.sources(TICKETS)
    deployment.refresh("r1")
    mute_all(deployment, "tickets")
    deployment.rows({"id": "t1", "text": BAD}, {"id": "t2", "text": BAD.replace("spare pump", "spare winch")})

    with deployment.guard() as guard:
        guard.refresh("r2")
        states = dict(guard.ledger.rows(sa.select(versions.c.stamp["uri"].as_string(), versions.c.state)))

    assert states["tickets.jsonl#t1"] == "quarantined", "what was judged already waits for `guard rescreen`"
    assert states["tickets.jsonl#t2"] in ("accepted", "quarantined")
