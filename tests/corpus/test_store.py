"""Chroma behind a few verbs: what was written is read back, and nothing is taken for done that was not seen."""

from __future__ import annotations

from dataclasses import replace

import chromadb
import numpy as np
import pytest

from corpus_guard.corpus import store as stores
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent, StoreUnavailable
from material import DIMENSIONS, a_record, vector_of
from postgres import free_port

MODEL = "hashed-texts"


@pytest.fixture
def name(store: Store) -> str:
    return store.collection_name(TrustLevel.OPEN)


def test_what_is_written_comes_back_bit_for_bit(store: Store, name: str) -> None:
    written = [a_record(f"passage {number}", ordinal=number, title="") for number in range(50)]

    store.upsert(name, written, MODEL)

    back = {record.chunk_id: record for record in store.get(name, [record.chunk_id for record in written])}
    for record in written:
        found = back[record.chunk_id]
        assert found.vector.dtype == np.dtype("<f4")
        assert found.vector.tobytes() == record.vector.tobytes()
        assert (found.text, dict(found.metadata)) == (record.text, dict(record.metadata))


@pytest.mark.parametrize(
    "text", ["", "naïve café", "زبان", "a\x00b", "\u202etxt.exe", "<script>alert(1)</script> {{ conn.x }}", "👩🏽‍🔬"]
)
def test_any_text_comes_back(store: Store, name: str, text: str) -> None:
    store.upsert(name, [a_record(text)], MODEL)

    assert [record.text for record in store.scan(name)] == [text]


def test_a_metadata_key_that_somebody_added_is_seen(store: Store, name: str, chroma: chromadb.ClientAPI) -> None:
    record = a_record()
    store.upsert(name, [record], MODEL)
    chroma.get_collection(name).update(ids=[record.chunk_id], metadatas=[{"verdict": "release"}])

    with pytest.raises(Inconsistent, match=f"chunk {record.chunk_id} in {name} .* read back another"):
        store.upsert(name, [record], MODEL)


@pytest.mark.parametrize(
    "other",
    [
        lambda record: replace(record, text="another text"),
        lambda record: replace(record, vector=vector_of("another text")),
        lambda record: replace(record, metadata={"ordinal": 1}),
    ],
    ids=["text", "vector", "metadata"],
)
def test_what_is_read_back_is_compared_whole(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch, other: object
) -> None:
    record = a_record()
    monkeypatch.setattr(store, "get", lambda *_: [other(record)])  # type: ignore[operator]

    with pytest.raises(Inconsistent, match="read back another text, vector or metadata"):
        store.upsert(name, [record], MODEL)


def test_a_write_that_left_nothing_is_seen(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "get", lambda *_: [])

    with pytest.raises(Inconsistent, match="read back nothing"):
        store.upsert(name, [a_record()], MODEL)


def test_vectors_of_another_embedder_are_refused(store: Store, name: str) -> None:
    store.upsert(name, [a_record()], MODEL)

    for opened in (store, Store(store.url, store.prefix)):
        with pytest.raises(Inconsistent, match=r"holds vectors of hashed-texts, these are of other"):
            opened.upsert(name, [a_record("more")], "other")

    assert store.count(name) == 1


def test_a_collection_somebody_else_made_is_refused(store: Store, name: str, chroma: chromadb.ClientAPI) -> None:
    chroma.create_collection(name, embedding_function=None)

    with pytest.raises(Inconsistent, match="holds vectors of None"):
        store.upsert(name, [a_record()], MODEL)


def test_a_scan_gives_every_record_once(store: Store, name: str) -> None:
    written = [a_record(f"passage {number}") for number in range(25)]
    store.upsert(name, written, MODEL)

    for page in (1, 5, 7, 25, 1_000):
        found = [record.chunk_id for record in store.scan(name, page)]
        assert sorted(found) == sorted(record.chunk_id for record in written)
    assert store.count(name) == 25


def test_writes_are_cut_into_batches(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "RECORDS_PER_REQUEST", 10)
    written = [a_record(f"passage {number}") for number in range(25)]

    store.upsert(name, written, MODEL)
    assert store.count(name) == 25

    store.delete(name, [record.chunk_id for record in written[:15]])
    assert store.count(name) == 10


