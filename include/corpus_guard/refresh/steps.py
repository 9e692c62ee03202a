"""The steps of a refresh. Each takes and gives paths and counts, never text; each may be repeated or run twice at once.

    discover   list every source into shards
    intake     fetch, hash; what changed is kept raw, parsed, stamped, chunked and measured
    survey     join the measures of all shards with the ledger's history
    screen     checks and policy: a verdict for each version
    embed      vectors for the accepted
    publish    verdicts into the ledger, accepted chunks into Chroma
    seal       retire what vanished, balance the counts, write the manifest

A step names its output by the hash of its input, the models and the policy. Output that exists is taken as it is: that is what
makes a killed step cheap to repeat.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

import sqlalchemy as sa

from corpus_guard.batches.tables import (
    judgements_from_table,
    judgements_to_table,
    split,
    versions_from_table,
    versions_to_table,
)
from corpus_guard.corpus import publishing
from corpus_guard.corpus.vectors import embed_chunks
from corpus_guard.domain import Finding, Severity, Verdict, Version, digest, doc_id, sha256_bytes, version_id
from corpus_guard.errors import Inconsistent, SourceUnavailable
from corpus_guard.guard import Guard
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Source
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, runs

log = logging.getLogger(__name__)

DOUBLE_AFTER = 200  # shards; then they grow, so that 1.5M documents stay below Airflow's 1,024 mapped tasks


class Discovered(TypedDict):
    """What a run has before it; kept in the run's folder for `seal`."""

    listed: list[str]  # sources that could be listed
    failed: dict[str, str]  # source → why it could not
    documents: int


class Shard(TypedDict, total=False):
    """What is known of a shard so far: storage names and counts. Steps add to it."""

    source: str
    found: int
    unchanged: int
    failed: int
    batch: str  # folder of the batch; "" where nothing changed
    judgements: str
    accepted: int
    quarantined: int
    rejected: int
    vectors: str
    model: str
    chunks: int
    published: int
    retired: int


class Sealed(TypedDict):
    """What a run did."""

    run_id: str
    documents: int
    accepted: int
    quarantined: int
    rejected: int
    unchanged: int
    failed: int
    vanished: int
    published: int  # chunks
    retired: int  # chunks
    served: int  # chunks in the collections now
    manifest: str
    manifest_sha256: str


def discover(guard: Guard, run_id: str, sources: Sequence[str] = ()) -> list[str]:
    """List sources into shards; a source that cannot be listed fails the run at its end, the others go on.

    Args:
        guard: the deployment.
        run_id: identity of this run; giving it again repeats the run.
        sources: names; empty: all of sources.yaml.

    Returns:
        Storage names of the listings.

    Raises:
        UnknownSubject: a name is not in sources.yaml.
    """
    chosen = [guard.source(name) for name in sources or guard.sources]
    started = {
        "run_id": run_id,
        "kind": "refresh",
        "state": "running",
        "sources": [source.name for source in chosen],
        "policy_digest": guard.screening.digest,
        "started_at": now(),
    }
    with guard.ledger.write() as connection:
        guard.ledger.insert_missing(connection, runs, [started])
    listings: list[str] = []
    result = Discovered(listed=[], failed={}, documents=0)
    for source in chosen:
        try:
            names, count = _list(guard, run_id, source, len(listings))
        except SourceUnavailable as error:
            log.warning("%s", error)
            result["failed"][source.name] = str(error)
            continue
        listings += names
        result["listed"].append(source.name)
        result["documents"] += count
    guard.storage.write_json(_discovered(run_id), result)
    return listings


def documents_found(guard: Guard, run_id: str) -> int:
    """How many documents `discover` listed."""
    discovered: Discovered = guard.storage.read_json(_discovered(run_id))
    return discovered["documents"]


