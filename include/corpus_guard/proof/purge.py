"""Taking content out for good, and proving that it is gone: `guard purge`.

Rules
    * what is purged is a text or its bytes: every version of any document that has the same text or the same bytes goes along;
    * first it is served no longer and is blocked by hash; the versions are rejected by a decision like any other;
    * then its rows leave the Parquet batches, its raw bytes the blob store, and Chroma's files are written anew without it;
    * it is `closed`, by an event in the log, only when a search of every file of the collections and the storage folder finds neither
      a text nor a vector of it; until then it is `removed`, and running the command again goes on where it was;
    * what a living document holds as well (boilerplate) is lawfully there: it is named, not searched for;
    * where this machine does not see Chroma's disk, nothing is claimed: the purge stays `removed`;
    * the ledger keeps hashes, who and why; of texts nothing, and until the end the hashes of short pieces that are searched for.

What it does not do: reach backups, snapshots, replicas, older versions that an object store keeps, or blocks that a file system has
freed and not yet used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.corpus import outbox
from corpus_guard.domain import digest
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import begin, end
from corpus_guard.ledger.tables import (
    bands,
    chunks,
    purges,
    results,
    signals,
    suspects,
    traces,
    versions,
)
from corpus_guard.models.chat_cache import LedgerAnswers
from corpus_guard.proof import _purge_chroma, out_of_service
from corpus_guard.proof._purge_files import Disk, Doomed, search
from corpus_guard.proof._purge_plan import Plan, Selectors, collections_of, doomed_of, in_parts, plan, with_equals
from corpus_guard.proof._purge_traces import Trace, Traces
from corpus_guard.proof.sealing import seal_corpus

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

__all__ = ["Plan", "Purged", "Selectors", "plan", "purge", "resume"]

Progress = Callable[[str, int, int], None]
"""(what is being done, how much is done, of how much)."""

AT_ONCE = 500  # ids in one statement
REBUILDS = 4  # of the collections, at most, until no new index holds old memory
ERASED = "erased with the text it was about"


class Purged(TypedDict):
    """What a purge did."""

    purge_id: str
    run_id: str
    state: str  # closed; removed: Chroma's disk cannot be seen from here
    documents: int
    versions: int
    chunks: int
    searched: int  # files
    shared: list[str]  # chunks whose text a living document holds as well
    untraced: list[str]  # chunks (or versions, for hidden text) too short, too plain, or purged before
    manifest_sha256: str


def purge(
    guard: Guard, run_id: str, plan: Plan, by: str, reason: str, progress: Progress = lambda what, done, total: None
) -> Purged:
    """Take out what was planned, prove it, and seal. Killed anywhere, the same call or `resume` goes on.

    Args:
        guard: the deployment.
        run_id: identity of this run.
        plan: from `plan`.
        by: who asks for it.
        reason: why; kept for good, so it quotes nothing of what is purged.
        progress: told before each step.

    Raises:
        Misuse: nobody or no reason is named, or the same content came in again since the plan was made.
        Inconsistent: something is still there; the message names the file.
        StoreUnavailable: Chroma does not answer, or its database is locked.
    """
    if not by.strip() or not reason.strip():
        raise Misuse('a purge needs somebody who asks for it and a reason; give --reason "..."')
    row = _purge(guard, plan.purge_id)
    if row is None or (row.state == "closed" and (plan.files or plan.blobs)):
        progress("looking for what only it holds", 0, 0)
        _remove(guard, run_id, plan, by.strip(), reason.strip())
    return _finish(guard, run_id, plan.purge_id, progress)


def resume(guard: Guard, run_id: str, progress: Progress = lambda what, done, total: None) -> list[Purged]:
    """Go on with every purge that is not closed. Raises what `purge` raises."""
    with guard.ledger.read() as connection:
        statement = sa.select(purges.c.purge_id).where(purges.c.state == "removed").order_by(purges.c.requested_at)
        waiting = list(connection.scalars(statement))
    return [_finish(guard, run_id, purge_id, progress) for purge_id in waiting]


def _remove(guard: Guard, run_id: str, plan: Plan, by: str, reason: str) -> None:
    """Everything the ledger has to say, in one transaction: from here on it is served no longer and cannot come back."""
    traced = Disk(guard).trace(plan.doomed)
    when = now()
    traces = sorted({*traced.traces, *_still_sought(guard, plan)})
    evidence = {"traces": traces, "shared": traced.shared, "untraced": traced.untraced}
    row = {
        "purge_id": plan.purge_id,
        "state": "removed",
        "subject": plan.selectors.as_dict(),
        "versions": list(plan.versions),
        "requested_by": by,
        "reason": reason,
        "requested_at": when,
        "run_id": run_id,
        "closed_at": None,
        "evidence": evidence,
    }
    with guard.ledger.write() as connection:
        if with_equals(connection, set(plan.versions)) != set(plan.versions):
            raise Misuse(
                "the content to be purged came in again since the plan was made; nothing was changed, run it again"
            )
        guard.ledger.upsert(connection, purges, [row], [name for name in row if name != "purge_id"])
        out_of_service.block(guard, connection, plan.purge_id, plan.content_sha256, plan.text_sha256, reason)
        out_of_service.reject(guard, connection, run_id, plan.versions, by, reason)
        _without_titles(connection, plan.versions)
        out_of_service.retire(guard, connection, run_id, plan.versions, "purged")
        _forget(guard, connection, plan.versions)
        guard.ledger.event(
            connection, "purge_began", plan.purge_id, run_id, asked=plan.selectors.as_dict(), by=by, reason=reason
        )


def _still_sought(guard: Guard, plan: Plan) -> Iterator[Trace]:
    """By purges of some of these versions that are not closed: their rows are gone, and they are claimed to be gone here as well."""
    statement = sa.select(purges.c.versions, purges.c.evidence).where(purges.c.state == "removed")
    with guard.ledger.read() as connection:
        for row in connection.execute(statement):
            if set(row.versions) & set(plan.versions):
                yield from ((int(rolling), str(sha256)) for rolling, sha256 in row.evidence["traces"])


def _without_titles(connection: sa.Connection, ids: Sequence[str]) -> None:
    """What a document says of itself is text as well."""
    for row in in_parts(connection, sa.select(versions), versions.c.version_id, ids):
        connection.execute(
            versions.update().where(versions.c.version_id == row.version_id).values(stamp={**row.stamp, "declared": {}})
        )


def _forget(guard: Guard, connection: sa.Connection, ids: Sequence[str]) -> None:
    """Derived from the text: measures, sketches, what slow checks found in it, and what models wrote about it."""
    keys = [key for version in ids for key in _result_keys(guard, connection, version)]
    for table, column, values in (
        (bands, bands.c.version_id, ids),
        (signals, signals.c.version_id, ids),
        (results, results.c.key, keys),
    ):
        for part in split(values, AT_ONCE):
            connection.execute(table.delete().where(column.in_(part)))
    LedgerAnswers.forget(connection)
    for part in split(ids, AT_ONCE):
        judged = sa.select(suspects.c.trace_id).where(suspects.c.version_id.in_(part))
        said = {"answer_before": None, "answer_after": None}
        connection.execute(traces.update().where(traces.c.trace_id.in_(judged)).values(**said))
        connection.execute(suspects.update().where(suspects.c.version_id.in_(part)).values(explanation=ERASED))


def _result_keys(guard: Guard, connection: sa.Connection, version: str) -> Iterator[str]:
    """As `corpus_guard.screening.runner` keeps them, for the checks that are built now."""
    text = connection.scalar(sa.select(versions.c.text_sha256).where(versions.c.version_id == version))
    of_version = sa.select(chunks).where(chunks.c.version_id == version).order_by(chunks.c.ordinal)
    spans = [f"{row.span_start}-{row.span_end}" for row in connection.execute(of_version)]
    for name in guard.policy.checks:
        check = guard.screening.check(name)
        if check is not None and check.second_stage:
            yield digest("result/v1", [check.digest, str(text), *spans])


def _finish(guard: Guard, run_id: str, purge_id: str, progress: Progress) -> Purged:
    row = _purge(guard, purge_id)
    if row is None:
        raise UnknownSubject(f"purge {purge_id} is not in the ledger")
    begin(guard.ledger, run_id, "purge", guard.screening.digest)
    with guard.ledger.read() as connection:
        doomed = doomed_of(connection, row.versions)
        owners = in_parts(connection, sa.select(versions.c.doc_id), versions.c.version_id, row.versions)
        count = len({owner.doc_id for owner in owners})
        collections = collections_of(connection, row.versions)
    evidence = dict(row.evidence)
    if row.state == "removed":
        progress("withdrawing from the collections", 0, 0)
        outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
        progress("erasing from storage", 0, 0)
        Disk(guard).erase(doomed)
        traces = Traces((int(rolling), str(sha256)) for rolling, sha256 in evidence["traces"])
        folder, seen = _chroma(guard, collections)
        if folder and _holding(_chroma_files(folder), traces, progress):
            _make_again(guard, run_id, folder, collections, progress)
        evidence |= _prove(guard, run_id, folder, collections, traces, progress)
        if seen:
            _close(guard, run_id, row, doomed, evidence)
    sealed = seal_corpus(guard, run_id)
    done = Purged(
        purge_id=purge_id,
        run_id=run_id,
        state="closed" if row.state == "closed" or seen else "removed",
        documents=count,
        versions=len(doomed.versions),
        chunks=len(doomed.chunks),
        searched=int(evidence["searched"]),
        shared=list(evidence["shared"]),
        untraced=list(evidence["untraced"]),
        manifest_sha256=sealed.manifest.sha256,
    )
    counts = {
        "documents": done["documents"],
        "versions": done["versions"],
        "chunks": done["chunks"],
        "searched": done["searched"],
    }
    end(guard.ledger, run_id, counts)
    return done


def _make_again(guard: Guard, run_id: str, folder: Path, collections: Sequence[str], progress: Progress) -> None:
    """Publish what stays into new collections, and take the old ones' bytes out of Chroma's files."""
    progress("publishing the rest again", 0, 0)
    _purge_chroma.publish_again(guard, run_id, collections)
    progress("packing the database", 0, 0)
    _purge_chroma.pack(folder)


def _chroma(guard: Guard, collections: Sequence[str]) -> tuple[Path | None, bool]:
    """Chroma's folder, if it lies on this machine, and whether all there is to see of Chroma can be seen."""
    if collections:
        folder = _purge_chroma.folder_of(guard)
        return folder, folder is not None
    folder = guard.settings.home / "chroma"  # nothing of it was ever handed to Chroma
    return (folder if folder.is_dir() else None), True


