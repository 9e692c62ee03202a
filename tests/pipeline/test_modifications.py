"""A document that changes between two refreshes is compared with what was accepted of it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.domain import doc_id
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger.tables import findings, versions
from corpus_guard.pipeline import steps
from deploying import Workspace

PAGE = (
    "# Relief valves\n\nThe relief valve of the east tank opens at 40 bar, and that of the west tank at 60 bar. Captain Reis "
    "inspects both in spring and signs the book. Do not open the bypass while the pump runs.\n\nReports are sent to the "
    "harbour office before noon, and the office keeps a copy of each for the auditor.\n"
)


def found(deployment: Workspace, run_id: str) -> dict[str, Any]:
    """Code → row of what `modification` found in a run."""
    statement = (
        sa.select(findings)
        .join(versions, versions.c.version_id == findings.c.version_id)
        .where(versions.c.run_id == run_id, findings.c.check_name == "modification")
    )
    with deployment.guard() as guard, guard.ledger.read() as connection:
        return {row.code: row for row in connection.execute(statement)}


def test_one_changed_number_is_a_finding_with_its_place(deployment: Workspace) -> None:
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    assert not found(deployment, "r1")
    deployment.page("valves.md", PAGE.replace("40 bar", "90 bar"))

    deployment.refresh("r2")

    (row,) = found(deployment, "r2").values()
    assert (row.code, row.severity) == ("modification.number", "low")
    with deployment.guard() as guard, guard.ledger.read() as connection:
        (batch,) = connection.scalars(sa.select(versions.c.batch).where(versions.c.run_id == "r2"))
        (text,) = guard.storage.read_table(batch)["text"].to_pylist()
    assert text[row.span_start : row.span_end] == "90"


def test_a_negation_that_vanished_waits_for_a_person(deployment: Workspace) -> None:
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    deployment.page("valves.md", PAGE.replace("Do not open", "Do open"))

    assert deployment.refresh("r2")["quarantined"] == 1
    assert set(found(deployment, "r2")) == {"modification.sense"}
    # The quarantined version clears no way: the next is compared with what is served.
    deployment.page("valves.md", PAGE.replace("Do not open", "Do open").replace("40 bar", "90 bar"))
    assert deployment.refresh("r3")["quarantined"] == 1
    assert set(found(deployment, "r3")) == {"modification.sense", "modification.number"}


def test_an_ordinary_edit_is_accepted(deployment: Workspace) -> None:
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    deployment.page(
        "valves.md",
        PAGE.replace(
            "Captain Reis inspects both in spring and signs the book.", "Both are inspected in spring and autumn."
        )
        .replace("40 bar", "45 bar")
        .replace(
            "Reports are sent to the harbour office before noon", "The night watch takes all reports in the evening"
        )
        + "\nThe spare valves lie in the store behind the boat house.\n",
    )

    assert deployment.refresh("r2")["accepted"] == 1
    assert {(row.code, row.severity) for row in found(deployment, "r2").values()} == {
        ("modification.edited", "info"),
        ("modification.number", "low"),
    }


def test_without_the_predecessors_text_nothing_is_judged(deployment: Workspace) -> None:
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    with deployment.guard() as guard, guard.ledger.read() as connection:
        (batch,) = connection.scalars(sa.select(versions.c.batch))
        guard.storage.write(batch, b"no table")
    deployment.page("valves.md", PAGE.replace("40 bar", "90 bar"))

    with pytest.raises(Inconsistent, match="unreadable"):
        deployment.refresh("r2")


def test_an_edit_behind_a_link_is_no_change_without_a_new_time(deployment: Workspace) -> None:
    target = deployment.page("valves.md", PAGE)
    (target.parent / "link.md").symlink_to(target)
    deployment.refresh("r1")
    deployment.page("valves.md", PAGE.replace("40 bar", "90 bar"))

    deployment.refresh("r2")

    with deployment.guard() as guard, guard.ledger.read() as connection:
        messages = list(
            connection.scalars(sa.select(findings.c.message).where(findings.c.check_name == "modification"))
        )
    assert len(messages) == 2
    assert not any("was not modified" in message for message in messages)


def moved(deployment: Workspace, text: str, name: str = "tanks/relief.md") -> None:
    (deployment.pages / "valves.md").unlink()
    deployment.page(name, text)


def others(deployment: Workspace) -> None:
    """Other pages: a source whose only page vanishes is held back (`retire.max_share`)."""
    for name in ("log.md", "boats.md", "quay.md"):
        deployment.page(name)


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("Do not open", "Do open", {"modification.moved", "modification.sense"}),
        ("40 bar", "90 bar", {"modification.moved", "modification.number"}),
        ("40 bar", "40 bar", {"modification.moved"}),
    ],
)
def test_a_new_name_hides_no_change(deployment: Workspace, old: str, new: str, codes: set[str]) -> None:
    others(deployment)
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    moved(deployment, PAGE.replace(old, new))

    assert deployment.refresh("r2")["quarantined"] == ("modification.sense" in codes)

    rows = found(deployment, "r2")
    assert set(rows) == codes
    assert "valves.md" in rows["modification.moved"].message
    for code in codes - {"modification.moved"}:
        places = rows[code].counterstatement
        assert places["doc_id"] == doc_id("pages", "valves.md")
        assert PAGE[slice(*places["values"][0])] in old


def test_a_page_that_comes_back_later_under_another_name_follows_what_it_was(deployment: Workspace) -> None:
    others(deployment)
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    (deployment.pages / "valves.md").unlink()
    assert deployment.refresh("r2")["vanished"] == 0  # its time of grace
    deployment.page("tanks/relief.md", PAGE.replace("Do not open", "Do open"))

    deployment.refresh("r3")

    assert set(found(deployment, "r3")) == {"modification.moved", "modification.sense"}


def test_a_near_copy_beside_its_original_follows_nothing(deployment: Workspace) -> None:
    others(deployment)
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    deployment.page("tanks/relief.md", PAGE.replace("40 bar", "90 bar"))

    deployment.refresh("r2")

    assert not found(deployment, "r2")


def test_a_refresh_that_was_killed_after_screening_judges_a_moved_page_again(
    deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    others(deployment)
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    deployment.page("tanks/relief.md", PAGE.replace("Do not open", "Do open"))
    with monkeypatch.context() as killed:
        killed.setattr(steps, "publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            deployment.refresh("r2")
    (deployment.pages / "valves.md").unlink()

    assert deployment.refresh("r3")["quarantined"] == 1
    assert "modification.sense" in found(deployment, "r3")


def test_a_moved_page_is_found_again_when_it_is_judged_again(deployment: Workspace) -> None:
    others(deployment)
    deployment.page("valves.md", PAGE)
    deployment.refresh("r1")
    moved(deployment, PAGE.replace("Do not open", "Do open"))
    deployment.refresh("r2")
    with deployment.guard() as guard:
        guard.ledger.execute(versions.update().values(policy_digest="0" * 64))
        result = guard.rescreen("again")

    assert result["examined"] >= 1
    assert "quarantine → quarantine" in result["verdicts"]
    assert "modification.sense" in found(deployment, "r2") | found(deployment, "again")
