"""Changes by a listing: documents with new bytes become a batch of versions, documents that vanished are retired."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import in_batches, versions_to_table
from corpus_guard.corpus import publishing
from corpus_guard.domain import Finding, Severity, Version, digest, doc_id, plural, sha256_bytes, version_id
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Outcome, Source, SourceItem, Unchanged
from corpus_guard.invisible import reveal_invisible
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, rows_by_id, upsert
from corpus_guard.ledger.tables import documents, runs, validators
from corpus_guard.proof.verify.rows import MAX_CLOCK_DIFFERENCE
from corpus_guard.screening.blocked import (
    BLOCKED,
    BLOCKED_MESSAGE,
    find_blocked,
    find_purged,
    is_withdrawn,
    strip_blocked,
)
from corpus_guard.screening.policy import Policy
from corpus_guard.settings import Settings

log = logging.getLogger(__name__)

GONE = "intake.gone"
FAILURES_NAMED = 10
"""Documents of a listing that the log names when they cannot be fetched; the rest is counted."""
URI_SHOWN = 200  # characters


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document whose bytes are new; the bytes themselves lie in the blob store."""

    outcome: Fetched | FetchFailed  # without content
    document: str
    content_sha256: str
    size: int
    parent_version: str | None
    follows: str  # latest version in the ledger, with its time
    follows_at: datetime | None = None  # that time

    @property
    def version(self) -> str:
        """The id of the version."""
        return version_id(self.document, self.content_sha256)

    def fetched_at(self, when: datetime) -> datetime:
        """Return `when`, or a moment after the version before this one where the clock was set back since.

        The newer of two versions is served: by the clock alone an accepted document would stay unpublished.
        """
        return when if self.follows_at is None else max(when, self.follows_at + timedelta(microseconds=1))


def checked_outcomes(source: Source, items: Sequence[SourceItem]) -> Iterator[Outcome]:
    """Fetch items from a source and check that it keeps its contract: connectors may be third-party code.

    Raises:
        Inconsistent: the source returned too few or too many outcomes, or in another order.
    """
    outcomes = source.fetch(items) if items else iter(())
    expected = iter(items)
    for outcome in outcomes:
        item = next(expected, None)
        if item is None or outcome.item.uri != item.uri:
            raise Inconsistent(
                f"source {source.name}: fetch returned an outcome for another document than requested, or one too many; "
                "it must return one outcome per item, in order"
            )
        if isinstance(outcome, Unchanged) and item.known_validator is None:
            yield FetchFailed(
                item, "intake.unreadable", 'the source reports "unchanged" for a document that was never fetched before'
            )
        else:
            yield outcome
    if missing := sum(1 for _ in expected):
        raise Inconsistent(
            f"source {source.name}: fetch ended {missing} outcomes early; it must return one per item, a FetchFailed "
            "where a document could not be fetched"
        )


def store_arrival(
    ledger: Ledger, blobs: BlobStore, source: Source, outcome: Fetched | FetchFailed, recorded: Mapping[str, Any]
) -> tuple[str, Arrival | None]:
    """Store the bytes of a changed document. Returns the content's hash, and the arrival (None if nothing changed)."""
    item = outcome.item
    document = doc_id(source.name, item.uri)
    if isinstance(outcome, FetchFailed):
        # No bytes to hash: size and time stand in, so that the same failure counts as unchanged next time.
        content = digest("unfetched/v1", [outcome.code, str(item.size), str(item.modified_at)])
        size = item.size or 0
    else:
        content, size = sha256_bytes(outcome.content), len(outcome.content)
    before = recorded.get(document)
    if (
        before is not None
        and before.latest_content_sha256 == content
        and before.trust == source.trust.value
        and before.retired_at is None
    ):
        return content, None
    if isinstance(outcome, Fetched) and find_blocked(ledger, [content]):
        if is_withdrawn(ledger, version_id(document, content)):
            return content, None  # its text is evidence, and what a restore brings back
        outcome = FetchFailed(item, BLOCKED, BLOCKED_MESSAGE)
    if isinstance(outcome, Fetched):
        blobs.put(outcome.content)
        outcome = replace(outcome, content=b"")
    if before is None:
        return content, Arrival(outcome, document, content, size, None, "")
    follows = f"{before.latest_version}@{before.latest_fetched_at.isoformat()}"
    follows_at = max(filter(None, (before.latest_fetched_at, before.retired_at)))
    return content, Arrival(outcome, document, content, size, before.latest_version, follows, follows_at)


