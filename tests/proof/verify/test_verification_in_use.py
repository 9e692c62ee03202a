"""A corpus in daily use: whatever lawfully happens to it, it verifies after each seal."""

from __future__ import annotations

from dataclasses import replace

import yaml

from corpus_guard.deployment import Deployment
from corpus_guard.domain import Severity
from corpus_guard.ledger.tables import events
from corpus_guard.proof.verify.verification import Verification
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.muting import confirm_mute, lift_mute, propose_mute
from corpus_guard.review.queue import load_page
from corpus_guard.review.undo import undo_decision
from corpus_guard.screening.policy import ReviewRules
from deciding import ADA, MO, decided
from deploying import BAD, TICKETS, Workspace


def test_it_verifies_after_everything_that_is_lawful(deployment: Workspace) -> None:
    def verified() -> Verification:
        with deployment.guard() as guard:
            result = guard.verify()
        assert result.deviations == ()
        assert result.holds
        return result

    def refreshed(run_id: str) -> None:
        deployment.refresh(run_id)

    for name in ("barometer", "tide gauge", "log book"):
        deployment.page(f"{name}.md")
    bad = deployment.page("bad.md", BAD)
    deployment.page("worse.md", BAD.replace("harbour", "marina"))
    refreshed("first")
    assert verified().records == 3

    refreshed("nothing changed")
    verified()

    with deployment.guard() as guard:
        items = load_page(guard.ledger).items
        first, second = (item.version_id for item in items)
        (hasty,) = decided(guard.ledger, first, "reject")
        undo_decision(guard.ledger, hasty.decision_id, ReviewAct(MO, "too fast"))
        decided(guard.ledger, first, "escalate")
        for by in (ADA, MO):
            decided(guard.ledger, first, "release", by=by, rules=ReviewRules(two_person_severity=Severity.LOW))
        decided(guard.ledger, second, "reject")
        act = ReviewAct(ADA, "they teach", "0" * 64)
        made = propose_mute(guard.ledger, guard.policy, "pages", items[0].findings[0].code, act)
        confirm_mute(guard.ledger, made.mute_id, replace(act, reviewer=MO))
        lift_mute(guard.ledger, made.mute_id, act)
    verified()  # decided, not applied
    with deployment.guard() as guard:
        guard.apply_decisions("release-1")
    assert verified().records == 4

    deployment.page(
        "barometer.md", "# {title}\n\nThe barometer was moved to the pier, where it is read at noon and written down.\n"
    )
    (deployment.pages / "log book.md").unlink()
    deployment.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.sources(TICKETS)
    refreshed("changed, vanished, another source")
    verified()

    bad.write_text(BAD.replace("{title}", "bad").replace("spare", "new"))
    refreshed("changed and waits again")
    bad.write_text(BAD.replace("{title}", "bad"))
    refreshed("as it was released")
    verified()

    deployment.sources(TICKETS, trust="reviewed")
    deployment.page(
        "tide gauge.md", "# {title}\n\nThe tide gauge is read twice a day, and the keeper signs for it in the log.\n"
    )
    refreshed("another trust level")
    verified()
    with deployment.guard() as guard:
        _judge_anew(guard, deployment)
    verified()


def _judge_anew(guard: Deployment, deployment: Workspace) -> None:
    """Under a policy with another name, and so with another digest."""
    policy = yaml.safe_load(deployment.settings.policy_file.read_text())
    policy["name"] = "another"
    file = deployment.root / "policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    settings = deployment.settings.model_copy(update={"policy_file": file})
    with Deployment(settings) as other:
        other.models = guard.models
        other.rescreen("rescreen-1")
    assert guard.ledger.first(events.select().where(events.c.kind == "rejudged"))
