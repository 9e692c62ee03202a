"""Entry point of the `guard` command: the command groups, the everyday commands, and exit codes.

Exit codes: 0 done, 1 done but something needs attention (such as ``--fail-on``), 2 misuse, 3 infrastructure, 4 inconsistent data,
5 another refresh is at work, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.panel import Panel
from rich.text import Text
from typer.core import TyperGroup

from corpus_guard import __version__, errors
from corpus_guard.cli import (
    activations,
    case,
    checks,
    claims,
    clean,
    console,
    enhance,
    evaluate,
    evaluate_claims,
    evaluate_orders,
    evaluate_ragforensics,
    evaluate_traceback,
    expectations,
    export,
    exposure,
    incident,
    keys,
    proof,
    purge,
    quarantine,
    quarantine_rules,
    report,
    retrievals,
    reviewer,
    screening,
    source,
    trace,
    train,
    train_contradictions,
    watch,
    witness,
)
from corpus_guard.cli import map as map_command
from corpus_guard.cli.console import Markup, err, format_time, out, print_table, say, say_aside, styled, visible
from corpus_guard.cli.options import FromSources, Json, read_questions
from corpus_guard.cli.source import show_undeclared
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import TrustLevel, Verdict, plural

if TYPE_CHECKING:
    from corpus_guard.screening.standalone import ScreenedDocument


class PlainCommands(TyperGroup):
    """Commands whose messages on wrong values do not say "Value error" first, as pydantic has it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="guard",
    cls=PlainCommands,
    help="Decide which documents may enter a RAG knowledge base, prove what is in it, and trace wrong answers to their cause.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="Manage the embedder and the language model.", no_args_is_help=True)
# A group made of several files: each file has an app, and joined under no name they are one group.
for group, parts in {
    "source": (source,),
    "quarantine": (quarantine, quarantine_rules),
    "reviewer": (reviewer,),
    "report": (report,),
    "retrievals": (retrievals,),
    "trace": (trace,),
    "enhance": (enhance,),
    "incident": (incident,),
    "case": (case,),
    "export": (export,),
    "keys": (keys,),
    "witness": (witness,),
    "evaluate": (evaluate, evaluate_claims, evaluate_traceback, evaluate_ragforensics, evaluate_orders),
    "train": (train, train_contradictions),
    "expectations": (expectations,),
    "checks": (checks,),
}.items():
    first, *others = parts
    for part in others:
        first.app.add_typer(part.app)
    app.add_typer(first.app, name=group)
evaluate.app.command("activations")(activations.evaluate)
train.app.command("activations")(activations.train)
app.add_typer(models_app, name="models")
for top_level in (screening, claims, proof, purge, clean, map_command, exposure, watch):
    app.add_typer(top_level.app)


