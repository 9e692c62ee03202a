"""`guard clean`: remove stored files that nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, say_aside, visible
from corpus_guard.cli.options import Json
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.pipeline.cleaning import CleaningResult

app = typer.Typer()


@app.command("clean")
def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove stored files that nobody needs any more and that are older than CORPUS_GUARD_CLEAN_DAYS.

    Working files of runs, and batches and vectors to which nothing refers. What was published, waits or was decided on stays, as do
    raw bytes and manifests. Each file is named by an event (`guard log --kind cleaned`). Waits while an incident is red. Exits with
    code 1 if a file stays because it is not as it was logged.

    Example: `guard clean --dry-run`
    """
    from corpus_guard.pipeline.cleaning import clean as run

    with Deployment() as deployment, console.progress(not as_json) as progress:
        result = run(
            deployment.ledger,
            deployment.storage,
            deployment.settings,
            new_run_id("clean"),
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        console.print_json(result)
    else:
        _show(result)
    if result["changed"]:
        raise typer.Exit(1)


def _show(result: CleaningResult) -> None:
    if not result["days"]:
        say("Every file stays: CORPUS_GUARD_CLEAN_DAYS is 0.")
        return
    if result["waits_for"]:
        say(f"Nothing was removed: {visible(result['waits_for'])}.")
        return
    rows = [(kind, totals["files"], f"{totals['bytes'] / 2**20:,.1f}") for kind, totals in result["removed"].items()]
    title = "To be removed" if result["dry_run"] else "Removed"
    if rows:
        print_table(title, ("what", "files", "MiB"), rows, right=("MiB",))
    else:
        say(f"No unneeded file is older than {plural(result['days'], 'day')}.")
    for name in result["changed"]:
        say_aside(
            f"[bold red]not removed[/bold red]: {visible(name)} is not as it was logged; run `guard verify --deep`"
        )
