"""What the processes of the local stack are told: folders, ports, secrets and the environment made of them.

Pure but for `Secrets.load`, which writes the secrets once. Everything the stack writes lies under *home*
(``CORPUS_GUARD_HOME``, by default ``var/`` in the checkout); every port is on 127.0.0.1.
"""

from __future__ import annotations

import base64
import json
import os
import secrets as random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal

HOST = "127.0.0.1"
PROJECT = Path(__file__).resolve().parents[2]

USERS = {"admin": "admin", "reviewer": "user", "viewer": "viewer", "guard": "user"}
"""Airflow user -> role of the SimpleAuthManager. ``user`` may answer Required Actions and use the review pages.

``guard`` is the pipeline itself: it writes the note with the counts on each run of its DAGs."""

YIELDING = (
    "AIRFLOW__CORE__PARALLELISM",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL",
    "AIRFLOW__LOGGING__LOGGING_LEVEL",
)
"""Matters of taste: a value from the caller's shell wins. Every other key is ours, or the parts would not meet."""


class StackError(RuntimeError):
    """The local stack cannot do what was asked; the message says what to do next."""


@dataclass(frozen=True)
class Ports:
    """TCP ports on 127.0.0.1."""

    airflow: int = 8080
    chroma: int = 8765
    mlflow: int = 5500
    postgres: int = 5442

    @staticmethod
    def variable(name: str) -> str:
        """The environment variable that moves a port."""
        return f"CORPUS_GUARD_{name.upper()}_PORT"

    @classmethod
    def read(cls, environ: Mapping[str, str], recorded: Path | None = None) -> Ports:
        """Those of ``CORPUS_GUARD_<NAME>_PORT``, else those that `recorded` holds, else the defaults.

        Raises:
            StackError: a value is not a port, or two are the same.
        """
        before = json.loads(recorded.read_text()) if recorded is not None and recorded.is_file() else {}
        chosen = {}
        for name in (one.name for one in fields(cls)):
            text = environ.get(cls.variable(name), "") or str(before.get(name, getattr(cls, name)))
            if not (text.isdecimal() and 1 <= int(text) <= 65535):
                raise StackError(f"{cls.variable(name)}: expected a port from 1 to 65535, got {text!r}")
            chosen[name] = int(text)
        if len(set(chosen.values())) < len(chosen):
            raise StackError(f"ports: expected four different ones, got {chosen}. Set CORPUS_GUARD_<NAME>_PORT.")
        return cls(**chosen)


@dataclass(frozen=True)
class Layout:
    """Where things lie. `home` belongs to one stack."""

    project: Path
    home: Path

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Layout:
        """The checkout this file lies in, and ``CORPUS_GUARD_HOME``."""
        home = environ.get("CORPUS_GUARD_HOME") or PROJECT / "var"
        return cls(PROJECT, Path(home).expanduser().absolute())

    @property
    def stack(self) -> Path:
        """What this stack knows of itself: secrets, recorded processes, the lock."""
        return self.home / "stack"

    @property
    def logs(self) -> Path:
        """One file a program, and Airflow's task logs."""
        return self.home / "logs"

    @property
    def ports(self) -> Path:
        """The ports this home got when it was first started."""
        return self.stack / "ports.json"

    @property
    def passwords(self) -> Path:
        """Airflow users and their passwords, as the SimpleAuthManager reads them."""
        return self.stack / "airflow-passwords.json"

    @property
    def secrets(self) -> Path:
        """What `Secrets` keeps."""
        return self.stack / "secrets.json"


