"""Steps of a refresh. They exchange paths and counts, never text; each may be repeated or run twice at once.

    discover   list every source into shards
    intake     fetch and hash documents; store, parse, stamp and chunk those that changed
    embed      compute a vector for each new chunk
    survey     compare the documents of all shards with each other and with the ledger's history
    screen     run the checks and the policy: a verdict for each version
    publish    write the verdicts into the ledger and the accepted chunks into Chroma
    seal       retire vanished documents, balance the counts, write the manifest, sign the log

A step names its output by the hash of its input, the models and the policy. Existing output is reused, so a killed step is cheap to
repeat; verdicts and vectors only as a run has logged them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files, log_files, logged_hashes, verified_hash
from corpus_guard.batches.ownership import claim_storage
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import (
    CHUNK_TEXT_COLUMNS,
    chunk_texts_from_table,
    in_batches,
    judgements_from_table,
    judgements_to_table,
    versions_from_table,
)
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.store import Store
from corpus_guard.corpus.vectors import embed_chunks
from corpus_guard.domain import Judgement, Progress, Verdict, Version, digest, doc_id, no_progress, sha256_bytes
from corpus_guard.errors import Inconsistent, SourceUnavailable
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.sources import Sources
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Source, SourceItem, Unchanged, skipped_by
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import begin_refresh, end_run, run_folder
from corpus_guard.ledger.states import RunState
from corpus_guard.models import Models
from corpus_guard.pipeline.arrivals import (
    Arrival,
    attach_validators,
    batch_folder,
    checked_outcomes,
    items_to_fetch,
    record_listing,
    recorded_documents,
    retire_vanished,
    store_arrival,
    write_batch,
)
from corpus_guard.pipeline.canaries import CanaryResults, screen_canaries
from corpus_guard.pipeline.configuration import record_configuration
from corpus_guard.pipeline.semantics import compare_chunks
from corpus_guard.proof.log.heads import require_sealable, sign_head
from corpus_guard.proof.manifest import write_manifest
from corpus_guard.review.campaigns import assign_campaigns
from corpus_guard.review.reopening import (
    CompletedGroup,
    LateContradiction,
    completed_groups,
    groups_of,
    late_contradictions,
    reopen,
    waits_for_group,
)
from corpus_guard.screening.history import LedgerHistory, record_signals
from corpus_guard.screening.predecessors import find_predecessors, read_predecessors
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.survey.resemblance import History
from corpus_guard.screening.survey.signals import Signals, signals_from_table
from corpus_guard.screening.survey.survey import Survey, build_survey
from corpus_guard.settings import Settings

log = logging.getLogger(__name__)

SHARDS_BEFORE_GROWTH = 200  # then shards double in size: 1.5M documents stay below Airflow's 1,024 mapped tasks


class Discovery(TypedDict):
    """The listing of a run's sources; stored in the run's folder for `seal`."""

    listed: list[str]  # sources that could be listed
    failed: dict[str, str]  # source → reason it could not be listed
    documents: int
    skipped: dict[str, dict[str, int]]  # source → reason → entries that are no documents


class Shard(TypedDict, total=False):
    """Storage names and counts of a shard; each step adds its own."""

    source: str
    listed: int  # documents
    unchanged: int
    failed: int
    batch: str  # folder of the batch; "" if nothing changed
    judgements: str
    accepted: int
    quarantined: int
    rejected: int
    vectors: str
    model: str
    chunks: int
    published: int
    retired: int
    hashes: dict[str, str]  # SHA-256 of its files, by storage name, as the step that wrote them left them


class EndedRefresh(TypedDict):
    """Counts and digests of a refresh, as the ledger keeps them."""

    run_id: str
    documents: int
    accepted: int
    quarantined: int
    rejected: int
    unchanged: int
    failed: int
    vanished: int
    # Source → reason → entries that are no documents (hidden, links that lead out, …)
    skipped: dict[str, dict[str, int]]
    unlisted: list[str]  # sources that could not be listed; runs of older releases lack it
    published: int  # chunks
    retired: int  # chunks
    reopened: int  # versions that are served and wait: documents of this run state the same, and wait
    served: int  # chunks now in the collections
    manifest: str
    manifest_sha256: str
    canaries: CanaryResults | None  # None if no document was ever found


class RefreshResult(EndedRefresh):
    """Counts and digests of a refresh whose log is signed."""

    log_size: int  # events under the newest signed head
    log_root: str


def discover(
    ledger: Ledger,
    storage: Storage,
    sources: Sources,
    screening: Screening,
    settings: Settings,
    run_id: str,
    source_names: Sequence[str] = (),
    *,
    wait: bool = False,
) -> list[str]:
    """List sources into shards. A source that cannot be listed fails the run at its end; the others continue.

    Args:
        run_id: identity of this run; giving it again repeats the run.
        source_names: names, a repeated one counts once; empty: all of sources.yaml.
        wait: while another refresh is at work on one of the sources.

    Returns:
        Storage names of the listings.

    Raises:
        AlreadyAtWork: another refresh is at work on one of the sources, and `wait` is not set.
        UnknownSubject: a name is not in sources.yaml.
        Inconsistent: the ledger does not continue what was signed before, or the storage belongs to another deployment.
        SettingsError: a signing key is missing, or others can read it.
    """
    require_sealable(ledger, settings)
    claim_storage(ledger, storage)
    chosen = [sources.named(name) for name in dict.fromkeys(source_names or sources)]
    record_configuration(ledger, screening, settings, run_id)
    begin_refresh(ledger, run_id, screening.digest, [source.name for source in chosen], wait=wait)
    listings: list[str] = []
    result = Discovery(listed=[], failed={}, documents=0, skipped={})
    for source in chosen:
        try:
            names, count = _list(storage, settings, run_id, source, len(listings))
        except SourceUnavailable as error:
            log.warning("%s", error)
            result["failed"][source.name] = str(error)
            continue
        listings += names
        result["listed"].append(source.name)
        result["documents"] += count
        if skipped := skipped_by(source):
            result["skipped"][source.name] = skipped
    storage.write_json(_discovered(run_id), result)
    return listings


def documents_found(storage: Storage, run_id: str) -> int:
    """Return how many documents `discover` listed."""
    discovered: Discovery = storage.read_json(_discovered(run_id))
    return discovered["documents"]


def intake(
    ledger: Ledger,
    storage: Storage,
    blobs: BlobStore,
    chunker: Chunker,
    sources: Sources,
    settings: Settings,
    run_id: str,
    listing: str,
) -> Shard:
    """Fetch a shard's documents and write a batch of those that changed."""
    content = storage.read_json(listing)
    source = sources.named(content["source"])
    listed = [SourceItem.from_dict(row) for row in content["items"]]
    recorded = recorded_documents(ledger, [doc_id(source.name, item.uri) for item in listed])
    items = attach_validators(settings, source, listed, recorded)
    to_fetch = items_to_fetch(items)
    unchanged = len(items) - len(to_fetch)
    arrivals: list[Arrival] = []
    failures: list[FetchFailed] = []
    fetched: list[tuple[SourceItem, str, str]] = []
    for outcome in checked_outcomes(source, to_fetch):
        if isinstance(outcome, Unchanged):
            unchanged += 1
            continue
        if isinstance(outcome, FetchFailed) and not outcome.code.startswith("parsing."):
            failures.append(outcome)
            continue
        content_sha256, arrival = store_arrival(ledger, blobs, source, outcome, recorded)
        if isinstance(outcome, Fetched) and outcome.validator is not None:
            fetched.append((outcome.item, outcome.validator, content_sha256))
        if arrival:
            arrivals.append(arrival)
        else:
            unchanged += 1
    record_listing(ledger, run_id, source.name, items, failures, fetched)
    shard = Shard(source=source.name, listed=len(items), failed=len(failures), unchanged=unchanged, batch="")
    if arrivals:
        folder = batch_folder(chunker, source, arrivals)
        files = [f"{folder}/{name}.parquet" for name in ("versions", "signals")]
        if all(map(storage.exists, files)):  # an earlier run wrote it, and was killed
            with ledger.read() as connection:
                logged = logged_hashes(connection, folder)
            _require_unchanged(storage, folder, {name: {logged[name]} for name in files if logged.get(name)})
        shard["batch"] = write_batch(ledger, storage, blobs, chunker, settings, run_id, source, arrivals)
        shard["hashes"] = hash_files(storage, files)
        with ledger.write() as connection:
            log_files(connection, run_id, shard["hashes"])
    return shard


