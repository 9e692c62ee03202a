"""Stored bytes read again by today's parser, without fetching (`guard rescreen --reparse`).

Rules
    * the newest and the served version of every document that has not vanished is parsed again from its raw bytes;
    * one that gives the same text, hidden text, chunks and problems stays untouched. So does one whose raw bytes are missing or
      damaged: it is counted, and `guard verify --deep` names the file;
    * the others are written into a new batch, with their ids and stamps, and take the way of a new arrival: embedded, compared,
      judged by today's policy, published. So is one whose batch is lost;
    * a rejection stays in force. A release does not where the text is another one: nobody has seen it. It is undone, on record,
      and today's policy decides;
    * chunks of the former text are retired once those of the new one are served;
    * what the version was before stays in the log: event ``judged`` with the hash of its text. Its measures are replaced;
    * a dry run counts, and writes nothing. Killed or run twice, it converges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files, log_files
from corpus_guard.batches.reading import compare_batch
from corpus_guard.batches.table_cache import TableCache
from corpus_guard.batches.tables import in_batches, versions_to_table
from corpus_guard.corpus import outbox, trigger
from corpus_guard.corpus.store import Store
from corpus_guard.domain import EMPTY_TEXT_SHA256, Finding, Progress, Stamp, Version, chunk_id, digest, no_progress
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.parsing.media import ROW
from corpus_guard.intake.sources import Sources
from corpus_guard.intake.sources.row_documents import ROW_PROBLEMS
from corpus_guard.intake.stamps import join_problems
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, finding_from_row, select_in_batches
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import LIVE_STATES, PublicationState, RunKind
from corpus_guard.ledger.tables import bands, blocked, documents, findings, publications, signals, versions
from corpus_guard.models import Models
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.rebuild import SIGNALS, VERSIONS
from corpus_guard.pipeline.steps import Shard
from corpus_guard.proof.sealing import seal_run
from corpus_guard.review.undo import lapse_releases
from corpus_guard.screening.blocked import strip_blocked
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.survey.signals import measure_signals, signals_to_table
from corpus_guard.settings import Settings

FETCHING_CHECK = "intake"  # its findings come from fetching, which is not repeated


class ReparsingResult(TypedDict):
    """Outcome of reading stored bytes again."""

    run_id: str
    dry_run: bool
    examined: int  # versions
    changed: list[str]  # ids of the versions that read another text, or whose batch was lost
    unreadable: list[str]  # ids of the versions whose raw bytes are missing or damaged
    releases_undone: int  # decisions of people on a text that is now another one
    accepted: int
    quarantined: int
    rejected: int
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str  # "" in a dry run


@dataclass(frozen=True)
class _Reparsing:
    """Parsing of stored versions, with counts."""

    ledger: Ledger
    storage: Storage
    blobs: BlobStore
    chunker: Chunker
    settings: Settings
    result: ReparsingResult
    obsolete: list[str] = field(default_factory=list)  # ids of chunks that are live and belong to no text any more
    reworded: list[str] = field(default_factory=list)  # ids of versions with another text

    def changed(self, rows: Sequence[Row]) -> Iterator[Version]:
        """Yield the versions that differ from what is stored, as they read today.

        Args:
            rows: of `_current_versions`; those of one batch stand together.
        """
        from corpus_guard.intake.parsing import ParsingSandbox

        live, problems = self._live_chunks([row.version_id for row in rows]), self._fetching_problems(rows)
        with ParsingSandbox(self.settings) as sandbox:
            for batch, of_batch in groupby(rows, key=lambda row: row.batch):
                in_batch = list(of_batch)
                intact = self._intact_versions(batch, [row.version_id for row in in_batch])
                for row in in_batch:
                    self.result["examined"] += 1
                    parsed = self._parsed(row, sandbox, problems[row.version_id])
                    if parsed is None:
                        continue
                    stored = intact.get(row.version_id)
                    is_same = stored is not None and _content(parsed) == _content(stored)
                    version = stored if stored and is_same else _with_own_chunk_ids(parsed, self.chunker)
                    self.obsolete.extend(live[row.version_id] - {chunk.chunk_id for chunk in version.chunks})
                    if not is_same:
                        self.result["changed"].append(row.version_id)
                        if version.text_sha256 != row.text_sha256:
                            self.reworded.append(row.version_id)
                        yield version

    def _parsed(self, row: Row, sandbox: ParsingSandbox, problems: Sequence[Finding]) -> Version | None:
        """Return a version as it reads today; None if its raw bytes are missing or damaged."""
        try:
            content = self.blobs.get(row.content_sha256)
        except Inconsistent:
            # Bytes that were refused unread were never stored.
            if row.text_sha256 != EMPTY_TEXT_SHA256 or self.blobs.actual_sha256(row.content_sha256):
                self.result["unreadable"].append(row.version_id)
            return None
        stamp = Stamp.from_dict(row.stamp)
        parsed = sandbox.parse(content, stamp.media_type, stamp.uri)
        return Version(
            doc_id=row.doc_id,
            version_id=row.version_id,
            stamp=stamp,
            text=parsed.text,
            hidden=parsed.hidden,
            chunks=self.chunker.cut(row.doc_id, row.version_id, parsed.text),
            problems=join_problems(problems, parsed.problems),
        )

    def _intact_versions(self, batch: str, version_ids: Sequence[str]) -> Mapping[str, Version]:
        """Return the versions of a batch that are as they were judged, by id."""
        stored, defects = compare_batch(self.ledger, self.storage, batch, version_ids)
        damaged = {defect.version_id for defect in defects}
        if "" in damaged and len(version_ids) > 1:
            # A row that does not read as a version spoils the reading of all.
            alone = [self._intact_versions(batch, [version_id]) for version_id in version_ids]
            return {version_id: version for intact in alone for version_id, version in intact.items()}
        return {version.version_id: version for version in stored if version.version_id not in damaged}

    def _live_chunks(self, version_ids: Sequence[str]) -> Mapping[str, set[str]]:
        statement = sa.select(publications.c.version_id, publications.c.chunk_id).where(
            publications.c.state.in_(LIVE_STATES)
        )
        by_version: dict[str, set[str]] = defaultdict(set)
        with self.ledger.read() as connection:
            for row in select_in_batches(connection, statement, publications.c.version_id, version_ids):
                by_version[row.version_id].add(row.chunk_id)
        return by_version

    def _fetching_problems(self, rows: Sequence[Row]) -> Mapping[str, list[Finding]]:
        """Return what fetching found, by version: the stored bytes do not show it again."""
        of_rows = {row.version_id for row in rows if Stamp.from_dict(row.stamp).media_type == ROW}
        is_fetching = sa.or_(findings.c.check_name == FETCHING_CHECK, findings.c.code.in_(ROW_PROBLEMS))
        statement = sa.select(findings).where(is_fetching).order_by(findings.c.ordinal)
        by_version: dict[str, list[Finding]] = defaultdict(list)
        with self.ledger.read() as connection:
            version_ids = [row.version_id for row in rows]
            for row in select_in_batches(connection, statement, findings.c.version_id, version_ids):
                if row.check_name == FETCHING_CHECK or row.version_id in of_rows:
                    problem = replace(finding_from_row(row), muted=False)  # judging mutes it again
                    by_version[row.version_id].append(problem)
        return by_version


def reparse(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    blobs: BlobStore,
    models: Models,
    chunker: Chunker,
    sources: Sources,
    screening: Screening,
    settings: Settings,
    run_id: str,
    source_names: Sequence[str] = (),
    *,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> ReparsingResult:
    """Parse the raw bytes of what is newest or served again, and judge and publish what reads differently.

    Args:
        source_names: names; empty: all of the ledger.

    Raises:
        UnknownSubject: a name is not in sources.yaml.
    """
    rows = _current_versions(ledger, [sources.named(name).name for name in source_names])
    if not dry_run:
        begin_run(ledger, run_id, RunKind.RESCREEN, screening.digest, sorted({row.source for row in rows}))
    result = ReparsingResult(
        run_id=run_id,
        dry_run=dry_run,
        examined=0,
        changed=[],
        unreadable=[],
        releases_undone=0,
        accepted=0,
        quarantined=0,
        rejected=0,
        published=0,
        retired=0,
        manifest_sha256="",
    )
    reparsing = _Reparsing(ledger, TableCache(storage.url), blobs, chunker, settings, result)
    shards = []
    for source, of_source in groupby(rows, key=lambda row: row.source):
        for part in in_batches(of_source, settings.shard_documents):
            progress("parsing again", result["examined"], len(rows))
            changed = strip_blocked(ledger, list(reparsing.changed(part)))
            if changed and not dry_run:
                shard = _write_batch(ledger, storage, run_id, source, changed)
                shards.append(steps.embed(ledger, storage, models, run_id, shard))
    if not dry_run:
        result["releases_undone"] = len(lapse_releases(ledger, reparsing.reworded, policy_digest=screening.digest))
        _retire_chunks(ledger, run_id, reparsing.obsolete, PublicationState.PENDING)
    for shard in steps.survey(ledger, storage, store, models, screening, run_id, shards):
        progress("judging again", result["examined"], len(rows))
        screened = steps.screen(ledger, storage, screening, run_id, shard)
        _forget_measures(ledger, storage, shard)
        published = steps.publish(ledger, storage, store, run_id, screened)
        for name in ("accepted", "quarantined", "rejected", "published", "retired"):
            result[name] += published[name]
    if not dry_run:
        # What replaces them is served by now.
        _retire_chunks(ledger, run_id, reparsing.obsolete, PublicationState.PUBLISHED)
        _log_replaced_files(ledger, storage, run_id, rows)
        result["retired"] += outbox.drain(ledger, storage, store, run_id)[1]
        progress("sealing", len(rows), len(rows))
        counts = {name: len(value) if isinstance(value, list) else value for name, value in result.items()}
        sealing = seal_run(ledger, storage, store, settings, run_id, counts)
        result["manifest_sha256"] = sealing.manifest.sha256
    return result


def _current_versions(ledger: Ledger, sources: Sequence[str]) -> Sequence[Row]:
    """Return the newest and the served version of each document that has not vanished, by source and batch."""
    statement = (
        sa.select(
            *versions.c["version_id", "doc_id", "content_sha256", "text_sha256", "stamp", "batch"], documents.c.source
        )
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(
            documents.c.retired_at.is_(None),
            documents.c.source != trigger.SOURCE,  # an enhancement has no raw bytes
            versions.c.version_id.in_((documents.c.latest_version, documents.c.target_version)),
            versions.c.content_sha256.not_in(sa.select(blocked.c.sha256)),
        )
        .order_by(documents.c.source, versions.c.batch, versions.c.version_id)
    )
    if sources:
        statement = statement.where(documents.c.source.in_(sources))
    return ledger.rows(statement)


def _content(version: Version) -> tuple[object, ...]:
    spans = tuple((chunk.start, chunk.end) for chunk in version.chunks)
    return version.text, version.hidden, spans, tuple(sorted(problem.code for problem in version.problems))


def _with_own_chunk_ids(version: Version, chunker: Chunker) -> Version:
    """Return a version whose chunks have ids of this text alone: an equal passage lies elsewhere in the former one."""
    cut_by = f"{chunker.digest}/{version.text_sha256}"
    chunks = tuple(
        replace(chunk, chunk_id=chunk_id(version.doc_id, version.version_id, chunk.ordinal, chunk.text, cut_by))
        for chunk in version.chunks
    )
    return replace(version, chunks=chunks)


def _write_batch(ledger: Ledger, storage: Storage, run_id: str, source: str, changed: Sequence[Version]) -> Shard:
    parts = [part for version in changed for part in (version.version_id, version.text_sha256)]
    folder = f"batches/{digest('reparsed batch/v1', [run_id, source, *parts])[:32]}"
    names = [f"{folder}/{VERSIONS}", f"{folder}/{SIGNALS}"]
    tables = (versions_to_table(changed), signals_to_table([measure_signals(version) for version in changed]))
    for name, table in zip(names, tables, strict=True):
        storage.write_table(name, table)
    hashes = hash_files(storage, names)
    with ledger.write() as connection:
        log_files(connection, run_id, hashes)
    return Shard(source=source, batch=folder, hashes=hashes)


def _forget_measures(ledger: Ledger, storage: Storage, shard: Shard) -> None:
    """Delete the measures of the texts that these versions had; publishing records those of the new ones."""
    table = storage.read_table(f"{shard['batch']}/{VERSIONS}", columns=["version_id"])
    with ledger.write() as connection:
        for part in in_batches(table["version_id"].to_pylist()):
            connection.execute(signals.delete().where(signals.c.version_id.in_(part)))
            connection.execute(bands.delete().where(bands.c.version_id.in_(part)))


def _log_replaced_files(ledger: Ledger, storage: Storage, run_id: str, rows: Sequence[Row]) -> None:
    """Log that lost batches in which no version is recorded any more are gone for good: another batch replaces them."""
    before = {row.batch for row in rows}
    with ledger.write() as connection:
        still = set(connection.scalars(sa.select(versions.c.batch).where(versions.c.batch.in_(before)).distinct()))
        lost = [name for name in sorted(before - still) if not storage.exists(name)]
        log_files(connection, run_id, dict.fromkeys(lost))


def _retire_chunks(ledger: Ledger, run_id: str, chunk_ids: Sequence[str], state: PublicationState) -> None:
    with ledger.write() as connection:
        for part in in_batches(chunk_ids):
            connection.execute(
                publications.update()
                .where(publications.c.chunk_id.in_(part), publications.c.state == state)
                .values(state=PublicationState.RETIRING, changed_at=now(), run_id=run_id)
            )
