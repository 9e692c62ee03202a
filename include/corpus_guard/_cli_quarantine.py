"""`guard quarantine`: the queue, its evidence, and decisions, in a terminal."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.panel import Panel

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import SEVERITY_STYLE, Json, out, styled, visible
from corpus_guard.domain import Severity
from corpus_guard.guard import Guard, new_run_id

app = typer.Typer(help="What waits for a person: look at it, release it, reject it.", no_args_is_help=True)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


ItemName = Annotated[str, typer.Argument(help="The item's id, or the beginning of it.", metavar="ITEM")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the decision.")]
Reviewer = Annotated[str, typer.Option(help="Who decides.", default_factory=_login, show_default="your login name")]
Apply = Annotated[bool, typer.Option(help="Let it take effect now; otherwise the DAG quarantine_release does.")]


@app.command("list")
def list_(
    source: Annotated[str | None, typer.Option("--source", "-s", help="Only this source.")] = None,
    state: Annotated[str, typer.Option(help="quarantined, rejected, released or accepted.")] = "quarantined",
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """What waits, the riskiest first.

    Example: `guard quarantine list --source wiki`
    """
    from corpus_guard.ledger.tables import VERSION_STATES
    from corpus_guard.review.queue import waiting

    if state not in VERSION_STATES:
        raise errors.Misuse(f"--state {state}: expected one of {', '.join(VERSION_STATES)}")
    with Guard() as guard:
        items, total = waiting(guard.ledger, source=source, state=state, limit=limit)
    if as_json:
        console.print_json({"total": total, "items": [item.as_dict() for item in items]})
        return
    rows = [
        (
            item.version_id[:8],
            f"{item.risk:.2f}",
            visible(item.source),
            visible(item.uri),
            visible(", ".join(dict.fromkeys(f.code for f in item.findings if f.severity is not Severity.INFO))),
        )
        for item in items
    ]
    out.print(
        console.table(f"{total} {state}", ("item", "risk", "source", "document", "findings"), rows, right=("risk",))
    )
    if items and state == "quarantined":
        out.print(f"Look at one: [bold]guard quarantine show {items[0].version_id[:8]}[/bold]")


@app.command("show")
def show(item: ItemName, as_json: Json = False) -> None:
    """One item with its evidence. Invisible characters are shown as code points.

    Example: `guard quarantine show 3f9ac1d2`
    """
    from corpus_guard.review.queue import evidence, find

    with Guard() as guard:
        found = evidence(guard.ledger, guard.storage, find(guard.ledger, item))
    one, version = found.item, found.version
    if as_json:
        console.print_json(
            {
                **one.as_dict(),
                "stamp": version.stamp.as_dict(),
                "text": version.text,
                "hidden": version.hidden,
                "skipped": [{"check": skipped.check, "reason": skipped.reason} for skipped in found.skipped],
                "served_version": found.served_version,
                "decisions": [dict(decision) for decision in found.history],
            }
        )
        return
    stamp = version.stamp
    out.print(f"[bold]{visible(one.source)} · {visible(one.uri)}[/bold]  {styled(one.state)}, risk {one.risk:.2f}")
    out.print(
        f"item {one.version_id} · fetched {stamp.fetched_at:%Y-%m-%d %H:%M} UTC · {stamp.size:,} bytes of {visible(stamp.media_type)}"
    )
    out.print(f"owner {visible(stamp.owner)} · trust {stamp.trust.value} · sha256 {stamp.content_sha256[:16]}…")
    rows = [
        (
            styled(finding.severity.value, SEVERITY_STYLE),
            visible(finding.code),
            visible(finding.message),
            visible(version.text[finding.span.start : finding.span.end][:160]) if finding.span else "",
        )
        for finding in one.findings
    ]
    out.print(console.table("Findings", ("severity", "code", "what", "evidence"), rows))
    for name, text in (("Text", version.text), ("Hidden text", version.hidden)):
        if text:
            more = f" (first 1,500 of {len(text):,} characters; --json has all)" if len(text) > 1500 else ""
            out.print(
                Panel(visible(text[:1500], lines=True), title=name + more, title_align="left", border_style="dim")
            )
    for decision in found.history:
        out.print(
            f"{decision['decided_at']:%Y-%m-%d %H:%M} {visible(decision['reviewer'])}: {decision['verdict']}, {visible(decision['reason'])}"
        )
    if one.state == "quarantined":
        out.print(
            f"Decide: [bold]guard quarantine release {one.version_id[:8]} --reason …[/bold] or [bold]reject[/bold]"
        )


@app.command("release")
def release(item: ItemName, reason: Reason, reviewer: Reviewer, apply: Apply = True, as_json: Json = False) -> None:
    """Let a document in. The decision is kept for exactly these bytes.

    Example: `guard quarantine release 3f9ac1d2 --reason "the handbook quotes an attack"`
    """
    _decide(item, "release", reviewer, reason, apply, as_json)


@app.command("reject")
def reject(item: ItemName, reason: Reason, reviewer: Reviewer, apply: Apply = True, as_json: Json = False) -> None:
    """Keep a document out. The decision is kept for exactly these bytes.

    Example: `guard quarantine reject 3f9ac1d2 --reason "tells readers to call a stranger"`
    """
    _decide(item, "reject", reviewer, reason, apply, as_json)


def _decide(item: str, verdict: Any, reviewer: str, reason: str, apply: bool, as_json: bool) -> None:
    from corpus_guard.review import decisions

    with Guard() as guard:
        decision = decisions.decide(
            guard.ledger, item, verdict, reviewer=reviewer, reason=reason, policy_digest=guard.screening.digest
        )
        applied = decisions.apply(guard, new_run_id("release")) if apply else None
    if as_json:
        console.print_json({"decision": asdict(decision), "applied": applied})
        return
    out.print(
        f"{styled('released' if verdict == 'release' else 'rejected')} {decision.version_id} by {visible(decision.reviewer)}"
    )
    if applied:
        out.print(
            f"{applied['published']} chunks published, {applied['retired']} retired; manifest sha256:{applied['manifest_sha256'][:16]}…"
        )
    else:
        out.print("It takes effect with the next run of the DAG quarantine_release.")
