"""`guard enhance`: right answers that are served first for a question (benign text enhancement, BTE)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import out, print_table, say, styled
from corpus_guard.cli.options import Json, MaxRows, Reviewer
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.traceback.enhancement import Enhancement, EnhancementChange, Enhancements
    from corpus_guard.traceback.reports import Report

app = typer.Typer(help="Serve a verified right answer first for a question (BTE).", no_args_is_help=True)

DEFAULT_DAYS = 90  # an answer that outranks the whole corpus is looked at again after so many

Reason = Annotated[str, typer.Option("--reason", "-r", help="Reason; kept permanently.")]


@app.command("enable")
def enable(
    by: Reviewer,
    reason: Reason,
    query: Annotated[str, typer.Option("--query", "-q", help="Question as users ask it.")] = "",
    text: Annotated[str, typer.Option("--text", help="Text that answers it: one or a few sentences.")] = "",
    answer: Annotated[str, typer.Option("--answer", help="Short answer; a sentence is built from it.")] = "",
    report: Annotated[
        str | None,
        typer.Option(
            "--report", help="Report to answer: supplies the question, and the right answer if none is given."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=0, max=36_500, help="Days to serve it; 0 means until withdrawn.")
    ] = DEFAULT_DAYS,
    as_json: Json = False,
) -> None:
    """Serve a right answer first for a question, wrapped in [LATEST] and [/LATEST].

    The RAG application needs the prompt that `guard enhance prompt` prints. A question has one active answer; a new one replaces it. The
    right answer of a report was written by its reporter: check it before you approve it.

    Example: `guard enhance enable --query "who opens the boat house?" --answer "the harbour warden" --reason "asked the office"`
    """
    from corpus_guard.traceback.enhancement import EnhancementDraft, VersionBuilder, compose_benign_text

    with Deployment() as deployment:
        if report is not None:
            filed = _report(deployment, report)
            report, query = filed.report_id, query or filed.query
            answer = answer or ("" if text else filed.correct or "")
        if bool(text) == bool(answer) or not query:
            raise errors.Misuse(
                "an enhancement needs a question and a text or an answer; give --query (or --report) and either --text or --answer"
            )
        until = datetime.now(UTC) + timedelta(days=days) if days else None
        draft = EnhancementDraft(
            query=query,
            text=text or compose_benign_text(query, answer),
            by=by,
            reason=reason,
            expires_at=until,
            report_id=report,
        )
        builder = VersionBuilder(
            deployment.storage, deployment.blobs, deployment.models, deployment.chunker, deployment.screening
        )
        done = _enhancements(deployment).enable(builder, draft, new_run_id("enhance"))
    _show(done, as_json)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only this state: active, expired or withdrawn.")] = None,
    limit: MaxRows = 50,
    as_json: Json = False,
) -> None:
    """List enhancements, newest first.

    Example: `guard enhance list --state active`
    """
    from corpus_guard.traceback.enhancement import list_enhancements

    with Deployment() as deployment:
        enhancements = list_enhancements(deployment.ledger, state=state, limit=limit)
    if as_json:
        console.print_json({"enhancements": [enhancement.as_dict() for enhancement in enhancements]})
        return
    _print_enhancements(plural(len(enhancements), "enhancement"), enhancements)


@app.command("withdraw")
def withdraw(
    item: Annotated[str, typer.Argument(help="Id of the enhancement, or a prefix of it.", metavar="ENHANCEMENT")],
    by: Reviewer,
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Withdraw an enhancement.

    Example: `guard enhance withdraw 3f9ac1d2 --reason "the warden has left"`
    """
    with Deployment() as deployment:
        done = _enhancements(deployment).withdraw(item, by=by, reason=reason, run_id=new_run_id("enhance"))
    _show(done, as_json)


@app.command("expire")
def expire(as_json: Json = False) -> None:
    """Remove expired enhancements from the collections; they are no longer served anyway.

    Example: `guard enhance expire`
    """
    with Deployment() as deployment:
        done = _enhancements(deployment).expire(new_run_id("enhance"))
    _show(done, as_json)


@app.command("prompt")
def prompt(as_json: Json = False) -> None:
    """Print the system prompt that makes a RAG model prefer enhancements.

    Example: `guard enhance prompt`
    """
    from corpus_guard.corpus.trigger import system_prompt

    if as_json:
        console.print_json({"system_prompt": system_prompt()})
    else:
        out.file.write(system_prompt() + "\n")


def _enhancements(deployment: Deployment) -> Enhancements:
    from corpus_guard.traceback.enhancement import Enhancements

    return Enhancements(deployment.ledger, deployment.storage, deployment.store, deployment.settings)


def _report(deployment: Deployment, name: str) -> Report:
    from corpus_guard.traceback.reports import find_report

    return find_report(deployment.ledger, name)


def _show(done: EnhancementChange, as_json: bool) -> None:
    if as_json:
        console.print_json(done.as_dict())
        return
    if done.enhancements:
        _print_enhancements("Enhancements", done.enhancements)
    else:
        say("No enhancement has expired.")
    say(
        f"{plural(done.published, 'chunk')} published, {done.retired:,} retired; manifest sha256:{done.manifest_sha256[:16]}…"
    )


def _print_enhancements(title: str, enhancements: Sequence[Enhancement]) -> None:
    rows = [
        (
            enhancement.enhancement_id[:8],
            styled(enhancement.state),
            enhancement.served,
            f"{enhancement.expires_at:%Y-%m-%d}" if enhancement.expires_at else "never",
            enhancement.created_by,
            enhancement.query[:120],
            enhancement.text[:160],
        )
        for enhancement in enhancements
    ]
    print_table(title, ("id", "state", "served", "ends", "by", "question", "text"), rows)
