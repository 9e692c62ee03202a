"""A purge reaches what refreshes left on disk that were killed before the ledger recorded it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from purging import REASON, plan_for, purge_document

from corpus_guard.batches import Storage
from corpus_guard.domain import sha256_bytes, sha256_text
from corpus_guard.errors import AlreadyAtWork, Misuse, UnknownSubject
from corpus_guard.ledger.runs import at_work
from corpus_guard.ledger.states import PurgeState
from corpus_guard.ledger.tables import blocked, events, purges
from corpus_guard.removal import purge as purge_module
from corpus_guard.removal import storage_files
from corpus_guard.removal.purge import PurgeResult
from deploying import TICKETS, Workspace
from stepping import SteppedRun

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."
PAGE = f"# Keys\n\n{SECRET} Whoever needs it asks the harbour office first and writes the hour into the book.\n"
EDITED = (
    f"# Keys\n\nSince the spring tide nobody goes there alone. {SECRET} The office writes down who went, and when.\n"
)


def stop_after_intake(deployment: Workspace, run_id: str = "stopped") -> list[str]:
    """Refresh until the batches are written, and no further; return their folders."""
    with deployment.guard() as guard:
        return [shard["batch"] for shard in SteppedRun(guard, run_id).fetch()]


def stop_after_embedding(deployment: Workspace, run_id: str = "stopped") -> None:
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, run_id)
        stepped.screen_changed(stepped.fetch())


def holders(deployment: Workspace, needle: str = SECRET) -> list[str]:
    """Names of the stored files that hold a text, Parquet decoded."""
    root = Path(deployment.settings.storage)
    names = []
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        texts = [path.read_bytes()]
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            texts += [str(value).encode() for name in table.column_names for value in table[name].to_pylist()]
        if any(needle.encode() in text for text in texts):
            names.append(str(path.relative_to(root)))
    return names


def purged(deployment: Workspace, run_id: str = "p1", **selected: str) -> PurgeResult:
    with deployment.guard() as guard:
        return guard.purger.purge(run_id, plan_for(guard, **selected), "ada", REASON)


@pytest.mark.parametrize(
    "selected",
    [
        {"documents": "keys.md"},
        {"documents": "pages/keys.md"},
        {"sources": "pages"},
        {"hashes": sha256_bytes(PAGE.encode())},
        {"hashes": ""},  # of its text, which the parser makes
    ],
    ids=["URI", "source and URI", "source", "bytes", "text"],
)
@pytest.mark.parametrize("stop", [stop_after_intake, stop_after_embedding])
def test_a_document_that_only_an_unfinished_run_knows_is_erased(
    deployment: Workspace, selected: dict[str, str], stop: Any
) -> None:
    deployment.page("keys.md", PAGE)
    stop(deployment)
    assert {Path(name).name for name in holders(deployment)} >= {"versions.parquet", sha256_bytes(PAGE.encode())}

    done = purged(deployment, **{name: value or text_hash(deployment) for name, value in selected.items()})

    assert holders(deployment) == []
    assert (done["state"], done["documents"], done["versions"], done["waits_for"]) == ("closed", 1, 1, [])
    (row,) = deployment.read(sa.select(purges))
    assert (row.state, row.versions, row.evidence["found"]) == (PurgeState.CLOSED, [], 0)
    assert row.evidence["sought"] > 0, "its text was searched for"
    (event,) = deployment.read(sa.select(events.c.body).where(events.c.kind == "purged"))
    assert len(event.body["unrecorded"]) == 1
    assert event.body["content_sha256"] == [sha256_bytes(PAGE.encode())]


def text_hash(deployment: Workspace) -> str:
    """The hash of the text of the only row of the only batch."""
    (table,) = Path(deployment.settings.storage).rglob("versions.parquet")
    (text,) = pq.read_table(table)["text"].to_pylist()
    return sha256_text(text)


def test_it_does_not_come_back_with_the_next_refresh(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    deployment.page("tide gauge.md")
    stop_after_intake(deployment)

    purged(deployment, documents="keys.md")
    sealed = deployment.refresh("r2")

    assert (sealed["accepted"], sealed["rejected"]) == (1, 1)
    assert deployment.states() == {"tide gauge.md": "accepted", "keys.md": "rejected"}
    assert holders(deployment) == []
    with deployment.guard() as guard:
        assert guard.verify(deep=True).holds


def test_the_other_versions_of_a_recorded_document_go_along(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")
    deployment.page("keys.md", EDITED)
    stop_after_intake(deployment)
    assert holders(deployment, "Since the spring tide")

    with deployment.guard() as guard:
        done = purge_document(guard, "keys.md")

    assert (done["documents"], done["versions"]) == (1, 2)
    assert holders(deployment) == []
    assert {row.sha256 for row in deployment.read(sa.select(blocked.c.sha256).where(blocked.c.kind == "content"))} == {
        sha256_bytes(PAGE.encode()),
        sha256_bytes(EDITED.encode()),
    }


def test_a_dry_run_counts_what_unfinished_runs_have_left_and_changes_nothing(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    deployment.refresh("r1")
    deployment.page("keys.md", PAGE)
    stop_after_intake(deployment)
    before = holders(deployment)

    with deployment.guard() as guard:
        plan = plan_for(guard, documents="keys.md")

    assert (plan.documents, plan.versions, plan.document_count) == ((), (), 1)
    assert plan.unfinished.documents == 1
    assert sorted(Path(name).name for name in plan.unfinished.files) == ["signals.parquet", "versions.parquet"]
    assert [Path(name).name for name in plan.unfinished.blobs] == [sha256_bytes(PAGE.encode())]
    assert plan.as_dict()["unfinished"]
    assert holders(deployment) == before
    assert not deployment.read(sa.select(purges))


def test_every_file_that_was_removed_is_logged_as_gone(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    (folder,) = stop_after_intake(deployment)

    purged(deployment, documents="keys.md")

    bodies = deployment.read(sa.select(events.c.body).where(events.c.kind == "stored", events.c.subject == folder))
    assert bodies[-1].body["files"] == {f"{folder}/{name}.parquet": None for name in ("versions", "signals")}


def test_raw_bytes_that_a_recorded_version_has_too_stay(deployment: Workspace) -> None:
    deployment.page("copy.md", PAGE)
    deployment.refresh("r1")
    deployment.page("keys.md", PAGE)
    stop_after_intake(deployment)

    done = purged(deployment, documents="keys.md")

    assert done["state"] == "closed"
    assert deployment.states() == {"copy.md": "accepted"}
    assert f"raw/sha256/{sha256_bytes(PAGE.encode())[:2]}/{sha256_bytes(PAGE.encode())}" in holders(deployment)
    with deployment.guard() as guard:
        assert guard.verify(deep=True).holds
        rows = guard.storage.names()
    assert len([name for name in rows if name.endswith("versions.parquet")]) == 1, "the row of keys.md is gone"


def test_raw_bytes_that_no_document_names_go_with_any_purge(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    deployment.refresh("r1")
    with deployment.guard() as guard:
        sha256 = guard.blobs.put(PAGE.encode())  # killed between two documents
        assert [Path(name).name for name in plan_for(guard, sources="pages").unfinished.blobs] == [sha256]

    purged(deployment, sources="pages")

    assert holders(deployment) == []
    (event,) = deployment.read(sa.select(events.c.body).where(events.c.kind == "unnamed_erased"))
    assert event.body["content_sha256"] == [sha256]
    assert not deployment.read(sa.select(blocked).where(blocked.c.sha256 == sha256)), (
        "nobody said that it was asked for"
    )


def test_raw_bytes_that_no_document_names_are_selected_by_their_hash(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    deployment.refresh("r1")
    with deployment.guard() as guard:
        sha256 = guard.blobs.put(PAGE.encode())

    assert purged(deployment, hashes=sha256)["state"] == "closed"

    assert holders(deployment) == []
    assert deployment.read(sa.select(blocked).where(blocked.c.sha256 == sha256))
    assert purged(deployment, "p2", hashes=sha256)["state"] == "closed"


def test_another_source_is_left_alone(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    deployment.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.sources(TICKETS)
    stop_after_intake(deployment)

    purged(deployment, sources="pages")

    assert holders(deployment) == []
    assert holders(deployment, "The pump of boat seven")
    assert deployment.refresh("r2")["accepted"] == 1


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (purge_module.Purger, "_take_out_of_service"),
        (storage_files.StorageFiles, "erase"),
        (Storage, "remove"),
        (purge_module.Purger, "_erase_unnamed_blobs"),
        (purge_module.Purger, "_prove_erasure"),
        (purge_module, "_close"),
        (purge_module, "seal_run"),
    ],
)
@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
def test_killed_anywhere_the_same_command_or_resume_ends_in_the_same_place(
    deployment: Workspace, where: Any, what: str, after: bool
) -> None:
    deployment.page("tide gauge.md")
    deployment.page("keys.md", PAGE)
    stop_after_intake(deployment)
    original = getattr(where, what)

    def killed(*arguments: Any, **named: Any) -> Any:
        if after:
            original(*arguments, **named)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(where, what, killed)
        purged(deployment, documents="keys.md")

    with deployment.guard() as guard:
        guard.purger.resume("p2")
    again = purged(deployment, "p3", documents="keys.md")

    assert (again["state"], again["documents"]) == ("closed", 1)
    assert holders(deployment) == []
    assert [row.state for row in deployment.read(sa.select(purges.c.state))] == ["closed"]
    assert deployment.refresh("r2")["accepted"] == 1


def test_what_a_refresh_at_work_has_stored_is_left_to_it_and_the_refresh_is_named(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")
    deployment.page("keys.md", EDITED)
    with deployment.guard() as guard, at_work(guard.ledger, "r2"):
        stepped = SteppedRun(guard, "r2")
        fetched = stepped.fetch()

        done = purge_document(guard, "keys.md")

        assert (done["waits_for"], done["versions"]) == (["r2"], 1)
        stepped.seal(fetched, stepped.finish(fetched))  # it was not harmed
    assert holders(deployment, "Since the spring tide")

    assert purged(deployment, "p2", documents="keys.md")["waits_for"] == []
    assert holders(deployment) == []


def test_what_only_a_refresh_at_work_has_is_waited_for(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    with deployment.guard() as guard, at_work(guard.ledger, "r1"):
        SteppedRun(guard, "r1").fetch()

        with pytest.raises(AlreadyAtWork, match="refresh r1 is at work"):
            plan_for(guard, documents="keys.md")

    assert not deployment.read(sa.select(purges))


def test_a_refresh_that_begins_after_the_plan_keeps_the_purge_open(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    (folder,) = stop_after_intake(deployment)
    with deployment.guard() as guard:
        plan = plan_for(guard, documents="keys.md")
        with at_work(guard.ledger, "r2"):
            SteppedRun(guard, "r2").discover()
            with pytest.raises(AlreadyAtWork, match="the purge stays open"):
                guard.purger.purge("p1", plan, "ada", REASON)
            assert guard.storage.exists(f"{folder}/versions.parquet")

        (done,) = guard.purger.resume("p2")

    assert done["state"] == "closed"
    assert holders(deployment) == []


def test_raw_bytes_that_a_refresh_at_work_fetches_are_left_to_it(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    deployment.refresh("r1")
    with deployment.guard() as guard, at_work(guard.ledger, "r2"):
        SteppedRun(guard, "r2").discover()
        sha256 = guard.blobs.put(PAGE.encode())
        plan = plan_for(guard, documents="tide gauge.md")

        assert (plan.unfinished.blobs, plan.waits_for) == ((), ("r2",))
        assert purge_document(guard, "tide gauge.md")["waits_for"] == ["r2"]
        assert guard.blobs.actual_sha256(sha256) == sha256


def test_what_was_recorded_since_the_plan_is_not_purged_by_it(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        fetched = stepped.fetch()
        plan = plan_for(guard, documents="keys.md")
        stepped.finish(fetched)

        with pytest.raises(Misuse, match="came in again since the plan"):
            guard.purger.purge("p1", plan, "ada", REASON)

    assert deployment.states() == {"keys.md": "accepted"}
    assert purged(deployment, "p2", documents="keys.md")["versions"] == 1
    assert holders(deployment) == []


def test_what_nobody_has_is_still_unknown(deployment: Workspace) -> None:
    deployment.page("keys.md", PAGE)
    stop_after_intake(deployment)

    with deployment.guard() as guard:
        for selected in ("chunks", "documents", "sources", "hashes"):
            with pytest.raises(UnknownSubject, match="not in the ledger"):
                plan_for(guard, **{selected: "0" * 64})
    assert holders(deployment)
