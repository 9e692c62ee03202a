"""Cleaning: stored files that nobody needs any more are removed after a time (`guard clean`, and each night).

Rules
    * removed is, `Settings.clean_days` after it was last written:
        - working files of runs, which every run writes anew;
        - batches in which no document is recorded: a run was killed, or its documents arrived in another batch;
        - batches whose versions were all rejected by the policy and replaced by newer ones, if none was ever
          published and no person, trace or incident deals with one; their raw bytes stay;
        - vectors that no publication names, and verdicts that no run recorded: both are computed again if needed;
        - results of the canaries by run, which the run's counts repeat, and vectors of earlier query banks;
        - manifests that were never sealed, and drafts of killed writers;
    * everything else is evidence and stays: what was ever published, what waits, the newest version of each
      document, what a person decided on, sealed manifests, raw bytes, and whatever an incident names;
    * nothing is removed while an incident is red or a run is at work. A file that is not as it was logged
      stays, too: somebody changed it, and a verification has to name it;
    * the event is written before the file is removed, and names it. Killed in between, the next cleaning
      finds the file again; verification misses no file whose removal was logged;
    * what was removed is not made again in its place: `corpus_guard.pipeline.rebuild` refuses.

Not done here: retention of raw bytes, of retrievals (`Settings.retrieval_days`) and of what was published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import log_files, logged_hashes
from corpus_guard.batches.ownership import require_own_storage
from corpus_guard.corpus.query_bank import FOLDER as QUERY_BANK
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import run_state
from corpus_guard.ledger.states import RunState, VersionState
from corpus_guard.ledger.tables import acts, decisions, documents, events, publications, runs, suspects, versions
from corpus_guard.proof.incidents import list_red_incidents, subjects_of_incidents
from corpus_guard.proof.log.heads import require_sealable, sign_head
from corpus_guard.settings import Settings

CLEANED_EVENT: Final = "cleaned"
FILES_PER_EVENT: Final = 500
VERSIONS: Final = "versions.parquet"


class DisposableKind(StrEnum):
    """Reason why a stored file is not needed any more."""

    RUN = "files of finished runs"
    UNRECORDED = "batches without a recorded document"
    REJECTED = "batches of rejected and replaced versions"
    VECTORS = "vectors that no publication names"
    VERDICTS = "verdicts that no run recorded"
    CANARIES = "results of canaries"
    QUESTIONS = "vectors of earlier query banks"
    MANIFESTS = "manifests that were never sealed"
    DRAFTS = "drafts of killed writers"


class FileTotals(TypedDict):
    """Number and size of files."""

    files: int
    bytes: int


class CleaningResult(TypedDict):
    """Outcome of a cleaning, or what one would do."""

    run_id: str
    dry_run: bool
    days: int  # 0: everything is kept
    waits_for: str  # why nothing is removed now; "" if nothing stands against it
    removed: dict[str, FileTotals]  # by `DisposableKind`
    changed: list[str]  # names of files that stay because they are not as they were logged


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that are removed together or not at all."""

    kind: DisposableKind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _References:
    """Names of stored files in the ledger and the log."""

    batches: frozenset[str]  # named by versions
    vectors: frozenset[str]  # named by publications
    rejected: frozenset[str]  # batches all of whose versions were rejected and replaced
    manifests: frozenset[str]  # sealed
    logged: Mapping[str, str | None]  # storage name → SHA-256; None: removed

    @classmethod
    def load(cls, ledger: Ledger, incident_subjects: Collection[str]) -> _References:
        sealed = sa.select(events.c.body["manifest"].as_string()).where(events.c.kind == "sealed").distinct()
        with ledger.read() as connection:
            return cls(
                batches=frozenset(connection.scalars(sa.select(versions.c.batch).distinct())),
                vectors=frozenset(connection.scalars(sa.select(publications.c.vectors).distinct())),
                rejected=_rejected_batches(connection, incident_subjects),
                manifests=frozenset(connection.scalars(sealed)),
                logged=logged_hashes(connection),
            )