def changed_shards(shards: Iterable[Shard]) -> list[Shard]:
    """Return the shards that hold a changed document."""
    return [shard for shard in shards if shard["batch"]]


def embed(
    ledger: Ledger,
    storage: Storage,
    models: Models,
    run_id: str,
    shard: Shard,
    progress: Progress = no_progress,
    *,
    dry_run: bool = False,
) -> Shard:
    """Embed the chunks of a shard.

    Args:
        progress: counts the chunks.
        dry_run: write nothing into the ledger.
    """
    versions = storage.read_table(f"{shard['batch']}/versions.parquet", columns=CHUNK_TEXT_COLUMNS)
    chunks = chunk_texts_from_table(versions)
    name, model = embed_chunks(ledger, storage, models, shard["batch"], chunks, progress)
    hashes = hash_files(storage, filter(None, [name]))
    if not dry_run:
        with ledger.write() as connection:
            log_files(connection, run_id, hashes)
    return Shard(**{**shard, "hashes": shard.get("hashes", {}) | hashes}, vectors=name, model=model, chunks=len(chunks))


def survey(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    models: Models,
    screening: Screening,
    run_id: str,
    shards: Iterable[Shard],
    history: History | None = None,
) -> list[Shard]:
    """Compare the documents of all shards with each other and with `history` (None: the ledger's). Returns the shards unchanged.

    What a shard has to know of the others is a file of its own.
    """
    shards = list(shards)
    if not shards:
        return []
    versions: list[list[str]] = [[] for _ in shards]

    def measured() -> Iterator[Signals]:
        for shard, own in zip(shards, versions, strict=True):
            for signals in signals_from_table(storage.read_table(f"{shard['batch']}/signals.parquet")):
                own.append(signals.version_id)
                yield signals

    surveyed = replace(
        build_survey(measured(), history or LedgerHistory(ledger)),
        semantics=compare_chunks(
            ledger, storage, store, models, screening, [(shard["batch"], shard["vectors"]) for shard in shards]
        ),
    )
    for shard, own in zip(shards, versions, strict=True):
        storage.write(_survey_name(run_id, shard), surveyed.of(own).to_json())
    return shards


