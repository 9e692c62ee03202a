"""LangChain retriever over the guarded corpus.

from corpus_guard import Deployment
from corpus_guard.corpus.adapters.langchain import GuardedLangChainRetriever

with Deployment() as guard:
    retriever = GuardedLangChainRetriever(guard=guard.retriever, k=4)
    documents = retriever.invoke("How often is the pump serviced?")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from corpus_guard.corpus.adapters import describe, require_untampered
from corpus_guard.domain import TrustLevel


class GuardedLangChainRetriever(BaseRetriever):  # type: ignore[misc] # no types here: the extra is not installed
    """Retriever that serves what the ledger vouches for, as LangChain's documents."""

    guard: Any
    """A `corpus_guard.GuardedRetriever`."""
    k: int = 5
    """Number of documents at most; `invoke(question, k=3)` asks for another one."""
    trust: Sequence[TrustLevel] = tuple(TrustLevel)
    """Trust levels to search."""
    session: str = ""
    """Name of the conversation, for the retrieval log."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # LangChain passes it by this name
        k: int | None = None,
        session: str | None = None,
    ) -> list[Document]:
        retrieval = self.guard.query(
            query, self.k if k is None else k, self.trust, session=self.session if session is None else session
        )
        require_untampered(retrieval)
        return [
            Document(id=chunk.chunk_id, page_content=chunk.text, metadata=describe(chunk, retrieval))
            for chunk in retrieval.answers
        ]
