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
from corpus_guard.batches.tables import judgements_from_table
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Judgement, Progress, Verdict, no_progress
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources import Sources
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import RunKind
from corpus_guard.ledger.tables import blocked, decision_stands, decisions, documents, findings, versions
from corpus_guard.models import Models
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.rebuild import SIGNALS, VERSIONS, rebuild_lost_batches
from corpus_guard.pipeline.steps import Shard
from corpus_guard.proof.sealing import seal_run
from corpus_guard.review.reopening import reopen
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
    progress: Progress = no_progress,
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
    names = [sources.named(name).name for name in source_names]
    rescreening = _Rescreening(
        ledger, TableCache(storage.url), store, blobs, models, screening, settings, run_id, dry_run=dry_run
    )
    return rescreening.run(_stale_versions(ledger, screening, names), progress)


@dataclass(frozen=True)
class _Rescreening:
    """New judgement of stored versions, with the difference it makes."""

    ledger: Ledger
    storage: Storage
    store: Store
    blobs: BlobStore
    models: Models
    screening: Screening
    settings: Settings
    run_id: str
    dry_run: bool
    difference: _Difference = field(default_factory=_Difference)

    def run(self, waiting: Sequence[_StaleVersion], progress: Progress) -> RescreenResult:
        """Judge these versions, publish and seal."""
        if not self.dry_run:
            sources = sorted({version.source for version in waiting})
            begin_run(self.ledger, self.run_id, RunKind.RESCREEN, self.screening.digest, sources)
        replay = ReplayedHistory(self.ledger, [version.version_id for version in waiting if not version.decided])
        for by_batch in _by_arrival(waiting):
            judged: dict[str, Verdict] = {}
            arrival = f"{self.run_id}/{next(iter(by_batch.values()))[0].fetched_by}"
            shards = [self._prepare(batch, part) for batch, part in by_batch.items()]
            surveyed = steps.survey(
                self.ledger, self.storage, self.store, self.models, self.screening, arrival, shards, replay
            )
            for shard, part in zip(surveyed, by_batch.values(), strict=True):
                progress("judging again", self.difference.examined, len(waiting))
                judged |= self._judge(arrival, shard, part)
            replay.settle([version.version_id for part in by_batch.values() for version in part], judged)
        result = self.difference.as_result(self.run_id, self.screening.digest, dry_run=self.dry_run)
        if not self.dry_run:
            progress("sealing", len(waiting), len(waiting))
            result["published"], result["retired"] = outbox.drain(self.ledger, self.storage, self.store, self.run_id)
            sealing = seal_run(self.ledger, self.storage, self.store, self.settings, self.run_id, _counts(result))
            result["manifest_sha256"] = sealing.manifest.sha256
        return result

    def _prepare(self, batch: str, part: Sequence[_StaleVersion]) -> Shard:
        """Return a batch as a shard: made again if it is lost, compared with the ledger, with its vectors."""
        folder = batch.rpartition("/")[0]
        if not self.dry_run:
            names = [batch, f"{folder}/{SIGNALS}"]
            rebuild_lost_batches(self.ledger, self.storage, self.blobs, self.models, self.settings, self.run_id, names)
        read_checked_versions(self.ledger, self.storage, batch, [version.version_id for version in part])
        shard = Shard(source=part[0].source, batch=folder)
        return steps.embed(self.ledger, self.storage, self.models, self.run_id, shard, dry_run=self.dry_run)

    def _judge(self, arrival: str, surveyed: Shard, part: Sequence[_StaleVersion]) -> dict[str, Verdict]:
        """Screen, compare and, unless it is a dry run, record. Return the new verdicts by version id."""
        by_id = {version.version_id: version for version in part}
        shard = steps.screen(
            self.ledger, self.storage, self.screening, arrival, surveyed, only=set(by_id), dry_run=self.dry_run
        )
        judgements = {
            judgement.version_id: judgement
            for judgement in judgements_from_table(self.storage.read_table(shard["judgements"]))
            if judgement.version_id in by_id
        }
        recorded_findings = _recorded_findings(self.ledger, by_id)  # before they are replaced
        recorded = set(by_id) if self.dry_run else self._record(arrival, shard, part, judgements)
        self.difference.passed_over += len(by_id) - len(recorded)
        for stored in part:
            if stored.version_id in recorded:
                self.difference.add(stored, judgements[stored.version_id], recorded_findings.get(stored.version_id, ()))
        return {version_id: judgements[version_id].verdict for version_id in recorded}

    def _record(
        self, arrival: str, shard: Shard, part: Sequence[_StaleVersion], judgements: Mapping[str, Judgement]
    ) -> set[str]:
        """Record judgements, and reopen what accepted trusted versions contradict. Return the recorded versions' ids."""
        batch = f"{shard['batch']}/{VERSIONS}"
        stored = read_checked_versions(self.ledger, self.storage, batch, [stale.version_id for stale in part])
        contradictions = steps.contradicted_since(self.storage, arrival, shard, judgements.values())
        hashes = hash_files(self.storage, filter(None, (shard["vectors"], shard["judgements"])))
        with self.ledger.write() as connection:
            log_files(connection, self.run_id, hashes)
            states = publishing.rejudge(
                connection,
                self.run_id,
                batch,
                [(version, judgements[version.version_id]) for version in stored],
                {stale.version_id: stale.judged_at for stale in part},
                collection=self.store.collection_name,
                vectors=shard["vectors"],
                model=shard["model"],
            )
            late = [contradiction for contradiction in contradictions if contradiction.version_id in states]
            reopen(connection, self.run_id, self.screening.policy, (), late)
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
        rows = connection.execute(statement).all()
        version_ids = [row.version_id for row in rows]
        standing = select_in_batches(connection, last, decisions.c.version_id, version_ids)
        decided = {row.version_id: row.verdict for row in standing}  # the last one counts
    return [
        _StaleVersion(
            **{**row._mapping, "fetched_at": datetime.fromisoformat(row.fetched_at)},
            decided=decided.get(row.version_id, ""),
        )
        for row in rows
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


def _recorded_findings(ledger: Ledger, version_ids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (check, code) of the recorded findings, by version id."""
    by_version: dict[str, list[tuple[str, str]]] = {}
    statement = sa.select(*findings.c["version_id", "check_name", "code"])
    with ledger.read() as connection:
        for row in select_in_batches(connection, statement, findings.c.version_id, version_ids):
            by_version.setdefault(row.version_id, []).append((row.check_name, row.code))
    return by_version


def _counts(result: RescreenResult) -> dict[str, object]:
    """Return what the ledger keeps of a result: the moved documents by their number only."""
    counts = {name: value for name, value in result.items() if name not in {"moved", "run_id"}}
    return {**counts, "moved": len(result["moved"])}
