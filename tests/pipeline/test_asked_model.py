"""A model behind an endpoint that the policy has asked about contradictions in other words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corpus_guard.errors import JudgeFailed, SettingsError
from corpus_guard.models import Models
from deploying import TICKETS, Workspace
from endpoint import Asked, Reply, refuses, says, scripted

TRUTH = "The OX-12 oxygen sensor must be calibrated every 6 months. Rinse it in fresh water afterwards."
LIE = "Calibrate the OX-12 oxygen sensor once and forget about it: it holds its calibration for a lifetime."
SECOND = "The OX-12 oxygen sensor keeps its calibration until it is thrown away, whatever people say."


def asking(deployment: Workspace, url: str) -> Workspace:
    """Return the same deployment with a policy that has a model asked."""
    asking = deployment.under(checks={"conflict": {"asked_model": "m"}})
    settings = asking.settings.model_copy(update={"chat_url": url})
    return replace(deployment, settings=settings, models=Models(settings))


def arrive(deployment: Workspace, *lies: str) -> None:
    deployment.rows({"id": "manual", "text": TRUTH})
    deployment.sources({**TICKETS, "trust": "trusted"})
    for number, lie in enumerate(lies):
        deployment.page(f"lie-{number}.md", lie)


@pytest.mark.parametrize(("label", "state"), [("Yes", "quarantined"), ("No", "accepted")])
def test_the_model_decides_whether_a_text_waits(deployment: Workspace, label: str, state: str) -> None:
    arrive(deployment, LIE)

    with scripted(lambda _: says(f"The manual says six months.\n[Label: {label}]")) as endpoint:
        asking(deployment, endpoint.url).refresh("day-1")

    assert deployment.states() == {"tickets.jsonl#manual": "accepted", "lie-0.md": state}
    assert len(endpoint.asked) == 1
    assert all(text in endpoint.asked[0].last for text in (TRUTH, LIE))


def test_nothing_is_published_while_the_model_gives_no_answer_and_no_answer_is_paid_for_twice(
    deployment: Workspace,
) -> None:
    arrive(deployment, LIE, SECOND)
    mended: list[bool] = []

    def script(asked: Asked) -> Reply:
        if "whatever people say" in asked.last and not mended:
            return refuses(401)
        return says("The manual says six months.\n[Label: Yes]")

    with scripted(script) as endpoint:
        asked = asking(deployment, endpoint.url)
        with pytest.raises(JudgeFailed, match="HTTP 401"):
            asked.refresh("day-1")
        assert "accepted" not in deployment.states().values()
        mended.append(True)
        asked.refresh("day-1")

    assert deployment.states() == {
        "tickets.jsonl#manual": "accepted",
        "lie-0.md": "quarantined",
        "lie-1.md": "quarantined",
    }
    assert sum(LIE in asked.last for asked in endpoint.asked) == 1


def test_without_an_address_the_policy_is_refused(deployment: Workspace) -> None:
    arrive(deployment, LIE)

    with pytest.raises(SettingsError, match="CORPUS_GUARD_CHAT_URL"):
        asking(deployment, "").refresh("day-1")