def _print_version(requested: bool) -> None:
    if requested:
        say(f"corpus-guard {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


HELD_SHOWN: Final = 10  # names of documents on the console
EXCERPT_CHARS: Final = 600  # of a text that a search found


class FailOn(StrEnum):
    """Verdict from which `guard screen` exits with code 1."""

    NEVER = "never"
    QUARANTINE = "quarantine"
    REJECT = "reject"


class ScreenFormat(StrEnum):
    """Output format of `guard screen`."""

    JSONL = "jsonl"
    TEXT = "text"
    SARIF = "sarif"


@app.command()
def refresh(
    source: FromSources = None,
    refetch: Annotated[
        bool, typer.Option("--refetch", help="Fetch all documents again, even those reported as unchanged.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="While another refresh is at work on one of the sources, wait for it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Refresh the corpus: pull the sources, screen what changed, publish what was accepted, seal.

    The steps of the DAG `corpus_refresh`, without Airflow. It may be killed or run twice. While another refresh is at work on one of
    the sources, nothing is done (exit code 5), or done afterwards with `--wait`. Documents that their source reports as
    unchanged are not fetched again; `--refetch` fetches them anyway, as happens every CORPUS_GUARD_REFETCH_DAYS days.

    Example: `guard refresh --source handbook`
    """
    from corpus_guard.intake.sources.source import count_skipped
    from corpus_guard.pipeline.status import undeclared_sources
    from corpus_guard.settings import load_settings

    settings = load_settings(refetch_days=0) if refetch else None
    with (
        console.resumable("guard refresh"),
        Deployment(settings) as deployment,
        console.progress(not as_json) as progress,
    ):
        sealed = deployment.refresh(new_run_id("refresh"), source or (), progress, wait=wait)
        undeclared = undeclared_sources(deployment.ledger, deployment.settings)
    if as_json:
        console.print_json(sealed)
        return
    _print_counts(sealed)
    for name, reasons in sealed["skipped"].items():
        listed = ", ".join(count_skipped(number, reason) for reason, number in reasons.items())
        say(f"Skipped in {visible(name)}: {visible(listed)}")
    say(
        f"{plural(sealed['published'], 'chunk')} published, {sealed['retired']:,} retired, {sealed['served']:,} served; "
        f"manifest sha256:{sealed['manifest_sha256'][:16]}…"
    )
    if (
        sealed["published"]
        == sealed["retired"]
        == sealed["accepted"]
        == sealed["quarantined"]
        == sealed["rejected"]
        == 0
    ):
        say(f"Nothing changed: {plural(sealed['unchanged'], 'document')} unchanged.")
    if not sealed["documents"]:
        say(
            "No document was found. What each source holds: [bold]guard source list[/bold], [bold]guard source check NAME[/bold]"
        )
    show_undeclared(undeclared)
    if sealed["quarantined"]:
        say("Waiting for review: [bold]guard quarantine list[/bold]")
    if sealed["rejected"]:
        say("Rejected, and why: [bold]guard quarantine list --state rejected[/bold]")


@app.command()
def screen(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Folders, documents, and JSONL, CSV or Parquet files of rows.", metavar="INPUT"),
    ],
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Output file. Default: standard output.")] = None,
    form: Annotated[
        ScreenFormat,
        typer.Option(
            "--format",
            "-f",
            help="jsonl: one document per line; text: a line for each finding of a document that is held back; "
            "sarif: for code hosts and editors.",
        ),
    ] = ScreenFormat.JSONL,
    text_field: Annotated[str, typer.Option(help="For rows: the column with the text.")] = "text",
    id_field: Annotated[
        str, typer.Option(help="For rows: the column with the id. If it is missing, row numbers are used.")
    ] = "id",
    trust: Annotated[TrustLevel, typer.Option(help="Trust level of the input.")] = TrustLevel.OPEN,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="Trusted folder or file, may be repeated: a document that contradicts it is held back. It is not judged itself."
        ),
    ] = None,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Skip the checks that compare documents with each other.")
    ] = False,
    bank: Annotated[
        Path | None,
        typer.Option(help="File of questions that users ask, one per line: texts written to answer one are detected."),
    ] = None,
    quote: Annotated[
        bool,
        typer.Option(
            "--quote", help="Also write the text that each finding is about, and what it contradicts. Not in sarif."
        ),
    ] = False,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with code 1 if a document gets this verdict or a worse one.")
    ] = FailOn.NEVER,
) -> None:
    """Screen documents without a ledger or a store. Writes one verdict per document or row, in input order.

    Example: `guard screen docs/ --out verdicts.jsonl --fail-on quarantine`

    What is held back, and for which words: `guard screen page.html --format text --quote`

    With what is known to be true: `guard screen posts/ --against manuals/`

    For a code host: `guard screen docs/ --format sarif --out guard.sarif`
    """
    from corpus_guard.exports.screened import format_sarif, format_text
    from corpus_guard.intake.sources.source import count_skipped
    from corpus_guard.screening.standalone import ScreenOptions, screen_input
    from corpus_guard.settings import load_settings

    if output is not None and output.resolve() in {path.resolve() for path in paths}:
        raise errors.Misuse(f"--out {output}: this is the input file; choose another file")
    if quote and form is ScreenFormat.SARIF:
        raise errors.Misuse("--quote: a code host shows results to everybody; choose --format text or jsonl")
    paths, against = _each_once(paths), _each_once(against or ())
    counts = dict.fromkeys(Verdict, 0)
    held_names: list[str] = []  # the first few that are held back
    skipped: Counter[str] = Counter()
    with console.progress(output is not None) as progress:
        rows = screen_input(
            load_settings(),
            paths[0] if len(paths) == 1 else paths,
            ScreenOptions(
                text_field=text_field,
                id_field=id_field,
                trust=trust,
                against=against,
                one_by_one=one_by_one,
                bank=read_questions(bank),
            ),
            progress=progress,
            skipped=skipped,
        )
        with console.writing(output) as write:
            judged = _counted(rows, counts, held_names)
            if form is ScreenFormat.JSONL:
                pieces: Iterable[str] = (console.as_json(row.as_dict(quoted=quote)) + "\n" for row in judged)
            else:
                pieces = format_sarif(judged) if form is ScreenFormat.SARIF else format_text(judged, quoted=quote)
            for piece in pieces:
                write(piece)
    total = sum(counts.values())
    parts = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    say_aside(f"{plural(total, 'document')}: {parts}")
    for reason, count in skipped.items():
        say_aside(f"  skipped: {count_skipped(count, reason)}")
    if output is not None:
        for name in held_names:
            say_aside(f"  held back: {visible(name)}")
        if (more := total - counts[Verdict.ACCEPT] - len(held_names)) > 0:
            say_aside(f"  and {more:,} more, in {visible(str(output))}")
    worse = counts[Verdict.REJECT] + (counts[Verdict.QUARANTINE] if fail_on is FailOn.QUARANTINE else 0)
    if fail_on is not FailOn.NEVER and worse:
        raise typer.Exit(1)


def _each_once(paths: Iterable[Path]) -> list[Path]:
    """Return the paths without those that were given before."""
    return list({path.absolute(): path for path in paths}.values())


def _counted(
    rows: Iterable[ScreenedDocument], counts: dict[Verdict, int], held_names: list[str]
) -> Iterator[ScreenedDocument]:
    for row in rows:
        counts[row.judgement.verdict] += 1
        if row.judgement.verdict is not Verdict.ACCEPT and len(held_names) < HELD_SHOWN:
            held_names.append(row.id)
        yield row


@app.command()
def status(as_json: Json = False) -> None:
    """Show the state of the corpus: open incidents, documents that are served or wait for review, the last runs, and the policy."""
    from corpus_guard.pipeline.status import read_status

    with Deployment() as deployment:
        report = read_status(deployment.ledger, deployment.storage, deployment.screening, deployment.settings)
    if as_json:
        console.print_json(report)
        return
    for red in report["incidents"]:
        name = visible(red["incident_id"][:8])
        say(
            f"[bold red]Incident {name}[/bold red], not acknowledged: {visible(red['summary'])}; see guard incident show {name}"
        )
    numbers = ("documents", "served", "waiting", "rejected", "chunks")
    rows = [(row["source"], row["trust"], *(row[name] for name in numbers)) for row in report["sources"]]
    print_table("Sources", ("source", "trust", *numbers), rows)
    show_undeclared(report["undeclared"])
    if report["sources_problem"]:
        say(f"[bold red]No refresh is possible[/bold red]: {visible(report['sources_problem'])}")
    rows = [
        (format_time(row["started_at"]), row["kind"], styled(row["state"]), _summary(row["counts"]), row["run_id"])
        for row in report["runs"]
    ]
    print_table("Last runs", ("started (UTC)", "kind", "state", "counts", "run"), rows)
    for run_id in report["interrupted"]:
        say(
            f"[yellow]Interrupted[/yellow]: no process works on {visible(run_id)}. Run it again: it does what is not done yet"
        )
    screening.show_screening(report)
    head = report["head"]
    if head:
        say(
            f"[bold]Signed   [/bold] {head['events']:,} events, {format_time(head['signed_at'])} UTC; check with `guard verify`"
        )
    for label, key in (
        ("Policy", "policy"),
        ("Manifest", "manifest"),
        ("Ledger", "ledger"),
        ("Storage", "storage"),
        ("Store", "store"),
    ):
        say(f"[bold]{label:9}[/bold] {visible(str(report[key] or 'none yet'))}")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Question, as a user would ask it.", metavar="QUERY")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="Number of chunks.")] = 5,
    trust: Annotated[list[TrustLevel] | None, typer.Option(help="Only this trust level (repeatable).")] = None,
    as_json: Json = False,
) -> None:
    """Search the collections. Records that do not match the ledger are withheld, texts that the filter flags are left out; both are listed.

    Exits with code 1 if chunks are published and the store holds none of them as it was published.

    Example: `guard search "How often must the sensor be calibrated?"`
    """
    from corpus_guard.corpus.retriever import RetrievalStatus

    if not query.strip():
        raise errors.Misuse("QUERY is empty; expected a question")
    with Deployment() as deployment:
        result = deployment.retriever.query(query, k, trust or tuple(TrustLevel), session="guard search")
    changed = result.status in {RetrievalStatus.WITHHELD, RetrievalStatus.MISSING}
    if as_json:
        console.print_json(asdict(result))
        raise typer.Exit(1 if changed else 0)
    for answer in result.answers:
        title = Text.from_markup(
            f"{answer.similarity:.3f}  {visible(answer.source)} · {visible(answer.uri)} · {answer.trust.value}",
            emoji=False,
        )
        out.print(
            Panel(visible(_excerpt(answer.text), lines=True), title=title, title_align="left", border_style="dim")
        )
    if result.status is RetrievalStatus.EMPTY:
        say("Nothing is published yet. Run [bold]guard refresh[/bold].")
    for record in result.withheld:
        say_aside(f"[red]withheld[/red] {visible(record.chunk_id)} in {record.collection}: {record.reason}")
    for dropped in result.filtered:
        say_aside(
            f"[red]filtered[/red] {visible(dropped.chunk_id)} of {visible(dropped.source)} · {visible(dropped.uri)}: {dropped.reason}"
        )
    if result.checked_by == "off":
        say_aside("[yellow]not filtered[/yellow]: CORPUS_GUARD_RETRIEVAL_FILTER=off")
    if changed:
        count = len(result.withheld)
        problem = f"{count:,} of {count:,} withheld" if count else "no published chunk is in the store"
        say_aside(f"[bold red]{problem}: the store was changed; run `guard verify`[/bold red]")
        raise typer.Exit(1)


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT_CHARS else f"{text[:EXCERPT_CHARS]}…"


@models_app.command("prepare")
def models_prepare(as_json: Json = False) -> None:
    """Find, verify and convert the models, so that later commands start faster."""
    with Deployment() as deployment, err.status("verifying and converting models") if not as_json else nullcontext():
        weights = {
            "embedder": deployment.models.embedder_weights,
            "language_model": deployment.models.language_model_weights,
            "pair_encoder": deployment.models.pair_encoder_weights,
        }
    if as_json:
        console.print_json(
            {
                name: {"name": model.name, "digest": model.digest, "folder": str(model.folder)}
                for name, model in weights.items()
            }
        )
        return
    rows = [(name.replace("_", " "), str(model), str(model.folder)) for name, model in weights.items()]
    print_table("Models", ("role", "identity", "folder"), rows)


def main() -> None:
    """Run the command; turn an error into one line and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    # Importing the libraries makes a million lasting objects; a collection for every 700 of them costs a tenth more. Rarer ones
    # than this let tables and tensors in cycles pile up: 0.7 GB in a refresh of 20,000 documents.
    gc.set_threshold(5_000)
    try:
        app()
    except errors.Misuse as error:
        _fail(str(error), 2)
    except errors.Infrastructure as error:
        _fail(str(error), 3)
    except errors.AlreadyAtWork as error:
        _fail(str(error), 5)
    except errors.GuardError as error:
        _fail(str(error), 4)
    except OSError as error:
        advice = "check that it can be read and written"
        if error.errno == errno.ENOSPC:
            advice = "free space on this disk, then run again; what was acknowledged is kept"
        _fail(f"{error.filename or 'input or output'}: {error.strerror or type(error).__name__}; {advice}", 3)


def _print_counts(sealed: Any) -> None:
    verdicts = [(name, sealed[name]) for name in ("accepted", "quarantined", "rejected", "unchanged", "failed")]
    rows = [
        *((styled(name), count) for name, count in verdicts),
        (Markup("[bold]documents[/bold]"), sealed["documents"]),
    ]
    print_table("Refresh", ("verdict", "documents"), rows)


def _summary(counts: dict[str, Any] | None) -> str:
    names = ("accepted", "quarantined", "rejected", "released", "unchanged", "failed")
    if not counts:
        return ""
    shown = [f"{counts[name]} {name}" for name in names if counts.get(name)]
    return ", ".join([*shown, *(f"not listed: {source}" for source in counts.get("unlisted", ()))])


def _fail(message: str, code: int) -> None:
    say_aside(f"[bold red]guard:[/bold red] {visible(message)}")
    sys.exit(code)
