"""Contract of the LangChain adapter, with LangChain's own standard tests. `test_frameworks.py` runs it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

from corpus_guard.corpus.adapters.langchain import GuardedLangChainRetriever
from corpus_guard.corpus.retriever import GuardedRetriever
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent
from material import Shelf, TextHashes, a_version

GUARDS: list[GuardedRetriever] = []


@pytest.fixture(autouse=True)
def guard(lite_shelf: Shelf) -> GuardedRetriever:
    lite_shelf.serve(
        a_version("open", [f"passage {number}" for number in range(6)]),
        a_version("trusted", ["passage 6"], trust=TrustLevel.TRUSTED),
    )
    GUARDS[:] = [GuardedRetriever(lite_shelf.ledger, lite_shelf.store, TextHashes())]  # type: ignore[arg-type]
    return GUARDS[0]


class TestStandard(RetrieversIntegrationTests):  # type: ignore[misc]
    """LangChain's own tests."""

    @property
    def retriever_constructor(self) -> Any:
        return GuardedLangChainRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"guard": GUARDS[0]}

    @property
    def retriever_query_example(self) -> str:
        return "passage 3"


def test_a_document_says_where_it_comes_from_and_how_far_it_is_trusted(guard: GuardedRetriever) -> None:
    (document,) = GuardedLangChainRetriever(guard=guard, k=1).invoke("passage 6")

    assert (document.page_content, document.metadata["trust"], document.metadata["uri"]) == (
        "passage 6",
        "trusted",
        "trusted",
    )
    assert document.id and document.metadata["checked_by"] == "off"
    only_open = GuardedLangChainRetriever(guard=guard, k=9, trust=[TrustLevel.OPEN]).invoke("passage 6")
    assert {document.metadata["trust"] for document in only_open} == {"open"}


def test_it_works_in_a_chain(guard: GuardedRetriever) -> None:
    from langchain_core.runnables import RunnableLambda

    chain = GuardedLangChainRetriever(guard=guard, k=2) | RunnableLambda(
        lambda found: [it.page_content for it in found]
    )
    assert chain.invoke("passage 3")[0] == "passage 3"


def test_a_store_that_was_emptied_is_an_error_and_not_no_documents(
    guard: GuardedRetriever, lite_shelf: Shelf, chroma: Any
) -> None:
    for name in lite_shelf.store.names():
        chroma.delete_collection(name)
    with pytest.raises(Inconsistent, match="the store was changed"):
        GuardedLangChainRetriever(guard=guard).invoke("passage 3")
