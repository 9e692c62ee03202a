"""What intake does with a shard: which bytes are new, and the batch of versions made of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches.tables import split, versions_to_table
from corpus_guard.domain import Finding, Severity, Version, digest, doc_id, sha256_bytes, version_id
from corpus_guard.errors import Inconsistent
from corpus_guard.guard import Guard
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Outcome, Source, Unchanged
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, validators
from corpus_guard.screening.blocked import BLOCKED, MESSAGE, blocked, purged, without_blocked

log = logging.getLogger(__name__)

GONE = "intake.gone"


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


def answers(source: Source, items: Sequence[Item]) -> Iterator[Outcome]:
    """What a source answers, held to its contract: connectors may be anybody's code.

    Raises:
        Inconsistent: it gave another number of outcomes than it was asked for, or in another order.
    """
    outcomes = source.fetch(items) if items else iter(())
    asked = iter(items)
    for outcome in outcomes:
        item = next(asked, None)
        if item is None or outcome.item.uri != item.uri:
            raise Inconsistent(
                f"source {source.name}: fetch gave the outcome of another document than was asked for, or one too many; "
                "it must give one outcome for each item, in their order"
            )
        if isinstance(outcome, Unchanged) and item.known is None:
            yield FetchFailed(
                item,
                "intake.unreadable",
                'the source says "unchanged" of a document of which it knows no earlier bytes',
            )
        else:
            yield outcome
    if missing := sum(1 for _ in asked):
        raise Inconsistent(
            f"source {source.name}: fetch ended {missing} outcomes early; it must give one for each item, a FetchFailed "
            "where the bytes could not be taken"
        )


def arrive(
    guard: Guard, source: Source, outcome: Fetched | FetchFailed, known: Mapping[str, Any]
) -> tuple[str, Arrival | None]:
    """Keep the bytes of a changed document. Returns the content's hash, and the arrival: None where nothing changed."""
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
        return content, None
    if isinstance(outcome, Fetched) and blocked(guard.ledger, [content]):
        outcome = FetchFailed(item, BLOCKED, MESSAGE)
    if isinstance(outcome, Fetched):
        guard.blobs.put(outcome.content)
        outcome = replace(outcome, content=b"")
    if before is None:
        return content, Arrival(outcome, document, content, size, None, "")
    follows = f"{before.latest_version}@{before.latest_fetched_at.isoformat()}"
    return content, Arrival(outcome, document, content, size, before.latest_version, follows)


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
        validators.c.validator,
        validators.c.content_sha256.label("validated_sha256"),
        validators.c.read_at,
    )
    joined = documents.outerjoin(validators, validators.c.doc_id == documents.c.doc_id)
    found: dict[str, Any] = {}
    with guard.ledger.read() as connection:
        for part in split(ids, 500):
            rows = connection.execute(sa.select(*columns).select_from(joined).where(documents.c.doc_id.in_(part)))
            found.update({row.doc_id: row for row in rows})
    return found


def with_known(guard: Guard, source: Source, items: Sequence[Item], known: Mapping[str, Any]) -> list[Item]:
    """`items`, each with the validator that counts.

    One counts while the bytes it came with are the newest the ledger has of the document: a run that was killed between
    fetching and recording leaves a validator of bytes that nobody recorded, and those are asked for again. So is a document
    that is retired or changes its trust level, and one whose bytes were last read longer ago than `Settings.refetch_days`,
    less up to a quarter that its id decides: pages taken in on one day are not all read again on one.
    """
    when, days = now(), guard.settings.refetch_days
    found = []
    for item in items:
        before = known.get(doc_id(source.name, item.uri))
        counts = (
            before is not None
            and before.validator is not None
            and before.validated_sha256 == before.latest_content_sha256
            and before.trust == source.trust.value
            and before.retired_at is None
            and when - before.read_at < timedelta(days=days * (1 - int(before.doc_id[:2], 16) / 1024))
        )
        found.append(replace(item, known=before.validator if before is not None and counts else None))
    return found


def to_ask(items: Iterable[Item]) -> list[Item]:
    """Those of `with_known` whose listing does not say by itself that nothing changed."""
    return [item for item in items if item.known is None or item.validator != item.known]


def touch(
    guard: Guard,
    run_id: str,
    source: str,
    items: Sequence[Item],
    failures: Sequence[FetchFailed],
    read: Iterable[tuple[Item, str, str]],
) -> None:
    """Note that documents are still there, what their source says of their bytes, and which could not be fetched.

    Args:
        guard: the deployment.
        run_id: of the run that looked.
        source: its name.
        items: all that were listed.
        failures: those that could not be fetched. What is gone is not seen: it vanishes once its grace is over.
        read: item, validator and content hash of those whose bytes came.
    """
    when = now()
    gone = {failure.item.uri for failure in failures if failure.code == GONE}
    kept = [
        {"doc_id": doc_id(source, item.uri), "validator": validator, "content_sha256": content, "read_at": when}
        for item, validator, content in read
    ]
    with guard.ledger.write() as connection:
        guard.ledger.upsert(connection, validators, kept, ["validator", "content_sha256", "read_at"])
        for part in split((doc_id(source, item.uri) for item in items if item.uri not in gone), 500):
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
                revision=arrival.outcome.revision if isinstance(arrival.outcome, Fetched) else None,
            )
