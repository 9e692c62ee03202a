"""A document that changes between two refreshes is compared with what was accepted of it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.errors import Inconsistent
from corpus_guard.ledger.tables import findings, versions
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
