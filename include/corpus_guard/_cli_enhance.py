"""`guard enhance`: right answers behind questions (BTE), in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._cli_quarantine import Reviewer
from corpus_guard._console import Json, out, styled, visible
from corpus_guard.guard import Guard, new_run_id

if TYPE_CHECKING:
    from corpus_guard.traceback.enhancement import Changed, Enhancement
    from corpus_guard.traceback.reports import Report

app = typer.Typer(help="Right answers that a person puts behind a question.", no_args_is_help=True)

DAYS = 90  # an answer that outranks the whole corpus is looked at again after so many

Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept for good.")]


@app.command("enable")
def enable(
    by: Reviewer,
    reason: Reason,
    query: Annotated[str, typer.Option("--query", "-q", help="The question, as people ask it.")] = "",
    text: Annotated[str, typer.Option("--text", help="What answers it: a sentence or a few.")] = "",
    answer: Annotated[str, typer.Option("--answer", help="Only the answer; a sentence is made of it.")] = "",
    report: Annotated[
        str | None,
        typer.Option("--report", help="The report it answers: its question, and its right answer unless given."),
    ] = None,
    days: Annotated[
        int, typer.Option(min=0, max=36_500, help="Served for so many days; 0: until it is withdrawn.")
    ] = DAYS,
    as_json: Json = False,
) -> None:
    """Put a right answer behind a question: the guarded retriever serves it first, wrapped in [LATEST] and [/LATEST].

    Give the RAG application the prompt that `guard enhance prompt` prints. A question has one answer in force; another one
    replaces it. What a report calls the right answer was written by whoever filed it: read it before you vouch for it.

    Example: `guard enhance enable --query "who opens the boat house?" --answer "the harbour warden" --reason "asked the office"`
    """
    from corpus_guard.traceback import enhancement as enhancing

    with Guard() as guard:
        if report is not None:
            filed = _report(guard, report)
            report, query = filed.report_id, query or filed.query
            answer = answer or ("" if text else filed.correct or "")
        if bool(text) == bool(answer) or not query:
            raise errors.Misuse(
                "an enhancement needs a question and either a text or an answer; give --query (or --report) and one of --text and --answer"
            )
        until = datetime.now(UTC) + timedelta(days=days) if days else None
        done = enhancing.enable(
            guard,
            new_run_id("enhance"),
            query,
            text or enhancing.benign_text(query, answer),
            by=by,
            reason=reason,
            expires_at=until,
            report_id=report,
        )
    _show(done, as_json)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only active, expired or withdrawn.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """Enhancements, the youngest first.

    Example: `guard enhance list --state active`
    """
    from corpus_guard.traceback.enhancement import find_all

    with Guard() as guard:
        found = find_all(guard.ledger, state=state, limit=limit)
    if as_json:
        console.print_json({"enhancements": [one.as_dict() for one in found]})
        return
    out.print(_table(f"{len(found)} enhancements", found))


@app.command("withdraw")
def withdraw(
    item: Annotated[str, typer.Argument(help="The enhancement's id, or the beginning of it.", metavar="ENHANCEMENT")],
    by: Reviewer,
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Serve an enhancement no longer.

    Example: `guard enhance withdraw 3f9ac1d2 --reason "the warden has left"`
    """
    from corpus_guard.traceback import enhancement as enhancing

    with Guard() as guard:
        done = enhancing.withdraw(guard, new_run_id("enhance"), item, by=by, reason=reason)
    _show(done, as_json)


@app.command("expire")
def expire(as_json: Json = False) -> None:
    """Take out of the collections what is past its end; it has not been served since.

    Example: `guard enhance expire`
    """
    from corpus_guard.traceback import enhancement as enhancing

    with Guard() as guard:
        done = enhancing.expire(guard, new_run_id("enhance"))
    _show(done, as_json)


@app.command("prompt")
def prompt(as_json: Json = False) -> None:
    """The system prompt that makes a RAG model believe enhancements first.

    Example: `guard enhance prompt`
    """
    from corpus_guard.corpus.trigger import system_prompt

    if as_json:
        console.print_json({"system_prompt": system_prompt()})
    else:
        out.file.write(system_prompt() + "\n")


def _report(guard: Guard, name: str) -> Report:
    from corpus_guard.traceback.reports import find_report

    return find_report(guard.ledger, name)


def _show(done: Changed, as_json: bool) -> None:
    if as_json:
        console.print_json(done.as_dict())
        return
    if done.enhancements:
        out.print(_table("Enhancements", done.enhancements))
    else:
        out.print("Nothing is past its end.")
    out.print(
        f"{done.published} chunks published, {done.retired} retired; manifest sha256:{done.manifest_sha256[:16]}…",
        soft_wrap=True,
    )


def _table(title: str, found: Sequence[Enhancement]) -> Table:
    rows = [
        (
            one.enhancement_id[:8],
            styled(one.state),
            "yes" if one.served else "no",
            f"{one.expires_at:%Y-%m-%d}" if one.expires_at else "never",
            visible(one.created_by),
            visible(one.query[:120]),
            visible(one.text[:160]),
        )
        for one in found
    ]
    return console.table(title, ("id", "state", "served", "ends", "by", "question", "text"), rows)
