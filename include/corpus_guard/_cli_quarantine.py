"""`guard quarantine`: the queue, its evidence, and decisions, in a terminal."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.panel import Panel

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import SEVERITY_STYLE, Json, out, styled, visible
from corpus_guard.domain import Severity
from corpus_guard.guard import Guard

if TYPE_CHECKING:
    from corpus_guard.review.applying import Applied
    from corpus_guard.review.decisions import Choice, Chosen, Decision, Preview
    from corpus_guard.review.queue import Item

app = typer.Typer(help="What waits for a person: look at it, release it, reject it.", no_args_is_help=True)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


ItemName = Annotated[str, typer.Argument(help="The item's id, or the beginning of it.", metavar="ITEM")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the decision.")]
Reviewer = Annotated[str, typer.Option(help="Who decides.", default_factory=_login, show_default="your login name")]
Items = Annotated[
    list[str] | None,
    typer.Argument(
        help="Their ids, or the beginnings of them. None: whatever the options choose.", metavar="[ITEM]..."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before several items are decided.")]
FromSource = Annotated[str | None, typer.Option("--source", "-s", help="Only this source.")]
OfCheck = Annotated[str | None, typer.Option("--check", help="Only what this check found something in.")]
OfCampaign = Annotated[str | None, typer.Option("--campaign", help="Only this campaign: near-duplicates and the like.")]
OfSeverity = Annotated[str | None, typer.Option("--severity", help="Only with this worst finding.")]
OfTrust = Annotated[str | None, typer.Option("--trust", help="Only of this trust level.")]
OfRun = Annotated[str | None, typer.Option("--run", help="Only what this run judged.")]
Apply = Annotated[bool, typer.Option(help="Let it take effect now; otherwise the DAG quarantine_release does.")]


@app.command("list")
def list_(
    source: FromSource = None,
    state: Annotated[str, typer.Option(help="quarantined, rejected, released or accepted.")] = "quarantined",
    trust: OfTrust = None,
    check: OfCheck = None,
    severity: OfSeverity = None,
    campaign: OfCampaign = None,
    run: OfRun = None,
    text: Annotated[str, typer.Option(help="Only where the document's name has this in it.")] = "",
    older_than: Annotated[
        float | None, typer.Option(min=0, help="Only what waits at least so many hours.", metavar="HOURS")
    ] = None,
    undecided: Annotated[bool, typer.Option("--undecided", help="Leave out what is decided, but not applied.")] = False,
    sort: Annotated[str, typer.Option(help="risk, age or source.")] = "risk",
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option(help="The next page: as the one before calls it.", metavar="PAGE")
    ] = None,
    as_json: Json = False,
) -> None:
    """What waits, the riskiest first.

    Example: `guard quarantine list --source wiki --severity high --sort age`
    """
    from datetime import timedelta

    from corpus_guard.review.queue import SORTS, Filter, page

    if sort not in SORTS:
        raise errors.Misuse(f"--sort {sort}: expected one of {', '.join(SORTS)}")
    chosen = Filter(
        source, trust, check, severity, timedelta(hours=older_than) if older_than is not None else None,
        run, campaign, state, text, undecided,
    )  # fmt: skip
    with Guard() as guard:
        found = page(guard.ledger, chosen, sort=sort, after=after, size=limit)
    if as_json:
        items = [item.as_dict() for item in found.items]
        console.print_json({"total": found.total, "items": items, "next": found.next, "facets": found.facets})
        return
    names = ("item", "risk", "source", "document", "findings", "decided")
    out.print(console.table(f"{found.total} {state}", names, map(_row, found.items), right=("risk",)))
    if found.items and state == "quarantined":
        out.print(f"Look at one: [bold]guard quarantine show {found.items[0].version_id[:8]}[/bold]")
    if found.next:
        out.print(f"More: --after {found.next}", soft_wrap=True)


def _row(item: Item) -> tuple[str, ...]:
    marks = [f"{item.pending} 1 of 2, by {item.approved_by}" if item.waits_for_second else item.pending or ""]
    marks += ["escalated"] if item.escalated else []
    marks += ["waits too long"] if item.expired else []
    return (
        item.version_id[:8],
        f"{item.risk:.2f}",
        visible(item.source),
        visible(item.uri),
        visible(", ".join(dict.fromkeys(f.code for f in item.findings if f.severity is not Severity.INFO))),
        visible(", ".join(filter(None, marks))),
    )


@app.command("show")
def show(item: ItemName, as_json: Json = False) -> None:
    """One item with its evidence. Invisible characters are shown as code points.

    Example: `guard quarantine show 3f9ac1d2`
    """
    from corpus_guard.review.evidence import evidence, release_of
    from corpus_guard.review.queue import find

    with Guard() as guard:
        found = evidence(guard.ledger, guard.storage, find(guard.ledger, item))
        planned = release_of(guard, found.item)
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
                "versions": [asdict(one) for one in found.versions],
                "principal": found.principal,
                "siblings": [asdict(one) for one in found.siblings],
                "release": asdict(planned),
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
            visible(finding.code) + (" (muted)" if finding.muted else ""),
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
    for past in found.history:
        undone = " (undone)" if past["undone_at"] else " (1 of 2)" if past["lacking"] else ""
        out.print(
            f"{past['at']:%Y-%m-%d %H:%M} {visible(past['reviewer'])}: {past['kind']}{undone}, {visible(past['reason'])}"
        )
    out.print(
        f"A release publishes {planned.chunks} chunks in {visible(planned.collection)}"
        + (", and needs two people" if planned.needs_two else "")
    )
    if one.state == "quarantined":
        out.print(
            f"Decide: [bold]guard quarantine release {one.version_id[:8]} --reason …[/bold] or [bold]reject[/bold]"
        )


@app.command("release")
def release(
    reviewer: Reviewer,
    reason: Reason,
    items: Items = None,
    source: FromSource = None,
    check: OfCheck = None,
    severity: OfSeverity = None,
    campaign: OfCampaign = None,
    yes: Yes = False,
    apply: Apply = True,
    as_json: Json = False,
) -> None:
    """Let documents in. The decision is kept for exactly these bytes. Where the policy asks for two people, the first only approves.

    Example: `guard quarantine release 3f9ac1d2 --reason "the handbook quotes an attack"`
    """
    _decide("release", items, (source, check, severity, campaign), reviewer, reason, yes, apply, as_json)


@app.command("reject")
def reject(
    reviewer: Reviewer,
    reason: Reason,
    items: Items = None,
    source: FromSource = None,
    check: OfCheck = None,
    severity: OfSeverity = None,
    campaign: OfCampaign = None,
    yes: Yes = False,
    apply: Apply = True,
    as_json: Json = False,
) -> None:
    """Keep documents out. The decision is kept for exactly these bytes.

    Example: `guard quarantine reject --campaign 77ab12… --reason "tells readers to call a stranger" --yes`
    """
    _decide("reject", items, (source, check, severity, campaign), reviewer, reason, yes, apply, as_json)


@app.command("escalate")
def escalate(
    reviewer: Reviewer,
    reason: Reason,
    items: Items = None,
    source: FromSource = None,
    check: OfCheck = None,
    severity: OfSeverity = None,
    campaign: OfCampaign = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Ask for somebody else. They go on waiting, marked.

    Example: `guard quarantine escalate 3f9ac1d2 --reason "legal should see this"`
    """
    _decide("escalate", items, (source, check, severity, campaign), reviewer, reason, yes, False, as_json)


