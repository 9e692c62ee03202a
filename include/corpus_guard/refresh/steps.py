"""The steps of a refresh. Each takes and gives paths and counts, never text; each may be repeated or run twice at once.

    discover   list every source into shards
    intake     fetch, hash; what changed is kept raw, parsed, stamped, chunked and measured
    embed      a vector for each new chunk: screening compares them, the collections store those of the accepted
    survey     join the measures and vectors of all shards with the ledger's history
    screen     checks and policy: a verdict for each version
    publish    verdicts into the ledger, accepted chunks into Chroma
    seal       retire what vanished, balance the counts, write the manifest, sign the log

A step names its output by the hash of its input, the models and the policy. Output that exists is taken as it is: that is what
makes a killed step cheap to repeat.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from corpus_guard.batches.tables import (
    judgements_from_table,
    judgements_to_table,
    split,
    versions_from_table,
)
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.vectors import embed_chunks
from corpus_guard.domain import Verdict, Version, digest, doc_id, sha256_bytes
from corpus_guard.errors import Inconsistent, SourceUnavailable
from corpus_guard.guard import Guard
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Source, Unchanged
from corpus_guard.ledger.runs import begin, end
from corpus_guard.refresh._arrivals import (
    Arrival,
    answers,
    arrive,
    batch_of,
    known_documents,
    to_ask,
    touch,
    with_known,
)
from corpus_guard.refresh._canaries import Canaries, screen_canaries
from corpus_guard.refresh._vanished import vanish

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from corpus_guard.screening.survey import History

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
    log_size: int  # events under the newest signed head
    log_root: str
    canaries: Canaries | None  # none: no document was ever found


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
    begin(guard.ledger, run_id, "refresh", guard.screening.digest, [source.name for source in chosen])
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
    listed = [_item(row) for row in content["items"]]
    known = known_documents(guard, [doc_id(source.name, item.uri) for item in listed])
    items = with_known(guard, source, listed, known)
    wanted = to_ask(items)
    unchanged = len(items) - len(wanted)
    arrivals: list[Arrival] = []
    failures: list[FetchFailed] = []
    read: list[tuple[Item, str, str]] = []
    for outcome in answers(source, wanted):
        if isinstance(outcome, Unchanged):
            unchanged += 1
            continue
        if isinstance(outcome, FetchFailed) and not outcome.code.startswith("parsing."):
            failures.append(outcome)
            continue
        content_sha256, arrival = arrive(guard, source, outcome, known)
        if isinstance(outcome, Fetched) and outcome.validator is not None:
            read.append((outcome.item, outcome.validator, content_sha256))
        if arrival:
            arrivals.append(arrival)
        else:
            unchanged += 1
    touch(guard, run_id, source.name, items, failures, read)
    shard = Shard(
        source=source.name,
        found=len(items),
        failed=len(failures),
        unchanged=unchanged,
        batch="",
    )
    if arrivals:
        shard["batch"] = batch_of(guard, run_id, source, arrivals)
    return shard


def changed(guard: Guard, run_id: str, shards: Iterable[Shard]) -> list[Shard]:
    """Those that hold anything new."""
    return [shard for shard in shards if shard["batch"]]


def embed(guard: Guard, run_id: str, shard: Shard) -> Shard:
    """Vectors for the chunks of a shard."""
    chunks = [(chunk.chunk_id, chunk.text) for version in _versions(guard, shard) for chunk in version.chunks]
    name, model = embed_chunks(guard.storage, guard.models, shard["batch"], chunks)
    return Shard(**shard, vectors=name, model=model, chunks=len(chunks))


def survey(guard: Guard, run_id: str, shards: Iterable[Shard], history: History | None = None) -> list[Shard]:
    """Join the measures and vectors of all shards with the ledger's history, or another. Returns the shards as they came."""
    shards = list(shards)
    if not shards:
        return []
    from corpus_guard.refresh._semantics import semantics
    from corpus_guard.screening.history import LedgerHistory
    from corpus_guard.screening.signals import from_table
    from corpus_guard.screening.survey import build_survey

    measured = (
        one for shard in shards for one in from_table(guard.storage.read_table(f"{shard['batch']}/signals.parquet"))
    )
    surveyed = replace(
        build_survey(measured, history or LedgerHistory(guard.ledger)),
        semantics=semantics(guard, [(shard["batch"], shard["vectors"]) for shard in shards]),
    )
    guard.storage.write(_survey(run_id), surveyed.to_json())
    return shards


