"""The `guard` command: thin. Every command can speak JSON; every failure says what, where and what next.

Exit codes: 0 done, 1 done and something asks for attention (``--fail-on``), 2 misuse, 3 infrastructure, 4 inconsistent.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.text import Text

from corpus_guard import (
    __version__,
    _cli_activations,
    _cli_enhance,
    _cli_evaluate,
    _cli_evaluate_drift,
    _cli_evaluate_traceback,
    _cli_export,
    _cli_incident,
    _cli_keys,
    _cli_proof,
    _cli_purge,
    _cli_quarantine,
    _cli_quarantine_rules,
    _cli_report,
    _cli_screening,
    _cli_source,
    _cli_trace,
    _cli_train,
    _cli_witness,
    errors,
)
from corpus_guard import _console as console
from corpus_guard._console import Json, err, out, styled, visible
from corpus_guard.domain import TrustLevel, Verdict
from corpus_guard.guard import Guard, new_run_id

app = typer.Typer(
    name="guard",
    help="Decides which documents may enter a RAG knowledge base, and shows what is in it and why.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="The embedder and the language model.", no_args_is_help=True)
app.add_typer(_cli_quarantine.app, name="quarantine")
for command in ("history", "mute", "confirm", "unmute", "mutes", "health", "labels"):
    _cli_quarantine.app.command(command)(getattr(_cli_quarantine_rules, command))
app.add_typer(_cli_evaluate.app, name="evaluate")
app.add_typer(_cli_train.app, name="train")
app.add_typer(_cli_source.app, name="source")
app.add_typer(_cli_report.app, name="report")
app.add_typer(_cli_trace.app, name="trace")
app.add_typer(_cli_enhance.app, name="enhance")
_cli_evaluate.app.command("traceback")(_cli_evaluate_traceback.traceback)
_cli_evaluate.app.command("activations")(_cli_activations.evaluate)
_cli_train.app.command("activations")(_cli_activations.train)
_cli_evaluate.app.command("drift", cls=_cli_evaluate.ManyFiles)(_cli_evaluate_drift.drift)
app.add_typer(_cli_incident.app, name="incident")
app.add_typer(_cli_export.app, name="export")
app.add_typer(_cli_keys.app, name="keys")
app.add_typer(_cli_witness.app, name="witness")
app.add_typer(models_app, name="models")
app.command("calibrate")(_cli_screening.calibrate)
app.command("rescreen")(_cli_screening.rescreen)
app.command("verify")(_cli_proof.verify)
app.command("log")(_cli_proof.log)
app.command("diff")(_cli_proof.diff)
app.command("prove")(_cli_proof.prove)
app.command("check-proof")(_cli_proof.check_proof)
app.command("purge")(_cli_purge.purge)

Source = Annotated[
    list[str] | None, typer.Option("--source", "-s", help="Only this source; may be given several times.")
]


def _say_version(asked: bool) -> None:
    if asked:
        out.print(f"corpus-guard {__version__}", soft_wrap=True)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


class FailOn(StrEnum):
    """From which verdict on `guard screen` exits with 1."""

    NEVER = "never"
    QUARANTINE = "quarantine"
    REJECT = "reject"


@app.command()
def refresh(
    source: Source = None,
    refetch: Annotated[
        bool, typer.Option("--refetch", help="Read all bytes again, whatever a source says of being unchanged.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Pull every source, screen what changed, publish what was accepted, seal.

    The same steps as the DAG `corpus_refresh`, without Airflow. Killed or run twice, it converges. A page, object, blob or row that its
    source says is unchanged is not read; `--refetch` reads it all the same, as CORPUS_GUARD_REFETCH_DAYS does every month.

    Example: `guard refresh --source handbook`
    """
    from corpus_guard.refresh.run import refresh as run
    from corpus_guard.settings import load_settings

    settings = load_settings(refetch_days=0) if refetch else None
    with Guard(settings) as guard, console.progress(not as_json) as progress:
        sealed = run(guard, new_run_id("refresh"), source or (), progress)
    if as_json:
        console.print_json(sealed)
        return
    out.print(_counts(sealed))
    out.print(
        f"{sealed['published']:,} chunks published, {sealed['retired']:,} retired, {sealed['served']:,} served; "
        f"manifest sha256:{sealed['manifest_sha256'][:16]}…",
        soft_wrap=True,
    )
    if (
        sealed["published"]
        == sealed["retired"]
        == sealed["accepted"]
        == sealed["quarantined"]
        == sealed["rejected"]
        == 0
    ):
        out.print(f"Nothing changed: {sealed['unchanged']} documents have the bytes they had.")
    if sealed["quarantined"]:
        out.print("What waits for you: [bold]guard quarantine list[/bold]")


