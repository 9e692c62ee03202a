"""What intake does with a shard: which bytes are new, and the batch of versions made of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches.tables import split, versions_to_table
from corpus_guard.domain import Finding, Severity, Version, digest, doc_id, sha256_bytes, version_id
from corpus_guard.errors import Inconsistent
from corpus_guard.guard import Guard
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Source
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents
from corpus_guard.screening.blocked import BLOCKED, MESSAGE, blocked, purged, without_blocked

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document whose bytes are new; the bytes themselves lie in the blob store."""

    outcome: Fetched | FetchFailed  # without content
    document: str
    content_sha256: str
    size: int
    parent_version: str | None
    follows: str  # what the ledger knew of the document before

    @property
    def version(self) -> str:
        """Its id."""
        return version_id(self.document, self.content_sha256)


def arrive(guard: Guard, source: Source, outcome: Fetched | FetchFailed, known: Mapping[str, Any]) -> Arrival | None:
    """Keep the bytes of a changed document; None where nothing changed."""
    item = outcome.item
    document = doc_id(source.name, item.uri)
    if isinstance(outcome, FetchFailed):
        # No bytes to hash: what is known of them stands in, so that the same refusal is not news the next time.
        content = digest("unfetched/v1", [outcome.code, str(item.size), str(item.modified_at)])
        size = item.size or 0
    else:
        content, size = sha256_bytes(outcome.content), len(outcome.content)
    before = known.get(document)
    if (
        before is not None
        and before.latest_content_sha256 == content
        and before.trust == source.trust.value
        and before.retired_at is None
    ):
        return None
    if isinstance(outcome, Fetched) and blocked(guard.ledger, [content]):
        outcome = FetchFailed(item, BLOCKED, MESSAGE)
    if isinstance(outcome, Fetched):
        guard.blobs.put(outcome.content)
        outcome = Fetched(item, b"", outcome.media_type, outcome.declared, outcome.problems)
    if before is None:
        return Arrival(outcome, document, content, size, None, "")
    follows = f"{before.latest_version}@{before.latest_fetched_at.isoformat()}"
    return Arrival(outcome, document, content, size, before.latest_version, follows)


def batch_of(guard: Guard, run_id: str, source: Source, arrivals: Sequence[Arrival]) -> str:
    """Parse, stamp, cut and measure; returns the batch's folder in storage."""
    from corpus_guard.intake.parsing import PARSER_VERSION
    from corpus_guard.screening.signals import signals_of, to_table

    made_from = [guard.chunker.digest, PARSER_VERSION, source.name, source.owner, source.trust.value]
    # Bytes that come back after others are news again: an older batch holds their older stamps.
    made_from += [part for arrival in arrivals for part in (arrival.version, arrival.follows)]
    folder = f"batches/{digest('batch/v1', made_from)[:32]}"
    if not guard.storage.exists(f"{folder}/signals.parquet"):  # written last
        parsed = list(_parse(guard, run_id, source, arrivals))
        versions = without_blocked(guard.ledger, parsed)
        gone = purged(guard.ledger, (sha for one in parsed for sha in (one.stamp.content_sha256, one.text_sha256)))
        for version in parsed:
            if {version.stamp.content_sha256, version.text_sha256} & gone:
                guard.blobs.remove(version.stamp.content_sha256)
        guard.storage.write_table(f"{folder}/versions.parquet", versions_to_table(versions))
        guard.storage.write_table(f"{folder}/signals.parquet", to_table([signals_of(version) for version in versions]))
    return folder


def known_documents(guard: Guard, ids: Sequence[str]) -> dict[str, Any]:
    """What the ledger knows of documents, by id."""
    columns = (
        documents.c.doc_id,
        documents.c.latest_version,
        documents.c.latest_content_sha256,
        documents.c.latest_fetched_at,
        documents.c.trust,
        documents.c.retired_at,
    )
    found: dict[str, Any] = {}
    with guard.ledger.read() as connection:
        for part in split(ids, 500):
            rows = connection.execute(sa.select(*columns).where(documents.c.doc_id.in_(part)))
            found.update({row.doc_id: row for row in rows})
    return found


def touch(guard: Guard, run_id: str, source: str, items: Sequence[Item], failures: Sequence[FetchFailed]) -> None:
    """Note that documents are still there, and which of them could not be fetched."""
    when = now()
    with guard.ledger.write() as connection:
        for part in split((doc_id(source, item.uri) for item in items), 500):
            connection.execute(
                documents.update().where(documents.c.doc_id.in_(part)).values(last_seen_at=when, missing_since=None)
            )
        for failure in failures:
            log.warning("source %s: one document could not be fetched (%s): %s", source, failure.code, failure.message)
            guard.ledger.event(
                connection,
                "fetch_failed",
                doc_id(source, failure.item.uri),
                run_id,
                source=source,
                uri=failure.item.uri,
                code=failure.code,
                message=failure.message,
            )


def _parse(guard: Guard, run_id: str, source: Source, arrivals: Sequence[Arrival]) -> Iterator[Version]:
    from corpus_guard.intake.parsing import Parsed, ParsingSandbox
    from corpus_guard.intake.stamps import make_version

    fetched = [arrival for arrival in arrivals if isinstance(arrival.outcome, Fetched)]
    documents = (
        (
            arrival.document,
            guard.blobs.get(arrival.content_sha256),
            arrival.outcome.media_type,
            arrival.outcome.item.uri,
        )
        for arrival in fetched
        if isinstance(arrival.outcome, Fetched)
    )
    with ParsingSandbox(guard.settings) as sandbox:
        parsed = sandbox.parse_many(documents)
        for arrival in arrivals:
            if isinstance(arrival.outcome, Fetched):
                key, outcome = next(parsed)
                if key != arrival.document:
                    raise Inconsistent(f"parsing gave {key} where {arrival.document} was asked; report this")
                problems = arrival.outcome.problems
            else:
                problem = Finding("parsing", arrival.outcome.code, Severity.CRITICAL, 1.0, arrival.outcome.message)
                outcome, problems = Parsed("", problems=(problem,)), ()
            yield make_version(
                source=source,
                item=arrival.outcome.item,
                content_sha256=arrival.content_sha256,
                size=arrival.size,
                parsed=outcome,
                problems=problems,
                declared=arrival.outcome.declared if isinstance(arrival.outcome, Fetched) else {},
                run_id=run_id,
                fetched_at=now(),
                parent_version=arrival.parent_version,
                chunker=guard.chunker,
            )
