"""`feedback_import` through Airflow: `airflow backfill create` over days of history leaves each report once, however often it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest
from local_stack import Local, running

from environment import PROJECT, Layout, Secrets, environment, with_caller

pytestmark = pytest.mark.slow

DAG = "feedback_import"
YEAR = [date(2025, 1, 1) + timedelta(days=number) for number in range(365)]
FEW = YEAR[58:63]  # over the end of February
LATE = "reported two days ago"
RUN_SECONDS = 900
YEAR_SECONDS = 3 * 60 * 60


def airflow(local: Local, *words: str) -> None:
    told = {name: value for name, value in os.environ.items() if not name.startswith(("CORPUS_GUARD_", "AIRFLOW"))}
    env = environment(PROJECT, local.home, local.ports, Secrets.load(Layout(PROJECT, local.home)))
    command = [sys.executable, "-m", "airflow", *words]
    said = subprocess.run(command, env=with_caller(env, told), capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode == 0, said.stdout[-3_000:] + said.stderr[-3_000:]


def backfill(local: Local, days: list[date], *more: str, seconds: float = RUN_SECONDS) -> Counter[str]:
    """`airflow backfill create` over `days` until each has run; the states its runs ended in."""
    began = datetime.now(UTC)
    dates = ("--from-date", str(days[0]), "--to-date", str(days[-1]))
    airflow(local, "backfill", "create", "--dag-id", DAG, *dates, "--max-active-runs", "4", *more)
    deadline = time.monotonic() + seconds
    with local.api() as api:
        while True:
            runs = [run for run in backfill_runs(api) if _moment(run["queued_at"]) >= began]
            asked = api.get("/api/v2/backfills", params={"dag_id": DAG, "limit": 100}).raise_for_status().json()
            if len(runs) == len(days) and all(one["completed_at"] for one in asked["backfills"]):
                return Counter(run["state"] for run in runs)
            assert time.monotonic() < deadline, Counter(run["state"] for run in runs)
            time.sleep(1)


def backfill_runs(api: httpx.Client) -> Iterator[dict[str, Any]]:
    seen, total = 0, 1
    while seen < total:
        params = {"run_type": "backfill", "limit": 100, "offset": seen, "order_by": "logical_date"}
        page = api.get(f"/api/v2/dags/{DAG}/dagRuns", params=params).raise_for_status().json()
        yield from page["dag_runs"]
        seen, total = seen + len(page["dag_runs"]), page["total_entries"] if page["dag_runs"] else 0


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
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("feedback")
    for folder in ("home", "corpus"):
        (root / folder).mkdir()
    (root / "corpus" / "sources.yaml").write_text("sources: []\n")
    late = {"query": LATE, "output": "yes", "reported_at": (datetime.now(UTC) - timedelta(days=2)).isoformat()}
    rows = [json.dumps(row) for row in [*history(), late]]
    feedback = root / "feedback.jsonl"
    feedback.write_text("\n".join([*rows, "{broken"]) + "\n")
    with running(root, {"CORPUS_GUARD_FEEDBACK": str(feedback)}, "postgres,airflow") as one:
        with one.api() as api:
            api.patch(f"/api/v2/dags/{DAG}", json={"is_paused": False}).raise_for_status()
        yield one


def expected(days: list[date]) -> tuple[int, int]:
    """Filings and reports of `days`."""
    return 3 * len(days), 2 * len(days) + len({day.month for day in days})


def kept(local: Local) -> tuple[int, int]:
    """The same, as the ledger has them."""
    filings = "SELECT count(*) FROM filings WHERE reported_at < '2026-01-01'"
    reports = "SELECT count(*) FROM reports WHERE first_reported_at < '2026-01-01'"
    return local.ledger(filings)[0][0], local.ledger(reports)[0][0]


def test_a_backfill_of_some_days_that_runs_twice_leaves_each_report_once(local: Local) -> None:
    assert backfill(local, FEW) == {"success": len(FEW)}

    assert kept(local) == expected(FEW)
    days = {row[0] for row in local.ledger("SELECT date(reported_at) FROM filings WHERE reported_at < '2026-01-01'")}
    assert days == {str(day) for day in FEW}, "a run takes its own day and no other"
    weights = dict(local.ledger("SELECT query, weight FROM reports WHERE query LIKE 'the question%'"))
    assert weights == {"the question of month 2": 1.0, "the question of month 3": 4.0}

    assert backfill(local, FEW, "--reprocess-behavior", "completed") == {"success": len(FEW)}

    assert kept(local) == expected(FEW)
    asides = list((local.home / "storage" / "reports" / "aside").iterdir())
    assert [json.loads(line)["raw"] for file in asides for line in file.read_text().splitlines()] == ["{broken"]


def test_a_scheduled_run_takes_what_came_late(local: Local) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while not local.ledger(f"SELECT 1 FROM reports WHERE query = '{LATE}'"):
        assert time.monotonic() < deadline, "the scheduler runs the last day by itself once the DAG is unpaused"
        time.sleep(1)


@pytest.mark.hours
@pytest.mark.timeout(YEAR_SECONDS)
def test_a_backfill_of_a_year_leaves_each_report_once(local: Local) -> None:
    assert backfill(local, YEAR, "--reprocess-behavior", "completed", seconds=YEAR_SECONDS) == {"success": len(YEAR)}

    assert kept(local) == expected(YEAR)
    assert local.ledger("SELECT count(*) FROM filings GROUP BY date(reported_at) HAVING count(*) > 3") == []
    told = local.ledger(
        "SELECT count(*), count(DISTINCT subject) FROM events JOIN reports ON report_id = subject "
        "WHERE kind = 'reported' AND first_reported_at < '2026-01-01'"
    )
    assert told == [(expected(YEAR)[1],) * 2]
