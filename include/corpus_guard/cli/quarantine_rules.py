"""`guard quarantine`: history, health, labels, and findings that are muted for a source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import out, print_table, say, styled, visible
from corpus_guard.cli.options import (
    AfterPage,
    FromSource,
    Json,
    OwnKey,
    Reason,
    Reviewer,
    review_act,
)
from corpus_guard.cli.quarantine import name_action, require_known
from corpus_guard.deployment import Deployment
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.review.muting import Mute

app = typer.Typer()


MuteName = Annotated[
    str, typer.Argument(help="Id of the mute, or its first 8 digits, from `guard quarantine mutes`.", metavar="MUTE")
]


@app.command("history")
def history(
    source: FromSource = None,
    item: Annotated[str | None, typer.Option(help="Only this item.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Only actions of this reviewer.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Only this kind: release, reject, escalate, undo, mute, confirm, lift, withdraw, restore, purge or enhance."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of rows.")] = 50,
    after: AfterPage = None,
    as_json: Json = False,
) -> None:
    """List all decisions and other review actions, newest first.

    Example: `guard quarantine history --by ada --kind release`
    """
    from corpus_guard.review.history import load_history as read
    from corpus_guard.review.queue import find_item

    with Deployment() as deployment:
        version = find_item(deployment.ledger, item).version_id if item else None
        history_page = read(
            deployment.ledger, reviewer=by, source=source, kind=kind, version_id=version, after=after, size=limit
        )
        if not history_page.total:
            require_known(deployment, source)
    if as_json:
        console.print_json(
            {
                "total": history_page.total,
                "entries": [entry.as_dict() for entry in history_page.entries],
                "next": history_page.next,
            }
        )
        return
    rows = [
        (
            entry.id[:8],
            entry.at,
            name_action(entry.kind, entry.purpose, entry.undoes)
            + (" (1 of 2)" if entry.is_first_of_two else "")
            + (" (undone)" if entry.undone_at else ""),
            f"{entry.reviewer} ({entry.auth})" if entry.auth else entry.reviewer,
            f"{entry.source} · {entry.uri or entry.code}" if entry.source else entry.subject,
            entry.reason,
        )
        for entry in history_page.entries
    ]
    print_table(plural(history_page.total, "decision"), ("id", "when", "what", "who", "about", "why"), rows)
    if history_page.next:
        say(f"More: --after {history_page.next}")


@app.command("mute")
def mute(
    source: Annotated[str, typer.Argument(help="Name of the source in sources.yaml.")],
    code: Annotated[str, typer.Argument(help="Code of the finding to ignore, such as `instructions.override`.")],
    reviewer: Reviewer,
    reason: Reason,
    item: Annotated[str | None, typer.Option(help="Released item that shows the false alarm.")] = None,
    key: OwnKey = None,
    as_json: Json = False,
) -> None:
    """Propose to ignore a finding in one source. A second person must confirm it.

    Example: `guard quarantine mute handbook instructions.override --reason "it teaches about attacks" --key ada.pem`
    """
    from corpus_guard.review.muting import propose_mute
    from corpus_guard.review.queue import find_item

    with Deployment() as deployment:
        version = find_item(deployment.ledger, item).version_id if item else None
        made = propose_mute(
            deployment.ledger,
            deployment.policy,
            source,
            code,
            review_act(deployment, reviewer, key, reason),
            version_id=version,
        )
    _show_mute(made, as_json)


@app.command("confirm")
def confirm(mute_id: MuteName, reviewer: Reviewer, reason: Reason, key: OwnKey = None, as_json: Json = False) -> None:
    """Confirm a mute that another person proposed.

    Example: `guard quarantine confirm 41c0d2e8 --reason "agreed" --key mo.pem`
    """
    from corpus_guard.review.history import find_entry_id
    from corpus_guard.review.muting import confirm_mute as agree

    with Deployment() as deployment:
        act = review_act(deployment, reviewer, key, reason)
        made = agree(deployment.ledger, find_entry_id(deployment.ledger, mute_id), act)
    _show_mute(made, as_json)


@app.command("unmute")
def unmute(mute_id: MuteName, reviewer: Reviewer, reason: Reason, as_json: Json = False) -> None:
    """End a mute or a proposed mute. One person is enough, because the guard only becomes stricter.

    Example: `guard quarantine unmute 41c0d2e8 --reason "the handbook has other authors now"`
    """
    from corpus_guard.review.history import find_entry_id
    from corpus_guard.review.muting import lift_mute

    with Deployment() as deployment:
        act = review_act(deployment, reviewer, None, reason)
        made = lift_mute(deployment.ledger, find_entry_id(deployment.ledger, mute_id), act)
    _show_mute(made, as_json)


@app.command("mutes")
def mutes(as_json: Json = False) -> None:
    """List current, past and proposed mutes.

    Example: `guard quarantine mutes`
    """
    from corpus_guard.review.muting import list_mutes as read

    with Deployment() as deployment:
        listed = read(deployment.ledger)
    if as_json:
        console.print_json([mute.as_dict() for mute in listed])
        return
    rows = [
        (
            mute.mute_id[:8],
            mute.state,
            mute.source,
            mute.code,
            mute.proposed_by.name,
            mute.confirmed_by.name if mute.confirmed_by else None,
            mute.reason,
        )
        for mute in listed
    ]
    columns = ("id", "state", "source", "code", "proposed by", "confirmed by", "why")
    print_table(plural(len(rows), "mute"), columns, rows)


@app.command("health")
def health(source: FromSource = None, as_json: Json = False) -> None:
    """Show false alarms per check, time to decision, overdue items and canary recall.

    Example: `guard quarantine health`
    """
    from corpus_guard.review.health import measure_health as read

    with Deployment() as deployment:
        report: Any = read(deployment.ledger, deployment.policy.review, source=source)
    if as_json:
        console.print_json(report)
        return
    waiting, took = report["waiting"], report["seconds_to_decision"]
    oldest = f"; the oldest since {console.format_time(waiting['oldest'])} UTC" if waiting["oldest"] else ""
    say(
        f"[bold]{waiting['items']:,} waiting[/bold]: {waiting['overdue']:,} overdue, {waiting['for_second']:,} for a second person, "
        f"{waiting['escalated']:,} escalated{oldest}"
    )
    times = [
        f"{share} within {took[name] / 3600:.1f} h"
        for share, name in (("half", "median"), ("90 %", "p90"))
        if took[name] is not None
    ]
    decided = f"{report['decided']['released']:,} released, {report['decided']['rejected']:,} rejected"
    out.print("; ".join([decided, *([", ".join(times)] if times else [])]))
    rows = [
        (row["name"], f"{alarms['count']:,} of {alarms['of']:,}", f"{alarms['low']:.0%} to {alarms['high']:.0%}")
        for row in report["checks"]
        for alarms in (row["false_alarms"],)
    ]
    if rows:
        print_table("Released items per check (false alarms)", ("check", "released", "95 %"), rows)
    for row in report["canaries"][-1:]:
        say(f"Canaries: {row['caught']} of {row['planted']} caught in {visible(row['run_id'])}")


@app.command("labels")
def labels(
    source: FromSource = None,
    days: Annotated[float | None, typer.Option(min=0, help="Only decisions of the last DAYS days.")] = None,
    path: Annotated[Path | None, typer.Option("--out", help="Output file. Default: standard output.")] = None,
) -> None:
    """Export decisions as labels, one JSON object per line: released means honest, rejected means attack. Contains no text.

    Example: `guard quarantine labels --source wiki --out labels.jsonl`
    """
    from corpus_guard.review.labels import load_labels as read

    since = datetime.now(UTC) - timedelta(days=days) if days is not None else None
    with Deployment() as deployment, console.writing(path) as write:
        for label in read(deployment.ledger, source=source, since=since):
            write(console.as_json(label.as_dict()) + "\n")


def _show_mute(made: Mute, as_json: bool) -> None:
    if as_json:
        console.print_json(made.as_dict())
        return
    say(f"{visible(made.code)} in {visible(made.source)}: {styled(made.state)} ({made.mute_id})")
    if made.state == "proposed":
        say("Nothing is muted until a second person confirms it: [bold]guard quarantine confirm …[/bold]")
    else:
        say(
            f"Documents judged earlier keep their verdict until [bold]guard rescreen --source {visible(made.source)}[/bold]"
        )