def test_a_delete_that_did_nothing_is_seen(
    store: Store, name: str, chroma: chromadb.ClientAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = a_record()
    store.upsert(name, [record], MODEL)
    monkeypatch.setattr(type(store._existing(name)), "delete", lambda self, ids: None)

    with pytest.raises(Inconsistent, match=f"1 deleted chunks are still in {name}"):
        store.delete(name, [record.chunk_id])


def test_deleting_what_is_not_there_is_done_already(store: Store, name: str) -> None:
    store.delete(name, ["0" * 32])
    store.upsert(name, [a_record()], MODEL)
    store.delete(name, ["0" * 32])

    assert store.count(name) == 1


def test_a_collection_that_does_not_exist_holds_nothing(store: Store, name: str) -> None:
    assert store.count(name) == 0
    assert store.names() == []


def test_only_our_collections_are_ours(store: Store, name: str, chroma: chromadb.ClientAPI) -> None:
    store.upsert(name, [a_record()], MODEL)
    chroma.create_collection(f"{store.prefix}-archive", embedding_function=None)

    assert store.names() == [name]
    chroma.delete_collection(f"{store.prefix}-archive")


def test_the_nearest_come_first_over_all_collections(store: Store) -> None:
    names = [store.collection_name(trust) for trust in (TrustLevel.OPEN, TrustLevel.TRUSTED)]
    question = vector_of("question")
    near = _leaning(question, 0.9, "near")
    nearer = _leaning(question, 0.95, "nearer")
    for name, record in zip(names, (near, nearer), strict=True):
        store.upsert(name, [record, *(a_record(f"{name} {number}") for number in range(5))], MODEL)

    matches = store.query(names, question, 2)

    assert [match.record.text for match in matches] == ["nearer", "near"]
    assert [match.collection for match in matches] == list(reversed(names))
    assert matches[0].similarity == pytest.approx(0.95, abs=1e-5)


def test_asking_for_more_than_there_is_gives_what_there_is(store: Store, name: str) -> None:
    store.upsert(name, [a_record("one"), a_record("two")], MODEL)

    assert len(store.query([name], vector_of("one"), 100)) == 2


def test_near_gives_document_text_and_cosine_of_the_nearest_to_each_vector(store: Store, name: str) -> None:
    questions = np.stack([vector_of("one question"), vector_of("another question")])
    written = [
        replace(_leaning(question, cosine, f"{number} at {cosine}"), metadata={"doc_id": f"d{number}"})
        for number, question in enumerate(questions)
        for cosine in (0.95, 0.85)
    ]
    store.upsert(name, written, MODEL)

    for found, number in zip(store.nearest_texts(name, questions, 2), range(2), strict=True):
        assert [(document, text) for document, text, _ in found] == [
            (f"d{number}", f"{number} at 0.95"),
            (f"d{number}", f"{number} at 0.85"),
        ]
        assert [cosine for _, _, cosine in found] == pytest.approx([0.95, 0.85], abs=1e-5)


def test_near_asks_in_batches_and_for_no_more_than_there_is(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "VECTORS_PER_QUERY", 3)
    texts = [f"passage {number}" for number in range(8)]
    store.upsert(name, [a_record(text, doc_id=text) for text in texts], MODEL)

    found = store.nearest_texts(name, np.stack([vector_of(text) for text in texts]), 100)

    assert [rows[0][:2] for rows in found] == [(text, text) for text in texts]
    assert {len(rows) for rows in found} == {8}
    assert store.nearest_texts(name, np.empty((0, DIMENSIONS), np.float32), 100) == []


def test_near_an_emptied_collection_is_nothing(store: Store, name: str) -> None:
    store.upsert(name, [a_record()], MODEL)
    store.delete(name, [a_record().chunk_id])

    assert store.nearest_texts(name, vector_of("question")[None], 5) == [[]]


def test_what_somebody_else_wrote_does_not_stop_a_comparison(
    store: Store, name: str, chroma: chromadb.ClientAPI
) -> None:
    store.upsert(name, [a_record(doc_id="d1")], MODEL)
    chroma.get_collection(name).add(ids=["x", "y"], embeddings=[vector_of("x"), vector_of("y")], documents=["x", None])  # type: ignore[list-item]

    ((first, second, third),) = store.nearest_texts(name, vector_of("x")[None], 5)

    assert {first[:2], second[:2], third[:2]} == {("", "x"), ("", ""), ("d1", a_record().text)}


def test_near_a_collection_that_is_gone_names_the_server(store: Store, name: str, chroma: chromadb.ClientAPI) -> None:
    store.upsert(name, [a_record("kept in Parquet")], MODEL)
    chroma.delete_collection(name)

    with pytest.raises(StoreUnavailable, match=r"refused a request") as raised:
        store.nearest_texts(name, vector_of("kept in Parquet")[None], 5)
    assert "kept in Parquet" not in str(raised.value)


def test_nothing_answers_at_an_address_and_the_error_says_which() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    store = Store(url, "corpus")  # connects to nothing

    for operation in (store.open, store.names):
        with pytest.raises(StoreUnavailable, match=f"Chroma at {url} does not answer"):
            operation()


def test_a_store_connects_once_and_only_when_it_is_used(store: Store) -> None:
    calls: list[str] = []

    def connect() -> str:
        calls.append(store.url)
        return store.url

    lazy = Store(connect, "lazy")

    assert lazy.collection_name(TrustLevel.OPEN) == "lazy-open"
    assert calls == []
    lazy.open()
    assert lazy.names() == []
    assert lazy.url == store.url
    assert calls == [store.url]


def test_a_collection_that_was_dropped_and_made_again_is_found(
    store: Store, name: str, chroma: chromadb.ClientAPI
) -> None:
    record = a_record("kept in Parquet")
    store.upsert(name, [record], MODEL)
    chroma.delete_collection(name)

    with pytest.raises(StoreUnavailable, match=r"refused a request \(NotFoundError\)") as raised:
        store.upsert(name, [record], MODEL)

    assert "kept in Parquet" not in str(raised.value)
    store.upsert(name, [record], MODEL)
    assert store.count(name) == 1


def test_a_vector_of_another_length_is_refused_by_name(store: Store, name: str) -> None:
    store.upsert(name, [a_record()], MODEL)
    short = ChunkRecord("0" * 32, "short", np.eye(DIMENSIONS - 1, dtype=np.float32)[0], {"ordinal": 0})

    with pytest.raises(StoreUnavailable, match="refused a request"):
        store.upsert(name, [short], MODEL)


def _leaning(direction: np.ndarray, cosine: float, text: str) -> ChunkRecord:
    """A record whose vector has this cosine to `direction`."""
    other = vector_of(text)
    other = other - (other @ direction) * direction
    vector = cosine * direction + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)
    return replace(a_record(text), vector=np.asarray(vector / np.linalg.norm(vector), np.float32))