def screen(
    ledger: Ledger,
    storage: Storage,
    screening: Screening,
    run_id: str,
    shard: Shard,
    only: Collection[str] | None = None,
    *,
    dry_run: bool = False,
) -> Shard:
    """Judge each version of a shard.

    Args:
        only: ids of the versions that are judged; None: all.
        dry_run: write nothing into the ledger.

    Raises:
        Inconsistent: a file of the shard was changed since an earlier step wrote it.
    """
    _require_as_written(ledger, storage, shard)
    versions = [version for version in _versions(storage, shard) if only is None or version.version_id in only]
    relevant = _read_survey(storage, run_id, shard).of([version.version_id for version in versions])
    survey_digest, screening_digest = sha256_bytes(relevant.to_json()), screening.digest_of(shard["source"])
    predecessors = find_predecessors(ledger, run_id, versions)
    of_document = {version.version_id: version.doc_id for version in versions}
    made_from = [shard["batch"], survey_digest, screening_digest]
    # What a version follows of its own document is in the batch's name; which documents vanished, only this run knows.
    made_from += [
        f"{new} follows {old.version_id}" for new, old in sorted(predecessors.items()) if old.doc_id != of_document[new]
    ]
    name = f"{shard['batch']}/judgements-{digest('judgements/v1', made_from)[:32]}.parquet"
    with ledger.read() as connection:
        sha256 = verified_hash(connection, storage, name)
    if sha256:
        table = storage.read_table(name)
    else:  # nobody vouches for verdicts that no run has logged
        relevant = relevant.with_predecessors(read_predecessors(storage, predecessors))
        table = judgements_to_table(screening.judge(versions, relevant))
        content = parquet_bytes(table)
        sha256 = sha256_bytes(content)
        storage.write(name, content)
        if not dry_run:
            with ledger.write() as connection:
                log_files(connection, run_id, {name: sha256})
    verdicts = [judgement.verdict for judgement in judgements_from_table(table)]
    return Shard(
        **{**shard, "hashes": shard.get("hashes", {}) | {name: sha256}},
        judgements=name,
        accepted=verdicts.count(Verdict.ACCEPT),
        quarantined=verdicts.count(Verdict.QUARANTINE),
        rejected=verdicts.count(Verdict.REJECT),
    )