def intake(guard: Guard, run_id: str, listing: str) -> Shard:
    """Fetch a shard's documents and turn those that changed into versions."""
    content = guard.storage.read_json(listing)
    source = guard.source(content["source"])
    items = [_item(row) for row in content["items"]]
    known = _known(guard, [doc_id(source.name, item.uri) for item in items])
    arrivals: list[_Arrival] = []
    failures: list[FetchFailed] = []
    for outcome in source.fetch(items):
        if isinstance(outcome, FetchFailed) and not outcome.code.startswith("parsing."):
            failures.append(outcome)
            continue
        arrival = _arrive(guard, source, outcome, known)
        if arrival:
            arrivals.append(arrival)
    _touch(guard, run_id, source.name, items, failures)
    shard = Shard(
        source=source.name,
        found=len(items),
        failed=len(failures),
        unchanged=len(items) - len(failures) - len(arrivals),
        batch="",
    )
    if arrivals:
        shard["batch"] = _batch(guard, run_id, source, arrivals)
    return shard


def survey(guard: Guard, run_id: str, shards: Iterable[Shard]) -> list[Shard]:
    """Join the measures of all shards with the ledger's history. Returns the shards that have something to screen."""
    changed = [shard for shard in shards if shard["batch"]]
    if not changed:
        return []
    from corpus_guard.screening.history import LedgerHistory
    from corpus_guard.screening.signals import from_table
    from corpus_guard.screening.survey import build_survey

    measured = (
        one for shard in changed for one in from_table(guard.storage.read_table(f"{shard['batch']}/signals.parquet"))
    )
    guard.storage.write(_survey(run_id), build_survey(measured, LedgerHistory(guard.ledger)).to_json())
    return changed


def screen(guard: Guard, run_id: str, shard: Shard) -> Shard:
    """A verdict for each version of a shard."""
    from corpus_guard.screening.survey import Survey

    versions = _versions(guard, shard)
    relevant = Survey.from_json(guard.storage.read(_survey(run_id))).of([version.version_id for version in versions])
    seen = sha256_bytes(relevant.to_json())
    name = f"{shard['batch']}/judgements-{digest('judgements/v1', [shard['batch'], seen, guard.screening.digest])[:32]}.parquet"
    if guard.storage.exists(name):
        judgements = judgements_from_table(guard.storage.read_table(name))
    else:
        judgements = guard.screening.judge(versions, relevant)
        guard.storage.write_table(name, judgements_to_table(judgements))
    verdicts = [judgement.verdict for judgement in judgements]
    return Shard(
        **shard,
        judgements=name,
        accepted=verdicts.count(Verdict.ACCEPT),
        quarantined=verdicts.count(Verdict.QUARANTINE),
        rejected=verdicts.count(Verdict.REJECT),
    )


def embed(guard: Guard, run_id: str, shard: Shard) -> Shard:
    """Vectors for the chunks of a shard's accepted versions, and of those a reviewer released before."""
    judgements = judgements_from_table(guard.storage.read_table(shard["judgements"]))
    accepted = {judgement.version_id for judgement in judgements if judgement.verdict is Verdict.ACCEPT}
    accepted |= _released(guard, [judgement.version_id for judgement in judgements])
    chunks = [
        (chunk.chunk_id, chunk.text)
        for version in _versions(guard, shard)
        if version.version_id in accepted
        for chunk in version.chunks
    ]
    name, model = embed_chunks(guard.storage, guard.models, shard["batch"], chunks)
    return Shard(**shard, vectors=name, model=model, chunks=len(chunks))


def publish(guard: Guard, run_id: str, shard: Shard) -> Shard:
    """Record a shard's verdicts and bring its accepted chunks into Chroma."""
    from corpus_guard.screening.history import remember
    from corpus_guard.screening.signals import from_table

    by_id = {
        judgement.version_id: judgement
        for judgement in judgements_from_table(guard.storage.read_table(shard["judgements"]))
    }
    measured = from_table(guard.storage.read_table(f"{shard['batch']}/signals.parquet"))
    publishing.record(
        guard.ledger,
        run_id,
        f"{shard['batch']}/versions.parquet",
        [(version, by_id[version.version_id]) for version in _versions(guard, shard)],
        collection=guard.collection,
        vectors=shard["vectors"],
        model=shard["model"],
        along_with=lambda connection: remember(guard.ledger, connection, measured),
    )
    published, retired = publishing.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    return Shard(**shard, published=published, retired=retired)


