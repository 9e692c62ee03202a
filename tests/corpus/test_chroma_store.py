"""What only Chroma does."""

from __future__ import annotations

import chromadb

from corpus_guard.corpus.store import Store
from corpus_guard.domain import TrustLevel
from material import a_record, vector_of


def test_what_somebody_else_wrote_does_not_stop_a_comparison(store: Store, chroma: chromadb.ClientAPI) -> None:
    name = store.collection_name(TrustLevel.OPEN)
    store.upsert(name, [a_record(doc_id="d1")], "hashed-texts")
    chroma.get_collection(name).add(ids=["x", "y"], embeddings=[vector_of("x"), vector_of("y")], documents=["x", None])  # type: ignore[list-item]

    ((first, second, third),) = store.nearest_texts(name, vector_of("x")[None], 5)

    assert {first[:2], second[:2], third[:2]} == {("", "x"), ("", ""), ("d1", a_record().text)}
