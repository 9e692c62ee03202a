"""Making lost batches again: texts from the raw bytes, vectors from the texts.

Rules
    * only a file that is missing or unreadable is made again. One that can be read and holds something else was edited: nothing
      of it is used, and a person looks at it (`guard verify --deep` names it);
    * a text comes from the stored bytes through today's parser and must have the hash that was judged; chunks are cut where the
      ledger says, and must have their hashes; stamps and the parser's findings are the ledger's;
    * where the parser reads another text today, or the bytes are gone, nothing is written: what was judged cannot be published.
      `corpus_guard.pipeline.reparsing` judges the other text;
    * content that was purged stays away, and a file that was removed on purpose is not made again;
    * the event ``rebuilt`` says what was damaged, and the new hash is logged, before the file is written;
    * vectors are computed by the embedder that made them, or not at all.

What has no hash in the ledger, and is as today's parser reads it: hidden text.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import find_removal, log_files
from corpus_guard.batches.reading import read_checked_versions
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import SERVED_COLUMNS, embedder_of, versions_to_table
from corpus_guard.corpus import trigger
from corpus_guard.corpus.vectors import compute_vectors, vectors_name
from corpus_guard.domain import EMPTY_TEXT_SHA256, Chunk, Finding, Stamp, Version, sha256_bytes, sha256_text
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources.row_documents import ROW_PROBLEMS
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.queries import Row, finding_from_row
from corpus_guard.ledger.states import PublicationState, ReviewAction
from corpus_guard.ledger.tables import chunks, decision_stands, decisions, documents, findings, publications, versions
from corpus_guard.models import Models
from corpus_guard.screening.blocked import find_purged
from corpus_guard.screening.survey.signals import measure_signals, signals_to_table
from corpus_guard.settings import Settings

log = logging.getLogger(__name__)

VERSIONS, SIGNALS = "versions.parquet", "signals.parquet"
REBUILT_EVENT = "rebuilt"
PROBLEM_CHECKS = ("parsing", "intake")  # with `ROW_PROBLEMS`: findings that the batch holds, and no check makes again


class CannotRebuild(Inconsistent):
    """A lost batch cannot be made again as it was judged; the message says why and what to do."""


def rebuild_lost_batches(
    ledger: Ledger,
    storage: Storage,
    blobs: BlobStore,
    models: Models,
    settings: Settings,
    run_id: str,
    names: Iterable[str],
) -> list[str]:
    """Make again those of some batches that are missing or unreadable; call it before a run reads them.

    Args:
        names: of Parquet files; those of versions before those of their vectors and signals (`batches_of_outbox`, …).

    Returns:
        The names of the files that were made again.

    Raises:
        CannotRebuild: a lost file cannot be made again.
        BatchDamaged: the texts for vectors or signals lie in a file that was edited.
    """
    rebuilt = []
    for name in names:
        if not storage.has_table(name):
            rebuild(ledger, storage, blobs, models, settings, run_id, name)
            rebuilt.append(name)
    return rebuilt


def batches_of_outbox(ledger: Ledger) -> list[str]:
    """Return the files that hold the texts and vectors of chunks that wait to be published."""
    waiting = sa.select(versions.c.batch, publications.c.vectors).distinct()
    waiting = waiting.join(versions, versions.c.version_id == publications.c.version_id)
    rows = ledger.rows(waiting.where(publications.c.state == PublicationState.PENDING))
    return [*sorted({row.batch for row in rows}), *sorted({row.vectors for row in rows})]


def batches_of_decisions(ledger: Ledger) -> list[str]:
    """Return the files that hold the texts of versions whose release waits to take effect."""
    statement = (
        sa.select(versions.c.batch)
        .distinct()
        .join(decisions, decisions.c.version_id == versions.c.version_id)
        .where(decisions.c.applied_at.is_(None), decisions.c.verdict == ReviewAction.RELEASE, decision_stands())
    )
    return sorted(ledger.scalars(statement))


def batches_of_documents(ledger: Ledger, sources: Sequence[str] = ()) -> list[str]:
    """Return the files that hold the texts and measures of what is newest or served of each document.

    Args:
        sources: names; empty: all.
    """
    statement = (
        sa.select(versions.c.batch)
        .distinct()
        .join(documents, versions.c.version_id.in_((documents.c.latest_version, documents.c.target_version)))
        .where(documents.c.retired_at.is_(None))
    )
    if sources:
        statement = statement.where(documents.c.source.in_(sources))
    names = sorted(ledger.scalars(statement))
    return [*names, *(f"{name.rpartition('/')[0]}/{SIGNALS}" for name in names)]


def rebuild(
    ledger: Ledger, storage: Storage, blobs: BlobStore, models: Models, settings: Settings, run_id: str, name: str
) -> None:
    """Make a Parquet file of versions, measures or vectors again, in the place of what is left of it.

    Raises:
        CannotRebuild: it would not be what was judged; nothing was written.
    """
    with ledger.read() as connection:
        removal = find_removal(connection, name)
    if removal:
        raise CannotRebuild(
            f"{storage.location(name)} is not lost: it was {removal}, because nothing needed it any more, and the log "
            "says so. It is not made again in its place; a run that fetches its documents writes a new batch"
        )
    file = name.rpartition("/")[2]
    if file == VERSIONS:
        table = versions_to_table(_versions_again(ledger, storage, blobs, settings, name))
    elif file == SIGNALS:
        whole = read_checked_versions(ledger, storage, f"{name.rpartition('/')[0]}/{VERSIONS}")
        table = signals_to_table([measure_signals(version) for version in whole])
    elif file.startswith("vectors-"):
        texts, model = _texts_of_vectors(ledger, storage, models, name)
        table = compute_vectors(models, texts)
        if (actual := embedder_of(table)) != model:
            raise CannotRebuild(
                f"{storage.location(name)} is lost and was computed by the embedder {model}; the one in use is {actual}. "
                "Restore the file from a copy, or set the embedder that made it"
            )
    else:
        raise CannotRebuild(f"{storage.location(name)} is lost and cannot be made again; restore it from a copy")
    content = parquet_bytes(table)
    lost = storage.sha256(name) if storage.exists(name) else ""
    with ledger.write() as connection:
        append_event(connection, REBUILT_EVENT, name, run_id, lost=lost, rows=table.num_rows)
        log_files(connection, run_id, {name: sha256_bytes(content)})
    storage.write(name, content)
    log.warning("%s was made again: %d rows", storage.location(name), table.num_rows)


def _versions_again(
    ledger: Ledger, storage: Storage, blobs: BlobStore, settings: Settings, name: str
) -> Sequence[Version]:
    """Return the versions of a batch as they were judged, without those that were purged."""
    from corpus_guard.intake.parsing import ParsingSandbox

    rows = ledger.rows(sa.select(versions).where(versions.c.batch == name))
    if not rows:
        raise CannotRebuild(
            f"{storage.location(name)} is lost, and no document is recorded in it; run the refresh again, which makes it anew"
        )
    purged = find_purged(ledger, (sha256 for row in rows for sha256 in (row.content_sha256, row.text_sha256)))
    again = []
    with ParsingSandbox(settings) as sandbox:
        for row in sorted(
            rows, key=lambda row: (row.stamp["fetched_at"], row.version_id)
        ):  # the order of the lost file
            if {row.content_sha256, row.text_sha256} & purged:
                continue
            stamp = Stamp.from_dict(row.stamp)
            text = hidden = ""
            if row.text_sha256 != EMPTY_TEXT_SHA256:
                try:
                    content = blobs.get(row.content_sha256)
                except Inconsistent as error:
                    raise CannotRebuild(
                        f"{storage.location(name)} is lost and cannot be made again: {error}"
                    ) from error
                parsed = sandbox.parse(content, stamp.media_type, stamp.uri)
                text, hidden = parsed.text, parsed.hidden
            if sha256_text(text) != row.text_sha256:
                raise CannotRebuild(
                    f"{storage.location(name)} is lost and cannot be made again: from the stored bytes of version "
                    f"{row.version_id} of document {row.doc_id} this release reads a text with the hash "
                    f"sha256:{sha256_text(text)}, judged was sha256:{row.text_sha256}. Another text must be judged before it "
                    f"is published, so nothing was. Run `guard reparse`: it reads the stored bytes again and judges what they "
                    f"give. Or restore the file from a copy, or install the release that fetched it ({stamp.fetched_by})"
                )
            cut, problems = _recorded_parts(ledger, row, text)
            again.append(Version(row.doc_id, row.version_id, stamp, text, hidden, cut, problems))
    return again


def _recorded_parts(ledger: Ledger, row: Row, text: str) -> tuple[tuple[Chunk, ...], tuple[Finding, ...]]:
    """Return the chunks of a version where the ledger cut them, and its problems."""
    of_version = sa.select(chunks).where(chunks.c.version_id == row.version_id).order_by(chunks.c.ordinal)
    reported = sa.select(findings).where(
        findings.c.version_id == row.version_id,
        sa.or_(findings.c.check_name.in_(PROBLEM_CHECKS), findings.c.code.in_(ROW_PROBLEMS)),
    )
    with ledger.read() as connection:
        rows = connection.execute(of_version).all()
        problems = tuple(
            replace(finding_from_row(problem), muted=False)  # judging mutes it again
            for problem in connection.execute(reported.order_by(findings.c.ordinal))
        )
    cut = _cut_again(rows, text)
    if cut is None:
        raise CannotRebuild(
            f"{row.batch} is lost and cannot be made again: version {row.version_id} of document {row.doc_id} was cut into other "
            "chunks since. Restore the file from a copy, or run `guard reparse`, which judges it again"
        )
    return cut, problems


def _cut_again(rows: Sequence[Row], text: str) -> tuple[Chunk, ...] | None:
    """Return those of a version's recorded chunks, ordered by their ordinal, that together are the whole text; None if none are.

    Chunks of a text that another parser read in the same bytes, or that another chunker cut, stay in the ledger beside them.
    """
    before: dict[tuple[int, int], tuple[Row, tuple[int, int]]] = {}  # (ordinal, end) → chunk, (ordinal, end) before it
    reached: dict[int, list[int]] = {-1: [0]}  # ordinal → ends of the chunks that can be reached
    for row in rows:
        if sha256_text(text[row.span_start : row.span_end]) != row.text_sha256:
            continue
        for end in reached.get(row.ordinal - 1, ()):
            key = (row.ordinal, row.span_end)
            if end <= row.span_start and not text[end : row.span_start].strip() and key not in before:
                before[key] = (row, (row.ordinal - 1, end))
                reached.setdefault(row.ordinal, []).append(row.span_end)
    whole = [key for key in ((-1, 0), *before) if not text[key[1] :].strip()]
    if not whole:
        return None
    cut: list[Chunk] = []
    key = whole[-1]
    while key[0] >= 0:
        row, key = before[key]
        span = text[row.span_start : row.span_end]
        cut.append(Chunk(row.chunk_id, row.ordinal, row.span_start, row.span_end, span, row.tokens))
    return tuple(reversed(cut))


def _texts_of_vectors(ledger: Ledger, storage: Storage, models: Models, name: str) -> tuple[list[tuple[str, str]], str]:
    """Return (chunk id, text) of the chunks whose vectors a file holds, and the embedder that made them."""
    statement = (
        sa.select(publications.c.chunk_id, publications.c.version_id, publications.c.model, versions.c.batch)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.vectors == name)
    )
    rows = ledger.rows(statement)
    wanted = {row.chunk_id for row in rows}
    texts: list[tuple[str, str]] = []
    for batch in sorted({row.batch for row in rows}):
        for version in read_checked_versions(ledger, storage, batch, columns=SERVED_COLUMNS):
            if version.stamp.source == trigger.SOURCE:
                raise CannotRebuild(
                    f"{storage.location(name)} is lost; it holds the vector of an enhancement's question, which is not made again "
                    "here. Restore it from a copy, or withdraw the enhancement and make a new one"
                )
            texts += [(chunk.chunk_id, chunk.text) for chunk in version.chunks]
    missing = wanted - {chunk_id for chunk_id, _ in texts}
    if vectors_name(models, name.rpartition("/")[0], texts) != name:  # made for a release: not all of the batch
        texts = [(chunk_id, text) for chunk_id, text in texts if chunk_id in wanted]
    if not wanted or missing:
        raise CannotRebuild(
            f"{storage.location(name)} is lost, and {len(missing):,} of the {len(wanted):,} chunks that the ledger "
            "keeps in it have no text any more; restore it from a copy"
        )
    return texts, rows[0].model