def seal(guard: Guard, run_id: str, taken: Iterable[Shard], published: Iterable[Shard]) -> Sealed:
    """End a run: retire what vanished, check that nothing was lost, write the manifest.

    Raises:
        Inconsistent: the counts do not balance, or Chroma holds another number of chunks than the ledger says.
        SourceUnavailable: a source could not be listed; all the others are done and sealed.
    """
    from corpus_guard.proof.manifest import write_manifest

    taken, published = list(taken), list(published)
    discovered: Discovered = guard.storage.read_json(_discovered(run_id))
    vanished = _vanish(guard, run_id, discovered["listed"])
    late = publishing.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    counts = {name: _total(published, name) for name in ("accepted", "quarantined", "rejected")}
    counts |= {name: _total(taken, name) for name in ("unchanged", "failed")}
    try:
        _balance(discovered["documents"], counts)
        manifest = write_manifest(guard, run_id)
    except Inconsistent:
        _finish(guard, run_id, "failed", counts)
        raise
    sealed = Sealed(
        run_id=run_id,
        documents=discovered["documents"],
        accepted=counts["accepted"],
        quarantined=counts["quarantined"],
        rejected=counts["rejected"],
        unchanged=counts["unchanged"],
        failed=counts["failed"],
        vanished=vanished,
        published=_total(published, "published") + late[0],
        retired=_total(published, "retired") + late[1],
        served=manifest.chunks,
        manifest=manifest.name,
        manifest_sha256=manifest.sha256,
    )
    if discovered["failed"]:
        _finish(guard, run_id, "failed", dict(sealed))
        raise SourceUnavailable(
            "; ".join(discovered["failed"].values())
            + ". The other sources are refreshed and sealed; running again converges"
        )
    _finish(guard, run_id, "sealed", dict(sealed))
    return sealed


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A document whose bytes are new; the bytes themselves lie in the blob store."""

    outcome: Fetched | FetchFailed  # without content
    document: str
    content_sha256: str
    size: int
    parent_version: str | None

    @property
    def version(self) -> str:
        return version_id(self.document, self.content_sha256)


def _list(guard: Guard, run_id: str, source: Source, before: int) -> tuple[list[str], int]:
    names: list[str] = []
    count = 0
    items = source.list()
    while True:
        size = guard.settings.shard_documents * 2 ** ((before + len(names)) // DOUBLE_AFTER)
        part = next(iter(split(items, size)), None)
        if part is None:
            return names, count
        name = f"{_folder(run_id)}/{source.name}-{len(names):05}.json"
        guard.storage.write_json(name, {"source": source.name, "items": [_row(item) for item in part]})
        names.append(name)
        count += len(part)


def _arrive(guard: Guard, source: Source, outcome: Fetched | FetchFailed, known: Mapping[str, Any]) -> _Arrival | None:
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
    if isinstance(outcome, Fetched):
        guard.blobs.put(outcome.content)
        outcome = Fetched(item, b"", outcome.media_type, outcome.declared, outcome.problems)
    return _Arrival(outcome, document, content, size, before.latest_version if before is not None else None)


def _batch(guard: Guard, run_id: str, source: Source, arrivals: Sequence[_Arrival]) -> str:
    from corpus_guard.intake.parsing import PARSER_VERSION
    from corpus_guard.screening.signals import signals_of, to_table

    made_from = [guard.chunker.digest, PARSER_VERSION, source.name, source.owner, source.trust.value]
    folder = f"batches/{digest('batch/v1', [*made_from, *(arrival.version for arrival in arrivals)])[:32]}"
    if not guard.storage.exists(f"{folder}/signals.parquet"):  # written last
        versions = list(_parse(guard, run_id, source, arrivals))
        guard.storage.write_table(f"{folder}/versions.parquet", versions_to_table(versions))
        guard.storage.write_table(f"{folder}/signals.parquet", to_table([signals_of(version) for version in versions]))
    return folder


def _parse(guard: Guard, run_id: str, source: Source, arrivals: Sequence[_Arrival]) -> Iterator[Version]:
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


def _versions(guard: Guard, shard: Shard) -> list[Version]:
    return versions_from_table(guard.storage.read_table(f"{shard['batch']}/versions.parquet"))


def _known(guard: Guard, ids: Sequence[str]) -> dict[str, Any]:
    columns = (
        documents.c.doc_id,
        documents.c.latest_version,
        documents.c.latest_content_sha256,
        documents.c.trust,
        documents.c.retired_at,
    )
    found: dict[str, Any] = {}
    with guard.ledger.read() as connection:
        for part in split(ids, 500):
            rows = connection.execute(sa.select(*columns).where(documents.c.doc_id.in_(part)))
            found.update({row.doc_id: row for row in rows})
    return found


def _released(guard: Guard, ids: Sequence[str]) -> set[str]:
    """Versions among `ids` whose bytes a reviewer released earlier: the decision holds when the same bytes come again."""
    from corpus_guard.ledger.tables import decisions

    found: dict[str, str] = {}
    with guard.ledger.read() as connection:
        for part in split(ids, 500):
            statement = (
                sa.select(decisions.c.version_id, decisions.c.verdict)
                .where(decisions.c.version_id.in_(part))
                .order_by(decisions.c.decided_at)
            )
            found.update({row.version_id: row.verdict for row in connection.execute(statement)})
    return {version for version, verdict in found.items() if verdict == "release"}


def _touch(guard: Guard, run_id: str, source: str, items: Sequence[Item], failures: Sequence[FetchFailed]) -> None:
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


def _vanish(guard: Guard, run_id: str, listed: Sequence[str]) -> int:
    """Note which documents are missing from their sources; retire those whose grace is over. Returns how many were retired."""
    grace = timedelta(hours=guard.policy.retire.grace_hours)
    retired = 0
    with guard.ledger.write() as connection:
        started = connection.scalar(sa.select(runs.c.started_at).where(runs.c.run_id == run_id))
        for source in listed:
            living = sa.and_(documents.c.source == source, documents.c.retired_at.is_(None))
            total = connection.scalar(sa.select(sa.func.count()).select_from(documents).where(living)) or 0
            rows = connection.execute(
                sa.select(documents.c.doc_id, documents.c.missing_since).where(
                    living, documents.c.last_seen_at < started
                )
            ).all()
            if not rows:
                continue
            if len(rows) > guard.policy.retire.max_share * total:
                log.warning(
                    "source %s: %d of %d documents vanished at once, more than the policy's share of %.0f %%; none is retired. If it is "
                    "meant, raise retire.max_share in the policy for one run",
                    source, len(rows), total, 100 * guard.policy.retire.max_share,
                )  # fmt: skip
                guard.ledger.event(connection, "retirement_held", source, run_id, missing=len(rows), total=total)
                continue
            when = now()
            new = [row.doc_id for row in rows if row.missing_since is None]
            for part in split(new, 500):
                connection.execute(documents.update().where(documents.c.doc_id.in_(part)).values(missing_since=when))
            over = [row.doc_id for row in rows if when - (row.missing_since or when) >= grace]
            publishing.retire(guard.ledger, connection, run_id, over, "vanished from its source")
            retired += len(over)
    return retired


def _balance(found: int, counts: Mapping[str, int]) -> None:
    total = sum(counts.values())
    if total != found:
        parts = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise Inconsistent(
            f"{found} documents were found, {total} are accounted for ({parts}); a step lost some. Run again"
        )


def _finish(guard: Guard, run_id: str, state: str, counts: Mapping[str, Any]) -> None:
    with guard.ledger.write() as connection:
        connection.execute(
            runs.update().where(runs.c.run_id == run_id).values(state=state, finished_at=now(), counts=dict(counts))
        )


def _total(shards: Iterable[Shard], name: str) -> int:
    return sum(int(shard.get(name, 0)) for shard in shards)  # type: ignore[call-overload]


def _folder(run_id: str) -> str:
    # A run id comes from whoever triggers the run; it names no path.
    return f"runs/{digest('run/v1', [run_id])[:16]}"


def _discovered(run_id: str) -> str:
    return f"{_folder(run_id)}/discovered.json"


def _survey(run_id: str) -> str:
    return f"{_folder(run_id)}/survey.json"


def _row(item: Item) -> dict[str, Any]:
    modified = item.modified_at.isoformat() if item.modified_at else None
    return {"uri": item.uri, "size": item.size, "modified_at": modified, "locator": item.locator}


def _item(row: Mapping[str, Any]) -> Item:
    modified = datetime.fromisoformat(row["modified_at"]) if row["modified_at"] else None
    return Item(row["uri"], row["size"], modified, row["locator"])