def publish(ledger: Ledger, storage: Storage, store: Store, run_id: str, shard: Shard) -> Shard:
    """Record a shard's verdicts and write its accepted chunks to Chroma.

    Raises:
        Inconsistent: a file of the shard was changed since an earlier step wrote it; nothing was recorded.
    """
    _require_as_written(ledger, storage, shard)
    by_id = {
        judgement.version_id: judgement for judgement in judgements_from_table(storage.read_table(shard["judgements"]))
    }
    measured = list(signals_from_table(storage.read_table(f"{shard['batch']}/signals.parquet")))
    waiting = [judgement for judgement in by_id.values() if waits_for_group(judgement)]
    groups = groups_of(waiting, _read_survey(storage, run_id, shard).semantics.agreements) if waiting else {}
    judged = [(version, by_id[version.version_id]) for version in _versions(storage, shard)]
    files = [f"{shard['batch']}/{name}.parquet" for name in ("versions", "signals")]
    hashes = hash_files(storage, [*files, *filter(None, (shard["vectors"], shard["judgements"]))])
    with ledger.write() as connection:
        log_files(connection, run_id, hashes)
        publishing.record(
            connection,
            run_id,
            f"{shard['batch']}/versions.parquet",
            judged,
            collection=store.collection_name,
            vectors=shard["vectors"],
            model=shard["model"],
        )
        record_signals(connection, measured)
        assign_campaigns(connection, measured, groups)
    published, retired = outbox.drain(ledger, storage, store, run_id)
    return Shard(**shard, published=published, retired=retired)


def seal(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    chunker: Chunker,
    screening: Screening,
    settings: Settings,
    run_id: str,
    fetched: Iterable[Shard],
    published: Iterable[Shard],
) -> RefreshResult:
    """End a run: retire vanished documents, reopen doubtful ones, balance the counts, write the manifest, sign the log.

    The canaries are screened in between.

    Raises:
        Inconsistent: the counts do not balance, or Chroma holds another number of chunks than the ledger says.
        SourceUnavailable: a source could not be listed; the others are refreshed and sealed.
    """
    fetched, published = list(fetched), list(published)
    discovered: Discovery = storage.read_json(_discovered(run_id))
    vanished = retire_vanished(ledger, screening.policy, run_id, discovered["listed"])
    reopened = _reopen(ledger, storage, screening, run_id, published)
    late = outbox.drain(ledger, storage, store, run_id)
    counts = {name: _total(published, name) for name in ("accepted", "quarantined", "rejected")}
    counts |= {name: _total(fetched, name) for name in ("unchanged", "failed")}
    try:
        _balance(discovered["documents"], counts)
        manifest = write_manifest(ledger, storage, store, run_id)
    except Inconsistent:
        end_run(ledger, run_id, counts, RunState.FAILED)
        raise
    canaries = None
    if discovered["documents"]:
        canaries = screen_canaries(ledger, storage, chunker, screening, settings, run_id, screened=bool(published))
    ended = EndedRefresh(
        run_id=run_id,
        documents=discovered["documents"],
        accepted=counts["accepted"],
        quarantined=counts["quarantined"],
        rejected=counts["rejected"],
        unchanged=counts["unchanged"],
        failed=counts["failed"],
        vanished=vanished,
        skipped=discovered.get("skipped", {}),  # a run that an older release began has none
        unlisted=sorted(discovered["failed"]),
        published=_total(published, "published") + late[0],
        retired=_total(published, "retired") + late[1],
        reopened=reopened,
        served=manifest.chunks,
        manifest=manifest.name,
        manifest_sha256=manifest.sha256,
        canaries=canaries,
    )
    end_run(ledger, run_id, ended, RunState.FAILED if discovered["failed"] else RunState.SEALED)
    head = sign_head(ledger, settings)  # last, so that the end of the run is signed, too
    if discovered["failed"]:
        raise SourceUnavailable(
            "; ".join(discovered["failed"].values())
            + ". The other sources are refreshed and sealed; run the refresh again once the source answers"
        )
    return RefreshResult(**ended, log_size=head.size, log_root=head.root.hex())