def clean(
    ledger: Ledger,
    storage: Storage,
    settings: Settings,
    run_id: str,
    *,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> CleaningResult:
    """Remove the stored files that nobody needs any more, and sign the events that say so.

    Args:
        dry_run: count them, and remove nothing.

    Raises:
        Inconsistent: an older ledger, or another deployment's: what it does not name may be needed. Nothing was removed.
    """
    result = CleaningResult(
        run_id=run_id, dry_run=dry_run, days=settings.clean_days, waits_for="", removed={}, changed=[]
    )
    if not settings.clean_days:
        return result
    result["waits_for"] = _reason_to_wait(ledger)
    if result["waits_for"]:
        return result
    require_sealable(ledger, settings)
    require_own_storage(ledger, storage)
    with ledger.exclusive("clean"):
        subjects = subjects_of_incidents(ledger, storage)
        references = _References.load(ledger, subjects)
        limit = now() - timedelta(days=settings.clean_days)
        portion: list[_Group] = []
        for group in _disposable(storage, references):
            if not subjects.isdisjoint(group.names) or not _is_older(storage, group, limit):
                continue
            if changed := _changed_files(storage, group, references.logged):
                result["changed"] += changed
                continue
            portion.append(group)
            if sum(len(each.names) for each in portion) >= FILES_PER_EVENT:
                _remove(ledger, storage, result, portion, references, progress)
                portion = []
        _remove(ledger, storage, result, portion, references, progress)
    if result["removed"] and not dry_run:
        sign_head(ledger, settings)
    return result


def _reason_to_wait(ledger: Ledger) -> str:
    if red := list_red_incidents(ledger):
        return f"incident {red[0].incident_id[:8]} is not acknowledged, and what deviates is evidence"
    unended = ledger.rows(sa.select(runs).where(runs.c.state == RunState.RUNNING))
    for run in unended:
        if run_state(ledger, run.run_id, run.state, run.awaited_until) == RunState.RUNNING:
            return f"run {run.run_id} is at work"
    return ""


def _rejected_batches(connection: sa.Connection, incident_subjects: Collection[str]) -> frozenset[str]:
    """Return the batches of which every version was rejected by the policy, replaced, and is of no interest to anybody."""
    version = versions.c.version_id
    is_newest_or_served = sa.exists().where(
        documents.c.doc_id == versions.c.doc_id,
        sa.or_(documents.c.latest_version == version, documents.c.target_version == version),
    )
    mentions = [sa.exists().where(table.c.version_id == version) for table in (publications, decisions, acts, suspects)]
    is_needed = sa.or_(versions.c.state != VersionState.REJECTED, is_newest_or_served, *mentions)
    needed = sa.select(versions.c.batch).where(is_needed)
    rows = connection.execute(
        sa.select(versions.c.batch, version, versions.c.doc_id).where(versions.c.batch.not_in(needed))
    ).all()
    in_incidents = {row.batch for row in rows if {row.version_id, row.doc_id} & set(incident_subjects)}
    return frozenset(row.batch for row in rows) - in_incidents


def _disposable(storage: Storage, references: _References) -> Iterator[_Group]:
    """Yield the files that nothing refers to, whatever their age."""
    folders: dict[str, list[str]] = defaultdict(list)
    for name in sorted(storage.names()):
        if name.rpartition("/")[2].startswith("."):
            yield _Group(DisposableKind.DRAFTS, (name,))
        else:
            folders[name.rpartition("/")[0]].append(name)
    with_vectors = {name.rpartition("/")[0] for name in references.vectors}
    for folder, names in folders.items():
        room = folder.partition("/")[0]
        if room == "runs":
            yield _Group(DisposableKind.RUN, tuple(names))
        elif room == "batches":
            batch = f"{folder}/{VERSIONS}"
            if batch in references.rejected and folder not in with_vectors:
                yield _Group(DisposableKind.REJECTED, tuple(names))
            elif batch not in references.batches and folder not in with_vectors:
                yield _Group(DisposableKind.UNRECORDED, tuple(names))
            else:
                yield from _unused_parts(names, references)
        elif room == "canaries":
            own = (name for name in names if not name.startswith("canaries/last-"))
            yield from (_Group(DisposableKind.CANARIES, (name,)) for name in own)
        elif room == "manifests":
            unsealed = (name for name in names if name not in references.manifests)
            yield from (_Group(DisposableKind.MANIFESTS, (name,)) for name in unsealed)
        elif room == QUERY_BANK:
            vectors = sorted((name for name in names if "/vectors-" in name), key=storage.written_at)
            yield from (_Group(DisposableKind.QUESTIONS, (name,)) for name in vectors[:-1])


def _unused_parts(names: Iterable[str], references: _References) -> Iterator[_Group]:
    """Yield the files of a batch that is needed which are not needed themselves."""
    for name in names:
        file = name.rpartition("/")[2]
        if file.startswith("vectors-") and name not in references.vectors:
            yield _Group(DisposableKind.VECTORS, (name,))
        elif file.startswith("judgements-") and not references.logged.get(name):
            yield _Group(DisposableKind.VERDICTS, (name,))


def _is_older(storage: Storage, group: _Group, limit: datetime) -> bool:
    """Return whether all files of a group were last written before `limit`; False if one is gone meanwhile."""
    try:
        return all(storage.written_at(name) < limit for name in group.names)
    except Inconsistent:
        return False


def _changed_files(storage: Storage, group: _Group, logged: Mapping[str, str | None]) -> list[str]:
    """Return the files of a group that are not as they were logged."""
    expected = {name: sha256 for name in group.names if (sha256 := logged.get(name))}
    return [name for name, sha256 in expected.items() if storage.sha256(name) != sha256]


def _remove(
    ledger: Ledger,
    storage: Storage,
    result: CleaningResult,
    portion: Iterable[_Group],
    references: _References,
    progress: Progress,
) -> None:
    """Log the removal of a portion, then remove it; or only count it. The counts go into `result`."""
    progress("cleaning", sum(totals["files"] for totals in result["removed"].values()), None)
    groups = list(portion)
    sizes = {name: storage.size(name) for group in groups for name in group.names}
    if not result["dry_run"]:
        with ledger.write() as connection:
            # A run that began meanwhile may have found a file, and recorded it.
            groups = [group for group in groups if not _is_recorded(connection, group)]
            for kind, names in _names_by_kind(groups).items():
                size = sum(sizes[name] for name in names)
                append_event(connection, CLEANED_EVENT, kind, result["run_id"], files=names, bytes=size)
            logged_names = references.logged.keys() | references.batches
            gone = [name for group in groups for name in group.names if name in logged_names]
            log_files(connection, result["run_id"], dict.fromkeys(gone))
    for kind, names in _names_by_kind(groups).items():
        totals = result["removed"].setdefault(kind, FileTotals(files=0, bytes=0))
        totals["files"] += len(names)
        totals["bytes"] += sum(sizes[name] for name in names)
        if not result["dry_run"]:
            for name in names:
                storage.remove(name)


def _names_by_kind(groups: Iterable[_Group]) -> dict[DisposableKind, list[str]]:
    by_kind: dict[DisposableKind, list[str]] = defaultdict(list)
    for group in groups:
        by_kind[group.kind] += group.names
    return by_kind


def _is_recorded(connection: sa.Connection, group: _Group) -> bool:
    """Return whether a version or a publication names a file of a group that none named before."""
    by_publication = sa.select(publications.c.chunk_id).where(publications.c.vectors.in_(group.names))
    by_version = sa.select(versions.c.version_id).where(versions.c.batch.in_(group.names))
    statements = [by_publication] if group.kind is DisposableKind.REJECTED else [by_publication, by_version]
    return any(connection.execute(statement.limit(1)).first() for statement in statements)
