"""Hardening: a stricter setting is tried on what is stored, says what else it would hold back, and changes nothing."""

from __future__ import annotations

import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Misuse
from corpus_guard.forensics.cases import MemberKind, StepKind, approve_step, find_case, find_member, open_case
from corpus_guard.forensics.plan import plan_case, stricter_policy
from corpus_guard.forensics.scope import scope_of
from corpus_guard.ledger.tables import versions
from deploying import Workspace

LED = "How often is the {title} read? The {title} is read every nine weeks, and whoever opens the boat house writes the value down.\n"


def test_a_threshold_is_tried_and_names_the_honest_documents_it_would_cost(deployment: Workspace) -> None:
    deployment.page("gauge.md")
    for name in ("planted.md", "honest-faq.md"):
        deployment.page(name, LED)
    deployment.refresh("run-1")
    assert set(deployment.states().values()) == {"accepted"}
    before = deployment.read(versions.select())
    with deployment.guard() as guard:
        members = find_member(guard.ledger, MemberKind.VERSION, "planted.md")
        case = open_case(guard.ledger, "wrong interval", members, by="ada", reason="reported")
        steps = plan_case(guard.ledger, guard.policy, case, scope_of(guard.ledger, case))
        (planned,) = [each for each in steps if each.step.kind is StepKind.HARDEN]
        approve_step(guard.ledger, case.case_id, planned.step, by="ada", reason="would it help?")

        (result,) = guard.run_case(find_case(guard.ledger, case.case_id), "case-1").values()

    assert result["would_hold_of_the_case"] == result["of_the_case"] == 1
    assert (result["would_hold_of_others"], result["others"]) == (1, ["pages/honest-faq.md"])
    assert deployment.read(versions.select()) == before, "a dry run"


def test_only_what_a_plan_proposes_can_be_tried_and_nothing_gets_looser(deployment: Workspace) -> None:
    policy = deployment.guard().policy
    stricter = stricter_policy(policy, {"source": "pages", "trust": "open", "risk": "0.1"})
    looser = stricter_policy(policy, {"source": "pages", "trust": "open", "risk": "0.99"})

    assert stricter.threshold(TrustLevel.OPEN, "pages").risk == 0.1
    assert looser.threshold(TrustLevel.OPEN, "pages") == policy.threshold(TrustLevel.OPEN)
    for values in ({}, {"risk": "0.1"}, {"weights": "0"}):
        with pytest.raises(Misuse):
            stricter_policy(policy, values)
