"""Purges: content erased for good, and proved to be gone.

Rules
    * a purge covers a text or its bytes: every version of any document that has the same text or the same
      bytes goes along;
    * what unfinished runs have left of it goes, too (`corpus_guard.removal.unrecorded`); what a refresh at work has not
      recorded is left to it, and the refresh is named;
    * first the content is taken out of service and blocked by hash; its versions are rejected by an ordinary
      decision;
    * then its rows leave the Parquet batches, its raw bytes the blob store, and the store's files are rewritten
      without it;
    * the purge is *closed*, by an event in the log, only when a search of every file of the collections and
      the storage folder finds neither a text nor a vector of it; until then it is *removed*, and running the
      command again continues it;
    * content that a remaining document holds, too (boilerplate), may stay: it is named, not searched for;
    * if this machine cannot see the store's disk, nothing is claimed: the purge stays *removed*;
    * the ledger keeps hashes, who and why. It keeps no text, and the hashes of short pieces only until the
      purge is closed.

Not done: reaching backups, snapshots, replicas, older versions in an object store, or blocks that a file
system has freed and not yet reused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypedDict, cast

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.ownership import claim_storage
from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus import outbox
from corpus_guard.corpus.pgvector_store import PgvectorStore
from corpus_guard.corpus.query_bank import erase_questions
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import AlreadyAtWork, Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import select_in_batches, upsert
from corpus_guard.ledger.runs import at_work, begin_run, refreshes_at_work, without_new_intake
from corpus_guard.ledger.states import PurgeState, Purpose, RunKind
from corpus_guard.ledger.tables import (
    bands,
    chunks,
    purges,
    results,
    retrievals,
    retrieved_chunks,
    signals,
    suspects,
    traces,
    versions,
)
from corpus_guard.models.chat_cache import LedgerAnswerCache
from corpus_guard.proof.log.heads import require_sealable
from corpus_guard.proof.sealing import seal_run
from corpus_guard.removal import chroma_files, withdrawal
from corpus_guard.removal.postgres_files import find_postgres_files
from corpus_guard.removal.purge_plan import PurgePlan
from corpus_guard.removal.purge_targets import (
    PurgeTargets,
    collections_of,
    removal_targets,
    versions_with_equal_content,
)
from corpus_guard.removal.storage_files import StorageFiles, holds_trace
from corpus_guard.removal.store_files import SearchableFile, StoreFiles
from corpus_guard.removal.text_traces import TextTrace, TraceIndex
from corpus_guard.removal.unrecorded import UnrecordedContent, holders_in_ledger, unnamed_blobs
from corpus_guard.screening.runner import EVIDENCE_PREFIX, Screening, text_result_key
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.intake.blobs import BlobStore

MAX_SEARCHES: Final = 4  # each but the last may make the collections again, until no new index holds old memory
UNNAMED_ERASED_EVENT: Final = "unnamed_erased"
HASHES_PER_EVENT: Final = 500
ERASED_EXPLANATION: Final = "erased with the text it was about"


class PurgeResult(TypedDict):
    """Outcome of a purge."""

    purge_id: str
    run_id: str
    state: str  # closed; removed: this machine cannot see the store's disk
    documents: int
    versions: int
    chunks: int
    searched: int  # files
    shared: list[str]  # chunks whose text a remaining document holds, too
    untraced: list[str]  # chunks (or versions, for hidden text) too short, too plain, or purged before
    waits_for: list[str]  # refreshes at work: what they had not recorded was left to them
    manifest_sha256: str


class _Evidence(TypedDict, total=False):
    """Column `evidence` of the table `purges`."""

    traces: list[TextTrace]  # only until the purge is closed
    shared: list[str]
    untraced: list[str]
    unrecorded: dict[str, list[str]]  # an `UnrecordedContent`; {} if there was none
    waits_for: list[str]
    searched: int  # files
    found: int  # files that hold a trace: 0
    sought: int  # traces
    store: str  # folder of the store's files; "" where there is none


@dataclass(frozen=True)
class Purger:
    """Purges in one corpus. If the process is killed, the same call or `resume` continues."""

    ledger: Ledger
    storage: Storage
    blobs: BlobStore
    store: Store
    screening: Screening
    settings: Settings

    def purge(
        self, run_id: str, plan: PurgePlan, by: str, reason: str, progress: Progress = no_progress
    ) -> PurgeResult:
        """Remove what was planned, prove that it is gone, and seal.

        Args:
            reason: why; kept for good, so it must not quote what is purged.

        Raises:
            Misuse: no name or no reason is given, or the same content came in again since the plan was made.
            AlreadyAtWork: a refresh that began since may use what is to be erased; the purge stays open.
            Inconsistent: something is still there; the message names the file. Or the ledger does not continue what was signed, or
                the storage belongs to another deployment; then nothing was erased.
            StoreUnavailable: the store does not answer, or its files are locked.
        """
        if not by.strip() or not reason.strip():
            raise Misuse('a purge needs the name of the person who requests it, and a reason; give --reason "..."')
        self._require_own_corpus()
        with at_work(self.ledger, run_id):
            row = self._row(plan.purge_id)
            if row is None or (row.state == PurgeState.CLOSED and (plan.files or plan.blobs)):
                progress("looking for text that only this content holds", 0, 0)
                self._take_out_of_service(run_id, plan, by.strip(), reason.strip())
            return self._finish(run_id, plan.purge_id, progress, plan.waits_for)

    def resume(self, run_id: str, progress: Progress = no_progress) -> list[PurgeResult]:
        """Continue every purge that is not closed; raises what `purge` raises."""
        is_open = purges.c.state == PurgeState.REMOVED
        with self.ledger.read() as connection:
            ids = connection.scalars(sa.select(purges.c.purge_id).where(is_open).order_by(purges.c.requested_at))
            open_purges = list(ids)
        self._require_own_corpus()
        with at_work(self.ledger, run_id):
            return [self._finish(run_id, purge_id, progress) for purge_id in open_purges]

    def _require_own_corpus(self) -> None:
        """Check that what the ledger does not name is nobody's: an older ledger, or another deployment's, would erase it."""
        require_sealable(self.ledger, self.settings)
        claim_storage(self.ledger, self.storage)

    def _take_out_of_service(self, run_id: str, plan: PurgePlan, by: str, reason: str) -> None:
        """Write all changes of the ledger in one transaction: the content is not served, and cannot come back."""
        erase_questions(self.ledger, self.storage, plan.versions)
        search = self._files.take_traces(plan.targets)
        evidence = _Evidence(
            traces=sorted({*search.traces, *self._open_traces(plan)}),
            shared=list(search.shared),
            untraced=list(search.untraced),
            unrecorded={} if plan.unrecorded.is_empty else plan.unrecorded.as_dict(),
            waits_for=list(plan.waits_for),
        )
        row = {
            "purge_id": plan.purge_id,
            "state": PurgeState.REMOVED,
            "subject": plan.selectors.as_dict(),
            "versions": list(plan.versions),
            "requested_by": by,
            "reason": reason,
            "requested_at": now(),
            "run_id": run_id,
            "closed_at": None,
            "evidence": evidence,
        }
        with self.ledger.write() as connection:
            is_as_planned = versions_with_equal_content(connection, set(plan.versions)) == set(plan.versions)
            if not is_as_planned or holders_in_ledger(connection, plan.unrecorded):
                raise Misuse(
                    "the content to be purged came in again since the plan was made; nothing was changed, run it again"
                )
            upsert(connection, purges, [row], [name for name in row if name != "purge_id"])
            targets = plan.targets
            withdrawal.block_content(connection, plan.purge_id, targets.content_sha256, targets.text_sha256, reason)
            withdrawal.reject_versions(
                connection,
                run_id,
                plan.versions,
                policy_digest=self.screening.digest,
                by=by,
                reason=reason,
                purpose=Purpose.PURGE,
            )
            _erase_declared_metadata(connection, plan.versions)
            withdrawal.retire_versions(connection, run_id, plan.versions, "purged")
            _erase_derived_rows(connection, plan.versions, self._result_keys(connection, plan.versions))
            append_event(
                connection, "purge_began", plan.purge_id, run_id, asked=plan.selectors.as_dict(), by=by, reason=reason
            )

    def _open_traces(self, plan: PurgePlan) -> Iterator[TextTrace]:
        """Yield the traces of open purges of some of these versions.

        Their rows are erased already, so that no new traces can be taken; this purge has to prove them gone,
        too.
        """
        targets = plan.targets
        statement = sa.select(purges.c.versions, purges.c.evidence).where(purges.c.state == PurgeState.REMOVED)
        with self.ledger.read() as connection:
            for row in connection.execute(statement):
                if not targets.versions.isdisjoint((*row.versions, *_unrecorded(row.evidence).versions)):
                    yield from _stored_traces(row.evidence)

    def _result_keys(self, connection: sa.Connection, version_ids: Sequence[str]) -> list[str]:
        """Return the keys under which `corpus_guard.screening.runner` keeps results of today's second-stage checks."""
        named_checks = [self.screening.check(name) for name in self.screening.check_digests()]
        check_digests = [check.digest for check in named_checks if check is not None and check.second_stage]
        spans: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        columns = sa.select(chunks.c.version_id, chunks.c.ordinal, chunks.c.span_start, chunks.c.span_end)
        for row in select_in_batches(connection, columns, chunks.c.version_id, version_ids):
            spans[row.version_id].append((row.ordinal, row.span_start, row.span_end))
        texts = sa.select(versions.c.version_id, versions.c.text_sha256)
        return [
            text_result_key(check, str(row.text_sha256), [span[1:] for span in sorted(spans[row.version_id])])
            for row in select_in_batches(connection, texts, versions.c.version_id, version_ids)
            for check in check_digests
        ]

    def _finish(
        self, run_id: str, purge_id: str, progress: Progress, waits_for: Iterable[str] | None = None
    ) -> PurgeResult:
        """Erase the files, prove it, close the purge if all files could be searched, and seal.

        Args:
            waits_for: refreshes at work that the plan names; None: those of the plan with which the purge began.
        """
        row = self._row(purge_id)
        if row is None:
            raise UnknownSubject(f"purge {purge_id} is not in the ledger")
        begin_run(self.ledger, run_id, RunKind.PURGE, self.screening.digest)
        with self.ledger.read() as connection:
            unrecorded = _unrecorded(row.evidence)
            targets = unrecorded.added_to(removal_targets(connection, row.versions))
            columns = sa.select(versions.c.doc_id)
            owners = select_in_batches(connection, columns, versions.c.version_id, row.versions)
            document_count = len({*(owner.doc_id for owner in owners), *unrecorded.documents})
            collections = collections_of(connection, row.versions)
        evidence = cast("_Evidence", dict(row.evidence))
        state = PurgeState(row.state)
        busy = {*(evidence.get("waits_for", ()) if waits_for is None else waits_for)}
        if state is PurgeState.REMOVED:
            progress("withdrawing from the collections", 0, 0)
            outbox.drain(self.ledger, self.storage, self.store, run_id)
            progress("erasing from storage", 0, 0)
            self._erase_files(run_id, targets, unrecorded)
            erase_questions(self.ledger, self.storage, row.versions)
        busy |= self._erase_unnamed_blobs(run_id, purge_id)
        evidence["waits_for"] = sorted(busy)
        if state is PurgeState.REMOVED:
            traces_index = TraceIndex(_stored_traces(evidence))
            files, all_visible = self._store_files(collections)
            if files:
                files.finish_rewriting()
            if files and _files_with_traces(list(files.files()), traces_index, progress):
                self._rewrite_collections(run_id, files, collections, progress)
            evidence |= self._prove_erasure(run_id, files, collections, traces_index, progress)
            if all_visible:
                _close(self.ledger, run_id, row, targets, evidence)
                state = PurgeState.CLOSED
        result = PurgeResult(
            purge_id=purge_id,
            run_id=run_id,
            state=state.value,
            documents=document_count,
            versions=len(targets.versions),
            chunks=len(targets.chunks),
            searched=int(evidence["searched"]),
            shared=list(evidence["shared"]),
            untraced=list(evidence["untraced"]),
            waits_for=sorted(busy),
            manifest_sha256="",
        )
        counts = {
            "documents": result["documents"],
            "versions": result["versions"],
            "chunks": result["chunks"],
            "searched": result["searched"],
        }
        seal = seal_run(self.ledger, self.storage, self.store, self.settings, run_id, counts)
        result["manifest_sha256"] = seal.manifest.sha256
        return result

    def _erase_files(self, run_id: str, targets: PurgeTargets, unrecorded: UnrecordedContent) -> None:
        """Erase rows and raw bytes; what is not recorded only while no refresh can use it.

        Raises:
            AlreadyAtWork: a refresh is at work on one of its sources; nothing was erased.
        """
        if unrecorded.is_empty:
            self._files.erase(targets, run_id)
            return
        with without_new_intake(self.ledger):
            for run in refreshes_at_work(self.ledger):
                if not set(unrecorded.sources).isdisjoint(run.sources):
                    raise AlreadyAtWork(
                        f"refresh {run.run_id} is at work and may use what this purge erases; the purge stays open, and its "
                        "content is blocked. When the refresh has ended, run `guard purge --resume`"
                    )
            self._files.erase(targets, run_id)

    def _erase_unnamed_blobs(self, run_id: str, purge_id: str) -> set[str]:
        """Erase raw bytes that no document names. Returns the refreshes at work for which they are left, if there are any."""
        with without_new_intake(self.ledger):
            # Who is at work first: a refresh that ends in between has named what it stored.
            busy = {run.run_id for run in refreshes_at_work(self.ledger)}
            names = unnamed_blobs(self.ledger, self._files)
            if names and busy:
                return busy
            for batch in in_batches(names, HASHES_PER_EVENT):
                hashes = [name.rpartition("/")[2] for name in batch]
                with self.ledger.write() as connection:
                    append_event(connection, UNNAMED_ERASED_EVENT, purge_id, run_id, content_sha256=hashes)
                for name in batch:
                    self._files.remove(name)
        return set()

    def _store_files(self, collections: Sequence[str]) -> tuple[StoreFiles | None, bool]:
        """Return the store's files, if they lie on this machine, and whether every copy in the store can be seen from here."""
        files: StoreFiles | None
        if isinstance(self.store, PgvectorStore):
            files = find_postgres_files(self.store)
        else:
            folder = self.settings.home / "chroma"
            is_local = (
                chroma_files.find_chroma_folder(self.store, folder) is not None if collections else folder.is_dir()
            )
            files = chroma_files.ChromaFiles(self.ledger, self.storage, self.store, folder) if is_local else None
        return files, files is not None or not collections  # without collections nothing of it was ever written there

    def _rewrite_collections(
        self, run_id: str, files: StoreFiles, collections: Sequence[str], progress: Progress
    ) -> None:
        progress("writing the remaining content again", 0, 0)
        files.rewrite(run_id, collections)

    def _prove_erasure(
        self,
        run_id: str,
        store_files: StoreFiles | None,
        collections: Sequence[str],
        index: TraceIndex,
        progress: Progress,
    ) -> _Evidence:
        """Search every file; if a rewritten one holds old bytes, write the collections again first.

        Raises:
            Inconsistent: a file holds a trace, or the bucket keeps earlier versions.
        """
        if self.storage.keeps_versions():
            raise Inconsistent(
                f"{self.storage.url} keeps every earlier version of an object, so purged texts are still in it; the purge "
                "stays open. Suspend the bucket's versioning, delete the versions that are not current, then run "
                "`guard purge --resume`"
            )
        for rewrites_left in reversed(range(MAX_SEARCHES)):
            files = [*(store_files.files() if store_files else ()), *self._storage_files()]
            holders = _files_with_traces(files, index, progress)
            is_rewritten = store_files and any(map(store_files.is_rewritten, holders))
            if not rewrites_left or not store_files or not is_rewritten:
                break
            self._rewrite_collections(run_id, store_files, collections, progress)
        if holders:
            others = f" and {len(holders) - 1} more files" if len(holders) > 1 else ""
            raise Inconsistent(
                f"purged text or vectors are still in {holders[0]}{others}; the purge stays open. Find out "
                "what writes there (a refresh that was running, a copy, another deployment; a Chroma server that "
                "was started without MALLOC_PERTURB_=165 writes its old memory: restart it) or keeps it (a backup, an open "
                "transaction), then run `guard purge --resume`"
            )
        location = store_files.location if store_files else ""
        return _Evidence(searched=len(files), found=0, sought=len(index), store=location)

    def _storage_files(self) -> Iterator[SearchableFile]:
        for name in self._files.names():
            yield SearchableFile(self.storage.location(name), partial(self._files.open, name))

    @property
    def _files(self) -> StorageFiles:
        return StorageFiles(self.ledger, self.storage, self.blobs)

    def _row(self, purge_id: str) -> sa.Row[tuple[object, ...]] | None:
        return self.ledger.first(sa.select(purges).where(purges.c.purge_id == purge_id))