def write_batch(
    ledger: Ledger,
    storage: Storage,
    blobs: BlobStore,
    chunker: Chunker,
    settings: Settings,
    run_id: str,
    source: Source,
    arrivals: Sequence[Arrival],
) -> str:
    """Parse, stamp, chunk and measure the arrivals. Returns the batch's folder in storage."""
    from corpus_guard.screening.survey.signals import measure_signals, signals_to_table

    folder = batch_folder(chunker, source, arrivals)
    names = [f"{folder}/versions.parquet", f"{folder}/signals.parquet"]  # the last is written last
    if not all(storage.exists(name) and storage.has_table(name) for name in reversed(names)):
        parsed = list(_parse(blobs, chunker, settings, run_id, source, arrivals))
        versions = strip_blocked(ledger, parsed)
        gone = find_purged(
            ledger, (sha for version in parsed for sha in (version.stamp.content_sha256, version.text_sha256))
        )
        for version in parsed:
            if {version.stamp.content_sha256, version.text_sha256} & gone:
                blobs.remove(version.stamp.content_sha256)
        signals = signals_to_table([measure_signals(version) for version in versions])
        for name, table in zip(names, (versions_to_table(versions), signals), strict=True):
            if storage.exists(name) and not storage.has_table(name):
                storage.write(name, parquet_bytes(table))
            else:
                storage.write_table(name, table)
    return folder


def batch_folder(chunker: Chunker, source: Source, arrivals: Sequence[Arrival]) -> str:
    """Return the folder in storage of the batch that is made from these arrivals."""
    from corpus_guard.intake.parsing import PARSER_VERSION

    made_from = [chunker.digest, PARSER_VERSION, source.name, source.owner, source.trust.value]
    # Bytes that return after others are new again: an older batch holds their older stamps.
    made_from += [part for arrival in arrivals for part in (arrival.version, arrival.follows)]
    return f"batches/{digest('batch/v1', made_from)[:32]}"


def recorded_documents(ledger: Ledger, ids: Sequence[str]) -> dict[str, Row]:
    """Return the ledger's rows of documents, by id."""
    columns = (
        *documents.c["doc_id", "latest_version", "latest_content_sha256", "latest_fetched_at", "trust", "retired_at"],
        validators.c.validator,
        validators.c.content_sha256.label("validated_sha256"),
        validators.c.read_at,
    )
    joined = documents.outerjoin(validators, validators.c.doc_id == documents.c.doc_id)
    with ledger.read() as connection:
        return rows_by_id(connection, sa.select(*columns).select_from(joined), ids)


def attach_validators(
    settings: Settings, source: Source, items: Sequence[SourceItem], recorded: Mapping[str, Any]
) -> list[SourceItem]:
    """Return `items`, each with its validator (ETag, blob hash, …) where that is still valid.

    A validator is valid while the bytes it came with are the newest in the ledger. It is dropped, and the document fetched again,
    after a run that was killed between fetching and recording, for a retired document, after a change of trust level, and
    `Settings.refetch_days` after the last fetch (up to a quarter earlier, depending on the id, so that pages fetched on one day
    are not all fetched again on one day).
    """
    when, days = now(), settings.refetch_days
    updated = []
    for item in items:
        before = recorded.get(doc_id(source.name, item.uri))
        is_current = (
            before is not None
            and before.validator is not None
            and before.validated_sha256 == before.latest_content_sha256
            and before.trust == source.trust.value
            and before.retired_at is None
            and when - before.read_at < timedelta(days=days * (1 - int(before.doc_id[:2], 16) / 1024))
        )
        validator = before.validator if before is not None and is_current else None
        updated.append(item if item.known_validator == validator else replace(item, known_validator=validator))
    return updated


def items_to_fetch(items: Iterable[SourceItem]) -> list[SourceItem]:
    """Return the items of `attach_validators` that their listing does not show to be unchanged."""
    return [item for item in items if item.known_validator is None or item.validator != item.known_validator]


def record_listing(
    ledger: Ledger,
    run_id: str,
    source: str,
    items: Sequence[SourceItem],
    failures: Sequence[FetchFailed],
    fetched: Iterable[tuple[SourceItem, str, str]],
) -> None:
    """Record which documents are still there, their validators, and which could not be fetched.

    Args:
        failures: items that could not be fetched. A document reported as gone vanishes after its grace period.
        fetched: (item, validator, content hash) of the fetched items.
    """
    when = now()
    gone = {failure.item.uri for failure in failures if failure.code == GONE}
    rows = [
        {"doc_id": doc_id(source, item.uri), "validator": validator, "content_sha256": content, "read_at": when}
        for item, validator, content in fetched
    ]
    with ledger.write() as connection:
        upsert(connection, validators, rows, ["validator", "content_sha256", "read_at"])
        for part in in_batches(doc_id(source, item.uri) for item in items if item.uri not in gone):
            listed = documents.c.doc_id.in_(part)
            connection.execute(documents.update().where(listed).values(last_seen_at=when))
            missed = sa.select(documents.c.doc_id).where(listed, documents.c.missing_since.is_not(None))
            if found_again := list(connection.scalars(missed)):
                connection.execute(
                    documents.update().where(documents.c.doc_id.in_(found_again)).values(missing_since=None)
                )
        _log_failures(source, failures)
        for failure in failures:
            append_event(
                connection,
                "fetch_failed",
                doc_id(source, failure.item.uri),
                run_id,
                source=source,
                uri=failure.item.uri,
                code=failure.code,
                message=failure.message,
            )


