"""Retiring a source: its documents are no longer served, and nothing is erased or blocked.

Rules
    * only a source that is no longer declared is retired: the next refresh would serve a declared one again;
    * the way back is to declare it again and to refresh: its documents are fetched and judged as they are then;
    * what of it waits for review no longer waits, as with documents that vanished from their source.
"""

from __future__ import annotations

from typing import TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.store import Store
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.intake.sources.sources_file import read_declarations
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import RunKind
from corpus_guard.ledger.tables import documents
from corpus_guard.proof.sealing import seal_run
from corpus_guard.settings import Settings


class RetiredSource(TypedDict):
    """Result of `retire_source`."""

    run_id: str
    source: str
    documents: int  # retired now
    chunks: int  # removed from the collections
    manifest_sha256: str


def retirable_documents(ledger: Ledger, settings: Settings, source: str) -> list[Row]:
    """Return id, URI and served version (None: none is) of each living document of a source that is no longer declared.

    Raises:
        Misuse: the source is declared.
        UnknownSubject: the ledger knows no document of it.
    """
    if any(config.name == source for config in read_declarations(settings.sources_file)):
        raise Misuse(
            f"source {source} is declared in {settings.sources_file}, and the next refresh would serve its documents again; "
            "take it out of that file first"
        )
    of_source = documents.c.source == source
    living = sa.select(*documents.c["doc_id", "uri", "target_version"]).where(
        of_source, documents.c.retired_at.is_(None)
    )
    with ledger.read() as connection:
        if not connection.scalar(sa.select(sa.exists().where(of_source))):
            raise UnknownSubject(
                f"source {source} is not in the ledger; `guard source list` and `guard status` name them"
            )
        return list(connection.execute(living.order_by(documents.c.uri)))


def retire_source(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    run_id: str,
    source: str,
    *,
    policy_digest: str,
    by: str,
    reason: str,
) -> RetiredSource:
    """Stop serving a source that is no longer declared, and seal. Killed anywhere, the same call completes the work.

    Args:
        ledger: records what is retired.
        storage: holds the manifests.
        store: the collections.
        settings: name the file of the declared sources, and the keys.
        run_id: identity of this run.
        source: name of the source.
        policy_digest: of the policy in force.
        by: who decided it.
        reason: why; kept for good.

    Raises:
        Misuse: no person or no reason is named, or the source is declared.
        UnknownSubject: the ledger knows no document of it.
        StoreUnavailable: the vector store does not answer; the ledger holds the decision, and running again does the
            rest.
    """
    by, reason = by.strip(), reason.strip()
    if not by or not reason:
        raise Misuse('retiring a source needs a person and a reason; give --reason "..."')
    doc_ids = [row.doc_id for row in retirable_documents(ledger, settings, source)]
    begin_run(ledger, run_id, RunKind.WITHDRAWAL, policy_digest, [source])
    with ledger.write() as connection:
        publishing.retire(connection, run_id, doc_ids, f"its source is no longer declared; {by}: {reason}")
    _, chunks = outbox.drain(ledger, storage, store, run_id)
    manifest = seal_run(
        ledger, storage, store, settings, run_id, {"documents": len(doc_ids), "retired": chunks}
    ).manifest
    return RetiredSource(
        run_id=run_id, source=source, documents=len(doc_ids), chunks=chunks, manifest_sha256=manifest.sha256
    )