def _stored_traces(evidence: _Evidence) -> Iterator[TextTrace]:
    return ((int(rolling), str(sha256)) for rolling, sha256 in evidence["traces"])


def _unrecorded(evidence: _Evidence) -> UnrecordedContent:
    return UnrecordedContent.from_dict(evidence.get("unrecorded", {}))


def _erase_declared_metadata(connection: sa.Connection, version_ids: Sequence[str]) -> None:
    """Erase what documents declare about themselves, such as titles: it is text as well."""
    for row in select_in_batches(connection, sa.select(versions), versions.c.version_id, version_ids):
        stamp = {**row.stamp, "declared": {}}
        connection.execute(versions.update().where(versions.c.version_id == row.version_id).values(stamp=stamp))


def _erase_derived_rows(connection: sa.Connection, version_ids: Sequence[str], result_keys: Sequence[str]) -> None:
    """Erase what is derived from the text: measures, sketches, results of slow checks, and what models wrote about it."""
    for table, column, values in (
        (bands, bands.c.version_id, version_ids),
        (signals, signals.c.version_id, version_ids),
        (results, results.c.key, result_keys),
    ):
        for batch in in_batches(values):
            connection.execute(table.delete().where(column.in_(batch)))
    LedgerAnswerCache.delete_all(connection)
    connection.execute(results.delete().where(results.c.key.startswith(EVIDENCE_PREFIX)))
    for batch in in_batches(version_ids):
        judged = suspects.c.version_id.in_(batch)
        in_judging_trace = traces.c.trace_id.in_(sa.select(suspects.c.trace_id).where(judged))
        connection.execute(traces.update().where(in_judging_trace).values(answer_before=None, answer_after=None))
        connection.execute(suspects.update().where(judged).values(explanation=ERASED_EXPLANATION))
        of_versions = sa.select(chunks.c.chunk_id).where(chunks.c.version_id.in_(batch))
        given = sa.select(retrieved_chunks.c.retrieval_id).where(retrieved_chunks.c.chunk_id.in_(of_versions))
        connection.execute(retrievals.update().where(retrievals.c.retrieval_id.in_(given)).values(answer=None))


