"""`guard quarantine`: history, health, labels, and rules that are muted for a source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard._cli_quarantine import FromSource, Reason, Reviewer, person
from corpus_guard._console import Json, out, styled, visible
from corpus_guard.guard import Guard

if TYPE_CHECKING:
    from corpus_guard.review.muting import Mute

MuteName = Annotated[str, typer.Argument(help="Its id, as `guard quarantine mutes` shows it.", metavar="MUTE")]


def history(
    source: FromSource = None,
    item: Annotated[str | None, typer.Option(help="Only of this item.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Only what this reviewer did.")] = None,
    kind: Annotated[str | None, typer.Option(help="release, reject, escalate, undo, mute, confirm or lift.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option(help="The next page: as the one before calls it.", metavar="PAGE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Everything anybody decided, newest first.

    Example: `guard quarantine history --by ada --kind release`
    """
    from corpus_guard.review.history import history as read
    from corpus_guard.review.queue import find

    with Guard() as guard:
        version = find(guard.ledger, item).version_id if item else None
        told = read(guard.ledger, reviewer=by, source=source, kind=kind, version_id=version, after=after, size=limit)
    if as_json:
        console.print_json({"total": told.total, "entries": [one.as_dict() for one in told.entries], "next": told.next})
        return
    rows = [
        (
            one.id,
            f"{one.at:%Y-%m-%d %H:%M}",
            one.kind + (" (1 of 2)" if one.is_first_of_two else "") + (" (undone)" if one.undone_at else ""),
            visible(f"{one.reviewer} ({one.auth})"),
            visible(f"{one.source} · {one.uri or one.code}") if one.source else visible(one.subject or ""),
            visible(one.reason),
        )
        for one in told.entries
    ]
    out.print(console.table(f"{told.total} decisions", ("id", "when", "what", "who", "about", "why"), rows))
    if told.next:
        out.print(f"More: --after {told.next}", soft_wrap=True)


def mute(
    source: Annotated[str, typer.Argument(help="The source, as sources.yaml names it.")],
    code: Annotated[str, typer.Argument(help="What means nothing in it: `instructions.override`.")],
    reviewer: Reviewer,
    reason: Reason,
    item: Annotated[str | None, typer.Option(help="The released item it came up with.")] = None,
    as_json: Json = False,
) -> None:
    """Propose that a finding means nothing in a source. Another person must confirm it.

    Example: `guard quarantine mute handbook instructions.override --reason "it teaches about attacks"`
    """
    from corpus_guard.review.muting import propose
    from corpus_guard.review.queue import find

    with Guard() as guard:
        version = find(guard.ledger, item).version_id if item else None
        made = propose(
            guard.ledger, guard.policy, source, code, reviewer=person(reviewer), reason=reason,
            policy_digest=guard.screening.digest, version_id=version,
        )  # fmt: skip
    _show_mute(made, as_json)


def confirm(mute_id: MuteName, reviewer: Reviewer, reason: Reason, as_json: Json = False) -> None:
    """Agree to a mute that somebody else proposed.

    Example: `guard quarantine confirm 41c0… --reason "agreed" --reviewer mo`
    """
    from corpus_guard.review.muting import confirm as agree

    with Guard() as guard:
        digest = guard.screening.digest
        made = agree(guard.ledger, mute_id, reviewer=person(reviewer), reason=reason, policy_digest=digest)
    _show_mute(made, as_json)


def unmute(mute_id: MuteName, reviewer: Reviewer, reason: Reason, as_json: Json = False) -> None:
    """End a mute, or a proposal of one. One person suffices: the guard sees more by it.

    Example: `guard quarantine unmute 41c0… --reason "the handbook has other authors now"`
    """
    from corpus_guard.review.muting import lift

    with Guard() as guard:
        digest = guard.screening.digest
        made = lift(guard.ledger, mute_id, reviewer=person(reviewer), reason=reason, policy_digest=digest)
    _show_mute(made, as_json)


def mutes(as_json: Json = False) -> None:
    """What is muted, was, or is proposed to be.

    Example: `guard quarantine mutes`
    """
    from corpus_guard.review.muting import mutes as read

    with Guard() as guard:
        found = read(guard.ledger)
    if as_json:
        console.print_json([one.as_dict() for one in found])
        return
    rows = [
        (
            one.mute_id,
            one.state,
            visible(one.source),
            visible(one.code),
            visible(one.proposed_by.name),
            visible(one.confirmed_by.name) if one.confirmed_by else "",
            visible(one.reason),
        )
        for one in found
    ]
    out.print(
        console.table(
            f"{len(rows)} mutes", ("id", "state", "source", "code", "proposed by", "confirmed by", "why"), rows
        )
    )


def health(source: FromSource = None, as_json: Json = False) -> None:
    """False alarms of each check, time to decision, what is overdue, canary recall.

    Example: `guard quarantine health`
    """
    from corpus_guard.review.health import health as read

    with Guard() as guard:
        told: Any = read(guard.ledger, guard.policy.review, source=source)
    if as_json:
        console.print_json(told)
        return
    waiting, took = told["waiting"], told["seconds_to_decision"]
    out.print(
        f"[bold]{waiting['items']:,} wait[/bold]: {waiting['overdue']:,} overdue, {waiting['for_second']:,} for a second person, "
        f"{waiting['escalated']:,} escalated; oldest since {waiting['oldest'] or '-'}"
    )
    out.print(
        f"{told['decided']['released']:,} released, {told['decided']['rejected']:,} rejected; "
        f"half within {_hours(took['median'])}, 90 % within {_hours(took['p90'])}"
    )
    rows = [
        (
            visible(one["name"]),
            f"{alarms['count']:,} of {alarms['of']:,}",
            f"{alarms['low']:.0%} to {alarms['high']:.0%}",
        )
        for one in told["checks"]
        for alarms in (one["false_alarms"],)
    ]
    out.print(console.table("Released of what a check found something in", ("check", "released", "95 %"), rows))
    for one in told["canaries"][-1:]:
        out.print(f"Canaries: {one['caught']} of {one['planted']} caught in {visible(one['run_id'])}")


def labels(
    source: FromSource = None,
    days: Annotated[float | None, typer.Option(min=0, help="Only what was decided in the last days.")] = None,
    path: Annotated[Path | None, typer.Option("--out", help="Write here instead of standard output.")] = None,
) -> None:
    """Decisions as labels, one JSON object a line: released is honest, rejected an attack. No text.

    Example: `guard quarantine labels --source wiki --out labels.jsonl`
    """
    from corpus_guard.review.labels import labels as read

    since = datetime.now(UTC) - timedelta(days=days) if days is not None else None
    with Guard() as guard, console.writing(path) as write:
        for one in read(guard.ledger, source=source, since=since):
            write(console.as_json(one.as_dict()) + "\n")


def _show_mute(made: Mute, as_json: bool) -> None:
    if as_json:
        console.print_json(made.as_dict())
        return
    out.print(f"{visible(made.code)} in {visible(made.source)}: {styled(made.state)} ({made.mute_id})")
    if made.state == "proposed":
        out.print("Nothing is muted until another person confirms it: [bold]guard quarantine confirm …[/bold]")
    else:
        out.print(
            f"What was judged already keeps its verdict until [bold]guard rescreen --source {visible(made.source)}[/bold]"
        )


def _hours(seconds: float | None) -> str:
    return f"{seconds / 3600:.1f} h" if seconds is not None else "-"