Files = Iterable[tuple[str, Callable[[], Any]]]
"""(where, opens it)."""


def _chroma_files(folder: Path) -> Files:
    # `is_file` asks of the place, not of the name: a journal lives for milliseconds.
    return [(str(path), lambda path=path: path.open("rb")) for path in sorted(folder.rglob("*")) if path.is_file()]  # type: ignore[misc]


def _storage_files(guard: Guard) -> Files:
    disk = Disk(guard)
    return [(guard.storage.location(name), lambda name=name: disk.open(name)) for name in disk.files()]  # type: ignore[misc]


def _prove(
    guard: Guard, run_id: str, folder: Path | None, collections: Sequence[str], traces: Traces, progress: Progress
) -> dict[str, Any]:
    """Search everything; where a new index was written from old memory, it is made again first.

    Raises:
        Inconsistent: something was found.
    """
    for left in reversed(range(REBUILDS)):
        files = [*(_chroma_files(folder) if folder else ()), *_storage_files(guard)]
        found = _holding(files, traces, progress)
        if not left or not folder or not any(_purge_chroma.is_of_an_index(folder, place) for place in found):
            break
        _make_again(guard, run_id, folder, collections, progress)
    if found:
        more = f" and {len(found) - 1} more files" if len(found) > 1 else ""
        raise Inconsistent(
            f"{found[0]}{more}: still holds a purged text or vector; the purge stays open. See who writes there (a refresh that was under "
            "way, a copy, another deployment), then run `guard purge --resume`"
        )
    return {"searched": len(files), "found": 0, "sought": len(traces), "chroma": str(folder) if folder else ""}