def _log_failures(source: str, failures: Sequence[FetchFailed]) -> None:
    for failure in failures[:FAILURES_NAMED]:
        uri = failure.item.uri
        name = reveal_invisible(uri if len(uri) <= URI_SHOWN else f"{uri[:URI_SHOWN]}…")
        log.warning(
            "source %s: %s could not be fetched (%s): %s", source, name, failure.code, reveal_invisible(failure.message)
        )
    if failures:
        log.warning(
            "source %s: %s could not be fetched; `guard log --kind fetch_failed` names all",
            source,
            plural(len(failures), "document"),
        )


def retire_vanished(ledger: Ledger, policy: Policy, run_id: str, listed: Sequence[str]) -> int:
    """Mark documents missing from their sources and retire those past their grace period. Returns the number retired."""
    grace = timedelta(hours=policy.retire.grace_hours)
    retired = 0
    with ledger.write() as connection:
        started = connection.scalar(sa.select(runs.c.started_at).where(runs.c.run_id == run_id))
        for source in listed:
            # Written while a clock was ahead: a document that vanished would stay served until then.
            is_ahead = sa.and_(documents.c.source == source, documents.c.last_seen_at > now() + MAX_CLOCK_DIFFERENCE)
            connection.execute(documents.update().where(is_ahead).values(last_seen_at=started))
            living = sa.and_(documents.c.source == source, documents.c.retired_at.is_(None))
            total = connection.scalar(sa.select(sa.func.count()).select_from(documents).where(living)) or 0
            rows = connection.execute(
                sa.select(documents.c.doc_id, documents.c.missing_since).where(
                    living, documents.c.last_seen_at < started
                )
            ).all()
            if not rows:
                continue
            if len(rows) > policy.retire.max_share * total:
                log.warning(
                    "source %s: %d of %d documents vanished at once, more than the policy allows (%.0f %%); none is retired. If this is "
                    "intended, raise retire.max_share in the policy for one run",
                    source, len(rows), total, 100 * policy.retire.max_share,
                )  # fmt: skip
                append_event(connection, "retirement_held", source, run_id, missing=len(rows), total=total)
                continue
            when = now()
            new = [row.doc_id for row in rows if row.missing_since is None]
            for part in in_batches(new):
                connection.execute(documents.update().where(documents.c.doc_id.in_(part)).values(missing_since=when))
            over = [row.doc_id for row in rows if when - (row.missing_since or when) >= grace]
            publishing.retire(connection, run_id, over, "vanished from its source")
            retired += len(over)
    return retired


def _parse(
    blobs: BlobStore, chunker: Chunker, settings: Settings, run_id: str, source: Source, arrivals: Sequence[Arrival]
) -> Iterator[Version]:
    from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
    from corpus_guard.intake.stamps import make_version

    fetched = [arrival for arrival in arrivals if isinstance(arrival.outcome, Fetched)]
    documents = (
        (arrival.document, blobs.get(arrival.content_sha256), arrival.outcome.media_type, arrival.outcome.item.uri)
        for arrival in fetched
        if isinstance(arrival.outcome, Fetched)
    )
    with ParsingSandbox(settings) as sandbox:
        parsed = sandbox.parse_many(documents)
        for arrival in arrivals:
            if isinstance(arrival.outcome, Fetched):
                key, outcome = next(parsed)
                if key != arrival.document:
                    raise Inconsistent(
                        f"the parser returned document {key}, expected {arrival.document}; please report this as a bug"
                    )
                problems = arrival.outcome.problems
            else:
                problem = Finding("parsing", arrival.outcome.code, Severity.CRITICAL, 1.0, arrival.outcome.message)
                outcome, problems = ParsedDocument("", problems=(problem,)), ()
            yield make_version(
                source=source,
                item=arrival.outcome.item,
                content_sha256=arrival.content_sha256,
                size=arrival.size,
                parsed=outcome,
                problems=problems,
                declared=arrival.outcome.declared if isinstance(arrival.outcome, Fetched) else {},
                run_id=run_id,
                fetched_at=arrival.fetched_at(now()),
                parent_version=arrival.parent_version,
                chunker=chunker,
                revision=arrival.outcome.revision if isinstance(arrival.outcome, Fetched) else None,
            )
