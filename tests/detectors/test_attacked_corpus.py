"""Retrieval over a real Chroma must be what an exhaustive search gives, and nothing may be left behind."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from attacked_questions import QUESTIONS, a_row
from corpus_guard.corpus.server import is_answering
from corpus_guard.corpus.store import Store
from corpus_guard.detectors.attacked_corpus import (
    EXTRA_RESULTS,
    AttackedCorpus,
    TextVectors,
    fill_collection,
    temporary_store,
)
from corpus_guard.domain import sha256_text
from corpus_guard.settings import Settings

DIMENSIONS = 16


class Hashed:
    """Unit vectors that follow from the text's hash; counts what it is asked."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded += texts
        rows = [
            np.random.default_rng(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)).normal(size=DIMENSIONS)
            for text in texts
        ]
        array = np.array(rows, np.float32).reshape(-1, DIMENSIONS)
        return array / np.linalg.norm(array, axis=1, keepdims=True)


TEXTS = [text for number in range(6) for text in a_row(number)["clean_texts"] + a_row(number)["adversarial_texts"]]
QUERY = QUESTIONS[0][0]


@pytest.fixture
def embedder() -> Hashed:
    return Hashed()


@pytest.fixture
def corpus(store: Store, embedder: Hashed) -> AttackedCorpus:
    name = f"{store.prefix}-attacked"
    return fill_collection(store, name, [*TEXTS, TEXTS[0]], TextVectors(embedder), "hashed")


def nearest(count: int, without: set[str] | frozenset[str] = frozenset()) -> list[str]:
    vectors = Hashed()
    similarities = vectors.embed(TEXTS) @ vectors.embed([QUERY])[0]
    ids = [sha256_text(TEXTS[index]) for index in np.argsort(-similarities)]
    return [one for one in ids if one not in without][:count]


def test_it_finds_what_an_exhaustive_search_finds(corpus: AttackedCorpus) -> None:
    for k in (1, 5, EXTRA_RESULTS + 10):
        assert [one.chunk_id for one in corpus.retrieve(QUERY, k)] == nearest(k)


@pytest.mark.parametrize("aside", [1, 7, EXTRA_RESULTS + 15])
def test_what_is_set_aside_is_replaced_by_the_next(corpus: AttackedCorpus, aside: int) -> None:
    without = set(nearest(aside))

    assert [one.chunk_id for one in corpus.retrieve(QUERY, 5, without)] == nearest(5, without)
    assert [one.chunk_id for one in corpus.retrieve(QUERY, 5)] == nearest(5)


def test_a_corpus_that_runs_dry_gives_what_is_left(corpus: AttackedCorpus) -> None:
    assert len(corpus.retrieve(QUERY, 500)) == len(set(TEXTS))
    assert corpus.retrieve(QUERY, 5, {sha256_text(text) for text in TEXTS}) == []
    assert len(corpus.retrieve(QUERY, 5, {sha256_text(text) for text in TEXTS[2:]})) == 2


def test_a_suspect_is_the_stored_record(corpus: AttackedCorpus, store: Store) -> None:
    for one in corpus.retrieve(QUERY, 5):
        assert one.chunk_id == sha256_text(one.text) == one.text_sha256
        assert one.vector.tobytes() == Hashed().embed([one.text])[0].tobytes()
        assert one.similarity == pytest.approx(float(one.vector @ Hashed().embed([QUERY])[0]), abs=1e-5)
        assert one.version_id == ""


def test_every_text_and_question_is_embedded_once(corpus: AttackedCorpus, embedder: Hashed) -> None:
    corpus.retrieve(QUERY, 5)
    corpus.retrieve(QUESTIONS[1][0], 5)
    corpus.retrieve(QUERY, 50)

    assert sorted(embedder.embedded) == sorted({*TEXTS, QUERY, QUESTIONS[1][0]})


def test_nothing_planted_nothing_found(store: Store, embedder: Hashed) -> None:
    assert fill_collection(store, "none", [], TextVectors(embedder), "hashed").retrieve(QUERY, 5) == []


def test_the_store_is_gone_after_an_error_and_the_deployments_is_not_asked(
    tmp_path: Path, chroma_url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = httpx.get(f"{chroma_url}/api/v2/tenants/default_tenant/databases/default_database/collections").json()

    def fail() -> str:
        with temporary_store(Settings(home=tmp_path / "home", chroma_url=chroma_url)) as own:
            fill_collection(own, "attacked-1", TEXTS, TextVectors(Hashed()), "hashed")
            assert own.url != chroma_url
            assert list(tmp_path.glob("corpus-guard-traceback-*"))
            urls.append(own.url)
            raise RuntimeError

    urls: list[str] = []
    with pytest.raises(RuntimeError):
        fail()

    assert not is_answering(urls[0])
    assert list(tmp_path.iterdir()) == []
    after = httpx.get(f"{chroma_url}/api/v2/tenants/default_tenant/databases/default_database/collections").json()
    assert before == after