def screen(guard: Guard, run_id: str, shard: Shard) -> Shard:
    """A verdict for each version of a shard."""
    from corpus_guard.screening.predecessors import load_predecessors
    from corpus_guard.screening.survey import Survey

    versions = _versions(guard, shard)
    relevant = Survey.from_json(guard.storage.read(_survey(run_id))).of([version.version_id for version in versions])
    seen, decides = sha256_bytes(relevant.to_json()), guard.screening.digest_of(shard["source"])
    name = f"{shard['batch']}/judgements-{digest('judgements/v1', [shard['batch'], seen, decides])[:32]}.parquet"
    if not guard.storage.exists(name):
        relevant = relevant.with_predecessors(load_predecessors(guard.ledger, guard.storage, versions))
        guard.storage.write_table(name, judgements_to_table(guard.screening.judge(versions, relevant)))
    judgements = judgements_from_table(guard.storage.read_table(name))
    verdicts = [judgement.verdict for judgement in judgements]
    return Shard(
        **shard,
        judgements=name,
        accepted=verdicts.count(Verdict.ACCEPT),
        quarantined=verdicts.count(Verdict.QUARANTINE),
        rejected=verdicts.count(Verdict.REJECT),
    )


def publish(guard: Guard, run_id: str, shard: Shard) -> Shard:
    """Record a shard's verdicts and bring its accepted chunks into Chroma."""
    from corpus_guard.review.campaigns import group
    from corpus_guard.screening.history import remember
    from corpus_guard.screening.signals import from_table

    by_id = {
        judgement.version_id: judgement
        for judgement in judgements_from_table(guard.storage.read_table(shard["judgements"]))
    }
    measured = list(from_table(guard.storage.read_table(f"{shard['batch']}/signals.parquet")))

    def along_with(connection: Connection) -> None:
        remember(guard.ledger, connection, measured)
        group(guard.ledger, connection, measured)

    publishing.record(
        guard.ledger,
        run_id,
        f"{shard['batch']}/versions.parquet",
        [(version, by_id[version.version_id]) for version in _versions(guard, shard)],
        collection=guard.collection,
        vectors=shard["vectors"],
        model=shard["model"],
        along_with=along_with,
    )
    published, retired = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    return Shard(**shard, published=published, retired=retired)


def seal(guard: Guard, run_id: str, taken: Iterable[Shard], published: Iterable[Shard]) -> Sealed:
    """End a run: retire what vanished, check that nothing was lost, write the manifest, sign the log, screen the canaries.

    Raises:
        Inconsistent: the counts do not balance, or Chroma holds another number of chunks than the ledger says.
        SourceUnavailable: a source could not be listed; all the others are done and sealed.
    """
    from corpus_guard.proof.sealing import seal_corpus

    taken, published = list(taken), list(published)
    discovered: Discovered = guard.storage.read_json(_discovered(run_id))
    vanished = vanish(guard, run_id, discovered["listed"])
    late = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    counts = {name: _total(published, name) for name in ("accepted", "quarantined", "rejected")}
    counts |= {name: _total(taken, name) for name in ("unchanged", "failed")}
    try:
        _balance(discovered["documents"], counts)
        sealing = seal_corpus(guard, run_id)
    except Inconsistent:
        end(guard.ledger, run_id, counts, "failed")
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
        served=sealing.manifest.chunks,
        manifest=sealing.manifest.name,
        manifest_sha256=sealing.manifest.sha256,
        log_size=sealing.head.size,
        log_root=sealing.head.root.hex(),
        canaries=screen_canaries(guard, run_id, screened=bool(published)) if discovered["documents"] else None,
    )
    if discovered["failed"]:
        end(guard.ledger, run_id, sealed, "failed")
        raise SourceUnavailable(
            "; ".join(discovered["failed"].values())
            + ". The other sources are refreshed and sealed; running again converges"
        )
    end(guard.ledger, run_id, sealed)
    return sealed


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


def _versions(guard: Guard, shard: Shard) -> list[Version]:
    return versions_from_table(guard.storage.read_table(f"{shard['batch']}/versions.parquet"))


def _balance(found: int, counts: Mapping[str, int]) -> None:
    total = sum(counts.values())
    if total != found:
        parts = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise Inconsistent(
            f"{found} documents were found, {total} are accounted for ({parts}); a step lost some. Run again"
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
    return {
        "uri": item.uri,
        "size": item.size,
        "modified_at": modified,
        "locator": item.locator,
        "validator": item.validator,
    }


def _item(row: Mapping[str, Any]) -> Item:
    modified = datetime.fromisoformat(row["modified_at"]) if row["modified_at"] else None
    return Item(row["uri"], row["size"], modified, row["locator"], row.get("validator"))
