"""A whole corpus whose batches and raw bytes lie in a bucket, its ledger and vectors in PostgreSQL: no file of it on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from purging import plan_for, purge_document

from corpus_guard.batches import Storage
from corpus_guard.errors import Inconsistent
from corpus_guard.models import Models
from corpus_guard.proof.healing import heal
from deploying import Workspace, deploy
from object_store import ObjectStore, object_store
from postgres import free_port

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."
PAGE = f"# Keys\n\n{SECRET} Whoever needs it asks the harbour office first and writes the hour into the book.\n"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as store:
        for name, value in store.variables.items():
            monkeypatch.setenv(name, value)
        yield store


@pytest.fixture(params=[False, True], ids=["plain", "versioned"])
def bucket(request: pytest.FixtureRequest, server: ObjectStore) -> str:
    server.bucket("guard", versions=request.param)
    return "s3://guard/corpus"


@pytest.fixture
def corpus(bucket: str, tmp_path: Path, empty_postgresql: str, models_home: Path, hashed_models: Models) -> Workspace:
    made = deploy(
        tmp_path / "deployment",
        chroma_url=f"http://127.0.0.1:{free_port()}",
        models_home=models_home,
        models=hashed_models,
        store="pgvector",
        ledger_url=empty_postgresql,
        storage_url=bucket,
    )
    made.page("barometer.md")
    made.page("keys.md", PAGE)
    made.refresh("r1")
    return made


def bodies(server: ObjectStore, bucket: str) -> bytes:
    """Return the raw bytes of documents that the bucket holds now."""
    storage = Storage(bucket)
    return b"".join(storage.read(name) for name in storage.names() if name.startswith("raw/"))


def test_it_is_verified_healed_and_purged_but_not_where_versions_are_kept(
    corpus: Workspace, server: ObjectStore, bucket: str, request: pytest.FixtureRequest
) -> None:
    assert SECRET.encode() in bodies(server, bucket)
    assert not (corpus.settings.home / "storage").exists()
    with corpus.guard() as guard:
        assert guard.verify(deep=True).holds
        chunk = guard.retriever.query(SECRET, k=1).answers[0].chunk_id
        guard.store.delete(next(iter(guard.store.names())), [chunk])
        verification = guard.verify()
        assert [deviation.kind.value for deviation in verification.deviations] == ["removed"]
        heal(guard.ledger, guard.storage, guard.store, "heal-1", verification.deviations)  # from the bucket
        guard.seal("heal-1")

    with corpus.guard() as guard:
        if "versioned" in request.node.callspec.id:
            with pytest.raises(Inconsistent, match=r"keeps every earlier version.*the purge stays open"):
                purge_document(guard, "keys.md")
            server.suspend_versions("guard")
            result = guard.purger.resume("p2")[0]
        else:
            result = guard.purger.purge("p1", plan_for(guard, documents="keys.md"), "ada", "asked for")
        assert result["state"] == "closed"
        assert guard.verify(deep=True).holds
    assert SECRET.encode() not in bodies(server, bucket)
