"""One guard with a home, a corpus, a Chroma server and an Airflow database of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from small_corpus import SECRET, write_corpus

from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.store import ChunkRecord
from corpus_guard.deployment import Deployment
from corpus_guard.ledger.tables import chunks, documents, findings, publications, runs, seals, versions
from corpus_guard.settings import load_settings
from environment import PROJECT, Ports, Secrets, environment, with_caller
from postgres import free_port

SHARD = 8  # documents: several shards even of a small corpus
RUN_SECONDS = 900
START_SECONDS = 60
INTERRUPT_SECONDS = 30
SPARSE_BYTES = 64 * 2**20  # larger files of the corpus hold nothing but zeros
HEAVY = frozenset({"torch", "transformers", "sentence_transformers", "great_expectations", "chromadb", "mlflow"})


@dataclass
class Run:
    """A finished ``airflow dags test``."""

    code: int
    log: str
    modules: frozenset[str]
    airflow: Path
    """The AIRFLOW_HOME it ran in."""

    @property
    def succeeded(self) -> bool:
        return self.code == 0 and "state=success" in self.log[-5000:]

    @property
    def heavy(self) -> frozenset[str]:
        """Heavy packages that were imported."""
        return HEAVY & self.modules


@dataclass
class Started:
    """A running ``airflow dags test``, leader of a process group of its own. `folder` gets what it writes down."""

    process: subprocess.Popen[bytes]
    folder: Path

    def code(self) -> int | None:
        """Return the exit code; nothing while it runs."""
        return self.process.poll()

    def finish(self, seconds: float = RUN_SECONDS) -> Run:
        deadline = time.monotonic() + seconds
        while (code := self.code()) is None:
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"the run took more than {seconds} s; its log ends:\n{self.said()[-3000:]}")
            time.sleep(0.05)
        modules = self.folder / "modules"
        names = modules.read_text().splitlines() if modules.exists() else []
        return Run(code, self.said(), frozenset(names), self.folder)

    def said(self) -> str:
        return (self.folder / "run.log").read_text(errors="replace")

    def failed(self) -> str:
        """The first error of the guard that the log holds; empty until there is one."""
        found = re.search(
            r"corpus_guard\.errors\.\w+: .*|^(?:\w+Unavailable|Inconsistent|SettingsError|UnknownSubject): .*",
            self.said(),
            re.MULTILINE,
        )
        return found[0] if found else ""

    def kill(self) -> None:
        """SIGKILL to the whole group: no `finally` runs."""
        if self.process.poll() is None:  # afterwards the id may be another's
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    def wait_until(self, reached: Callable[[], bool], seconds: float = RUN_SECONDS) -> None:
        """Return the moment `reached`; fail when the run ends or takes too long before."""
        deadline = time.monotonic() + seconds
        while not reached():
            if self.code() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the state was never seen; the run's log ends:\n{self.said()[-3000:]}")


class StartedInShared(Started):
    """The same in a process that stays."""

    def code(self) -> int | None:
        written = self.folder / "code"
        return int(written.read_text()) if written.exists() else super().code()

    def kill(self) -> None:
        """Interrupt the run, as Ctrl-C does; the process too when it does not heed that."""
        if self.code() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + INTERRUPT_SECONDS
        while self.code() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if self.code() is None:
            super().kill()


@dataclass
class SharedAirflow:
    """One process that runs ``airflow dags test`` again and again: starting Airflow takes longer than most runs."""

    home: Path
    """AIRFLOW_HOME, with an empty database."""
    process: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path, env: dict[str, str], *words: str) -> StartedInShared:
        """Run ``airflow`` with these words; `folder` gets the log, the exit code and a copy of Airflow's database."""
        env = {**env, **_airflow_home(self.home)}
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("shared_airflow.py"))],
                env=env,
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        (folder / "run.log").touch()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"words": words, "env": env, "folder": str(folder)}).encode() + b"\n")
        self.process.stdin.flush()
        return StartedInShared(self.process, folder)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@dataclass
