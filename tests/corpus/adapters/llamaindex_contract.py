"""Contract of the LlamaIndex adapter, with LlamaIndex's own classes. `test_frameworks.py` runs it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode

from corpus_guard.corpus.adapters.llamaindex import GuardedLlamaIndexRetriever
from corpus_guard.corpus.retriever import GuardedRetriever
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent
from material import Shelf, TextHashes, a_version


@pytest.fixture
def guard(lite_shelf: Shelf) -> GuardedRetriever:
    lite_shelf.serve(
        a_version("open", [f"passage {number}" for number in range(6)]),
        a_version("trusted", ["passage 6"], trust=TrustLevel.TRUSTED),
    )
    return GuardedRetriever(lite_shelf.ledger, lite_shelf.store, TextHashes())  # type: ignore[arg-type]


def test_nodes_are_the_served_chunks_nearest_first(guard: GuardedRetriever) -> None:
    retriever = GuardedLlamaIndexRetriever(guard, k=3)
    nodes = retriever.retrieve("passage 6")

    assert isinstance(retriever, BaseRetriever)
    assert [node.node.node_id for node in nodes] == [chunk.chunk_id for chunk in guard.query("passage 6", 3).answers]
    assert nodes[0].get_content() == "passage 6"
    assert [node.score for node in nodes] == sorted((node.score for node in nodes), reverse=True)
    assert "trust: trusted" in nodes[0].get_content(MetadataMode.LLM)
    assert "retrieval_id" not in nodes[0].get_content(MetadataMode.LLM)
    only_open = GuardedLlamaIndexRetriever(guard, k=9, trust=[TrustLevel.OPEN]).retrieve("passage 6")
    assert {node.metadata["trust"] for node in only_open} == {"open"}


def test_it_is_asked_asynchronously_too(guard: GuardedRetriever) -> None:
    (node,) = asyncio.run(GuardedLlamaIndexRetriever(guard, k=1).aretrieve("passage 2"))
    assert node.get_content() == "passage 2"


def test_it_works_in_a_query_engine(guard: GuardedRetriever) -> None:
    engine = RetrieverQueryEngine.from_args(GuardedLlamaIndexRetriever(guard, k=2), llm=MockLLM())
    answer = engine.query("passage 4")

    assert answer.source_nodes[0].get_content() == "passage 4"
    assert "passage 4" in str(answer)


def test_a_store_that_was_emptied_is_an_error_and_not_no_nodes(
    guard: GuardedRetriever, lite_shelf: Shelf, chroma: Any
) -> None:
    for name in lite_shelf.store.names():
        chroma.delete_collection(name)
    with pytest.raises(Inconsistent, match="the store was changed"):
        GuardedLlamaIndexRetriever(guard).retrieve("passage 3")