def _files_with_traces(files: Sequence[SearchableFile], index: TraceIndex, progress: Progress) -> list[str]:
    """Return the locations of the files that hold a trace."""
    holders = []
    for number, file in enumerate(files):
        progress("searching", number, len(files))
        try:
            with file.open() as stream:
                if holds_trace(index, stream, file.location):
                    holders.append(file.location)
        except FileNotFoundError:  # a journal, or a draft that was moved to its final name
            continue
    return holders


def _close(
    ledger: Ledger, run_id: str, row: sa.Row[tuple[object, ...]], targets: PurgeTargets, evidence: _Evidence
) -> None:
    # Hashes of pieces this short could be guessed, and they are no longer needed.
    final: Mapping[str, object] = {name: value for name, value in evidence.items() if name != "traces"}
    with ledger.write() as connection:
        changed = connection.execute(
            purges.update()
            .where(purges.c.purge_id == row.purge_id, purges.c.state == PurgeState.REMOVED)
            .values(state=PurgeState.CLOSED, closed_at=now(), evidence=final)
        )
        if changed.rowcount:
            append_event(
                connection,
                "purged",
                row.purge_id,
                run_id,
                versions=sorted(targets.versions),
                chunks=sorted(targets.chunks),
                text_sha256=sorted(targets.text_sha256),
                content_sha256=sorted(targets.content_sha256),
                by=row.requested_by,
                reason=row.reason,
                searched=evidence["searched"],
                shared=list(evidence["shared"]),
                untraced=list(evidence["untraced"]),
                unrecorded=list(_unrecorded(evidence).versions),
                waits_for=list(evidence["waits_for"]),
            )
