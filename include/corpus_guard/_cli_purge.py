"""`guard purge`: taking content out for good, and proving that it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._cli_quarantine import Reviewer
from corpus_guard._console import Json, err, out, visible
from corpus_guard.guard import Guard, new_run_id

if TYPE_CHECKING:
    from corpus_guard.proof.purge import Plan, Purged

SHOWN = 40  # documents; --json has all


Several = list[str] | None


def purge(
    by: Reviewer,
    chunk: Annotated[Several, typer.Option(help="A chunk's id; its whole document version goes.")] = None,
    document: Annotated[Several, typer.Option(help="A document: URI, source/URI, or id.")] = None,
    source: Annotated[Several, typer.Option(help="Everything that came from this source.")] = None,
    hash_: Annotated[Several, typer.Option("--hash", help="SHA-256 of raw bytes, of a text or of a chunk.")] = None,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; kept for good, so quote nothing here.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without, only what would go is shown.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with every purge that is not closed.")] = False,
    as_json: Json = False,
) -> None:
    """Take content out for good: no longer served, blocked by hash, erased from disk, and searched for until nothing is found.

    Whatever has the same text or the same bytes goes along. Every option but `--reason` and `--by` may be given several times.
    Killed or run twice, it converges. Exits with 1 where it cannot see Chroma's disk and so proves nothing.

    Example: `guard purge --document letters/1987.md --reason "asked for by its author" --yes`
    """
    from corpus_guard.proof import purge as purging

    asked = purging.Selectors(tuple(chunk or ()), tuple(document or ()), tuple(source or ()), tuple(hash_ or ()))
    if resume and asked.as_dict():
        raise errors.Misuse(
            "--resume goes on with what was asked for before; give it without --chunk, --document, --source and --hash"
        )
    with Guard() as guard, console.progress(not as_json) as progress:
        if resume:
            done = purging.resume(guard, new_run_id("purge"), progress)
        else:
            planned = purging.plan(guard, asked)
            if not yes:
                _show_plan(planned, as_json)
                return
            done = [purging.purge(guard, new_run_id("purge"), planned, by, reason, progress)]
    if as_json:
        console.print_json({"dry_run": False, "purges": done})
    else:
        _show_done(done)
    if any(one["state"] != "closed" for one in done):
        raise typer.Exit(1)


def _show_plan(planned: Plan, as_json: bool) -> None:
    if as_json:
        console.print_json({"dry_run": True, "plan": planned.as_dict()})
        return
    rows: list[tuple[str, ...]] = [
        (
            visible(one["source"]),
            visible(one["uri"]),
            one["trust"],
            "yes" if one["served"] else "no",
            str(one["versions"]),
        )
        for one in planned.documents[:SHOWN]
    ]
    columns = ("source", "document", "trust", "served", "versions")
    out.print(console.table(f"{len(planned.documents):,} documents would go", columns, rows, right=("versions",)))
    if len(planned.documents) > SHOWN:
        out.print(f"… and {len(planned.documents) - SHOWN:,} more; --json has all")
    out.print(
        f"{len(planned.versions):,} versions with {len(planned.chunks):,} chunks in {', '.join(planned.collections) or 'no collection'}; "
        f"{len(planned.files):,} tables to be written anew, {len(planned.blobs):,} raw files to be removed.",
        soft_wrap=True,
    )
    if planned.collections:
        out.print(
            "These collections are then published again from Parquet; until that is done they answer with what is back already."
        )
    out.print('Nothing was changed. To do it: the same with [bold]--yes --reason "…"[/bold]')


def _show_done(done: list[Purged]) -> None:
    if not done:
        out.print("No purge is open.")
    for one in done:
        out.print(
            f"Purged {one['versions']:,} versions of {one['documents']:,} documents, {one['chunks']:,} chunks; purge {one['purge_id']}",
            soft_wrap=True,
        )
        if one["state"] == "closed":
            out.print(f"{one['searched']:,} files searched, nothing found: [green]closed[/green] and signed.")
        else:
            err.print(
                "[yellow]removed[/yellow], not proved: the files of this Chroma server lie on another machine. Pack them there (stop the "
                "server, VACUUM, remove orphaned index folders) or run the same command there",
                soft_wrap=True,
            )
        _say(one["shared"], "also stand in living documents, so their text is lawfully there")
        _say(
            one["untraced"],
            "leave nothing to search for: too short, too plain, or purged before; they are erased like the others",
        )


def _say(ids: Any, what: str) -> None:
    if ids:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        out.print(f"{len(ids):,} chunks {what}: {shown}", soft_wrap=True)