@app.command()
def screen(
    path: Annotated[
        Path, typer.Argument(help="A folder, a document, or a JSONL, CSV or Parquet file of rows.", metavar="INPUT")
    ],
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSONL, one line a document. Default: standard output.")
    ] = None,
    text_field: Annotated[str, typer.Option(help="Rows: the column with the text.")] = "text",
    id_field: Annotated[
        str, typer.Option(help="Rows: the column with the id; row numbers where it is missing.")
    ] = "id",
    trust: Annotated[TrustLevel, typer.Option(help="How far the input's source is trusted.")] = TrustLevel.OPEN,
    one_by_one: Annotated[bool, typer.Option("--one-by-one", help="No checks that look across documents.")] = False,
    bank: Annotated[
        Path | None,
        typer.Option(help="Questions that people ask, one a line: a text written to answer one is noticed."),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with 1 when a document has this verdict or a worse one.")
    ] = FailOn.NEVER,
) -> None:
    """Screen documents without touching a store or a ledger: one verdict for every document or row, in input order.

    Example: `guard screen docs/ --out verdicts.jsonl --fail-on quarantine`
    """
    from corpus_guard.screening.standalone import screen_input
    from corpus_guard.settings import load_settings

    if output is not None and output.resolve() == path.resolve():
        raise errors.Misuse(f"--out {output}: is the input itself; name another file")
    counts = dict.fromkeys(Verdict, 0)
    with console.progress(output is not None) as progress:
        rows = screen_input(
            load_settings(),
            path,
            text_field=text_field,
            id_field=id_field,
            trust=trust,
            one_by_one=one_by_one,
            bank=_questions(bank) if bank else (),
            progress=progress,
        )
        with console.writing(output) as write:
            for row in rows:
                counts[row.judgement.verdict] += 1
                write(console.as_json(row.as_dict()) + "\n")
    total = sum(counts.values())
    parts = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    err.print(f"{total} documents: {parts}")
    worse = counts[Verdict.REJECT] + (counts[Verdict.QUARANTINE] if fail_on is FailOn.QUARANTINE else 0)
    if fail_on is not FailOn.NEVER and worse:
        raise typer.Exit(1)


