"""Stored versions judged anew, without fetching or parsing anything: what `guard rescreen` does.

Rules
- Judged anew are the latest and the served version of every document that has not vanished, if another policy digest than
  today's gave their verdict. The digest covers thresholds, rules, models, code and mutes: what nothing changed for is not touched.
- Arrivals are replayed in their order. A version sees as new what the same run fetched, and of what still waits to be judged
  anew, nothing; what today's policy or a person has judged stands as it does. Otherwise two copies would keep each other in
  quarantine for ever.
- The first stage runs again; what a slow check found is kept by content, for as long as that check did not change.
- A reviewer's decision stays in force, whatever the new verdict.
- New verdicts take the ordinary way through the outbox. Killed or run twice it converges; only the difference it reports is
  that of its own run.
- A dry run changes no verdict and nothing that is served. (It leaves derived files, which the real run takes as they are.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

import sqlalchemy as sa

from corpus_guard.batches.tables import judgements_from_table, split, versions_from_table
from corpus_guard.corpus import outbox, publishing
from corpus_guard.domain import Judgement, Verdict
from corpus_guard.guard import Guard
from corpus_guard.ledger.runs import begin, end
from corpus_guard.ledger.tables import blocked, decisions, documents, findings, standing, versions
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.refresh import steps
from corpus_guard.refresh.steps import Shard
from corpus_guard.screening.replay import Replay

Progress = Callable[[str, int, int], None]
"""(what is being done, versions done, versions in all)."""


class Moved(TypedDict):
    """A document whose verdict is another now."""

    version_id: str
    source: str
    uri: str
    before: str  # verdict
    after: str
    decided: str  # a reviewer's decision that keeps it where it is; "" where there is none
    risk: list[float]  # before, after
    gained: list[str]  # codes
    lost: list[str]


class Change(TypedDict):
    """What one check found before and finds now, in documents."""

    before: int
    after: int
    gained: int
    lost: int


class Rescreened(TypedDict):
    """What judging anew did, or would do."""

    run_id: str
    dry_run: bool
    policy_digest: str
    examined: int
    passed_over: int  # somebody else judged them meanwhile
    verdicts: dict[str, int]  # "accept → quarantine": documents, and those that kept theirs
    checks: dict[str, Change]
    moved: list[Moved]
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str  # "" in a dry run


@dataclass(frozen=True, slots=True)
class _Stored:
    """A version that another policy judged."""

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
    """Counted version by version."""

    examined: int = 0
    passed_over: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    checks: dict[str, Change] = field(default_factory=dict)
    moved: list[Moved] = field(default_factory=list)

    def add(self, stored: _Stored, judgement: Judgement, known: Iterable[tuple[str, str]]) -> None:
        before, after = set(known), {(finding.check, finding.code) for finding in judgement.findings}
        self.examined += 1
        self.verdicts[f"{stored.verdict} → {judgement.verdict.value}"] += 1
        old, new = {check for check, _ in before}, {check for check, _ in after}
        for check in old | new:
            change = self.checks.setdefault(check, Change(before=0, after=0, gained=0, lost=0))
            change["before"] += check in old
            change["after"] += check in new
            change["gained"] += check in new - old
            change["lost"] += check in old - new
        if stored.verdict != judgement.verdict:
            moved = Moved(
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


def rescreen(
    guard: Guard,
    run_id: str,
    sources: Sequence[str] = (),
    *,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Rescreened:
    """Judge anew what another policy judged.

    Args:
        guard: the deployment, with today's policy.
        run_id: identity of this run.
        sources: names; empty: all of the ledger.
        dry_run: tell the difference and record nothing.
        progress: told before each batch.

    Raises:
        UnknownSubject: a name is not in sources.yaml.
        Inconsistent: a batch that the ledger names is gone.
    """
    names = [guard.source(name).name for name in sources]
    waiting = _stale(guard, names)
    if not dry_run:
        begin(guard.ledger, run_id, "rescreen", guard.screening.digest, sorted({one.source for one in waiting}))
    replay = Replay(guard.ledger, [one.version_id for one in waiting if not one.decided])
    difference = _Difference()
    for arrived in _by_arrival(waiting):
        shards = [
            steps.embed(guard, run_id, Shard(source=part[0].source, batch=batch.rpartition("/")[0]))
            for batch, part in arrived.items()
        ]
        arrival = f"{run_id}/{next(iter(arrived.values()))[0].fetched_by}"
        judged: dict[str, Verdict] = {}
        for shard, part in zip(steps.survey(guard, arrival, shards, replay), arrived.values(), strict=True):
            progress("judging anew", difference.examined, len(waiting))
            screened = steps.screen(guard, arrival, shard)
            judged |= _judge(guard, run_id, screened, part, difference, dry_run=dry_run)
        replay.settle([one.version_id for part in arrived.values() for one in part], judged)
    result = Rescreened(
        run_id=run_id,
        dry_run=dry_run,
        policy_digest=guard.screening.digest,
        examined=difference.examined,
        passed_over=difference.passed_over,
        verdicts=dict(sorted(difference.verdicts.items())),
        checks=dict(sorted(difference.checks.items())),
        moved=difference.moved,
        published=0,
        retired=0,
        manifest_sha256="",
    )
    if not dry_run:
        progress("sealing", len(waiting), len(waiting))
        result["published"], result["retired"] = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
        result["manifest_sha256"] = seal_corpus(guard, run_id).manifest.sha256
        _finish(guard, run_id, result)
    return result


def _judge(
    guard: Guard, run_id: str, shard: Shard, part: Sequence[_Stored], difference: _Difference, *, dry_run: bool
) -> dict[str, Verdict]:
    """Compare, and record unless it is a dry run. Returns the new verdicts."""
    by_id = {one.version_id: one for one in part}
    judgements = {
        judgement.version_id: judgement
        for judgement in judgements_from_table(guard.storage.read_table(shard["judgements"]))
        if judgement.version_id in by_id
    }
    known = _known_findings(guard, list(by_id))
    recorded = set(by_id) if dry_run else _record(guard, run_id, shard, part, judgements)
    difference.passed_over += len(by_id) - len(recorded)
    for stored in part:
        if stored.version_id in recorded:
            difference.add(stored, judgements[stored.version_id], known.get(stored.version_id, ()))
    return {version_id: judgements[version_id].verdict for version_id in recorded}


def _record(
    guard: Guard, run_id: str, shard: Shard, part: Sequence[_Stored], judgements: Mapping[str, Judgement]
) -> set[str]:
    batch = f"{shard['batch']}/versions.parquet"
    ids = [one.version_id for one in part]
    stored = versions_from_table(guard.storage.read_table(batch, filters=[("version_id", "in", ids)]))
    states = publishing.rejudge(
        guard.ledger,
        run_id,
        batch,
        [(version, judgements[version.version_id]) for version in stored],
        {one.version_id: one.judged_at for one in part},
        collection=guard.collection,
        vectors=shard["vectors"],
        model=shard["model"],
    )
    return set(states)


def _stale(guard: Guard, sources: Sequence[str]) -> list[_Stored]:
    """Versions that another policy judged."""
    statement = (
        sa.select(
            versions.c.version_id,
            documents.c.source,
            documents.c.uri,
            versions.c.batch,
            versions.c.state,
            versions.c.verdict,
            versions.c.risk,
            versions.c.judged_at,
            versions.c.stamp["run_id"].as_string().label("fetched_by"),
            versions.c.stamp["fetched_at"].as_string().label("fetched_at"),
        )
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(
            documents.c.retired_at.is_(None),
            versions.c.version_id.in_((documents.c.latest_version, documents.c.target_version)),
            versions.c.policy_digest != _decides(guard),
            versions.c.content_sha256.not_in(sa.select(blocked.c.sha256)),  # its text is gone
        )
    )
    if sources:
        statement = statement.where(documents.c.source.in_(sources))
    last = sa.select(decisions.c.version_id, decisions.c.verdict).where(standing()).order_by(decisions.c.decided_at)
    with guard.ledger.read() as connection:
        decided = {row.version_id: row.verdict for row in connection.execute(last)}
        return [
            _Stored(
                **{**row._mapping, "fetched_at": datetime.fromisoformat(row.fetched_at)},
                decided=decided.get(row.version_id, ""),
            )
            for row in connection.execute(statement)
        ]


def _decides(guard: Guard) -> sa.ColumnElement[str]:
    """The digest of what decides about a row's source: a mute is news for its own source alone."""
    muted = {source: guard.screening.digest_of(source) for source in guard.screening.mutes}
    here = guard.screening.digest
    return sa.case(muted, value=documents.c.source, else_=here) if muted else sa.literal(here)


