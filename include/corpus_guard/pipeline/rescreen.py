"""Rescreening: stored versions are judged again by today's policy, without fetching or parsing (`guard rescreen`).

Rules
- The latest and the served version of every document that has not vanished are judged again if another policy digest than today's
  gave their verdict. The digest covers thresholds, rules, models, code and mutes.
- Arrivals are replayed in order. A version is compared with what the same run fetched, and with what today's policy or a person has
  already judged; versions that still wait to be judged again are left out. Otherwise two copies would keep each other in quarantine.
- Only stale versions and their batches are read; each batch is decoded at most twice. One that is lost is made again from the raw
  bytes first (`corpus_guard.pipeline.rebuild`).
- The fast checks run again; results of slow checks are reused by content while the check is unchanged.
- A reviewer's decision stays in force, whatever the new verdict.
- A trusted version that is accepted reopens what it contradicts and is served, as one that arrives does.
- New verdicts go through the outbox. Killed or run twice, it converges; it reports the difference of its own run only.
- A dry run changes no verdict and nothing that is served. It leaves derived files, which the real run reuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files, log_files
from corpus_guard.batches.reading import read_checked_versions
from corpus_guard.batches.table_cache import TableCache
from corpus_guard.batches.tables import in_batches, judgements_from_table
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Judgement, Progress, Verdict
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources import Sources
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.tables import blocked, decision_stands, decisions, documents, findings, versions
from corpus_guard.models import Models
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.rebuild import SIGNALS, rebuild_lost_batches
from corpus_guard.pipeline.steps import Shard
from corpus_guard.proof.sealing import seal_run
from corpus_guard.review.reopening import LateContradiction, reopen
from corpus_guard.screening.history import ReplayedHistory
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings


class MovedDocument(TypedDict):
    """A document whose verdict changed."""

    version_id: str
    source: str
    uri: str
    before: str  # verdict
    after: str
    decided: str  # a reviewer's decision that stays in force; "" if there is none
    risk: list[float]  # before, after
    gained: list[str]  # codes
    lost: list[str]


class CheckDifference(TypedDict):
    """Documents in which a check has findings, before and after."""

    before: int
    after: int
    gained: int
    lost: int


class RescreenResult(TypedDict):
    """Result of a rescreening, or of a dry run."""

    run_id: str
    dry_run: bool
    policy_digest: str
    examined: int
    passed_over: int  # judged by another run meanwhile
    verdicts: dict[str, int]  # "accept → quarantine" → documents; unchanged verdicts too
    checks: dict[str, CheckDifference]
    moved: list[MovedDocument]
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str  # "" in a dry run


@dataclass(frozen=True, slots=True)
class _StaleVersion:
    """A version judged by another policy."""

    version_id: str
    source: str
    uri: str
    batch: str
    state: str
    verdict: str
    risk: float
    judged_at: datetime
    fetched_by: str  # run
    fetched_at: datetime
    decided: str  # release, reject or ""


@dataclass(slots=True)
class _Difference:
    """Running totals over the versions."""

    examined: int = 0
    passed_over: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    checks: dict[str, CheckDifference] = field(default_factory=dict)
    moved: list[MovedDocument] = field(default_factory=list)

    def add(self, stored: _StaleVersion, judgement: Judgement, recorded: Iterable[tuple[str, str]]) -> None:
        before, after = set(recorded), {(finding.check, finding.code) for finding in judgement.findings}
        self.examined += 1
        self.verdicts[f"{stored.verdict} → {judgement.verdict.value}"] += 1
        old, new = {check for check, _ in before}, {check for check, _ in after}
        for check in old | new:
            change = self.checks.setdefault(check, CheckDifference(before=0, after=0, gained=0, lost=0))
            change["before"] += check in old
            change["after"] += check in new
            change["gained"] += check in new - old
            change["lost"] += check in old - new
        if stored.verdict != judgement.verdict:
            moved = MovedDocument(
                version_id=stored.version_id,
                source=stored.source,
                uri=stored.uri,
                before=stored.verdict,
                after=judgement.verdict.value,
                decided=stored.decided,
                risk=[stored.risk, judgement.risk],
                gained=sorted(code for _, code in after - before),
                lost=sorted(code for _, code in before - after),
            )
            self.moved.append(moved)

    def as_result(self, run_id: str, policy_digest: str, *, dry_run: bool) -> RescreenResult:
        """Return what became of a run so far: nothing is published or sealed yet."""
        return RescreenResult(
            run_id=run_id,
            dry_run=dry_run,
            policy_digest=policy_digest,
            examined=self.examined,
            passed_over=self.passed_over,
            verdicts=dict(sorted(self.verdicts.items())),
            checks=dict(sorted(self.checks.items())),
            moved=self.moved,
            published=0,
            retired=0,
            manifest_sha256="",
        )


def rescreen(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    blobs: BlobStore,
    models: Models,
    sources: Sources,
    screening: Screening,
    settings: Settings,
    run_id: str,
    source_names: Sequence[str] = (),
    *,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> RescreenResult:
    """Judge stored versions again that another policy judged.

    Args:
        blobs: the raw bytes, from which a lost batch is made again; a dry run makes none.
        source_names: names; empty: all of the ledger.
        dry_run: report the difference and record nothing.

    Raises:
        UnknownSubject: a name is not in sources.yaml.
        BatchDamaged: a batch is gone, or does not hold what was judged.
        CannotRebuild: a lost batch cannot be made again as it was judged.
    """
    storage = TableCache(storage.url)
    names = [sources.named(name).name for name in source_names]
    waiting = _stale_versions(ledger, screening, names)
    if not dry_run:
        begin_run(ledger, run_id, "rescreen", screening.digest, sorted({version.source for version in waiting}))
    replay = ReplayedHistory(ledger, [version.version_id for version in waiting if not version.decided])
    difference = _Difference()
    for arrived in _by_arrival(waiting):
        shards = []
        for batch, part in arrived.items():
            if not dry_run:
                names_of_files = [batch, f"{batch.rpartition('/')[0]}/{SIGNALS}"]
                rebuild_lost_batches(ledger, storage, blobs, models, settings, run_id, names_of_files)
            read_checked_versions(ledger, storage, batch, [version.version_id for version in part])
            shard = Shard(source=part[0].source, batch=batch.rpartition("/")[0])
            shards.append(steps.embed(ledger, storage, models, run_id, shard, dry_run=dry_run))
        arrival = f"{run_id}/{next(iter(arrived.values()))[0].fetched_by}"
        judged: dict[str, Verdict] = {}
        for shard, part in zip(
            steps.survey(ledger, storage, store, models, screening, arrival, shards, replay),
            arrived.values(),
            strict=True,
        ):
            progress("judging again", difference.examined, len(waiting))
            stale = {version.version_id for version in part}
            screened = steps.screen(ledger, storage, screening, arrival, shard, only=stale, dry_run=dry_run)
            judged |= _judge(
                ledger, storage, store, screening, arrival, run_id, screened, part, difference, dry_run=dry_run
            )
        replay.settle([version.version_id for part in arrived.values() for version in part], judged)
    result = difference.as_result(run_id, screening.digest, dry_run=dry_run)
    if not dry_run:
        progress("sealing", len(waiting), len(waiting))
        result["published"], result["retired"] = outbox.drain(ledger, storage, store, run_id)
        sealing = seal_run(ledger, storage, store, settings, run_id, _counts(result))
        result["manifest_sha256"] = sealing.manifest.sha256
    return result


def _judge(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    screening: Screening,
    arrival: str,
    run_id: str,
    shard: Shard,
    part: Sequence[_StaleVersion],
    difference: _Difference,
    *,
    dry_run: bool,
) -> dict[str, Verdict]:
    """Compare and, unless it is a dry run, record. Returns the new verdicts by version id."""
    by_id = {version.version_id: version for version in part}
    judgements = {
        judgement.version_id: judgement
        for judgement in judgements_from_table(storage.read_table(shard["judgements"]))
        if judgement.version_id in by_id
    }
    recorded_findings = _recorded_findings(ledger, list(by_id))
    contradictions = [] if dry_run else steps.contradicted_since(storage, arrival, shard, judgements.values())
    recorded = (
        set(by_id)
        if dry_run
        else _record(ledger, storage, store, screening, run_id, shard, part, judgements, contradictions)
    )
    difference.passed_over += len(by_id) - len(recorded)
    for stored in part:
        if stored.version_id in recorded:
            difference.add(stored, judgements[stored.version_id], recorded_findings.get(stored.version_id, ()))
    return {version_id: judgements[version_id].verdict for version_id in recorded}


def _record(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    screening: Screening,
    run_id: str,
    shard: Shard,
    part: Sequence[_StaleVersion],
    judgements: Mapping[str, Judgement],
    contradictions: Sequence[LateContradiction],
) -> set[str]:
    batch = f"{shard['batch']}/versions.parquet"
    ids = [stale.version_id for stale in part]
    stored = read_checked_versions(ledger, storage, batch, ids)
    hashes = hash_files(storage, filter(None, (shard["vectors"], shard["judgements"])))
    with ledger.write() as connection:
        log_files(connection, run_id, hashes)
        states = publishing.rejudge(
            connection,
            run_id,
            batch,
            [(version, judgements[version.version_id]) for version in stored],
            {stale.version_id: stale.judged_at for stale in part},
            collection=store.collection_name,
            vectors=shard["vectors"],
            model=shard["model"],
        )
        reopen(connection, run_id, screening.policy, (), [each for each in contradictions if each.version_id in states])
    return set(states)


def _stale_versions(ledger: Ledger, screening: Screening, sources: Sequence[str]) -> list[_StaleVersion]:
    """Return the versions judged by another policy, oldest run first."""
    statement = (
        sa.select(
            versions.c.version_id,
            documents.c.source,
            documents.c.uri,
            *versions.c["batch", "state", "verdict", "risk", "judged_at"],
            versions.c.stamp["run_id"].as_string().label("fetched_by"),
            versions.c.stamp["fetched_at"].as_string().label("fetched_at"),
        )
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(
            documents.c.retired_at.is_(None),
            versions.c.version_id.in_((documents.c.latest_version, documents.c.target_version)),
            versions.c.policy_digest != _digest_per_source(screening),
            versions.c.content_sha256.not_in(sa.select(blocked.c.sha256)),  # its text is gone
        )
    )
    if sources:
        statement = statement.where(documents.c.source.in_(sources))
    last = (
        sa.select(decisions.c.version_id, decisions.c.verdict).where(decision_stands()).order_by(decisions.c.decided_at)
    )
    with ledger.read() as connection:
        decided = {row.version_id: row.verdict for row in connection.execute(last)}
        return [
            _StaleVersion(
                **{**row._mapping, "fetched_at": datetime.fromisoformat(row.fetched_at)},
                decided=decided.get(row.version_id, ""),
            )
            for row in connection.execute(statement)
        ]


def _digest_per_source(screening: Screening) -> sa.ColumnElement[str]:
    """Return the digest that applies to a row's source: a mute changes it for one source only."""
    muted = {source: screening.digest_of(source) for source in screening.mutes}
    here = screening.digest
    return sa.case(muted, value=documents.c.source, else_=here) if muted else sa.literal(here)


