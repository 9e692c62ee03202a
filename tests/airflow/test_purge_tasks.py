"""Two purges wait for their answers at the same time: each does exactly what was approved."""

from __future__ import annotations

from typing import Any

import pytest

from corpus_guard.airflow import purge
from corpus_guard.errors import Misuse
from deploying import Workspace

ANSWER: Any = {"chosen_options": ["Approve"], "responded_by_user": {"id": "7", "name": "ada"}}


@pytest.fixture
def planned(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[purge.PlannedPurge]:
    """A plan for each of two pages, and one for both."""
    for name in ("a.md", "b.md", "c.md"):
        deployment.page(name)
    deployment.refresh("r1")
    deployment.enter(monkeypatch)
    runs = iter(range(9))
    monkeypatch.setattr(purge, "current_run_id", lambda: f"content_purge/{next(runs)}")
    monkeypatch.setattr(purge, "write_note", lambda _: None)
    nothing: dict[str, Any] = {"chunks": [], "sources": [], "hashes": [], "reason": "sold"}
    return [purge.plan_purge({**nothing, "documents": names}) for names in (["a.md"], ["b.md"], ["a.md", "b.md"])]


def test_purges_of_different_documents_do_not_disturb_each_other(
    deployment: Workspace, planned: list[purge.PlannedPurge]
) -> None:
    first, second, _ = planned

    purge.purge_planned(second, ANSWER, "sold")
    purge.purge_planned(first, ANSWER, "sold")

    (text,) = deployment.served()
    assert "The c is read" in text


def test_a_purge_that_overlaps_with_one_that_came_first_takes_the_rest(
    deployment: Workspace, planned: list[purge.PlannedPurge]
) -> None:
    first, _, both = planned

    for each in (first, first, both):
        purge.purge_planned(each, ANSWER, "sold")

    (text,) = deployment.served()
    assert "The c is read" in text


def test_a_purge_that_grew_while_it_waited_does_nothing(
    deployment: Workspace, planned: list[purge.PlannedPurge]
) -> None:
    first, second, _ = planned
    purge.purge_planned(second, ANSWER, "sold")
    deployment.page("copy.md", (deployment.pages / "a.md").read_text())
    deployment.refresh("r2")

    with pytest.raises(Misuse, match="more documents with this content arrived"):
        purge.purge_planned(first, ANSWER, "sold")

    assert len(deployment.served()) == 3
