"""Retrievers of application frameworks over the guarded retriever: LangChain and LlamaIndex.

Each needs its extra: ``corpus-guard[langchain]`` or ``corpus-guard[llamaindex]``.

Rules
    * what `GuardedRetriever` withholds or filters never reaches the framework;
    * an empty result of a store that was changed is an error, not "no documents": an application that gets none
      answers from its model alone, and nobody would notice. `require_untampered` raises it;
    * metadata say where a text comes from and how far it is trusted, for the prompt and for citations.
"""

from __future__ import annotations

from corpus_guard.corpus.retriever import Retrieval, RetrievalStatus, RetrievedChunk
from corpus_guard.errors import Inconsistent


def require_untampered(retrieval: Retrieval) -> None:
    """Raise where nothing could be served because the store was changed.

    Raises:
        Inconsistent: chunks are published, and the store holds none of them as it was published.
    """
    if retrieval.status in {RetrievalStatus.WITHHELD, RetrievalStatus.MISSING}:
        raise Inconsistent(
            f"retrieval: {retrieval.status.value}: {len(retrieval.withheld):,} records withheld, expected published ones; the "
            "store was changed, run `guard verify`"
        )


def describe(chunk: RetrievedChunk, retrieval: Retrieval) -> dict[str, str | float | int | bool | None]:
    """Return the metadata of a served chunk."""
    return {
        "source": chunk.source,
        "uri": chunk.uri,
        "title": chunk.title,
        "trust": chunk.trust.value,
        "doc_id": chunk.doc_id,
        "similarity": chunk.similarity,
        "enhancement": chunk.enhancement,
        "checked_by": retrieval.checked_by,
        "retrieval_id": retrieval.retrieval_id,
    }
