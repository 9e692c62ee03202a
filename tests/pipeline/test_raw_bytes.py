"""Damaged raw bytes are fetched again where the source still has the same; what it lacks is named."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from corpus_guard.deployment import Deployment
from corpus_guard.ledger.tables import events
from corpus_guard.pipeline.raw_bytes import RefetchedBytes, refetch_raw_bytes
from deploying import Workspace


def damaged(guard: Deployment, page: Path) -> Path:
    """Return the stored raw bytes of a page, with another byte at their end."""
    blob = Path(guard.blobs.path(guard.blobs.put(page.read_bytes())))
    blob.write_bytes(blob.read_bytes() + b" ")
    return blob


def refetched(guard: Deployment) -> RefetchedBytes:
    deviations = guard.verify(deep=True).deviations
    assert deviations
    return refetch_raw_bytes(guard.ledger, guard.blobs, guard.sources, "f1", deviations)


def test_missing_and_changed_bytes_come_back_from_the_source(deployment: Workspace, guard: Deployment) -> None:
    changed, missing = (damaged(guard, deployment.pages / name) for name in ("good.md", "bad.md"))
    missing.unlink()

    result = refetched(guard)

    assert sorted(result.restored) == sorted([changed.name, missing.name])
    assert result.lost == {}
    assert changed.read_bytes() == (deployment.pages / "good.md").read_bytes()
    told = {row.subject: row.body["lost"] for row in guard.ledger.rows(sa.select(events).where(_refetched()))}
    assert told.keys() == {changed.name, missing.name}
    assert told[missing.name] == ""
    assert len(told[changed.name]) == 64
    guard.seal("s1")
    verified = guard.verify(deep=True)
    assert verified.holds, verified.as_dict()


def _refetched() -> sa.ColumnElement[bool]:
    return events.c.kind == "refetched"


def test_a_source_with_other_bytes_or_without_the_document_cannot_help(
    deployment: Workspace, guard: Deployment
) -> None:
    rewritten, gone = (damaged(guard, deployment.pages / name) for name in ("good.md", "bad.md"))
    before = rewritten.read_bytes()
    deployment.page("good.md", "Another text.\n")
    (deployment.pages / "bad.md").unlink()

    result = refetched(guard)

    assert result.restored == []
    assert result.lost == {
        rewritten.name: "source pages has other bytes now",
        gone.name: "source pages no longer lists its document",
    }
    assert rewritten.read_bytes() == before


def test_a_source_that_does_not_answer_is_named(deployment: Workspace, guard: Deployment) -> None:
    blob = damaged(guard, deployment.pages / "good.md")
    deviations = guard.verify(deep=True).deviations
    deployment.pages.rename(deployment.root / "elsewhere")

    result = refetch_raw_bytes(guard.ledger, guard.blobs, guard.sources, "f1", deviations)

    assert result.lost.keys() == {blob.name}
    assert "pages" in result.lost[blob.name]
