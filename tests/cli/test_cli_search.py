"""`guard search` over a store that was changed: it says so, in words and by its exit code."""

from __future__ import annotations

import json

import chromadb
import pytest

from corpus_guard.domain import TrustLevel
from deploying import Typed, Workspace


@pytest.fixture
def search(deployment: Workspace, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    deployment.enter(monkeypatch)
    return lambda *words: typed("search", "What does the barometer say?", *words)


def test_it_says_whether_nothing_is_published_everything_withheld_or_gone(
    search: Typed, typed: Typed, deployment: Workspace, chroma: chromadb.ClientAPI
) -> None:
    assert "QUERY is empty; expected a question" in typed("search", " ")[2]
    code, out, _ = search()
    assert (code, out.strip()) == (0, "Nothing is published yet. Run guard refresh.")

    for name in ("barometer.md", "tide.md", "crane.md"):
        deployment.page(name)
    with deployment.guard() as guard:
        guard.refresh()
        collection = chroma.get_collection(guard.store.collection_name(TrustLevel.OPEN))
    code, out, _ = search("--json")
    assert (code, json.loads(out)["status"]) == (0, "served")

    ids = collection.get()["ids"]
    collection.update(ids=ids, metadatas=[{"verdict": "release"}] * len(ids))
    code, out, err = search()
    assert (code, out) == (1, "")
    assert f"{len(ids)} of {len(ids)} withheld: the store was changed; run `guard verify`" in err
    code, out, _ = search("--json")
    assert (code, json.loads(out)["status"], len(json.loads(out)["withheld"])) == (1, "withheld", len(ids))

    collection.delete(ids=ids)
    code, out, err = search()
    assert (code, out) == (1, "")
    assert "no published chunk is in the store: the store was changed; run `guard verify`" in err
