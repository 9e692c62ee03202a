"""A purge on a real deployment: whatever is searched, by whoever, neither text nor vector is there any more."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from purging import REASON, plan_for

from corpus_guard.batches import Storage
from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.corpus.server import is_answering
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger.tables import (
    bands,
    blocked,
    chunks,
    decisions,
    documents,
    events,
    publications,
    purges,
    retrievals,
    signals,
    versions,
)
from corpus_guard.models import Models
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.removal import chroma_files, storage_files
from corpus_guard.removal import purge as purge_module
from corpus_guard.removal.purge import PurgeResult
from corpus_guard.removal.purge_plan import PurgePlan
from corpus_guard.settings import Settings
from deploying import BAD, GOOD, Workspace, deploy
from postgres import free_port
from siblings import UNRELATED

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."
PAGE = f"# Keys\n\n{SECRET} Whoever needs it asks the harbour office first and writes the hour into the book.\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, hashed_models: Models, models_home: Path) -> Workspace:
    """Refreshed once; copied for each test, since a refresh takes longer than most of them."""
    url = f"http://127.0.0.1:{free_port()}"
    made = deploy(tmp_path_factory.mktemp("template"), chroma_url=url, models_home=models_home, models=hashed_models)
    for name in ("tide gauge", "barometer", "rain gauge"):
        made.page(f"{name}.md")
    made.page("keys.md", PAGE)
    made.refresh("r1")
    return made


@pytest.fixture
def filled(template: Workspace, tmp_path: Path) -> Workspace:
    """A deployment whose Chroma lies below its own home, refreshed once; nobody runs a server."""
    root = tmp_path / "deployment"
    shutil.copytree(template.root, root, symlinks=True)
    settings = Settings(
        home=root / "home",
        sources_file=root / "sources.yaml",
        chroma_url=f"http://127.0.0.1:{free_port()}",
        collection_prefix=template.settings.collection_prefix,
        policy_file=template.settings.policy_file,
    )
    return Workspace(root, settings, template.models)


@contextlib.contextmanager
def supervised(deployment: Workspace) -> Iterator[None]:
    """A server on the home, as `make up` keeps one."""
    url = deployment.settings.chroma_url
    command = [sys.executable, "-m", "corpus_guard.corpus.server", "--home", str(deployment.settings.home)]
    with subprocess.Popen([*command, "--port", url.rpartition(":")[2]]) as server:
        try:
            deadline = time.monotonic() + 60
            while not is_answering(url):
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield
        finally:
            server.terminate()


def planned(deployment: Workspace, **asked: str) -> PurgePlan:
    with deployment.guard() as guard:
        return plan_for(guard, **asked)


def purged(deployment: Workspace, run_id: str = "p1", **asked: str) -> PurgeResult:
    with deployment.guard() as guard:
        wanted = plan_for(guard, **asked)
        return guard.purger.purge(run_id, wanted, "ada", REASON)


def served(deployment: Workspace) -> str:
    with deployment.guard() as guard:
        return "\n".join(record.text for name in guard.store.names() for record in guard.store.scan(name))


def vectors_of(deployment: Workspace, uri: str) -> list[bytes]:
    """Of the chunks of a document, as little-endian float32, before it goes."""
    with deployment.guard() as guard:
        return [
            record.vector.astype("<f4").tobytes()
            for name in guard.store.names()
            for record in guard.store.scan(name)
            if record.metadata["uri"] == uri
        ]


def files(deployment: Workspace) -> dict[str, bytes]:
    """Every file below the home but the models', as it lies there; Parquet also as it reads."""
    found = {}
    for path in sorted(deployment.settings.home.rglob("*")):
        if path.is_file() and "models" not in path.relative_to(deployment.settings.home).parts:
            found[str(path)] = path.read_bytes()
            if found[str(path)][:4] == b"PAR1":
                table = pq.read_table(path)
                found[f"{path} (read)"] = b"\0".join(
                    np.asarray(value, "<f4").tobytes()
                    if isinstance(value, list) and name == "vector"
                    else str(value).encode()
                    for name in table.column_names
                    for value in table[name].to_pylist()
                )
    return found


def holding(deployment: Workspace, *needles: bytes) -> list[str]:
    return [name for name, content in files(deployment).items() if any(needle in content for needle in needles)]


def pieces(vector: bytes) -> list[bytes]:
    """Runs of 32 bytes: where a database page ends inside a vector, the others are whole."""
    return [vector, *(vector[start : start + 32] for start in range(0, len(vector) - 32, 256))]


