"""PostgreSQL, Chroma, MLflow and Airflow on this machine, without Docker: ``stack.py up``, ``down``, ``status``.

Everything listens on 127.0.0.1 and writes under ``CORPUS_GUARD_HOME`` (default ``var/``). A home keeps the ports it got
first, unless somebody else has one by now; ``CORPUS_GUARD_AIRFLOW_PORT``, ``_CHROMA_PORT``, ``_MLFLOW_PORT``,
``_POSTGRES_PORT`` set them. Those of Chroma and PostgreSQL are any free ones: two homes must not meet there. The
guard's ledger is a file in the home; ``CORPUS_GUARD_LEDGER=postgres`` puts it beside Airflow's metadata.

What it does not protect against: other users of this machine reach the ports, and Chroma and MLflow ask for no
password. For more than one person's machine, use ``docker/compose.yaml``: there Chroma is on a network of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from environment import HOST, USERS, Layout, Ports, Secrets, StackError, environment, with_caller
from postgres import LocalPostgres, PostgresError, free_port
from processes import AIRFLOW, Processes, port_taken, request

SERVICES = {"postgres": ("postgres",), "chroma": ("chroma",), "mlflow": ("mlflow",), "airflow": AIRFLOW}
DATABASES = ("airflow", "ledger", "vectors")
MODEL_POOL = {"name": "models", "slots": 1, "description": "Tasks that load a model: one at a time"}
REVIEW_PAGES = "/plugin/corpus-guard"  # inside Airflow: a stranger is sent to the sign-in and back
START_SECONDS = {"chroma": 60, "mlflow": 120, "airflow": 300}

console = Console(highlight=False, soft_wrap=True)
app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


class Stack:
    """One home and what runs in it."""

    def __init__(self) -> None:
        self.layout = Layout.read(os.environ)
        self.ports = Ports.read(os.environ, self.layout.ports)
        self.processes = Processes(self.layout)

    def env(self) -> dict[str, str]:
        """What a shell must be told to talk to this stack."""
        ledger = os.environ.get("CORPUS_GUARD_LEDGER", "sqlite")
        if ledger not in {"sqlite", "postgres"}:
            raise StackError(f"CORPUS_GUARD_LEDGER: expected sqlite or postgres, got {ledger!r}")
        return environment(
            self.layout.project,
            self.layout.home,
            self.ports,
            Secrets.load(self.layout),
            ledger="postgres" if ledger == "postgres" else "sqlite",
        )

    def up(self, services: list[str]) -> None:
        """Start `services` in the order they need each other, each once the ones before are healthy."""
        for folder in ("chroma", "mlflow", "airflow", "logs"):
            (self.layout.home / folder).mkdir(parents=True, exist_ok=True)
        self.clear_remains()
        if not self.processes.running():
            self.choose_ports()
        self.check_ports(services)
        secrets, env = Secrets.load(self.layout), with_caller(self.env(), os.environ)
        database = LocalPostgres(self.layout.home / "postgres", self.ports.postgres, secrets.postgres)
        if "postgres" in services:
            self.step("PostgreSQL data folder", database.initialise)
        if not self.processes.running():
            self.processes.launch(env, self.ports)
        if "postgres" in services:
            self.step("PostgreSQL", lambda: self.start_postgres(database))
        if "chroma" in services:
            self.step("Chroma", lambda: self.start("chroma", "/api/v2/heartbeat"))
        if "mlflow" in services:
            self.step("MLflow", lambda: self.start("mlflow", "/health"))
        if "airflow" in services:
            self.step("Airflow database", lambda: self.migrate(env))
            self.step("Airflow", self.start_airflow)
            self.step("Airflow pool `models`", lambda: self.make_pool(secrets))

    def step(self, name: str, action: Callable[[], None]) -> None:
        """One line of progress."""
        began = time.monotonic()
        with console.status(f"{name} …"):
            action()
        console.print(f"  [green]✓[/green] {name} [dim]{time.monotonic() - began:.1f} s[/dim]")

    def clear_remains(self) -> None:
        """Stop what a killed supervisord left, and refuse to join a stack that runs on other ports."""
        if not self.processes.running():
            if remains := self.processes.left():
                console.print(
                    f"  [yellow]![/yellow] stopping {len(remains)} processes of a stack whose supervisord was killed"
                )
                self.processes.stop()
            return
        used = json.loads(self.layout.ports.read_text())
        if used != asdict(self.ports):
            raise RefusedError(
                f"{self.layout.home}: runs with ports {used}, asked for {asdict(self.ports)}. First: make down"
            )

    def choose_ports(self) -> None:
        """Take free ports for what nobody opens in a browser, and for each port that another process has.

        The caller's choice stays, and so do the ports of an earlier start.
        """
        new = not self.layout.ports.is_file()
        free = {
            name: free_port()
            for name, port in asdict(self.ports).items()
            if not os.environ.get(Ports.variable(name))
            and (port_taken(port) or (new and name in {"chroma", "postgres"}))
        }
        self.ports = replace(self.ports, **free)
        self.layout.ports.write_text(json.dumps(asdict(self.ports)))

    def check_ports(self, services: list[str]) -> None:
        """Refuse before anything starts when a port is taken."""
        states = self.processes.states()
        for service in services:
            port = getattr(self.ports, service)
            ours = states.get(SERVICES[service][0], {}).get("statename") in {"RUNNING", "STARTING"}
            if not ours and port_taken(port):
                raise RefusedError(
                    f"{service}: port {port} on {HOST} is taken by another process. Free it, or choose another: "
                    f"{self.ports.variable(service)}=<port> make up"
                )

    def start_postgres(self, database: LocalPostgres) -> None:
        """The server, then the databases in it."""
        self.processes.start("postgres")
        self.processes.wait_for("postgres", database.ready, 60)
        for name in DATABASES:
            database.create_database(name)

    def start(self, service: str, health: str) -> None:
        """A server with one health address."""
        port = getattr(self.ports, service)
        self.processes.start(service)
        self.processes.wait_for(service, lambda: request(port, health)[0] == 200, START_SECONDS[service])

    def migrate(self, env: dict[str, str]) -> None:
        """Bring Airflow's tables to this version; a second time changes nothing."""
        log = self.layout.logs / "airflow-migrate.log"
        with log.open("wb") as out:
            ran = subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"], env=env, stdout=out, stderr=out, check=False
            )
        if ran.returncode != 0:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise StackError(f"airflow db migrate: exit code {ran.returncode}. The end of {log}:\n{end}")

    def start_airflow(self) -> None:
        """All four at once; each is waited for by the part of the health report it fills."""
        for program in AIRFLOW:
            self.processes.start(program)
        for program, part in zip(AIRFLOW, ("metadatabase", "scheduler", "dag_processor", "triggerer"), strict=True):
            self.processes.wait_for(program, partial(self.healthy, part), START_SECONDS["airflow"])

    def healthy(self, part: str) -> bool:
        """Whether Airflow's health report calls `part` healthy."""
        status, health = request(self.ports.airflow, "/api/v2/monitor/health")
        return status == 200 and health.get(part, {}).get("status") == "healthy"

    def make_pool(self, secrets: Secrets) -> None:
        """Through the API, as the admin: it also proves that the password in the table below opens the door."""
        port = self.ports.airflow
        status, answer = request(port, "/auth/token", {"username": "admin", "password": secrets.admin})
        if status != 201:
            raise StackError(
                f"Airflow: expected the admin's password to be accepted, got HTTP {status}. {self.layout.passwords} "
                f"and {self.layout.secrets} disagree: remove the first; `make up` writes it again."
            )
        token = answer["access_token"]
        if (
            request(port, f"/api/v2/pools/{MODEL_POOL['name']}", token=token)[0] == 404
        ):  # an existing one keeps its slots
            status, answer = request(port, "/api/v2/pools", MODEL_POOL, token)
            if status != 201:
                raise StackError(f"Airflow: expected HTTP 201 for the pool `models`, got {status}: {answer}")

    def table(self) -> Table:
        """What runs, where, and where the passwords are."""
        table = Table(title="Corpus Guard, local stack", title_justify="left", caption_justify="left")
        for column in ("what", "state", "where", "sign in as"):
            table.add_column(column, overflow="fold")
        rows = {
            "airflow": (f"http://{HOST}:{self.ports.airflow}", ", ".join(USERS)),
            "chroma": (f"http://{HOST}:{self.ports.chroma}", "(open to this machine)"),
            "mlflow": (f"http://{HOST}:{self.ports.mlflow}", "(open to this machine)"),
            "postgres": (f"{HOST}:{self.ports.postgres}", "postgres"),
        }
        states = self.processes.states()
        for service, row in rows.items():
            seen = {states.get(program, {}).get("statename", "STOPPED").lower() for program in SERVICES[service]}
            table.add_row(service, ", ".join(sorted(seen)), *row)
        table.caption = (
            f"passwords: {self.layout.passwords} (Airflow)\n           {self.layout.secrets} (PostgreSQL)\n"
            f"logs:      {self.layout.logs}"
        )
        return table


