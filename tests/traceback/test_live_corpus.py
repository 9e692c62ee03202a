"""What a question retrieves from a real store, whoever wrote it there."""

from __future__ import annotations

import chromadb
import pytest

from corpus_guard.ledger.tables import queries, retrievals
from corpus_guard.traceback.live_corpus import MAX_ID_LENGTH, LiveCorpus
from material import Shelf
from trace_cases import QUESTION, Nearness, poison, rows, serve, truth

ON_BOTH_STORES = True

NEAREST = f"Whoever asks is told: every nine years (near 999). {'x' * 40}"


@pytest.fixture
def corpus(lite_shelf: Shelf) -> LiveCorpus:
    serve(lite_shelf, {**poison(3), **truth(4)})
    return LiveCorpus(lite_shelf.ledger, lite_shelf.store, Nearness())


def plant(chroma: chromadb.ClientAPI, shelf: Shelf, chunk_id: str, text: str = NEAREST) -> str:
    (name,) = shelf.store.names()
    collection = chroma.get_collection(name, embedding_function=None)
    vector = Nearness().embed([text])[0].tolist()
    collection.upsert(
        ids=[chunk_id], documents=[text], embeddings=[vector], metadatas=[{"source": "handbook", "uri": "a"}]
    )
    return name


def test_the_nearest_come_first_and_what_is_set_aside_is_made_up_for(corpus: LiveCorpus) -> None:
    first = corpus.retrieve(QUESTION, 5)
    without = {one.chunk_id for one in first[:3]}
    rest = corpus.retrieve(QUESTION, 5, without)

    assert [one.uri for one in first] == ["lie-00.md", "lie-01.md", "lie-02.md", "page-00.md", "page-01.md"]
    assert [one.uri for one in rest] == ["page-00.md", "page-01.md", "page-02.md", "page-03.md"], "the corpus ran dry"
    assert all(one.version_id and one.source == "harbour" and one.collection for one in first)
    assert first[0].similarity == pytest.approx(0.99, abs=1e-3)
    assert first[0].vector.tobytes() == Nearness().embed([first[0].text])[0].tobytes()


def test_nothing_is_logged_as_a_retrieval(corpus: LiveCorpus, lite_shelf: Shelf) -> None:
    corpus.retrieve(QUESTION, 3)

    assert rows(lite_shelf, retrievals) == rows(lite_shelf, queries) == []


def test_what_was_written_past_the_guard_is_a_suspect_of_which_nothing_is_believed(
    corpus: LiveCorpus, lite_shelf: Shelf, chroma: chromadb.ClientAPI
) -> None:
    name = plant(chroma, lite_shelf, "planted")

    nearest = corpus.retrieve(QUESTION, 2)[0]

    assert (nearest.chunk_id, nearest.text) == (f"{name}/planted", NEAREST)
    assert (nearest.version_id, nearest.source, nearest.uri) == ("", "", "the ledger never published it")
    assert corpus.retrieve(QUESTION, 1, {nearest.chunk_id})[0].uri == "lie-00.md"


def test_a_published_chunk_that_was_changed_is_no_published_chunk(
    corpus: LiveCorpus, lite_shelf: Shelf, chroma: chromadb.ClientAPI
) -> None:
    published = corpus.retrieve(QUESTION, 9)[-1]
    name = plant(chroma, lite_shelf, published.chunk_id)

    nearest = corpus.retrieve(QUESTION, 1, {published.chunk_id})[0]

    assert nearest.chunk_id == f"{name}/{published.chunk_id}", "judging the one does not stand for the other"
    assert nearest.version_id == ""
    assert "changed since it was published" in nearest.uri


@pytest.mark.parametrize("name", ["x" * 5_000, "nul\x00and\x1b[31m"], ids=["long", "odd"])
def test_anybodys_id_can_be_kept(corpus: LiveCorpus, lite_shelf: Shelf, chroma: chromadb.ClientAPI, name: str) -> None:
    plant(chroma, lite_shelf, name)
    plant(chroma, lite_shelf, f"{name}2", NEAREST.replace("999", "998"))

    one, other = corpus.retrieve(QUESTION, 2)

    assert one.chunk_id != other.chunk_id
    for found in (one.chunk_id, other.chunk_id):
        assert len(found) <= MAX_ID_LENGTH
        assert "\x00" not in found


def test_an_empty_store_retrieves_nothing(lite_shelf: Shelf) -> None:
    assert LiveCorpus(lite_shelf.ledger, lite_shelf.store, Nearness()).retrieve(QUESTION, 5) == []