@pytest.mark.parametrize(
    "running",
    [pytest.param(False, id="no server", marks=pytest.mark.slow), pytest.param(True, id="a server that runs")],
)
def test_neither_text_nor_vector_is_found_by_another_search(filled: Workspace, running: bool) -> None:
    (vector,) = vectors_of(filled, "keys.md")
    needles = [SECRET.encode(), SECRET.encode()[10:40], *pieces(vector)]
    assert {Path(name).name for name in holding(filled, *needles)} >= {"chroma.sqlite3"}
    assert any("versions.parquet (read)" in name for name in holding(filled, *needles))
    assert any("vectors-" in name for name in holding(filled, *needles))
    assert any("/raw/" in name for name in holding(filled, *needles))

    with supervised(filled) if running else contextlib.nullcontext():
        done = purged(filled, documents="keys.md")
        assert holding(filled, *needles) == []
    assert holding(filled, *needles) == []  # a server that stops writes nothing back

    assert (done["state"], done["documents"], done["versions"]) == ("closed", 1, 1)
    assert (done["shared"], done["untraced"]) == ([], [])
    text = served(filled)
    assert "Osric" not in text
    assert all(name in text for name in ("tide gauge", "barometer", "rain gauge"))
    with filled.guard() as guard:
        found = guard.retriever.query("Where is the value of the tide gauge written?", 3)
    assert [one for one in found.answers if one.uri == "tide gauge.md"]
    assert found.withheld == ()
    assert holding(filled, *needles) == []


def test_every_stored_file_is_as_the_log_says_after_a_purge(filled: Workspace) -> None:
    purged(filled, documents="keys.md")

    with filled.guard() as guard:
        result = guard.verify(deep=True)

    kinds = {DeviationKind.FILE_CHANGED, DeviationKind.FILE_MISSING}
    assert [deviation for deviation in result.deviations if deviation.kind in kinds] == []
    assert result.files_read == result.files_known > 0


def test_who_why_and_what_are_kept_and_nothing_that_tells_of_the_text(filled: Workspace) -> None:
    (version,) = filled.read(
        sa.select(versions).join(documents, documents.c.doc_id == versions.c.doc_id).where(documents.c.uri == "keys.md")
    )
    (chunk, *_) = filled.read(sa.select(chunks.c.chunk_id).where(chunks.c.version_id == version.version_id))
    with filled.guard() as guard:
        asked = [LoggedRetrieval("Who?", (LoggedChunk(name),), answer="Quoted.") for name in (chunk.chunk_id, "other")]
        RetrievalLog(guard.ledger, days=30).add(asked)

    done = purged(filled, documents="keys.md")

    assert [row.answer for row in filled.read(sa.select(retrievals).order_by(retrievals.c.retrieval_id))] == [
        None,
        "Quoted.",
    ]
    (kept,) = filled.read(sa.select(purges))
    assert (kept.state, kept.requested_by, kept.reason, kept.versions) == (
        "closed",
        "ada",
        REASON,
        [version.version_id],
    )
    assert kept.evidence["found"] == 0
    assert kept.evidence["searched"] == done["searched"] > 5
    assert kept.evidence["sought"] >= 8
    assert "traces" not in kept.evidence
    (event,) = filled.read(sa.select(events).where(events.c.kind == "purged"))
    assert event.subject == kept.purge_id == done["purge_id"]
    assert event.body["content_sha256"] == [version.content_sha256]
    assert event.body["text_sha256"] == [version.text_sha256]
    assert (event.body["by"], event.body["searched"]) == ("ada", done["searched"])
    assert {(row.sha256, row.kind) for row in filled.read(sa.select(blocked))} == {
        (version.content_sha256, "content"),
        (version.text_sha256, "text"),
    }
    (decision,) = filled.read(sa.select(decisions))
    assert (decision.version_id, decision.verdict, decision.reviewer) == (version.version_id, "reject", "ada")
    assert decision.applied_at is not None
    (state,) = filled.read(sa.select(versions.c.state).where(versions.c.version_id == version.version_id))
    assert state.state == "rejected"
    for table in (signals, bands):
        assert not filled.read(sa.select(table).where(table.c.version_id == version.version_id))
        assert filled.read(sa.select(table))
    (last,) = filled.read(
        sa.select(events.c.kind).where(events.c.kind != "rows").order_by(events.c.seq.desc()).limit(1)
    )
    assert last.kind == "sealed"


