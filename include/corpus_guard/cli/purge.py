"""`guard purge`: erase content permanently and prove that it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, say_aside, say_rest, visible
from corpus_guard.cli.options import Json, PermanentReason, Reviewer
from corpus_guard.cli.trace import traces_to_ask
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural
from corpus_guard.ledger.states import Purpose

if TYPE_CHECKING:
    from corpus_guard.removal.purge import PurgeResult
    from corpus_guard.removal.purge_plan import PurgePlan

app = typer.Typer()


DOCUMENTS_SHOWN = 40  # documents; --json has all


Several = list[str] | None


@app.command("purge")
def purge(
    by: Reviewer,
    chunk: Annotated[Several, typer.Option(help="Id of a chunk; its whole document version is purged.")] = None,
    document: Annotated[Several, typer.Option(help="Document: URI, source/URI or id.")] = None,
    source: Annotated[Several, typer.Option(help="Everything from this source.")] = None,
    hash_: Annotated[Several, typer.Option("--hash", help="SHA-256 of raw bytes, of a text or of a chunk.")] = None,
    reason: PermanentReason = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Execute. Without it, the command only shows what would be removed.")
    ] = False,
    ask: Annotated[
        Several,
        typer.Option(
            help="Ask the question of this traced report again afterwards; its answer is recorded.", metavar="REPORT"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue every unfinished purge.")] = False,
    as_json: Json = False,
) -> None:
    """Erase content permanently: stop serving it, block it by hash, erase it from disk, and search for remains.

    Documents with the same text or bytes are included, and so is what unfinished refreshes have left on disk. All options except
    `--reason` and `--by` are repeatable. It may be killed or run twice. Exits with code 1 if it cannot read the vector store's disk,
    because then it cannot prove the removal, and if a refresh at work may still hold some of it.

    Example: `guard purge --document letters/1987.md --reason "asked for by its author" --yes`
    """
    from corpus_guard.removal.purge_plan import PurgeSelectors, plan_purge

    selectors = PurgeSelectors(tuple(chunk or ()), tuple(document or ()), tuple(source or ()), tuple(hash_ or ()))
    if resume and selectors.as_dict():
        raise errors.Misuse(
            "--resume continues an earlier purge; use it without --chunk, --document, --source and --hash"
        )
    with Deployment() as deployment, console.progress(not as_json) as progress:
        planned = None
        trace_ids = traces_to_ask(deployment, ask or ())
        if not resume:
            planned = plan_purge(deployment.ledger, deployment.storage, deployment.blobs, selectors)
            if not yes:
                _show_plan(planned, as_json)
                return
        run_id = new_run_id("purge")
        purger = deployment.purger
        results = [purger.purge(run_id, planned, by, reason, progress)] if planned else purger.resume(run_id, progress)
        still_wrong = deployment.ask_again(trace_ids, run_id, Purpose.PURGE) if trace_ids else {}
    if as_json:
        console.print_json({"dry_run": False, "purges": results, "still_wrong": still_wrong})
    else:
        _show_done(results)
        for trace_id, wrong in still_wrong.items():
            say(
                f"Trace {trace_id[:8]}: the RAG model {'still gives' if wrong else 'no longer gives'} the reported answer."
            )
    if any(result["state"] != "closed" or result["waits_for"] for result in results):
        raise typer.Exit(1)


def _show_plan(planned: PurgePlan, as_json: bool) -> None:
    if as_json:
        console.print_json({"dry_run": True, "plan": planned.as_dict()})
        return
    rows = [
        (document.source, document.uri, document.trust, document.served, document.versions)
        for document in planned.documents[:DOCUMENTS_SHOWN]
    ]
    columns = ("source", "document", "trust", "served", "versions")
    print_table(f"{plural(len(planned.documents), 'document')} would be purged", columns, rows)
    say_rest(planned.documents, DOCUMENTS_SHOWN)
    unfinished = planned.unfinished
    tables, blobs = ({*planned.files}.difference(unfinished.files), {*planned.blobs}.difference(unfinished.blobs))
    say(
        f"{plural(len(planned.versions), 'version')} with {plural(len(planned.chunks), 'chunk')} in "
        f"{', '.join(planned.collections) or 'no collection'}; "
        f"{plural(len(tables), 'table')} to rewrite, {plural(len(blobs), 'raw file')} to remove."
    )
    if unfinished.documents or unfinished.files or unfinished.blobs:
        say(
            f"Of unfinished runs: {plural(unfinished.documents, 'document')}, {plural(len(unfinished.files), 'table')} and "
            f"{plural(len(unfinished.blobs), 'raw file')} to remove. A refresh fetches and makes again what is not purged."
        )
    if planned.waits_for:
        say_aside(
            f"[yellow]At work[/yellow]: refresh {visible(', '.join(planned.waits_for))}. What it has not recorded stays; when it has "
            "ended, run the same command again"
        )
    if planned.collections:
        say(
            "These collections are then rebuilt from Parquet; until that is done, queries find only part of their records."
        )
    say('Nothing was changed. To execute, repeat with [bold]--yes --reason "…"[/bold]')


def _show_done(results: list[PurgeResult]) -> None:
    if not results:
        say("No purge is unfinished.")
    for result in results:
        say(
            f"Purged {plural(result['versions'], 'version')} of {plural(result['documents'], 'document')} "
            f"({plural(result['chunks'], 'chunk')}); purge {result['purge_id']}"
        )
        if result["state"] == "closed":
            say(f"{plural(result['searched'], 'file')} searched, nothing found: [green]closed[/green] and signed.")
        else:
            say_aside(
                "[yellow]removed[/yellow], not proved: the files of the vector store cannot be read from here. Run the same command on "
                "the store's machine, as a user who may read them; it rewrites and searches them"
            )
        _say(result["shared"], "found in other documents, too: the text stays there")
        _say(
            result["untraced"],
            "cannot be searched for (too short, too common, or purged before); they are erased like the others",
        )


def _say(ids: Any, what: str) -> None:
    if ids:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        say(f"{plural(len(ids), 'chunk')} {what}: {shown}")