class RefusedError(StackError):
    """Nothing was started or changed, so nothing is to be stopped."""


@contextmanager
def held(stack: Stack) -> Iterator[None]:
    """One `up` or `down` at a time on a home."""
    stack.layout.stack.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (stack.layout.stack / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@app.command()
def up(only: Annotated[str, typer.Option(help="Comma-separated: postgres, chroma, mlflow, airflow.")] = "") -> None:
    """Start what does not run yet and wait until it is healthy. On failure nothing is left running."""
    stack = Stack()
    with held(stack):
        asked = [one.strip() for one in only.split(",") if one.strip()] or list(SERVICES)
        if unknown := set(asked) - set(SERVICES):
            raise StackError(f"--only: expected some of {', '.join(SERVICES)}; got {', '.join(sorted(unknown))}")
        if "airflow" in asked and "postgres" not in asked:
            asked.insert(0, "postgres")
        try:
            stack.up(asked)
        except RefusedError:
            raise
        except BaseException:
            stack.processes.stop()
            raise
        console.print(stack.table())
        if "airflow" in asked:
            passwords = json.loads(stack.layout.passwords.read_text())
            console.print(
                f"\nReview pages: [bold]http://{HOST}:{stack.ports.airflow}{REVIEW_PAGES}[/bold]\n"
                f"Sign in as [bold]reviewer[/bold] with the password [bold]{passwords['reviewer']}[/bold], "
                f"or as [bold]admin[/bold] with [bold]{passwords['admin']}[/bold]"
            )


@app.command()
def down() -> None:
    """Stop everything, also what a killed supervisord left behind."""
    stack = Stack()
    with held(stack):
        strays = stack.processes.stop()
        tail = f" ({strays} processes had outlived their parents and were stopped)" if strays else ""
        console.print(f"nothing runs{tail}")


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show what runs. Exit code 0 when all of it does, 3 when some or none does."""
    stack = Stack()
    states = stack.processes.states()
    programs = [program for group in SERVICES.values() for program in group]
    found = {program: states.get(program, {}).get("statename", "STOPPED") for program in programs}
    if as_json:
        pids = {program: states.get(program, {}).get("pid", 0) for program in programs}
        content = {name: {"state": state, "pid": pids[name]} for name, state in found.items()}
        print(json.dumps({"home": str(stack.layout.home), "ports": asdict(stack.ports), "programs": content}, indent=2))
    else:
        console.print(stack.table())
    raise typer.Exit(0 if set(found.values()) == {"RUNNING"} else 3)


@app.command()
def env() -> None:
    """Print `export` lines for a shell that talks to the stack. They hold secrets."""
    stack = Stack()
    for key, value in stack.env().items():
        print(f"export {key}={shlex.quote(value)}")


if __name__ == "__main__":
    try:
        app()
    except (StackError, PostgresError) as problem:
        console.print("✗", problem, style="red", markup=False)
        sys.exit(1)