def test_a_dry_run_names_everything_and_changes_nothing(filled: Workspace) -> None:
    before = files(filled)

    found = planned(filled, documents="keys.md")

    assert [document.uri for document in found.documents] == ["keys.md"]
    assert (len(found.versions), len(found.chunks), len(found.collections), len(found.blobs)) == (1, 1, 1, 1)
    assert {Path(name).name.partition("-")[0].partition(".")[0] for name in found.files} == {
        "versions",
        "signals",
        "vectors",
        "judgements",
    }
    after = files(filled)
    assert {name: content for name, content in after.items() if "ledger" not in name} == {
        name: content for name, content in before.items() if "ledger" not in name
    }
    assert not filled.read(sa.select(purges))


def test_a_chunk_takes_its_version_and_every_equal_one_along(filled: Workspace) -> None:
    filled.page("copy.md", PAGE)
    filled.page("marked.md", "\ufeff" + PAGE)  # other bytes, the same text
    filled.refresh("r2")
    (chunk,) = filled.read(
        sa.select(chunks.c.chunk_id)
        .join(versions, versions.c.version_id == chunks.c.version_id)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(documents.c.uri == "keys.md")
    )

    done = purged(filled, chunks=chunk.chunk_id)

    assert (done["documents"], done["state"]) == (3, "closed")
    assert "Osric" not in served(filled)
    assert holding(filled, SECRET.encode()) == []


def test_a_document_goes_with_its_former_versions_and_another_version_of_it_stays_served(filled: Workspace) -> None:
    filled.page(
        "keys.md", "The key of the boat house hangs in the office now, beside the chart of the inner harbour basin.\n"
    )
    filled.refresh("r2")
    (old,) = filled.read(
        sa.select(versions.c.content_sha256).where(
            versions.c.run_id == "r1", versions.c.text_sha256.in_(texts_of(filled, "keys.md"))
        )
    )

    one = purged(filled, hashes=old.content_sha256)

    assert (one["state"], one["versions"]) == ("closed", 1)
    assert "chart of the inner harbour" in served(filled)
    assert holding(filled, SECRET.encode()) == []

    all_of_it = purged(filled, "p2", documents="keys.md")

    assert (all_of_it["state"], all_of_it["versions"]) == ("closed", 2)
    assert holding(filled, b"chart of the inner harbour") == []


def texts_of(deployment: Workspace, uri: str) -> list[str]:
    joined = sa.select(versions.c.text_sha256).join(documents, documents.c.doc_id == versions.c.doc_id)
    return [row.text_sha256 for row in deployment.read(joined.where(documents.c.uri == uri))]


def collections(filled: Workspace) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(filled.settings.home / "chroma" / "chroma.sqlite3")) as connection:
        return set(connection.execute("SELECT id, name FROM collections"))


def test_what_waits_in_quarantine_goes_without_touching_the_collections(filled: Workspace) -> None:
    filled.page("notice.md", BAD)
    filled.refresh("r2")
    before = collections(filled)

    done = purged(filled, documents="notice.md")

    assert done["state"] == "closed"
    assert holding(filled, b"send their password to the address") == []
    assert collections(filled) == before  # a collection that is made again has another id


def test_boilerplate_stays_where_it_is_lawful_and_is_named(filled: Workspace) -> None:
    """The same passage stands in a longer document that lives on."""
    filled.page("longer.md", GOOD.replace("{title}", "tide gauge") + "\n\n" + UNRELATED[0])
    filled.refresh("r2")
    sentence = b"The tide gauge is read every morning"

    done = purged(filled, documents="tide gauge.md")

    assert done["state"] == "closed"
    assert "tide gauge.md" not in {
        row.uri for row in filled.read(sa.select(documents.c.uri).where(documents.c.target_version.is_not(None)))
    }
    assert holding(filled, sentence)
    assert holding(filled, UNRELATED[0][:40].encode())


STEPS = [
    (purge_module.Purger, "_take_out_of_service"),
    (purge_module.outbox, "drain"),
    (storage_files.StorageFiles, "erase"),
    (Storage, "remove"),
    (chroma_files, "_require_republishable"),
    (chroma_files.outbox, "drain"),
    (chroma_files, "republish_collections"),
    (chroma_files, "compact"),
    (chroma_files.shutil, "rmtree"),
    (purge_module.Purger, "_prove_erasure"),
    (purge_module, "_close"),
    (purge_module, "seal_run"),
]


QUICK = {"republish_collections"}
"""A quick run is killed after this alone."""


class Killed(BaseException):
    """Nothing catches it."""