def _by_arrival(stored: Iterable[_StaleVersion]) -> Iterator[dict[str, list[_StaleVersion]]]:
    """Yield the batches of one run at a time, in the order of the runs."""
    by_run: dict[str, list[_StaleVersion]] = {}
    for version in sorted(stored, key=lambda stale: (stale.fetched_at, stale.version_id)):
        by_run.setdefault(version.fetched_by, []).append(version)
    for arrived in by_run.values():
        by_batch: dict[str, list[_StaleVersion]] = {}
        for version in arrived:
            by_batch.setdefault(version.batch, []).append(version)
        yield by_batch


def _recorded_findings(ledger: Ledger, ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (check, code) of the recorded findings, by version id."""
    by_version: dict[str, list[tuple[str, str]]] = {}
    columns = sa.select(findings.c.version_id, findings.c.check_name, findings.c.code)
    with ledger.read() as connection:
        for part in in_batches(ids, 500):
            for row in connection.execute(columns.where(findings.c.version_id.in_(part))):
                by_version.setdefault(row.version_id, []).append((row.check_name, row.code))
    return by_version


def _counts(result: RescreenResult) -> dict[str, object]:
    """Return what the ledger keeps of a result: the moved documents by their number only."""
    counts = {name: value for name, value in result.items() if name not in {"moved", "run_id"}}
    return {**counts, "moved": len(result["moved"])}