def _holding(files: Files, traces: Traces, progress: Progress) -> list[str]:
    """Which of the files hold a trace."""
    found = []
    files = list(files)
    for number, (place, opened) in enumerate(files):
        progress("searching", number, len(files))
        try:
            with opened() as stream:
                if search(traces, stream, place):
                    found.append(place)
        except FileNotFoundError:  # a journal, or a draft that got its name
            continue
    return found


def _close(guard: Guard, run_id: str, row: Any, doomed: Doomed, evidence: Mapping[str, Any]) -> None:
    # Hashes of pieces this short could be guessed; they have done their work.
    kept = {name: value for name, value in evidence.items() if name != "traces"}
    with guard.ledger.write() as connection:
        changed = connection.execute(
            purges.update()
            .where(purges.c.purge_id == row.purge_id, purges.c.state == "removed")
            .values(state="closed", closed_at=now(), evidence=kept)
        )
        if changed.rowcount:
            guard.ledger.event(
                connection,
                "purged",
                row.purge_id,
                run_id,
                versions=sorted(doomed.versions),
                chunks=sorted(doomed.chunks),
                text_sha256=sorted(doomed.text_sha256),
                content_sha256=sorted(doomed.content_sha256),
                by=row.requested_by,
                reason=row.reason,
                searched=kept["searched"],
                shared=list(kept["shared"]),
                untraced=list(kept["untraced"]),
            )


def _purge(guard: Guard, purge_id: str) -> Any:
    with guard.ledger.read() as connection:
        return connection.execute(sa.select(purges).where(purges.c.purge_id == purge_id)).first()
