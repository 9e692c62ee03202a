"""A corpus of two documents for the tests of forensics, and retrievals of them, without a store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, documents, publications, versions
from material import START

CORPUS = {"doc-a": ("wiki", "pumps.md", ("a1", "a2")), "doc-b": ("forum", "tips.md", ("b1",))}
"""Document → source, URI, ids of its chunks."""


def write_corpus(
    ledger: Ledger,
    corpus: dict[str, tuple[str, str, tuple[str, ...]]] | None = None,
    fetched_at: str = START.isoformat(),
) -> None:
    """Write served documents, one version each, taken in by run ``run-<document>``."""
    rows: dict[Any, list[dict[str, Any]]] = {documents: [], versions: [], chunks: [], publications: []}
    for doc_id, (source, uri, chunk_ids) in (CORPUS if corpus is None else corpus).items():
        version_id = f"v-{doc_id}"
        rows[documents].append(
            {
                "doc_id": doc_id,
                "source": source,
                "uri": uri,
                "trust": "open",
                "latest_version": version_id,
                "latest_content_sha256": doc_id,
                "latest_fetched_at": START,
                "target_version": version_id,
                "last_seen_at": START,
            }
        )
        rows[versions].append(
            {
                "version_id": version_id,
                "doc_id": doc_id,
                "content_sha256": doc_id,
                "text_sha256": doc_id,
                "stamp": {"owner": f"owner of {source}", "fetched_at": fetched_at},
                "batch": "",
                "state": "accepted",
                "verdict": "accept",
                "risk": 0.0,
                "policy_digest": "",
                "skipped": [],
                "run_id": f"run-{doc_id}",
                "judged_at": START,
                "principal": f"principal-{source}",
            }
        )
        for ordinal, chunk_id in enumerate(chunk_ids):
            place = {"chunk_id": chunk_id, "version_id": version_id}
            rows[chunks].append(
                {**place, "ordinal": ordinal, "span_start": 0, "span_end": 1, "tokens": 1, "text_sha256": chunk_id}
            )
            rows[publications].append(
                {
                    **place,
                    "collection": "corpus-open",
                    "doc_id": doc_id,
                    "state": "published",
                    "vectors": "",
                    "model": "",
                    "changed_at": START + timedelta(hours=1),
                    "run_id": f"run-{doc_id}",
                }
            )
    with ledger.write() as connection:
        for table, values in rows.items():
            connection.execute(table.insert(), values)
