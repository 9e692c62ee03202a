"""`guard retrievals`: the retrieval log."""

from __future__ import annotations

from typing import Annotated

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import say, say_aside, visible
from corpus_guard.cli.options import FileFormat, Json
from corpus_guard.deployment import Deployment
from corpus_guard.domain import plural

app = typer.Typer(help="The retrieval log: import what other applications logged.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command("import")
def import_(
    source: Annotated[str, typer.Argument(help="File, pattern or fsspec URL.", metavar="SOURCE")],
    file_format: FileFormat = None,
    as_json: Json = False,
) -> None:
    """Import retrievals that other applications logged: JSON Lines, exports of Langfuse or Phoenix, spans.

    Importing twice adds nothing. Records without retrieved texts are passed over; what cannot be read is refused and
    counted. Exits with code 1 if something was refused.

    Example: `guard retrievals import exports/spans.jsonl`
    """
    from corpus_guard.forensics.retrieval_intake import import_retrievals

    with Deployment() as deployment:
        if deployment.retrieval_log is None:
            raise errors.Misuse("CORPUS_GUARD_RETRIEVAL_LOG=off: nothing is logged; set it to on or hashed")
        counts = import_retrievals(deployment.retrieval_log, deployment.settings, source, file_format)
    if as_json:
        console.print_json(counts.as_dict())
    else:
        say(
            f"{plural(counts.records, 'record')}: {counts.new:,} new, {counts.repeated:,} repeated, "
            f"{counts.passed_over:,} without retrieved texts, {counts.expired:,} older than the log keeps, {counts.refused:,} refused"
        )
        if counts.refused:
            say_aside(f"[red]refused[/red]: {visible(counts.reason)}")
    raise typer.Exit(1 if counts.refused else 0)