@dataclass(frozen=True)
class Secrets:
    """Made once for a home, then reused: sessions, encrypted connections and the database depend on them."""

    postgres: str = field(default_factory=lambda: random.token_urlsafe(24), repr=False)
    airflow_jwt: str = field(default_factory=lambda: random.token_urlsafe(64), repr=False)
    """Signs task and user tokens; HS512 wants 64 bytes."""
    airflow_session: str = field(default_factory=lambda: random.token_urlsafe(32), repr=False)
    airflow_fernet: str = field(
        default_factory=lambda: base64.urlsafe_b64encode(random.token_bytes(32)).decode(), repr=False
    )
    admin: str = field(default_factory=lambda: random.token_urlsafe(12), repr=False)
    reviewer: str = field(default_factory=lambda: random.token_urlsafe(12), repr=False)
    viewer: str = field(default_factory=lambda: random.token_urlsafe(12), repr=False)
    guard: str = field(default_factory=lambda: random.token_urlsafe(12), repr=False)

    @classmethod
    def load(cls, layout: Layout) -> Secrets:
        """Read them, or make them and Airflow's password file; both files are for their owner only."""
        if layout.secrets.is_file():
            try:
                found = cls(**json.loads(layout.secrets.read_text()))
            except (TypeError, ValueError) as error:
                raise StackError(
                    f"{layout.secrets}: expected the keys {[one.name for one in fields(cls)]}, got something else. "
                    f"Restore the file, or remove {layout.stack} and {layout.home / 'postgres'} to start empty."
                ) from error
        else:
            found = cls()
            _write_private(layout.secrets, asdict(found))
        if not layout.passwords.is_file():
            _write_private(layout.passwords, {user: getattr(found, user) for user in USERS})
        return found


def environment(
    project_root: Path,
    home: Path,
    ports: Ports,
    secrets: Secrets,
    *,
    metadata: Literal["postgres", "sqlite"] = "postgres",
    ledger: Literal["postgres", "sqlite"] = "sqlite",
) -> dict[str, str]:
    """Everything a process of the stack, or a shell that talks to it, must be told. Holds secrets.

    ``metadata="sqlite"`` puts Airflow's database into a file: enough to parse and unit-test DAGs without a server.
    Never for a running scheduler: "database is locked" broke a backfill and API triggers there.
    ``ledger="postgres"`` puts the guard's ledger into the server of this stack; a file in the home otherwise.
    """
    layout = Layout(project_root, home)
    airflow = f"http://{HOST}:{ports.airflow}"
    server = f"postgresql+psycopg2://postgres:{secrets.postgres}@{HOST}:{ports.postgres}"
    database = {
        "postgres": f"{server}/airflow",
        "sqlite": f"sqlite:///{home / 'airflow' / 'airflow.db'}",
    }[metadata]
    env = {
        "CORPUS_GUARD_HOME": str(home),
        "CORPUS_GUARD_CHROMA_URL": f"http://{HOST}:{ports.chroma}",
        "CORPUS_GUARD_PGVECTOR_URL": f"{server}/vectors",  # used where the caller sets CORPUS_GUARD_STORE=pgvector
        "PYTHONPATH": str(project_root / "include"),
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",  # the default starts 32 workers at once
        "AIRFLOW__CORE__DAGS_FOLDER": str(project_root / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(project_root / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Decisions take effect, and somebody is asked, without a further step. A DAG that a person pauses stays paused.
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__FERNET_KEY": secrets.airflow_fernet,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(layout.passwords),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(ports.airflow),
        "AIRFLOW__API__BASE_URL": airflow,
        # A moved port without this leaves tasks calling localhost:8080, and every one of them fails.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow}/execution/",
        # Seconds; after the default of 5 a task fails, and two cores full of models keep the API waiting longer (seen on 3.3.2).
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW_CONN_CORPUS_GUARD_AIRFLOW": f"http://guard:{secrets.guard}@{HOST}:{ports.airflow}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.airflow_session,
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.airflow_jwt,
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",  # seconds until a new DAG file is seen; the default is 300
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(home / "airflow" / "bundles"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(layout.logs / "tasks"),
        "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(layout.logs / "dag-processing"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__LOGGING__UVICORN_LOGGING_LEVEL": "WARNING",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "MLFLOW_TRACKING_URI": f"http://{HOST}:{ports.mlflow}",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # background jobs we do not use; each is a session of its own
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GX_ANALYTICS_ENABLED": "false",
        "ANONYMIZED_TELEMETRY": "False",
        "DO_NOT_TRACK": "1",
    }
    if ledger == "postgres":
        env["CORPUS_GUARD_LEDGER_URL"] = f"{server}/ledger"
    return env


def with_caller(env: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """`env` over the caller's environment; the keys in `YIELDING` yield to it, and loopback takes no proxy."""
    kept = {key: caller[key] for key in YIELDING if key in caller}
    past_proxy = {
        key: ",".join(dict.fromkeys([*filter(None, caller.get(key, "").split(",")), HOST, "localhost"]))
        for key in ("NO_PROXY", "no_proxy")
    }
    return {**caller, **env, **kept, **past_proxy}


def _write_private(path: Path, content: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=2)
