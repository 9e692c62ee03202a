"""A stack of its own, as `make up` starts it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import sqlalchemy as sa
from deployment import SHARD

from environment import PROJECT, Ports
from postgres import free_port


@dataclass
class Local:
    home: Path
    corpus: Path
    ports: Ports
    more: dict[str, str] = field(default_factory=dict)
    """Variables besides."""

    def stack(self, *words: str) -> subprocess.CompletedProcess[str]:
        told = {Ports.variable(name): str(port) for name, port in vars(self.ports).items()}
        return subprocess.run(
            [sys.executable, str(PROJECT / "docker" / "local" / "stack.py"), *words],
            env={
                # A stack has torch's own number of threads: with one, a fork that hangs would not be seen.
                **{name: value for name, value in os.environ.items() if not name.startswith(("CORPUS_GUARD_", "OMP_"))},
                **told,
                "CORPUS_GUARD_HOME": str(self.home),
                "CORPUS_GUARD_SOURCES_FILE": str(self.corpus / "sources.yaml"),
                "CORPUS_GUARD_SHARD_DOCUMENTS": str(SHARD),
                "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",  # a test starts what it looks at
                **self.more,
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def api(self, user: str = "admin") -> httpx.Client:
        base = f"http://127.0.0.1:{self.ports.airflow}"
        password = json.loads((self.home / "stack" / "airflow-passwords.json").read_text())[user]
        login = httpx.post(f"{base}/auth/token", json={"username": user, "password": password}, timeout=60)
        token = login.raise_for_status().json()["access_token"]
        return httpx.Client(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def wait_until_parked(self, run: str, task: str, seconds: float = 120) -> None:
        """Until the scheduler heard that the worker parked a task that asks a person.

        Airflow 3.3.2: an answer that comes before that fails the task, and on a busy machine the scheduler hears late.
        """
        key = re.compile(rf"Received executor event .* task_id='{re.escape(task)}', run_id='{re.escape(run)}'")
        deadline = time.monotonic() + seconds
        while not key.search((self.home / "logs" / "scheduler.log").read_text(errors="replace")):
            assert time.monotonic() < deadline, f"the scheduler heard nothing of {task}"
            time.sleep(0.5)

    def processes(self) -> list[psutil.Process]:
        leader = psutil.Process(int((self.home / "stack" / "supervisord.pid").read_text()))
        return [leader, *leader.children(recursive=True)]

    def ledger(self, statement: str) -> list[Any]:
        engine = sa.create_engine(f"sqlite:///{self.home / 'ledger.sqlite'}", poolclass=sa.NullPool)
        with engine.connect() as connection:
            return list(connection.execute(sa.text(statement)))


@contextmanager
def running(root: Path, more: Mapping[str, str] | None = None) -> Iterator[Local]:
    """PostgreSQL, Chroma and Airflow over `root`/home and `root`/corpus, at ports of their own; down at the end."""
    one = Local(root / "home", root / "corpus", Ports(*(free_port() for _ in range(4))), dict(more or {}))
    try:
        said = one.stack("up", "--only", "postgres,chroma,airflow")
        assert said.returncode == 0, said.stdout + said.stderr
        yield one
    finally:
        one.stack("down")
