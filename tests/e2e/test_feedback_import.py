"""`feedback_import` through Airflow: `airflow backfill create` over days of history leaves each report once, however often it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from environment import PROJECT, Layout, Ports, Secrets, environment, with_caller
from postgres import free_port

pytestmark = pytest.mark.slow

DAG = "feedback_import"
YEAR = [date(2025, 1, 1) + timedelta(days=number) for number in range(365)]
FEW = YEAR[58:63]  # over the end of February
LATE = "reported two days ago"
RUN_SECONDS = 900
YEAR_SECONDS = 3 * 60 * 60


@dataclass
class Stack:
    """PostgreSQL and Airflow on loopback, as `make up` starts them, with a file of feedback."""

    home: Path
    feedback: Path
    ports: Ports

    @property
    def env(self) -> dict[str, str]:
        told = {name: value for name, value in os.environ.items() if not name.startswith(("CORPUS_GUARD_", "AIRFLOW"))}
        told |= {Ports.variable(name): str(port) for name, port in vars(self.ports).items()}
        told["AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"] = "True"
        return {**told, "CORPUS_GUARD_HOME": str(self.home), "CORPUS_GUARD_FEEDBACK": str(self.feedback)}

    def stack(self, *words: str) -> None:
        command = [sys.executable, str(PROJECT / "docker" / "local" / "stack.py"), *words]
        said = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=600, check=False)
        assert said.returncode == 0, said.stdout + said.stderr

    def airflow(self, *words: str) -> str:
        secrets = Secrets.load(Layout(PROJECT, self.home))
        env = with_caller(environment(PROJECT, self.home, self.ports, secrets), self.env)
        command = [sys.executable, "-m", "airflow", *words]
        said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert said.returncode == 0, said.stdout[-3_000:] + said.stderr[-3_000:]
        return said.stdout

    def api(self) -> httpx.Client:
        base = f"http://127.0.0.1:{self.ports.airflow}"
        password = json.loads((self.home / "stack" / "airflow-passwords.json").read_text())["admin"]
        login = httpx.post(f"{base}/auth/token", json={"username": "admin", "password": password}, timeout=60)
        token = login.raise_for_status().json()["access_token"]
        return httpx.Client(base_url=f"{base}/api/v2", headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def backfill(self, days: list[date], *more: str, seconds: float = RUN_SECONDS) -> Counter[str]:
        """`airflow backfill create` over `days` until each has run; the states its runs ended in."""
        began = datetime.now(UTC)
        dates = ("--from-date", str(days[0]), "--to-date", str(days[-1]))
        self.airflow("backfill", "create", "--dag-id", DAG, *dates, "--max-active-runs", "4", *more)
        deadline = time.monotonic() + seconds
        with self.api() as api:
            while True:
                runs = [run for run in self._runs(api) if _moment(run["queued_at"]) >= began]
                asked = api.get("/backfills", params={"dag_id": DAG, "limit": 100}).raise_for_status().json()
                if len(runs) == len(days) and all(one["completed_at"] for one in asked["backfills"]):
                    return Counter(run["state"] for run in runs)
                assert time.monotonic() < deadline, Counter(run["state"] for run in runs)
                time.sleep(1)

    def _runs(self, api: httpx.Client) -> Iterator[dict[str, Any]]:
        seen, total = 0, 1
        while seen < total:
            params = {"run_type": "backfill", "limit": 100, "offset": seen, "order_by": "logical_date"}
            page = api.get(f"/dags/{DAG}/dagRuns", params=params).raise_for_status().json()
            yield from page["dag_runs"]
            seen, total = seen + len(page["dag_runs"]), page["total_entries"] if page["dag_runs"] else 0

    def ledger(self, statement: str) -> list[Any]:
        engine = sa.create_engine(f"sqlite:///{self.home / 'ledger.sqlite'}", poolclass=sa.NullPool)
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)


def history() -> list[dict[str, str]]:
    """Three rows a day: its first moment, its last, and what somebody repeats every day of a month."""
    rows = []
    for day in YEAR:
        edges = (f"{day}T00:00:00Z", f"{day}T23:59:59.999999Z")
        rows += [{"query": f"asked {at}", "output": "yes", "reporter": "mo", "reported_at": at} for at in edges]
        again = {"query": f"the question of month {day.month}", "output": "no", "reporter": f"reader {day.day}"}
        rows.append({**again, "reported_at": f"{day}T12:00:00Z"})
    return rows


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    root = tmp_path_factory.mktemp("feedback")
    one = Stack(root / "home", root / "feedback.jsonl", Ports(*(free_port() for _ in range(4))))
    one.home.mkdir()
    late = {"query": LATE, "output": "yes", "reported_at": (datetime.now(UTC) - timedelta(days=2)).isoformat()}
    rows = [json.dumps(row) for row in [*history(), late]]
    one.feedback.write_text("\n".join([*rows, "{broken"]) + "\n")
    try:
        one.stack("up", "--only", "postgres,airflow")
        with one.api() as api:
            api.patch(f"/dags/{DAG}", json={"is_paused": False}).raise_for_status()
        yield one
    finally:
        one.stack("down")


def expected(days: list[date]) -> tuple[int, int]:
    """Filings and reports of `days`."""
    return 3 * len(days), 2 * len(days) + len({day.month for day in days})


def kept(stack: Stack) -> tuple[int, int]:
    """The same, as the ledger has them."""
    filings = "SELECT count(*) FROM filings WHERE reported_at < '2026-01-01'"
    reports = "SELECT count(*) FROM reports WHERE first_reported_at < '2026-01-01'"
    return stack.ledger(filings)[0][0], stack.ledger(reports)[0][0]


def test_a_backfill_of_some_days_that_runs_twice_leaves_each_report_once(stack: Stack) -> None:
    assert stack.backfill(FEW) == {"success": len(FEW)}

    assert kept(stack) == expected(FEW)
    days = {row[0] for row in stack.ledger("SELECT date(reported_at) FROM filings WHERE reported_at < '2026-01-01'")}
    assert days == {str(day) for day in FEW}, "a run takes its own day and no other"
    weights = dict(stack.ledger("SELECT query, weight FROM reports WHERE query LIKE 'the question%'"))
    assert weights == {"the question of month 2": 1.0, "the question of month 3": 4.0}

    assert stack.backfill(FEW, "--reprocess-behavior", "completed") == {"success": len(FEW)}

    assert kept(stack) == expected(FEW)
    asides = list((stack.home / "storage" / "reports" / "aside").iterdir())
    assert [json.loads(line)["raw"] for file in asides for line in file.read_text().splitlines()] == ["{broken"]


def test_a_scheduled_run_takes_what_came_late(stack: Stack) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while not stack.ledger(f"SELECT 1 FROM reports WHERE query = '{LATE}'"):
        assert time.monotonic() < deadline, "the scheduler runs the last day by itself once the DAG is unpaused"
        time.sleep(1)


@pytest.mark.hours
@pytest.mark.timeout(YEAR_SECONDS)
def test_a_backfill_of_a_year_leaves_each_report_once(stack: Stack) -> None:
    assert stack.backfill(YEAR, "--reprocess-behavior", "completed", seconds=YEAR_SECONDS) == {"success": len(YEAR)}

    assert kept(stack) == expected(YEAR)
    assert stack.ledger("SELECT count(*) FROM filings GROUP BY date(reported_at) HAVING count(*) > 3") == []
    told = stack.ledger(
        "SELECT count(*), count(DISTINCT subject) FROM events JOIN reports ON report_id = subject "
        "WHERE kind = 'reported' AND first_reported_at < '2026-01-01'"
    )
    assert told == [(expected(YEAR)[1],) * 2]
