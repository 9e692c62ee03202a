"""What was purged comes back by no road: another name, another source, other bytes, a release, a run that was under way."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from purging import purge_document

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Inconsistent, UnknownSubject
from corpus_guard.forensics.cases import MemberKind, find_member, open_case
from corpus_guard.forensics.root_cause import root_cause
from corpus_guard.forensics.scope import scope_of
from corpus_guard.ledger.tables import events, findings, versions
from corpus_guard.review.evidence import load_evidence
from corpus_guard.review.queue import find_item
from deploying import TICKETS, Workspace
from stepping import SteppedRun

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."
PAGE = f"# Keys\n\n{SECRET} Whoever needs it asks the harbour office first and writes the hour into the book.\n"


@pytest.fixture
def without(deployment: Workspace) -> Workspace:
    """A deployment from which the page was purged; the page is still at its source."""
    deployment.page("tide gauge.md")
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")
    with deployment.guard() as guard:
        purge_document(guard, "keys.md")
    return deployment


def on_disk(deployment: Workspace) -> list[str]:
    """Storage names under which the text lies, raw or in a table."""
    with deployment.guard() as guard:
        root = Path(guard.settings.storage)
        tables = [str(path.relative_to(root)) for path in root.rglob("versions.parquet")]
        found = [
            name
            for name in tables
            if any("Osric" in text for text in guard.storage.read_table(name)["text"].to_pylist())
        ]
        return found + [
            str(path) for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
        ]


def test_it_is_rejected_at_its_source_under_another_name_and_in_other_bytes(without: Workspace) -> None:
    without.page("other.md", PAGE)
    without.page("marked.md", "\ufeff" + PAGE)
    without.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    without.sources(TICKETS)

    sealed = without.refresh("r2")

    assert sealed["rejected"] == 3
    assert without.states() == {
        "tide gauge.md": "accepted",
        "keys.md": "rejected",
        "other.md": "rejected",
        "marked.md": "rejected",
        "tickets.jsonl#t1": "accepted",
    }
    assert on_disk(without) == []
    with without.guard() as guard, guard.ledger.read() as connection:
        codes = connection.scalars(sa.select(findings.c.code).where(findings.c.code == "parsing.blocked")).all()
    assert len(codes) == 3
    assert without.refresh("r3")["unchanged"] == 5  # the same bytes are no news


def purged(guard: Deployment) -> None:
    purge_document(guard, "keys.md")


def test_a_run_that_was_under_way_loses_its_batch_and_running_again_converges(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")
    deployment.page("other.md", PAGE)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r2")
        (shard,) = stepped.screen_changed(stepped.fetch())
        purged(guard)
        assert on_disk(deployment) == []
        with pytest.raises(Inconsistent, match="is missing"):
            stepped.publish(shard)

    assert deployment.refresh("r3")["rejected"] == 2
    assert on_disk(deployment) == []


def test_a_run_that_has_read_it_already_publishes_nothing_of_it(
    deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")
    deployment.page("other.md", PAGE)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r2")
        (shard,) = stepped.screen_changed(stepped.fetch())
        with monkeypatch.context() as patch, pytest.raises(Inconsistent, match="are still in"):
            patch.setattr("corpus_guard.removal.storage_files.StorageFiles.erase", lambda *arguments: None)
            purged(guard)
        stepped.publish(shard)
        assert [guard.store.count(name) for name in guard.store.names()] == [0]

    assert deployment.states() == {"keys.md": "rejected", "other.md": "rejected"}


def test_its_evidence_is_gone_and_that_is_said(without: Workspace) -> None:
    with without.guard() as guard, guard.ledger.read() as connection:
        item = connection.scalar(sa.select(versions.c.version_id).where(versions.c.state == "rejected"))
        with pytest.raises(UnknownSubject, match="was purged"):
            load_evidence(guard.ledger, guard.storage, find_item(guard.ledger, str(item)))


def test_a_case_tells_how_it_first_came_in_and_not_that_it_came_again(without: Workspace) -> None:
    without.refresh("r2")
    assert without.states()["keys.md"] == "rejected"

    with without.guard() as guard:
        purged = find_member(guard.ledger, MemberKind.VERSION, "keys.md")
        case = open_case(guard.ledger, "a key", purged, by="ada", reason="a user reported it")
        cause = root_cause(guard.ledger, guard.policy, scope_of(guard.ledger, case))
        judged = guard.ledger.scalars(sa.select(events.c.run_id).where(events.c.subject == purged[0].id))

    (version,) = cause.versions
    assert {"r1", "r2"} <= set(judged), "it came again"
    assert (version.run_id, version.admitted) == ("r1", "accepted by the policy")
    assert version.findings_erased and version.uncounted == () and version.not_checked == {}
    assert "What was found in 1 of 1 was erased with them." in cause.sentences
    assert not any("no finding at all" in sentence for sentence in cause.sentences)
