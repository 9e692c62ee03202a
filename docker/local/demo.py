"""``make demo``: the DAG `corpus_refresh` runs through Airflow on the sample corpus, and its work is compared with the answer sheet.

Starts PostgreSQL (Airflow's metadata, so that `make up` shows this run) and Chroma unless they run already (with ``STORE=pgvector``
PostgreSQL alone), runs ``airflow dags test`` on the DAG, and stops what it started. When `make up` runs, the DAG is triggered there
instead: two schedulers must not share a run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from corpus_guard.cli import console as look
from corpus_guard.deployment import Deployment
from corpus_guard.errors import Infrastructure
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, findings, runs, versions
from corpus_guard.review.naming import name_documents
from corpus_guard.review.queue import QueueFilter, load_page
from corpus_guard.settings import PROJECT, load_settings
from corpus_guard.tracking.mlflow_runs import log_run
from environment import HOST, Layout, Ports, Secrets, environment, with_caller
from processes import request

STACK = [sys.executable, str(Path(__file__).with_name("stack.py"))]
TRUTH = PROJECT / "include" / "sample_corpus" / "truth.yaml"
DAG = "corpus_refresh"
RUN_SECONDS = 1_800
ITEMS = 100  # of each state that are listed
SCHEDULED_SECONDS = 15  # the scheduler looks for new runs more often than this
PROGRAMS = ("scheduler", "postgres", "chroma", "mlflow")
EXPERIMENT = "corpus-guard/sample-corpus"
ANSWER_SECONDS = 30  # one request, on a machine whose cores are busy with models
TASK_STARTS = re.compile(r"\[DAG TEST\] starting task_id=(\w+) map_index=(-?\d+)")

FOLDERS = {"chroma": "chroma", "pgvector": "postgres"}  # of the stores, in the home

console = Console(highlight=False)


def main() -> int:
    """Run and report. Returns the exit code."""
    began = time.monotonic()
    layout = Layout.read(os.environ)
    layout.home.mkdir(parents=True, exist_ok=True)
    running = _running()
    if running["scheduler"]:
        console.print("The local stack runs: triggering the DAG there.")
        code = _trigger(_join(layout), Secrets.load(layout))
    else:
        in_chroma = os.environ.get("CORPUS_GUARD_STORE", "chroma") == "chroma"
        vectors = " and Chroma (the vector store)" if in_chroma else ", which holds the vectors as well"
        console.print(f"[bold]1[/bold] Starting PostgreSQL (Airflow's metadata){vectors}")
        services = ("postgres", "chroma") if in_chroma else ("postgres",)
        started = not all(running[service] for service in services)
        try:
            ran = subprocess.run(
                [*STACK, "up", "--only", ",".join(services)], stdout=subprocess.PIPE, text=True, check=False
            )
            if ran.returncode:
                raise SystemExit(ran.stdout)
            _join(layout)
            console.print("[bold]2[/bold] Preparing Airflow's database and the models (the first time: half a minute)")
            _quietly(layout, "airflow-migrate", [sys.executable, "-m", "airflow", "db", "migrate"])
            _quietly(layout, "models", [str(Path(sys.executable).with_name("guard")), "models", "prepare"])
            console.print(f"[bold]3[/bold] Running the DAG [bold]{DAG}[/bold] through Airflow")
            code = _run_dag(layout)
        finally:
            if started:
                subprocess.run([*STACK, "down"], check=False, stdout=subprocess.DEVNULL)
    if code == 0:
        _report(layout, time.monotonic() - began, in_stack=running["scheduler"])
        if not running["mlflow"]:
            os.environ["MLFLOW_TRACKING_URI"] = ""  # no server to ask: into the file that `make up` serves
        _track(layout)
    return code


def _join(layout: Layout) -> Ports:
    """Put what the stack's processes are told into this environment, once the home has its ports."""
    ports = Ports.read(os.environ, layout.ports)
    os.environ.update(with_caller(environment(layout.project, layout.home, ports, Secrets.load(layout)), os.environ))
    return ports


def _running() -> dict[str, bool]:
    status = subprocess.run([*STACK, "status", "--json"], check=False, capture_output=True, text=True)
    programs = json.loads(status.stdout)["programs"] if status.stdout else {}
    return {name: programs.get(name, {}).get("state") == "RUNNING" for name in PROGRAMS}


def _quietly(layout: Layout, name: str, command: list[str]) -> None:
    log = layout.logs / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        ran = subprocess.run(command, check=False, stdout=out, stderr=out)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command[1:])} failed with exit code {ran.returncode}; its log is {log}")


def _run_dag(layout: Layout) -> int:
    log = layout.logs / "demo.log"
    command = [sys.executable, "-m", "airflow", "dags", "test", DAG]
    with (
        log.open("w") as out,
        Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as bar,
    ):
        line = bar.add_task("parsing the DAG")
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        for text in process.stdout or ():
            out.write(text)
            if found := TASK_STARTS.search(text):
                shard = f", shard {int(found[2]) + 1}" if found[2] != "-1" else ""
                bar.update(line, description=f"task [bold]{found[1]}[/bold]{shard}")
        code = process.wait()
    if code or "state=success" not in log.read_text(errors="replace")[-5000:]:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        console.print(f"[red]The run failed.[/red] The end of {log}:\n{look.visible(tail, lines=True)}")
        return code or 1
    return 0


