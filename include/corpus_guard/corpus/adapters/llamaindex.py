"""LlamaIndex retriever over the guarded corpus.

from corpus_guard import Deployment
from corpus_guard.corpus.adapters.llamaindex import GuardedLlamaIndexRetriever

with Deployment() as guard:
    retriever = GuardedLlamaIndexRetriever(guard.retriever, k=4)
    nodes = retriever.retrieve("How often is the pump serviced?")
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from corpus_guard.corpus.adapters import describe, require_untampered
from corpus_guard.corpus.retriever import GuardedRetriever
from corpus_guard.domain import TrustLevel


class GuardedLlamaIndexRetriever(BaseRetriever):  # type: ignore[misc] # no types here: the extra is not installed
    """Retriever that serves what the ledger vouches for, as LlamaIndex's nodes."""

    def __init__(
        self,
        guard: GuardedRetriever,
        k: int = 5,
        trust: Sequence[TrustLevel] = tuple(TrustLevel),
        session: str = "",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """
        Args:
            guard: `Deployment.retriever`.
            k: number of nodes at most.
            trust: levels to search.
            session: name of the conversation, for the retrieval log.
            callback_manager: of LlamaIndex.
        """
        super().__init__(callback_manager=callback_manager)
        self._guard, self._k, self._trust, self._session = guard, k, tuple(trust), session

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieval = self._guard.query(query_bundle.query_str, self._k, self._trust, session=self._session)
        require_untampered(retrieval)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=chunk.chunk_id,
                    text=chunk.text,
                    metadata=describe(chunk, retrieval),
                    # A model is shown where a text comes from and how far it is trusted, not our numbers.
                    excluded_llm_metadata_keys=["doc_id", "similarity", "enhancement", "checked_by", "retrieval_id"],
                ),
                score=chunk.similarity,
            )
            for chunk in retrieval.answers
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