def _reopen(ledger: Ledger, storage: Storage, screening: Screening, run_id: str, published: Iterable[Shard]) -> int:
    """Reopen what is served and what versions of this run show in another light. Return how many versions."""
    groups: list[CompletedGroup] = []
    contradictions: list[LateContradiction] = []
    for shard in published:
        judgements = judgements_from_table(storage.read_table(shard["judgements"]))
        waiting = [judgement for judgement in judgements if judgement.verdict is not Verdict.ACCEPT]
        semantics = _read_survey(storage, run_id, shard).semantics
        groups += completed_groups(screening.policy, waiting, semantics.agreements)
        contradictions += late_contradictions(judgements, semantics.contradicted)
    if not groups and not contradictions:
        return 0
    with ledger.write() as connection:
        return reopen(connection, run_id, screening.policy, groups, contradictions)


def contradicted_since(
    storage: Storage, run_id: str, shard: Shard, judgements: Iterable[Judgement]
) -> list[LateContradiction]:
    """Return what accepted trusted versions of a shard contradict that was served before they came."""
    return late_contradictions(judgements, _read_survey(storage, run_id, shard).semantics.contradicted)


def _list(storage: Storage, settings: Settings, run_id: str, source: Source, before: int) -> tuple[list[str], int]:
    names: list[str] = []
    count = 0
    items = source.list()
    while True:
        size = settings.shard_documents * 2 ** ((before + len(names)) // SHARDS_BEFORE_GROWTH)
        part = next(iter(in_batches(items, size)), None)
        if part is None:
            return names, count
        name = f"{run_folder(run_id)}/{source.name}-{len(names):05}.json"
        storage.write_json(name, {"source": source.name, "items": [item.as_dict() for item in part]})
        names.append(name)
        count += len(part)


def _require_as_written(ledger: Ledger, storage: Storage, shard: Shard) -> None:
    """Check that a shard's files are as its steps wrote them, or as they were made again since."""
    with ledger.read() as connection:
        logged = logged_hashes(connection, shard["batch"])
    written = shard.get("hashes", {})
    _require_unchanged(storage, shard["batch"], {name: {written[name], logged.get(name)} for name in written})


def _require_unchanged(storage: Storage, folder: str, allowed: Mapping[str, Collection[str | None]]) -> None:
    """Check that each file of a batch has one of its allowed hashes."""
    for name, hashes in allowed.items():
        if (actual := storage.sha256(name)) not in hashes:
            expected = " or ".join(f"{sha256[:16]}…" for sha256 in hashes if sha256)
            raise Inconsistent(
                f"{storage.location(name)}: SHA-256 is {actual[:16]}…, expected {expected}: it was changed after a run had "
                f"written it, and nothing of it was published. Find out by whom, delete {storage.location(folder)}, and "
                "run again: it is made again from the raw bytes"
            )


def _versions(storage: Storage, shard: Shard) -> list[Version]:
    return versions_from_table(storage.read_table(f"{shard['batch']}/versions.parquet"))


def _balance(listed: int, counts: Mapping[str, int]) -> None:
    total = sum(counts.values())
    if total != listed:
        parts = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise Inconsistent(
            f"{listed} documents were listed but {total} are accounted for ({parts}): a step lost some; run the refresh again"
        )


def _total(shards: Iterable[Shard], name: str) -> int:
    return sum(int(shard.get(name, 0)) for shard in shards)  # type: ignore[call-overload]


def _discovered(run_id: str) -> str:
    return f"{run_folder(run_id)}/discovered.json"


def _survey_name(run_id: str, shard: Shard) -> str:
    return f"{run_folder(run_id)}/survey-{shard['batch'].rpartition('/')[2]}.json"


def _read_survey(storage: Storage, run_id: str, shard: Shard) -> Survey:
    return Survey.from_json(storage.read(_survey_name(run_id, shard)))