def _questions(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Misuse(
            f"--bank {path}: {error.__class__.__name__}; give a UTF-8 text file, one question a line"
        ) from error
    return [line.strip() for line in lines if line.strip()]


@app.command()
def status(as_json: Json = False) -> None:
    """What is served, what waits, how the last runs ended, and which policy decides."""
    from corpus_guard.status import read_status

    with Guard() as guard:
        report = read_status(guard)
    if as_json:
        console.print_json(report)
        return
    numbers = ("documents", "served", "waiting", "rejected", "chunks")
    rows = [
        (visible(row["source"]), row["trust"], *(f"{row[name]:,}" for name in numbers)) for row in report["sources"]
    ]
    out.print(console.table("Sources", ("source", "trust", *numbers), rows, right=numbers))
    rows = [
        (row["started_at"][:19], row["kind"], styled(row["state"]), _summary(row["counts"]), visible(row["run_id"]))
        for row in report["runs"]
    ]
    out.print(console.table("Last runs", ("started (UTC)", "kind", "state", "counts", "run"), rows))
    _cli_screening.show_screening(report)
    head = report["head"]
    if head:
        out.print(
            f"[bold]Signed   [/bold] {head['events']:,} events, {head['signed_at'][:19]} UTC; `guard verify` checks them"
        )
    for incident in report["incidents"]:
        out.print(f"[bold red]Incident [/bold red] {incident} is open: guard incident show {incident[:8]}")
    for label, key in (
        ("Policy", "policy"),
        ("Manifest", "manifest"),
        ("Ledger", "ledger"),
        ("Storage", "storage"),
        ("Chroma", "chroma"),
    ):
        out.print(f"[bold]{label:9}[/bold] {visible(str(report[key] or 'none yet'))}", soft_wrap=True)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question, as a user would ask it.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many chunks.")] = 5,
    trust: Annotated[
        list[TrustLevel] | None, typer.Option(help="Only this trust level; may be given several times.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the collections. What the ledger does not vouch for is withheld, what the filter takes for poisoned is left out; both are named.

    Example: `guard search "How often must the sensor be calibrated?"`
    """
    with Guard() as guard:
        found = guard.retriever.query(query, k, trust or tuple(TrustLevel), session="guard search")
    if as_json:
        console.print_json(asdict(found))
        return
    for answer in found.answers:
        title = Text.from_markup(
            f"{answer.similarity:.3f}  {visible(answer.source)} · {visible(answer.uri)} · {answer.trust.value}",
            emoji=False,
        )
        out.print(Panel(visible(answer.text[:600], lines=True), title=title, title_align="left", border_style="dim"))
    if not found.answers and not found.filtered:
        out.print("Nothing is published yet; run [bold]guard refresh[/bold].")
    for record in found.withheld:
        err.print(f"[red]withheld[/red] {visible(record.chunk_id)} in {record.collection}: {record.reason}")
    for dropped in found.filtered:
        err.print(
            f"[red]filtered[/red] {visible(dropped.chunk_id)} of {visible(dropped.source)} · {visible(dropped.uri)}: {dropped.reason}"
        )
    if found.checked_by == "off":
        err.print("[yellow]not filtered[/yellow]: CORPUS_GUARD_RETRIEVAL_FILTER=off")


@models_app.command("prepare")
def models_prepare(as_json: Json = False) -> None:
    """Find, verify and convert the models, so that no later step waits for it."""
    with Guard() as guard, err.status("verifying and converting models") if not as_json else nullcontext():
        found = {"embedder": guard.models.embedder_weights, "language_model": guard.models.language_model_weights}
    if as_json:
        console.print_json(
            {name: {"name": one.name, "digest": one.digest, "folder": str(one.folder)} for name, one in found.items()}
        )
        return
    rows = [(name.replace("_", " "), str(one), str(one.folder)) for name, one in found.items()]
    out.print(console.table("Models", ("role", "identity", "folder"), rows))


def main() -> None:
    """Entry point: turns our errors into one line and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except errors.Misuse as error:
        _fail(str(error), 2)
    except errors.Infrastructure as error:
        _fail(str(error), 3)
    except errors.GuardError as error:
        _fail(str(error), 4)
    except OSError as error:
        _fail(
            f"{error.filename or 'input or output'}: {error.strerror or type(error).__name__}; see that it can be read and written",
            3,
        )


def _counts(sealed: Any) -> Any:
    verdicts = [(name, sealed[name]) for name in ("accepted", "quarantined", "rejected", "unchanged", "failed")]
    rows = [(styled(name), f"{count:,}") for name, count in verdicts] + [
        ("[bold]documents[/bold]", f"{sealed['documents']:,}")
    ]
    return console.table("Refresh", ("verdict", "documents"), rows, right=("documents",))


def _summary(counts: dict[str, Any] | None) -> str:
    names = ("accepted", "quarantined", "rejected", "released", "unchanged", "failed")
    return ", ".join(f"{counts[name]} {name}" for name in names if counts.get(name)) if counts else ""


def _fail(message: str, code: int) -> None:
    err.print(f"[bold red]guard:[/bold red] {visible(message)}", soft_wrap=True)
    sys.exit(code)


__all__: Sequence[str] = ("app", "main")
