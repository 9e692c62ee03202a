"""Runs: what works on the corpus, from when to when, and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger.ledger import Ledger, now
from corpus_guard.ledger.tables import runs


def begin(ledger: Ledger, run_id: str, kind: str, policy_digest: str, sources: Sequence[str] = ()) -> None:
    """Write down that a run works; nothing where it did before, so that a repeated run keeps its beginning.

    Args:
        ledger: where to.
        run_id: identity of the run.
        kind: refresh, release, rescreen, purge or withdrawal.
        policy_digest: of the policy it works under.
        sources: names; empty: it is about no source in particular.
    """
    started = {
        "run_id": run_id,
        "kind": kind,
        "state": "running",
        "sources": list(sources),
        "policy_digest": policy_digest,
        "started_at": now(),
    }
    with ledger.write() as connection:
        ledger.insert_missing(connection, runs, [started])


def end(ledger: Ledger, run_id: str, counts: Mapping[str, Any], state: str = "sealed") -> None:
    """Write down that it ended, and what it did."""
    ended = {"state": state, "finished_at": now(), "counts": dict(counts)}
    with ledger.write() as connection:
        connection.execute(runs.update().where(runs.c.run_id == run_id).values(**ended))


def counts_of(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """What a run did, as it was written down when it ended; nothing while it works."""
    return dict(_row(ledger, run_id).counts or {})


def sources_of(ledger: Ledger, run_id: str) -> list[str]:
    """Names of the sources a run is about.

    Raises:
        UnknownSubject: no such run.
    """
    return list(_row(ledger, run_id).sources)


def _row(ledger: Ledger, run_id: str) -> Any:
    with ledger.read() as connection:
        row = connection.execute(sa.select(runs).where(runs.c.run_id == run_id)).first()
    if row is None:
        raise UnknownSubject(f"run {run_id} is not in the ledger")
    return row