def _by_arrival(stored: Iterable[_Stored]) -> Iterator[dict[str, list[_Stored]]]:
    """Batches of one run at a time, in the order in which the runs fetched."""
    by_run: dict[str, list[_Stored]] = {}
    for one in sorted(stored, key=lambda one: (one.fetched_at, one.version_id)):
        by_run.setdefault(one.fetched_by, []).append(one)
    for arrived in by_run.values():
        by_batch: dict[str, list[_Stored]] = {}
        for one in arrived:
            by_batch.setdefault(one.batch, []).append(one)
        yield by_batch


def _known_findings(guard: Guard, ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Version → (check, code) as recorded."""
    found: dict[str, list[tuple[str, str]]] = {}
    columns = sa.select(findings.c.version_id, findings.c.check_name, findings.c.code)
    with guard.ledger.read() as connection:
        for part in split(ids, 500):
            for row in connection.execute(columns.where(findings.c.version_id.in_(part))):
                found.setdefault(row.version_id, []).append((row.check_name, row.code))
    return found


def _finish(guard: Guard, run_id: str, result: Rescreened) -> None:
    counts = {name: value for name, value in result.items() if name not in {"moved", "run_id"}}
    counts["moved"] = len(result["moved"])
    end(guard.ledger, run_id, counts)