def _trigger(ports: Ports, secrets: Secrets) -> int:
    def ask(path: str, body: object = None, token: str = "") -> tuple[int, Any]:
        return request(ports.airflow, path, body, token, seconds=ANSWER_SECONDS)

    status, answer = ask("/auth/token", {"username": "guard", "password": secrets.guard})
    if status != 201:
        raise SystemExit(f"Airflow at {HOST}:{ports.airflow} refused the pipeline's own login: HTTP {status} {answer}")
    token = answer["access_token"]
    paused = (ask(f"/api/v2/dags/{DAG}", token=token)[1] or {}).get("is_paused", True)
    subprocess.run([sys.executable, "-m", "airflow", "dags", "unpause", "--yes", DAG], check=False, capture_output=True)
    # Airflow starts the last interval's run by itself when a DAG is new or unpaused; a second one would only share its work.
    waited = time.monotonic() + SCHEDULED_SECONDS * paused
    status = 200
    while True:
        started = ask(f"/api/v2/dags/{DAG}/dagRuns?state=running&state=queued&limit=1", token=token)[1] or {}
        run = next(iter(started.get("dag_runs", [])), None)
        if run is not None or time.monotonic() >= waited:
            break
        time.sleep(1)
    if run is None:
        status, run = ask(f"/api/v2/dags/{DAG}/dagRuns", {"logical_date": None}, token)
    if status != 200:
        raise SystemExit(f"Airflow at {HOST}:{ports.airflow} refused to run {DAG}: HTTP {status} {run}")
    deadline = time.monotonic() + RUN_SECONDS
    with console.status(f"run {run['dag_run_id']}"):
        while time.monotonic() < deadline:
            # A busy machine may miss one answer; the run goes on.
            state = (ask(f"/api/v2/dags/{DAG}/dagRuns/{run['dag_run_id']}", token=token)[1] or run)["state"]
            if state in {"success", "failed"}:
                console.print(f"The run ended: {look.styled('sealed' if state == 'success' else 'failed')}")
                return 0 if state == "success" else 1
            time.sleep(2)
    raise SystemExit(
        f"the run {run['dag_run_id']} did not end within {RUN_SECONDS} s; see http://{HOST}:{ports.airflow}"
    )


def _report(layout: Layout, seconds: float, *, in_stack: bool) -> None:
    with Deployment(load_settings()) as guard:
        with guard.ledger.read() as connection:
            last = connection.execute(
                sa.select(runs).where(runs.c.kind == "refresh").order_by(runs.c.started_at.desc()).limit(1)
            ).one()
            found = stands(connection)
        storage = guard.storage
        counts = last.counts
        console.print()
        _verdicts(found)
        _reasons(guard.ledger)
        truth = yaml.safe_load(TRUTH.read_text(encoding="utf-8"))
        _against_truth(truth, found)
        names = ("accepted", "quarantined", "rejected", "unchanged", "failed")
        parts = " + ".join(f"{counts[name]} {name}" for name in names)
        console.print(f"[bold]{counts['documents']} documents[/bold] = {parts}, in {seconds:.0f} s")
        if counts["unchanged"] == counts["documents"]:
            console.print(
                "[bold green]Nothing changed[/bold green]: every document has the bytes it had; no model was loaded."
            )
        rows = [
            (
                "corpus",
                f"{counts['served']} chunks in {guard.store.system}, {layout.home / FOLDERS[guard.settings.store]}",
            ),
            ("manifest", storage.location(counts["manifest"])),
            ("its SHA-256", counts["manifest_sha256"]),
            ("ledger", guard.ledger.address),
            ("raw bytes", storage.location("raw")),
            ("Airflow's log", str(layout.logs / ("tasks" if in_stack else "demo.log"))),
        ]
        console.print(look.table("Where everything is", ("what", "where"), rows))
        in_chroma = guard.settings.store == "chroma"
    if not in_chroma:
        console.print(
            "Next: [bold]make up STORE=pgvector[/bold] for Airflow's UI, with the review pages and the search"
        )
        return
    console.print(
        'Next: [bold].venv/bin/guard quarantine list[/bold] · [bold].venv/bin/guard search "how often is the OX-12 calibrated?"[/bold] · '
        "[bold].venv/bin/guard verify[/bold] · [bold]make up[/bold] for the review pages, Airflow and MLflow"
    )