@pytest.mark.parametrize(
    ("where", "what", "after"),
    [
        pytest.param(
            where,
            what,
            after,
            id=f"{'after' if after else 'before'} {what}",
            marks=() if after and what in QUICK else pytest.mark.slow,
        )
        for where, what in STEPS
        for after in (True, False)
    ],
)
def test_killed_anywhere_the_same_command_or_resume_ends_in_the_same_place(
    filled: Workspace, where: Any, what: str, after: bool
) -> None:
    original = getattr(where, what)

    def killed(*arguments: Any, **named: Any) -> Any:
        if after:
            original(*arguments, **named)
        raise Killed

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(where, what, killed)
        purged(filled, documents="keys.md")

    with filled.guard() as guard:
        again = (
            guard.purger.resume("p2")
            if after
            else [guard.purger.purge("p2", plan_for(guard, documents="keys.md"), "ada", "again")]
        )

    assert [one["state"] for one in again] in (["closed"], [])
    assert [row.state for row in filled.read(sa.select(purges))] == ["closed"]
    assert len(filled.read(sa.select(events).where(events.c.kind == "purged"))) == 1
    assert holding(filled, SECRET.encode()) == []
    assert "tide gauge" in served(filled)
    assert refreshed_without("keys.md", filled)["failed"] == 0


class Killing:
    """Raises `Killed` as soon as it is called or gone through."""

    def __call__(self, *_: object) -> None:
        raise Killed

    def __iter__(self) -> Iterator[str]:
        raise Killed