class Workspace:
    """Folders, ports and what is in them."""

    root: Path
    models: Path
    airflow_database: Path
    shared: SharedAirflow
    snapshot: Path | None = None
    """A folder made by `save`: what the deployment begins with; a new corpus and nothing else without it."""

    def __post_init__(self) -> None:
        self.home, self.corpus = self.root / "home", self.root / "corpus"
        self.sources_file = self.corpus / "sources.yaml"
        if self.snapshot:
            _copy(self.snapshot, self.root)
        else:
            write_corpus(self.corpus)
            self.home.mkdir()
            (self.home / "models").symlink_to(self.models)
        self.ledger_url = f"sqlite:///{self.home / 'ledger.sqlite'}"
        self.ports = Ports(*(free_port() for _ in range(4)))
        self._chroma: subprocess.Popen[bytes] | None = None
        self._started: list[Started] = []
        self._runs = 0

    # --- processes ---------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports.chroma}"

    def env(self, **changes: str) -> dict[str, str]:
        """Of a process with an Airflow home of its own; copies of a DAG share everything else."""
        airflow = self._new_folder()
        (airflow / "airflow.db").write_bytes(self.airflow_database.read_bytes())
        return {**self._environment(), **_airflow_home(airflow), **changes}

    def start(self, dag: str = "corpus_refresh", *words: str, **changes: str) -> Started:
        """``airflow dags test`` in the background, in a process of its own: to be killed, or with another configuration."""
        env = self.env(**changes)
        airflow = Path(env["AIRFLOW_HOME"])
        program = str(Path(__file__).with_name("watched_airflow.py"))
        with (airflow / "run.log").open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, program, str(airflow / "modules"), "dags", "test", dag, *words],
                env=env,
                cwd=self.root,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._started.append(Started(process, airflow))
        return self._started[-1]

    def run(self, dag: str = "corpus_refresh", *words: str, **changes: str) -> Run:
        """``airflow dags test`` to its end, in the shared process."""
        return self._start_in_shared(dag, *words, **changes).finish()

    def run_until_asked(self, task: str, dag: str, *words: str, **changes: str) -> str:
        """``airflow dags test`` in the shared process until `task` waits for a person; return the log."""
        return self.run_until_said(f"Waiting for Human-in-the-loop input for tasks: ['{task}']", dag, *words, **changes)

    def run_until_said(self, text: str, dag: str, *words: str, **changes: str) -> str:
        """``airflow dags test`` in the shared process until its log holds a text; return the log."""
        started = self._start_in_shared(dag, *words, **changes)
        started.wait_until(lambda: text in started.said())
        started.kill()
        return started.said()

    def _start_in_shared(self, dag: str, *words: str, **changes: str) -> Started:
        configured = [name for name in changes if name.startswith("AIRFLOW__") or name == "PYTHONPATH"]
        assert not configured, f"{configured}: the shared process reads it once; `start` one of its own"
        env = {**self._environment(), **changes}
        self._started.append(self.shared.start(self._new_folder(), env, "dags", "test", dag, *words))
        return self._started[-1]

    def _new_folder(self) -> Path:
        self._runs += 1
        folder = self.root / f"airflow-{self._runs}"
        folder.mkdir()
        return folder

    def _environment(self) -> dict[str, str]:
        env = with_caller(
            environment(PROJECT, self.home, self.ports, Secrets(), metadata="sqlite"),
            {key: value for key, value in os.environ.items() if not key.startswith(("CORPUS_GUARD_", "AIRFLOW"))},
        )
        return {
            **env,
            "AIRFLOW_CONN_X": f"http://anyone:{SECRET}@127.0.0.1:9/",
            "CORPUS_GUARD_SOURCES_FILE": str(self.sources_file),
            "CORPUS_GUARD_SHARD_DOCUMENTS": str(SHARD),
            "CORPUS_GUARD_LEDGER_URL": self.ledger_url,
            "OMP_NUM_THREADS": "1",
        }

    def start_chroma(self) -> None:
        """The server, as `make up` starts it."""
        log = self.root / "chroma.log"
        with log.open("ab") as out:
            self._chroma = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "corpus_guard.corpus.server",
                    "--home",
                    str(self.home),
                    "--port",
                    str(self.ports.chroma),
                ],
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._chroma.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """Leave no process behind, whatever a test did."""
        for started in self._started:
            started.kill()
        self.stop_chroma()

    def stop_chroma(self) -> None:
        if self._chroma:
            self._chroma.kill()
            self._chroma.wait(10)
            self._chroma = None

    def save(self, folder: Path) -> None:
        """Corpus and home as they are now, with the store at rest."""
        self.stop_chroma()
        folder.mkdir()
        _copy(self.corpus, folder / "corpus")
        _copy(self.home, folder / "home")
        self.start_chroma()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/v2/heartbeat", timeout=5).is_success
        except httpx.HTTPError:
            return False

    # --- what is there -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def guard(self, **changes: Any) -> Iterator[Deployment]:
        """The library on this deployment, in this process."""
        given = {
            "home": self.home,
            "sources_file": self.sources_file,
            "chroma_url": self.url,
            "ledger_url": self.ledger_url,
            "shard_documents": SHARD,
            **changes,
        }
        with Deployment(load_settings(**given)) as guard:
            yield guard

    def ask(self, statement: Any) -> list[Any]:
        """Rows of the ledger, without opening it as the guard does; none while it has no tables."""
        if self.ledger_url.startswith("sqlite") and not (self.home / "ledger.sqlite").exists():
            return []
        engine = sa.create_engine(self.ledger_url, poolclass=sa.NullPool)
        try:
            with engine.connect() as connection:
                return list(connection.execute(statement))
        except (sa.exc.OperationalError, sa.exc.ProgrammingError):
            return []

    def count(self, table: sa.Table, *conditions: Any) -> int:
        rows = self.ask(sa.select(sa.func.count()).select_from(table).where(*conditions))
        return int(rows[0][0]) if rows else 0

    def states(self) -> dict[str, str]:
        """Place → state of its newest version; vanished documents are left out."""
        statement = (
            sa.select(documents.c.uri, versions.c.state)
            .join(versions, versions.c.version_id == documents.c.latest_version)
            .where(documents.c.retired_at.is_(None))
        )
        return {row.uri: row.state for row in self.ask(statement)}

    def stamp(self, uri: str) -> dict[str, Any]:
        """Of the newest version at a place."""
        statement = (
            sa.select(versions.c.stamp)
            .join(documents, documents.c.latest_version == versions.c.version_id)
            .where(documents.c.uri == uri)
        )
        return dict(self.ask(statement)[0].stamp)

    def findings(self, uri: str) -> dict[str, str]:
        """Code → message, of the newest version at a place."""
        statement = (
            sa.select(findings.c.code, findings.c.message)
            .join(documents, documents.c.latest_version == findings.c.version_id)
            .where(documents.c.uri == uri)
        )
        return {row.code: row.message for row in self.ask(statement)}

    def ask_runs(self) -> list[Any]:
        """Runs, the oldest first."""
        return self.ask(sa.select(runs).order_by(runs.c.started_at))

    def manifest(self) -> list[dict[str, Any]]:
        """The lines of the last seal."""
        import orjson

        name = self.ask(sa.select(seals.c.manifest).order_by(seals.c.number.desc()).limit(1))[0][0]
        return [orjson.loads(line) for line in (self.home / "storage" / name).read_bytes().splitlines()]

    def published(self) -> dict[tuple[str, str], tuple[str, str, str]]:
        """(collection, chunk) → hashes of text, vector and metadata, as the ledger has them."""
        statement = (
            sa.select(publications, chunks.c.text_sha256)
            .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
            .where(publications.c.state == "published")
        )
        return {
            (row.collection, row.chunk_id): (row.text_sha256, row.vector_sha256, row.metadata_sha256)
            for row in self.ask(statement)
        }

    def records(self) -> list[ChunkRecord]:
        """Everything Chroma holds."""
        store = ChromaStore(self.url, "corpus")
        return [record for name in store.names() for record in store.scan(name)]

    def served(self) -> dict[tuple[str, str], tuple[str, str, str]]:
        """The same as `published`, as Chroma has it."""
        store = ChromaStore(self.url, "corpus")
        return {(name, record.chunk_id): record.fingerprint for name in store.names() for record in store.scan(name)}

    def texts(self) -> dict[str, str]:
        """Place → text in Chroma; every document of the small corpus is one chunk."""
        return {str(record.metadata["uri"]): record.text for record in self.records()}

    def everything_agrees(self) -> None:
        """Ledger, Chroma and manifest hold the same chunks with the same hashes, and nothing waits in the outbox."""
        assert self.published() == self.served()
        lines = {
            (line["collection"], line["chunk_id"]): (
                line["text_sha256"],
                line["vector_sha256"],
                line["metadata_sha256"],
            )
            for line in self.manifest()
        }
        assert lines == self.published()
        assert self.count(publications, publications.c.state.in_(("pending", "retiring"))) == 0


MakeDeployment = Callable[..., Workspace]
"""``deploy(name, snapshot=None, chroma=True)``, see conftest.py."""


def _airflow_home(folder: Path) -> dict[str, str]:
    return {"AIRFLOW_HOME": str(folder), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}"}


def _copy(source: Path, target: Path) -> None:
    """A tree with its times and links; large files stay sparse."""
    shutil.copytree(source, target, copy_function=_copy_file, symlinks=True, dirs_exist_ok=True)


def _copy_file(source: str, target: str) -> None:
    if Path(source).stat().st_size < SPARSE_BYTES:
        shutil.copyfile(source, target)
    else:
        with Path(target).open("wb") as file:
            file.truncate(Path(source).stat().st_size)
    shutil.copystat(source, target)