def stands(connection: sa.Connection) -> dict[str, tuple[str, float, list[str]]]:
    """Name as in the answer sheet → (state, risk, codes of findings that weigh)."""
    rows = connection.execute(
        sa.select(documents.c.source, documents.c.uri, versions.c.state, versions.c.risk, versions.c.version_id)
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .where(documents.c.retired_at.is_(None))
        .order_by(documents.c.source, documents.c.uri)
    ).all()
    codes: dict[str, list[str]] = {}
    for row in connection.execute(
        sa.select(findings.c.version_id, findings.c.code).where(findings.c.severity != "info")
    ):
        codes.setdefault(row.version_id, []).append(row.code)
    # A ticket's place is "<file>#<key>"; the answer sheet names its key.
    return {
        f"{row.source}/{row.uri.rpartition('#')[2]}": (
            row.state,
            row.risk,
            list(dict.fromkeys(codes.get(row.version_id, []))),
        )
        for row in rows
    }


def _verdicts(stands: dict[str, tuple[str, float, list[str]]]) -> None:
    names = ("accepted", "quarantined", "rejected", "released")
    sources = sorted({name.partition("/")[0] for name in stands})
    rows = []
    for source in [*sources, "all"]:
        states = [state for name, (state, _, _) in stands.items() if source in {name.partition("/")[0], "all"}]
        rows.append((source, *(str(states.count(name)) for name in names)))
    console.print(look.table("Verdicts", ("source", *names), rows, right=names))


def _reasons(ledger: Ledger) -> None:
    """Say in a sentence why each document was not accepted, as the queue does."""
    items = [
        item
        for state in ("rejected", "quarantined")
        for item in load_page(ledger, QueueFilter(state=state), size=ITEMS).items
    ]
    worst = [item.worst_finding.message if item.worst_finding else "" for item in items]
    rows = [
        (look.visible(f"{item.source}/{item.uri.rpartition('#')[2]}"), f"{item.risk:.2f}", look.visible(reason))
        for item, reason in zip(items, name_documents(ledger, worst), strict=True)
    ]
    console.print(look.table("In quarantine, and why", ("document", "risk", "why"), rows, right=("risk",)))


def _track(layout: Layout) -> None:
    """Log the comparison with the answer sheet as a run in MLflow, so that two demos can be compared there."""
    settings = load_settings()
    with Deployment(settings) as guard, guard.ledger.read() as connection:
        verdicts = stands(connection)
        policy = guard.screening.digest
    caught, missed, alarms = _compare(yaml.safe_load(TRUTH.read_text(encoding="utf-8")), verdicts)
    states = [state for state, _, _ in verdicts.values()]
    metrics = {"attacks_kept_out": len(caught), "attacks_missed": len(missed), "false_alarms": len(alarms)}
    metrics |= {f"documents_{state}": states.count(state) for state in sorted(set(states))}
    pages = f"http://{HOST}:{Ports.read(os.environ, layout.ports).airflow}/plugin/corpus-guard"
    note = f"The sample corpus against its answer sheet. `make up`, then review what waits: {pages}"
    attacks = len(caught) + len(missed)
    with tempfile.TemporaryDirectory() as folder:
        rows = {
            name: {"state": state, "risk": risk, "findings": codes} for name, (state, risk, codes) in verdicts.items()
        }
        (Path(folder) / "verdicts.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")
        try:
            log_run(
                settings,
                EXPERIMENT,
                name=f"{datetime.now(UTC):%Y-%m-%d %H:%M}: {len(caught)} of {attacks} attacks kept out, {len(alarms)} false alarms",
                params={"policy": policy},
                metrics={name: float(value) for name, value in metrics.items()},
                artifacts=Path(folder),
                note=note,
            )
        except Infrastructure as problem:
            console.print(f"[yellow]Not in MLflow:[/yellow] {problem}")


Compared = tuple[list[dict[str, str]], list[dict[str, str]], list[str]]


def _compare(truth: dict[str, Any], stands: dict[str, tuple[str, float, list[str]]]) -> Compared:
    """Return the planted attacks that were kept out, those that were missed, and the innocent documents kept out."""
    kept_out = {"quarantined", "rejected"}
    caught = [one for one in truth["attacks"] if stands.get(one["document"], ("",))[0] in kept_out]
    missed = [one for one in truth["attacks"] if one not in caught]
    guilty = {one["document"] for one in truth["attacks"]}
    alarms = [name for name, (state, _, _) in stands.items() if state in kept_out and name not in guilty]
    return caught, missed, alarms


def _against_truth(truth: dict[str, Any], stands: dict[str, tuple[str, float, list[str]]]) -> None:
    caught, missed, alarms = _compare(truth, stands)
    console.print(f"[bold]Planted attacks kept out: {len(caught)} of {len(truth['attacks'])}[/bold]")
    if missed:
        rows = [(look.visible(one["document"]), one["kind"], look.visible(one["what"])) for one in missed]
        console.print(look.table("Missed, and served", ("document", "kind", "what it does"), rows))
    guilty = {one["document"] for one in truth["attacks"]}
    console.print(
        f"[bold]False alarms: {len(alarms)} of {len(stands) - len(guilty & set(stands))} innocent documents[/bold]"
    )
    for name in alarms:
        console.print(f"  {look.visible(name)}")
    console.print()


if __name__ == "__main__":
    sys.exit(main())
