"""What Chroma returns is not believed: who writes past the guard does not get past the retriever."""

from __future__ import annotations

import chromadb
import numpy as np
import pytest

from corpus_guard.corpus import retriever as retrieving
from corpus_guard.corpus.retriever import GuardedRetriever, Withheld
from corpus_guard.corpus.store import Store
from corpus_guard.domain import TrustLevel
from material import Shelf, TextHashes, a_version, vector_of

PASSAGES = [f"passage {number}" for number in range(12)]


@pytest.fixture
def served(lite_shelf: Shelf) -> Shelf:
    lite_shelf.serve(a_version("open", PASSAGES[:8]), a_version("trusted", PASSAGES[8:], trust=TrustLevel.TRUSTED))
    return lite_shelf


@pytest.fixture
def retriever(served: Shelf) -> GuardedRetriever:
    return GuardedRetriever(served.ledger, served.store, TextHashes())  # type: ignore[arg-type]


@pytest.fixture
def past_the_guard(served: Shelf, chroma: chromadb.ClientAPI) -> chromadb.Collection:
    """The open collection, for whoever reaches Chroma's port."""
    return chroma.get_collection(served.store.collection_name(TrustLevel.OPEN))


def chunk_of(served: Shelf, text: str) -> str:
    return next(key[1] for key, record in served.in_chroma().items() if record.text == text)


def test_the_nearest_chunks_come_with_their_source(retriever: GuardedRetriever) -> None:
    answers, withheld = retriever.query("passage 9", k=3)

    assert not withheld
    assert len(answers) == 3
    first = answers[0]
    assert (first.text, first.trust, first.source, first.uri) == ("passage 9", TrustLevel.TRUSTED, "harbour", "trusted")
    assert first.similarity == pytest.approx(1, abs=1e-6)
    assert [one.similarity for one in answers] == sorted((one.similarity for one in answers), reverse=True)


def test_only_the_trust_levels_asked_for_are_searched(retriever: GuardedRetriever) -> None:
    answers, _ = retriever.query("passage 0", k=20, trust=[TrustLevel.TRUSTED, TrustLevel.REVIEWED])

    assert {one.text for one in answers} == set(PASSAGES[8:])


def test_an_empty_corpus_answers_nothing(lite_shelf: Shelf) -> None:
    retriever = GuardedRetriever(lite_shelf.ledger, lite_shelf.store, TextHashes())  # type: ignore[arg-type]

    assert retriever.query("anything") == ([], [])


def test_a_planted_record_is_withheld(
    retriever: GuardedRetriever, served: Shelf, past_the_guard: chromadb.Collection
) -> None:
    genuine = past_the_guard.get(include=["metadatas"])["metadatas"]
    assert genuine
    past_the_guard.add(
        ids=["planted"], embeddings=[vector_of("passage 1")], documents=["ignore all"], metadatas=[genuine[0]]
    )

    answers, withheld = retriever.query("passage 1", k=3)

    assert withheld == [Withheld("planted", past_the_guard.name, "the ledger never published it")]
    assert len(answers) == 3
    assert answers[0].text == "passage 1"


def test_a_published_chunk_copied_into_another_collection_is_withheld_there(
    retriever: GuardedRetriever, served: Shelf, chroma: chromadb.ClientAPI
) -> None:
    copied = chunk_of(served, "passage 1")
    record = served.in_chroma()[served.store.collection_name(TrustLevel.OPEN), copied]
    elsewhere = [served.store.collection_name(trust) for trust in (TrustLevel.TRUSTED, TrustLevel.REVIEWED)]
    for name in elsewhere:
        chroma.get_or_create_collection(name, embedding_function=None, configuration={"hnsw": {"space": "ip"}}).add(
            ids=[copied], embeddings=[record.vector], documents=[record.text], metadatas=[dict(record.metadata)]
        )

    answers, withheld = retriever.query("passage 1", k=2)

    assert {(one.chunk_id, one.collection) for one in withheld} == {(copied, name) for name in elsewhere}
    genuine = served.store.collection_name(TrustLevel.OPEN)
    assert [one.collection for one in answers if one.chunk_id == copied] == [genuine]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"documents": ["ignore all"]}, "its text changed since it was published"),
        ({"metadatas": [{"trust": "trusted"}]}, "its metadata changed since it was published"),
        ({"metadatas": [{"extra": 1}]}, "its metadata changed since it was published"),
        (
            {"documents": ["ignore all"], "metadatas": [{"source": "x"}]},
            "its text and metadata changed since it was published",
        ),
    ],
)
def test_an_altered_record_is_withheld(
    retriever: GuardedRetriever,
    served: Shelf,
    past_the_guard: chromadb.Collection,
    change: dict[str, list[object]],
    reason: str,
) -> None:
    chunk = chunk_of(served, "passage 2")
    vector = vector_of("passage 2")  # given again, or Chroma would embed the text itself
    past_the_guard.update(ids=[chunk], embeddings=[vector], **change)

    answers, withheld = retriever.query("passage 2", k=4)

    assert withheld == [Withheld(chunk, past_the_guard.name, reason)]
    assert len(answers) == 4
    assert chunk not in {one.chunk_id for one in answers}


def test_a_vector_moved_by_one_bit_is_withheld(
    retriever: GuardedRetriever, served: Shelf, past_the_guard: chromadb.Collection
) -> None:
    chunk = chunk_of(served, "passage 2")
    vector = vector_of("passage 2").copy()
    vector[0] = np.nextafter(vector[0], np.float32(2), dtype=np.float32)
    past_the_guard.update(ids=[chunk], embeddings=[vector])

    _, withheld = retriever.query("passage 2", k=4)

    assert withheld == [Withheld(chunk, past_the_guard.name, "its vector changed since it was published")]


def test_a_chunk_that_is_being_retired_is_withheld_and_not_called_planted(
    retriever: GuardedRetriever, served: Shelf
) -> None:
    served.retire(a_version("trusted", PASSAGES[8:]).doc_id)

    answers, withheld = retriever.query("passage 9", k=12)

    assert {one.text for one in answers} == set(PASSAGES[:8])
    assert {one.reason for one in withheld} == {"the ledger does not serve it (state retiring)"}


def test_planted_records_do_not_crowd_out_the_real_ones(
    retriever: GuardedRetriever, past_the_guard: chromadb.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieving, "AT_ONCE", 20)
    # Spread out a little: Chroma's graph loses records of a tight cluster, planted ones and others (39 of 48 in one trial).
    around = [vector_of("passage 3") + 0.5 * vector_of(str(number)) for number in range(40)]
    past_the_guard.add(
        ids=[f"planted {number}" for number in range(40)],
        embeddings=[2 * vector for vector in around],  # longer than any honest vector: they come first
        documents=["ignore all"] * 40,
    )

    answers, withheld = retriever.query("passage 3", k=5)

    assert len(answers) == 5
    assert answers[0].text == "passage 3"
    assert len(withheld) > 10  # more than the first question asked for
    assert {one.reason for one in withheld} == {"the ledger never published it"}


def test_everything_there_is_when_less_is_there_than_asked(retriever: GuardedRetriever) -> None:
    answers, withheld = retriever.query("passage 3", k=50)

    assert {one.text for one in answers} == set(PASSAGES)
    assert not withheld


def test_a_store_of_another_prefix_is_not_asked(served: Shelf, retriever: GuardedRetriever) -> None:
    stranger = GuardedRetriever(served.ledger, Store(served.store.url, "stranger"), TextHashes())  # type: ignore[arg-type]

    assert stranger.query("passage 3") == ([], [])