@app.command("undo")
def undo(
    decision: Annotated[str, typer.Argument(help="The decision's id, as `guard quarantine history` shows it.")],
    reviewer: Reviewer,
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Take a decision back that has not taken effect yet. The taking back is kept.

    Example: `guard quarantine undo 5d31… --reason "wrong document"`
    """
    from corpus_guard.review.undoing import undo as take_back

    with Guard() as guard:
        digest = guard.screening.digest
        gone = take_back(guard.ledger, decision, reviewer=person(reviewer), reason=reason, policy_digest=digest)
    if as_json:
        console.print_json({"undone": gone})
        return
    out.print(f"undone: {', '.join(gone)}; the item waits again")


def person(name: str) -> Any:
    """Who types, as a reviewer: whoever has this shell and the ledger's address may call themselves anything."""
    from corpus_guard.review.reviewer import Reviewer as Person

    return Person(name, name, "cli")


def _decide(
    choice: Choice,
    names: Sequence[str] | None,
    narrowed: tuple[str | None, str | None, str | None, str | None],
    reviewer: str,
    reason: str,
    yes: bool,
    apply: bool,
    as_json: bool,
) -> None:
    from corpus_guard.guard import new_run_id
    from corpus_guard.review import applying, decisions
    from corpus_guard.review.reviewer import reason_of

    by, reason = person(reviewer), reason_of(reason)
    with Guard() as guard:
        chosen = _chosen(guard, names or (), narrowed)
        rules = guard.policy.review
        if len(chosen) > 1:
            shown = decisions.preview(guard.ledger, rules, [one.version_id for one in chosen], choice, by)
            _ask(shown, yes=yes, quiet=as_json)
        made = decisions.decide(
            guard.ledger, rules, chosen, choice, reviewer=by, reason=reason, policy_digest=guard.screening.digest
        )
        takes_effect = apply and any(decision.is_complete for decision in made)
        applied = applying.apply(guard, new_run_id("release")) if takes_effect else None
    if as_json:
        told = [decision.as_dict() for decision in made]
        console.print_json({"decisions": told, "applied": applied})
        return
    _show_decisions(made, applied)


def _chosen(guard: Guard, names: Sequence[str], narrowed: tuple[str | None, ...]) -> list[Chosen]:
    from corpus_guard.review.decisions import MOST, Chosen
    from corpus_guard.review.queue import Filter, find, ids_of

    if bool(names) == any(narrowed):
        raise errors.Misuse(
            "name the items, or choose them by --source, --check, --severity or --campaign: one of both"
        )
    if names:
        found = {item.version_id: item.revision for item in (find(guard.ledger, name) for name in names)}
        return [Chosen(name, revision) for name, revision in found.items()]
    source, check, severity, campaign = narrowed
    chosen: Filter = Filter(source=source, check=check, severity=severity, campaign=campaign, undecided=True)
    return [Chosen(name, revision) for name, revision in ids_of(guard.ledger, chosen, limit=MOST)]


def _ask(shown: Preview, *, yes: bool, quiet: bool) -> None:
    if not quiet:
        out.print(f"[bold]{shown.choice} {shown.items:,} items[/bold]")
        counts: tuple[tuple[str, Mapping[str, int]], ...] = (
            ("source", shown.by_source), ("trust", shown.by_trust), ("severity", shown.by_severity),
        )  # fmt: skip
        for name, values in counts:
            out.print(f"  by {name}: {visible(', '.join(f'{count:,} {value}' for value, count in values.items()))}")
        if shown.first_of_two:
            out.print(f"  {shown.first_of_two:,} wait for a second person")
        for name, why in shown.refused[:5]:
            out.print(f"  [red]{visible(name[:8])}[/red] {visible(why)}")
    if yes:
        return
    if quiet or not sys.stdin.isatty():
        raise errors.Misuse(f"{shown.items:,} items would be decided at once; look at them, then give --yes")
    typer.confirm("Decide this?", abort=True)


def _show_decisions(made: Sequence[Decision], applied: Applied | None) -> None:
    words = {"release": "released", "reject": "rejected", "escalate": "escalated"}
    for decision in made[:20]:
        half = "" if decision.is_complete else " (1 of 2: it has no effect until another person releases it too)"
        word = styled(words[decision.verdict])
        out.print(f"{word} {decision.version_id} by {visible(decision.reviewer.name)}{half}", soft_wrap=True)
    if len(made) > 20:
        out.print(f"… and {len(made) - 20:,} more")
    if applied:
        out.print(
            f"{applied['published']} chunks published, {applied['retired']} retired; manifest sha256:{applied['manifest_sha256'][:16]}…"
        )
    elif made[0].verdict != "escalate":
        out.print("It takes effect with the next run of the DAG quarantine_release, and can be undone until then.")