@pytest.mark.parametrize("what", ["compact", pytest.param("COMPACTION_STATEMENTS", marks=pytest.mark.slow)])
def test_a_rewriting_that_was_killed_is_not_begun_anew(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(chroma_files, what, Killing())
        purged(filled, sources="pages")  # publishing a rest again would happen to fill the pages that it leaves
    begun: list[object] = []
    monkeypatch.setattr(chroma_files, "republish_collections", lambda *arguments: begun.append(arguments))

    with filled.guard() as guard:
        (done,) = guard.purger.resume("p2")

    assert done["state"] == "closed"
    assert not begun
    assert holding(filled, SECRET.encode()) == []


def refreshed_without(uri: str, deployment: Workspace) -> Any:
    (deployment.pages / uri).unlink()
    return deployment.refresh("r9")


@pytest.mark.parametrize(
    "left_out",
    [
        "VACUUM",
        pytest.param("publishing again", marks=pytest.mark.slow),
        "raw bytes",
        pytest.param("rows", marks=pytest.mark.slow),
    ],
)
def test_a_step_that_was_not_done_is_found_and_named_and_doing_it_closes(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    # All of it: publishing a rest again would happen to fill the pages that it leaves.
    traced = traced_before(filled)
    with monkeypatch.context() as patch:
        if left_out == "VACUUM":
            patch.setattr(
                chroma_files,
                "COMPACTION_STATEMENTS",
                tuple(statement for statement in chroma_files.COMPACTION_STATEMENTS if statement != "VACUUM"),
            )
        elif left_out == "publishing again":
            patch.setattr(chroma_files, "republish_collections", lambda *arguments: None)
        elif left_out == "raw bytes":
            patch.setattr(storage_files.StorageFiles, "blobs_of", lambda *arguments: [])
        else:
            patch.setattr(storage_files.StorageFiles, "batches_with", lambda *arguments: iter(()))
            patch.setattr(storage_files.StorageFiles, "take_traces", lambda *arguments: traced)
        with pytest.raises(Inconsistent, match="purged text or vectors are still in") as error:
            purged(filled, sources="pages")
    assert "Osric" not in str(error.value)
    assert [row.state for row in filled.read(sa.select(purges))] == ["removed"]

    with filled.guard() as guard:
        (done,) = guard.purger.resume("p2")

    assert done["state"] == "closed"
    assert holding(filled, SECRET.encode()) == []


def traced_before(deployment: Workspace) -> Any:
    with deployment.guard() as guard:
        return storage_files.StorageFiles(guard.ledger, guard.storage, guard.blobs).take_traces(
            plan_for(guard, sources="pages").targets
        )


@pytest.mark.parametrize("times", [1, pytest.param(purge_module.MAX_SEARCHES, marks=pytest.mark.slow)])
def test_an_index_that_was_made_of_old_memory_is_made_again(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    (vector,) = vectors_of(filled, "keys.md")
    pack, dirty, made = chroma_files.compact, [True] * times, []

    def packed(folder: Path) -> None:
        pack(folder)
        lengths = next(folder.rglob("length.bin"))
        made.append(lengths.parent.name)
        if dirty:
            lengths.write_bytes(lengths.read_bytes()[:64] + vector + b"\0" * dirty.pop())

    monkeypatch.setattr(chroma_files, "compact", packed)
    if times < purge_module.MAX_SEARCHES:
        assert purged(filled, documents="keys.md")["state"] == "closed"
    else:
        with pytest.raises(Inconsistent, match=r"purged text or vectors are still in .*length\.bin"):
            purged(filled, documents="keys.md")
        with filled.guard() as guard:
            (done,) = guard.purger.resume("p2")
        assert done["state"] == "closed"

    assert len(made) == len(set(made)) == times + 1, "each time another index"
    assert holding(filled, SECRET.encode(), *pieces(vector)) == []
    assert "tide gauge" in served(filled)


@pytest.mark.slow
def test_a_copy_that_somebody_left_in_the_storage_folder_keeps_the_purge_open(filled: Workspace) -> None:
    copy = filled.settings.home / "storage" / "batches" / "kept-for-later.bak"
    shutil.copy(next((filled.settings.home / "storage" / "batches").rglob("versions.parquet")), copy)

    with pytest.raises(Inconsistent, match=r"kept-for-later\.bak"):
        purged(filled, documents="keys.md")
    copy.unlink()

    assert purged(filled, documents="keys.md")["state"] == "closed"


def test_where_the_disk_of_chroma_is_not_seen_nothing_is_claimed(deployment: Workspace) -> None:
    """The fixture's server keeps its files below another home; so would one on another machine."""
    deployment.page("tide gauge.md")
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")

    done = purged(deployment, documents="keys.md")

    assert done["state"] == "removed"
    assert [row.state for row in deployment.read(sa.select(purges))] == ["removed"]
    assert not deployment.read(sa.select(events).where(events.c.kind == "purged"))
    assert "Osric" not in served(deployment)
    assert holding(deployment, SECRET.encode()) == []


def test_nothing_is_deleted_that_could_not_be_published_again(filled: Workspace) -> None:
    with filled.guard() as guard:
        (name,) = {row.vectors for row in filled.read(sa.select(publications.c.vectors))}
        table = guard.storage.read_table(name)
        buffer = pa.BufferOutputStream()
        pq.write_table(table.slice(0, 0), buffer)
        wanted = plan_for(guard, documents="keys.md")
        guard.storage.write(name, buffer.getvalue().to_pybytes())
        with pytest.raises(Inconsistent, match="cannot be published again"):
            guard.purger.purge("p1", wanted, "ada", REASON)

    assert "tide gauge" in served(filled)


def test_documents_without_text_are_not_one_content(filled: Workspace) -> None:
    for name in ("empty.md", "void.md"):
        (filled.pages / name).write_bytes(b" " * len(name))
    filled.refresh("r2")

    assert [document.uri for document in planned(filled, documents="empty.md").documents] == ["empty.md"]


def test_misuse_is_refused(filled: Workspace) -> None:
    with filled.guard() as guard:
        with pytest.raises(Misuse, match="nothing is selected"):
            plan_for(guard)
        for asked in ("chunks", "documents", "sources", "hashes"):
            with pytest.raises(UnknownSubject, match="not in the ledger"):
                plan_for(guard, **{asked: "0" * 64})
        with pytest.raises(Misuse, match="needs the name"):
            guard.purger.purge("p1", plan_for(guard, documents="keys.md"), "ada", " ")
    assert "Osric" in served(filled)


@pytest.mark.slow
def test_whoever_reads_batches_copes_with_rows_that_are_gone(filled: Workspace) -> None:
    filled.page("notice.md", BAD)
    filled.refresh("r2")
    purged(filled, documents="keys.md")
    purged(filled, "p2", documents="notice.md")

    with filled.guard() as guard:
        stricter = guard.policy.model_copy(update={"name": "another"})
        guard.__dict__["policy"] = stricter
        result = guard.rescreen("s1")

    assert result["examined"] == 3
    assert "tide gauge" in served(filled)
    filled.page("tide gauge.md", GOOD + "\nThe old value is kept beside the new one.\n")
    filled.page(
        "keys.md", "The key of the boat house hangs in the office now, beside the chart of the inner harbour basin.\n"
    )
    sealed = filled.refresh("r3")
    assert sealed["failed"] == 0
    assert "kept beside the new one" in served(filled)


@pytest.mark.slow
def test_a_wider_purge_searches_for_what_a_narrower_one_still_has_to_prove(filled: Workspace) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Inconsistent):
        patch.setattr(chroma_files, "republish_collections", lambda *arguments: None)
        purged(filled, documents="keys.md")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Inconsistent):
        patch.setattr(chroma_files, "republish_collections", lambda *arguments: None)
        patch.setattr(
            storage_files.StorageFiles, "take_traces", lambda *arguments: storage_files.SearchTraces((), (), ())
        )
        purged(filled, "p2", sources="pages")

    with filled.guard() as guard:
        assert [one["state"] for one in guard.purger.resume("p3")] == ["closed", "closed"]
