"""A quarantine to look at through the app: a real ledger and real batches, no model and no Chroma.

Access control is that of `plain_access`; `test_airflow_roles.py` has Airflow's own.
"""

from __future__ import annotations

import copy
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from fastapi import FastAPI
from starlette.datastructures import State
from starlette.testclient import TestClient

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import versions_to_table
from corpus_guard.corpus import publishing
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Finding, Judgement, TrustLevel, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import begin_run, end_run
from corpus_guard.ledger.states import RunKind, RunState
from corpus_guard.ledger.tables import chunks, runs
from corpus_guard.review.queue import QueueItem, find_item
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings
from corpus_guard.web.access import RateLimit
from corpus_guard.web.app import make_app
from corpus_guard.web.shared_deployment import SharedDeployment
from material import MODEL, a_finding, a_version, judged
from plain_access import plain_access

HEADERS = {"Sec-Fetch-Site": "same-origin", "X-Corpus-Guard": "test"}


@cache
def _app_with_plain_access() -> FastAPI:
    return make_app(Deployment, plain_access())


def _app(open_deployment: Callable[[], Deployment], rate_limit: RateLimit) -> FastAPI:
    """Return an app with state of its own; the routes, which take longest to make, are shared by all tests."""
    app = copy.copy(_app_with_plain_access())
    app.state = State(
        {"shared_deployment": SharedDeployment(open_deployment), "access": app.state.access, "rate_limit": rate_limit}
    )
    return app


@dataclass
class Reviewing:
    """A home, a ledger, and people who look at it."""

    home: Path
    rate_limit: RateLimit = field(default_factory=RateLimit)
    ledger_url: str = ""

    def __post_init__(self) -> None:
        # Nothing listens on port 9: no test looks into the Chroma of whoever runs it.
        self.home.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(home=self.home, ledger_url=self.ledger_url, chroma_url="http://127.0.0.1:9")
        self.ledger = Ledger(self.settings.ledger)
        self.storage = Storage(self.settings.storage)
        self.app = _app(self.guard, self.rate_limit)

    def guard(self) -> Deployment:
        """A guard of this home; building the checks takes two seconds, and the pages ask for their digest alone."""
        made = Deployment(self.settings)
        made.__dict__["screening"] = _screening()
        return made

    def client(self, who: str = "ada", **headers: str) -> TestClient:
        told = {**HEADERS, **headers, **({"Who": who} if who else {})}
        return TestClient(self.app, base_url="http://airflow.test", headers=told, raise_server_exceptions=True)

    def record(
        self,
        *pairs: tuple[Version, Verdict],
        findings: Sequence[Finding] | None = None,
        run_id: str = "run-1",
        risk: float = 0.9,
    ) -> None:
        """Take versions in with these verdicts and findings, as a refresh would."""
        with self.guard() as guard:
            for version, _ in pairs:
                guard.blobs.put(version.text.encode("utf-8", "surrogatepass"))
        batch = f"batches/{uuid.uuid4().hex}/versions.parquet"
        self.storage.write_table(batch, versions_to_table([version for version, _ in pairs]))
        with self.ledger.write() as connection:
            publishing.record(
                connection,
                run_id,
                batch,
                [(version, _judgement(version, verdict, findings, risk)) for version, verdict in pairs],
                collection=lambda trust: f"corpus-{trust.value}",
                vectors=batch.replace("versions", "vectors"),
                model=MODEL,
            )

    def wait(self, uri: str = "bad.md", text: str = "Send it to the harbour office.", **more: Any) -> QueueItem:
        """One document in quarantine."""
        findings = more.pop("findings", None)
        risk = more.pop("risk", 0.9)
        version = a_version(uri, (text,), **more)
        self.record((version, Verdict.QUARANTINE), findings=findings, risk=risk, run_id=version.stamp.run_id)
        return find_item(self.ledger, version.version_id)

    def serve(self, uri: str = "good.md", text: str = "The pump is read each morning.", **more: Any) -> Version:
        """One document that was accepted."""
        version = a_version(uri, (text,), **more)
        self.record((version, Verdict.ACCEPT))
        return version

    def storage_chunk(self, version_id: str) -> str:
        """The first chunk of a version."""
        with self.ledger.read() as connection:
            statement = sa.select(chunks.c.chunk_id).where(chunks.c.version_id == version_id).order_by(chunks.c.ordinal)
            return str(connection.execute(statement.limit(1)).scalar_one())

    def item(self, name: str) -> QueueItem:
        return find_item(self.ledger, name)

    def close(self) -> None:
        self.ledger.close()


def deciding(item: QueueItem, choice: str = "release", reason: str = "looked at it", **more: Any) -> dict[str, Any]:
    """The body of a decision on one item."""
    return {
        "items": [{"version_id": item.version_id, "revision": item.revision}],
        "choice": choice,
        "reason": reason,
        **more,
    }


@cache
def _screening() -> Screening:
    return Deployment(Settings(home=Path(tempfile.mkdtemp()))).screening


def _judgement(version: Version, verdict: Verdict, findings: Sequence[Finding] | None, risk: float) -> Judgement:
    if findings is None:
        return judged(version, verdict)
    return judged(version, verdict, findings=tuple(findings), risk=risk)


__all__ = ["HEADERS", "Reviewing", "TrustLevel", "a_finding", "deciding", "plain_access"]


FIRST_RUN: Final = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def judge_runs(ledger: Ledger) -> None:
    """Record four refreshes, one a day, and a release; the third refresh failed, the second found nothing new."""
    counts = (
        {"accepted": 55, "quarantined": 22, "rejected": 1},
        {},
        {"accepted": 3, "quarantined": 4},
        {"accepted": 9, "quarantined": 1},
    )
    for day, numbers in enumerate(counts):
        begin_run(ledger, f"refresh-{day}", RunKind.REFRESH, "p" * 64)
        end_run(ledger, f"refresh-{day}", numbers, RunState.FAILED if day == 2 else RunState.SEALED)
    begin_run(ledger, "release-1", RunKind.RELEASE, "p" * 64)
    with ledger.write() as connection:
        for day in range(len(counts)):
            at = FIRST_RUN + timedelta(days=day)
            connection.execute(runs.update().where(runs.c.run_id == f"refresh-{day}").values(started_at=at))
