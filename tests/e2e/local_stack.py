"""A stack of its own, as `make up` starts it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
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

    def wait_until_asked(self, api: httpx.Client, dag: str, task: str = "") -> dict[str, Any]:
        """Until a task of a DAG asks a person and an answer is heard; return it.

        Airflow 3.3.2: an answer that comes before the scheduler heard that the worker parked the task fails it, and on a busy
        machine the scheduler hears late.
        """

        def asking() -> Any:
            every = tasks(api, dag)
            return next(
                (one for one in every if one["state"] == "awaiting_input" and task in ("", one["task_id"])), None
            )

        asked: dict[str, Any] = until(asking)
        name, run = re.escape(asked["task_id"]), re.escape(asked["dag_run_id"])
        heard = re.compile(rf"Received executor event .* task_id='{name}', run_id='{run}'")
        until(lambda: heard.search((self.home / "logs" / "scheduler.log").read_text(errors="replace")))
        return asked

    def processes(self) -> list[psutil.Process]:
        leader = psutil.Process(int((self.home / "stack" / "supervisord.pid").read_text()))
        return [leader, *leader.children(recursive=True)]

    def ledger(self, statement: str) -> list[Any]:
        engine = sa.create_engine(f"sqlite:///{self.home / 'ledger.sqlite'}", poolclass=sa.NullPool)
        with engine.connect() as connection:
            return list(connection.execute(sa.text(statement)))


@contextmanager
def running(
    root: Path, more: Mapping[str, str] | None = None, services: str = "postgres,chroma,airflow"
) -> Iterator[Local]:
    """PostgreSQL, Chroma and Airflow over `root`/home and `root`/corpus, at ports of their own; down at the end."""
    one = Local(root / "home", root / "corpus", Ports(*(free_port() for _ in range(4))), dict(more or {}))
    try:
        said = one.stack("up", "--only", services)
        assert said.returncode == 0, said.stdout + said.stderr
        yield one
    finally:
        one.stack("down")


def until(reached: Callable[[], Any], seconds: float = 420) -> Any:
    """Return what `reached` returns, once that is anything."""
    deadline = time.monotonic() + seconds
    while not (value := reached()):
        assert time.monotonic() < deadline
        time.sleep(1)
    return value


def tasks(api: httpx.Client, dag: str) -> list[dict[str, Any]]:
    """Tasks of all runs of a DAG, whose address is given."""
    found = api.get(f"{dag}/dagRuns/~/taskInstances", params={"limit": 100}, timeout=300).raise_for_status().json()
    return list(found["task_instances"])


def question_of(asked: Mapping[str, Any]) -> str:
    """The address of what a task asks, below that of its DAG."""
    return f"dagRuns/{asked['dag_run_id']}/taskInstances/{asked['task_id']}/-1/hitlDetails"


def answer(api: httpx.Client, dag: str, asked: Mapping[str, Any], option: str, **form: Any) -> dict[str, Any]:
    """Answer a task that asks; return its run when that has ended.

    Args:
        form: what is entered beside the answer.
    """
    told = {"chosen_options": [option], "params_input": form}
    api.patch(f"{dag}/{question_of(asked)}", json=told).raise_for_status()
    return wait_until_ended(api, dag, asked["dag_run_id"])


def wait_until_ended(api: httpx.Client, dag: str, run: str, seconds: float = 420) -> dict[str, Any]:
    """Return a run when it has ended."""

    def ended() -> Any:
        found = api.get(f"{dag}/dagRuns/{run}").raise_for_status().json()
        return found if found["state"] in {"success", "failed"} else None

    return dict(until(ended, seconds))


def trigger(api: httpx.Client, dag: str, **conf: Any) -> str:
    """Let a DAG run; return the id of the run."""
    api.patch(dag, json={"is_paused": False}).raise_for_status()
    started = api.post(f"{dag}/dagRuns", json={"logical_date": None, "conf": conf})
    return str(started.raise_for_status().json()["dag_run_id"])
