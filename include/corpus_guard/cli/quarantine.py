"""`guard quarantine`: the queue, its evidence, and decisions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.padding import Padding
from rich.panel import Panel

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import SEVERITY_STYLE, Cell, format_time, out, print_table, say, styled, visible
from corpus_guard.cli.options import AfterPage, FromSource, Json, OwnKey, Reason, Reviewer, review_act
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.review.decisions import Choice, Decision, DecisionPreview
    from corpus_guard.review.evidence import Contradiction
    from corpus_guard.review.identities import ReviewAct
    from corpus_guard.review.queue import QueueItem, Sort
    from corpus_guard.review.records import ItemRevision
    from corpus_guard.review.release import ReleaseResult
    from corpus_guard.screening.decoded import DecodedLayer

MAX_REASON_CHARS = 120  # of a finding, in a list
NAMES_SHOWN = 10  # items that a preview names

app = typer.Typer(help="Review documents in quarantine: look at them, release or reject them.", no_args_is_help=True)


ItemId = Annotated[str, typer.Argument(help="Id of the item, or a prefix of it.", metavar="ITEM")]
Items = Annotated[
    list[str] | None,
    typer.Argument(help="Item ids, or prefixes of them. None: all items that the options select.", metavar="ITEM"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Decide several items without asking.")]
FromCheck = Annotated[str | None, typer.Option("--check", help="Only items with a finding of this check.")]
FromCampaign = Annotated[str | None, typer.Option("--campaign", help="Only this campaign (a group of similar items).")]
WithSeverity = Annotated[
    str | None, typer.Option("--severity", help="Only items whose worst finding has this severity.")
]
WithTrust = Annotated[str | None, typer.Option("--trust", help="Only this trust level.")]
FromRun = Annotated[str | None, typer.Option("--run", help="Only items judged by this run.")]
Apply = Annotated[bool, typer.Option(help="Apply the decision now; otherwise the DAG quarantine_release applies it.")]


@app.command("list")
def list_(
    source: FromSource = None,
    state: Annotated[str, typer.Option(help="State: quarantined, rejected, released or accepted.")] = "quarantined",
    trust: WithTrust = None,
    check: FromCheck = None,
    severity: WithSeverity = None,
    campaign: FromCampaign = None,
    run: FromRun = None,
    text: Annotated[str, typer.Option(help="Only documents whose path contains this text.")] = "",
    older_than: Annotated[
        float | None, typer.Option(min=0, help="Only items that have waited at least this long.", metavar="HOURS")
    ] = None,
    undecided: Annotated[
        bool, typer.Option("--undecided", help="Leave out items with a decision that is not applied yet.")
    ] = False,
    sort: Annotated[str, typer.Option(help="Sort by risk, age or source.")] = "risk",
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number of rows.")] = 50,
    after: AfterPage = None,
    as_json: Json = False,
) -> None:
    """List the quarantine, highest risk first.

    Example: `guard quarantine list --source wiki --severity high --sort age`
    """
    from datetime import timedelta

    from corpus_guard.review.naming import name_documents
    from corpus_guard.review.queue import QueueFilter, load_page

    chosen = QueueFilter(
        source, trust, check, severity, timedelta(hours=older_than) if older_than is not None else None,
        run, campaign, state, text, undecided,
    )  # fmt: skip
    with Deployment() as deployment:
        queue = load_page(deployment.ledger, chosen, sort=cast("Sort", sort), after=after, size=limit)
        if not queue.total:
            require_known(deployment, source, check, campaign, run)
        worst = [finding.message if (finding := item.worst_finding) else "" for item in queue.items]
        reasons = name_documents(deployment.ledger, worst)
    if as_json:
        items = [item.as_dict() for item in queue.items]
        console.print_json({"total": queue.total, "items": items, "next": queue.next, "facets": queue.facets})
        return
    names = ("item", "risk", "source", "document", "why", "decided")
    print_table(f"{queue.total} {state}", names, map(_row, queue.items, reasons))
    if queue.items and state == "quarantined":
        say(f"Show one: [bold]guard quarantine show {queue.items[0].version_id[:8]}[/bold]")
    if queue.next:
        say(f"Next page: --after {queue.next}")


def _row(item: QueueItem, reason: str) -> tuple[Cell, ...]:
    marks = [f"{item.pending} 1 of 2, by {item.approved_by}" if item.waits_for_second else item.pending or ""]
    marks += ["served, reopened"] if item.reopened_at else []
    marks += ["escalated"] if item.escalated else []
    marks += ["overdue"] if item.expired else []
    why = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1]}…"
    return item.version_id[:8], item.risk, item.source, item.uri, why, ", ".join(filter(None, marks))


@app.command("show")
def show(item: ItemId, as_json: Json = False) -> None:
    """Show one item with its evidence. Invisible characters appear as code points.

    Example: `guard quarantine show 3f9ac1d2`
    """
    from corpus_guard.review.evidence import load_contradictions, load_evidence, preview_release
    from corpus_guard.review.naming import name_documents
    from corpus_guard.review.queue import find_item
    from corpus_guard.screening.decoded import decode_finding, locate_hidden

    with Deployment() as deployment:
        item_evidence = load_evidence(deployment.ledger, deployment.storage, find_item(deployment.ledger, item))
        contradictions = load_contradictions(
            deployment.ledger, deployment.storage, item_evidence.version, item_evidence.item.findings
        )
        planned = preview_release(deployment.ledger, deployment.store, deployment.policy, item_evidence.item)
        messages = name_documents(deployment.ledger, [finding.message for finding in item_evidence.item.findings])
        places = locate_hidden(deployment.screening, item_evidence.item.findings, item_evidence.version.hidden)
    shown_item, version = item_evidence.item, item_evidence.version
    if as_json:
        console.print_json(
            {
                **item_evidence.as_dict(),
                "decoded": [
                    [asdict(layer) for layer in decode_finding(finding, version.text, version.hidden)]
                    for finding in shown_item.findings
                ],
                "contradictions": [
                    asdict(contradiction) if contradiction else None for contradiction in contradictions
                ],
                "release": asdict(planned),
            }
        )
        return
    stamp = version.stamp
    say(
        f"[bold]{visible(shown_item.source)} · {visible(shown_item.uri)}[/bold]  {styled(shown_item.state)}, risk {shown_item.risk:.2f}"
    )
    say(
        f"item {shown_item.version_id} · fetched {format_time(stamp.fetched_at)} UTC · {stamp.size:,} bytes of {visible(stamp.media_type)}"
    )
    say(f"owner {visible(stamp.owner)} · trust {stamp.trust.value} · sha256 {stamp.content_sha256[:16]}…")
    say("[bold]Findings[/bold]" if shown_item.findings else "No findings.")
    for finding, message, contradiction, place in zip(
        shown_item.findings, messages, contradictions, places, strict=True
    ):
        muted = " (muted)" if finding.muted else ""
        say(f"{styled(finding.severity.value, SEVERITY_STYLE)}  {visible(finding.code)}{muted}")
        span, text = (finding.span, version.text) if finding.span else (place, version.hidden)
        details = [visible(message), _evidence(text[span.start : span.end], contradiction) if span else ""]
        details += _decoded(decode_finding(finding, version.text, version.hidden))
        out.print(Padding("\n".join(filter(None, details)), (0, 0, 0, 4)))
    for name, text in (("Text", version.text), ("Hidden text", version.hidden)):
        if text:
            more = f" (first 1,500 of {len(text):,} characters; --json shows all)" if len(text) > 1500 else ""
            out.print(
                Panel(visible(text[:1500], lines=True), title=name + more, title_align="left", border_style="dim")
            )
    for past in item_evidence.history:
        undone = " (undone)" if past["undone_at"] else " (1 of 2)" if past["lacking"] else ""
        action = name_action(past["kind"], past["purpose"], past["undoes"])
        say(f"{format_time(past['at'])} {visible(past['reviewer'])}: {action}{undone}, {visible(past['reason'])}")
    chunks = f"{plural(planned.chunks, 'chunk')} in {visible(planned.collection)}"
    if shown_item.reopened_at:
        say(f"It is served, with {chunks}: released, it stays; rejected, it leaves.")
    elif shown_item.waits:
        say(f"A release publishes {chunks}.")
    if shown_item.waits:
        if planned.needs_two:
            say("A release needs two people.")
        say(
            f"Decide: [bold]guard quarantine release {shown_item.version_id[:8]} --reason …[/bold] or [bold]reject[/bold]"
        )


def name_action(kind: str, purpose: str, undoes: str) -> str:
    """Return what somebody did, in words, such as "undo of release"."""
    return (purpose or kind) + (f" of {undoes}" if undoes else "")


def _decoded(layers: Sequence[DecodedLayer]) -> Iterator[str]:
    """Yield what encoded evidence says, one line a layer."""
    for layer in layers:
        yield f"[bold]decoded[/bold] ({', then '.join(layer.kinds)}): {visible(layer.text[:300])}"


def _evidence(quote: str, contradiction: Contradiction | None) -> str:
    """Return the sentence of a finding, and the one that contradicts it with the place where it stands."""
    if contradiction is None:
        return visible(quote[:160])
    other = contradiction.other.text[:300] if contradiction.other else "(purged, or cannot be read)"
    place = f"{contradiction.trust}, {contradiction.source}: {contradiction.uri} ({contradiction.version_id[:8]})"
    return f"{visible(quote[:300])}\n[bold]but[/bold] {visible(other)}\n[dim]{visible(place)}[/dim]"


_DECISIONS: Mapping[Choice, str] = {
    "release": """Release documents from quarantine. The decision applies to exactly these bytes.

    If the policy requires two people, the first one only approves, and both sign with their own key or decide on the review pages.

    Example: `guard quarantine release 3f9ac1d2 --reason "the handbook quotes an attack"`
    """,
    "reject": """Reject documents. The decision applies to exactly these bytes.

    Example: `guard quarantine reject --campaign 77ab12… --reason "tells readers to call a stranger" --yes`
    """,
    "escalate": """Escalate documents to another reviewer. They stay in quarantine, marked as escalated.

    Example: `guard quarantine escalate 3f9ac1d2 --reason "legal should see this"`
    """,
}
"""Command → its help."""


def _decision_command(choice: Choice) -> Callable[..., None]:
    """Return the command that makes one decision; all have the same options, but nothing of an escalation is applied."""

    def decide(
        reviewer: Reviewer,
        reason: Reason,
        items: Items = None,
        source: FromSource = None,
        check: FromCheck = None,
        severity: WithSeverity = None,
        campaign: FromCampaign = None,
        key: OwnKey = None,
        yes: Yes = False,
        apply: Apply = choice != "escalate",
        as_json: Json = False,
    ) -> None:
        narrowed = (source, check, severity, campaign)
        with Deployment() as deployment:
            act = review_act(deployment, reviewer, key, reason)
            recorded = _record(deployment, choice, items or (), narrowed, act, yes=yes, quiet=as_json)
            takes_effect = apply and any(decision.is_complete for decision in recorded)
            applied = deployment.apply_decisions(new_run_id("release")) if takes_effect else None
        if as_json:
            rows = [decision.as_dict() for decision in recorded]
            console.print_json({"decisions": rows, "applied": applied})
            return
        _show_decisions(recorded, applied)

    if choice == "escalate":
        signature = inspect.signature(decide, eval_str=True)
        options = [option for name, option in signature.parameters.items() if name != "apply"]
        decide.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    return decide


for _choice, _help in _DECISIONS.items():
    app.command(_choice, help=_help)(_decision_command(_choice))


@app.command("undo")
def undo(
    decision: Annotated[
        str, typer.Argument(help="Id of the decision, or its first 8 digits, from `guard quarantine history`.")
    ],
    reviewer: Reviewer,
    reason: Reason,
    key: OwnKey = None,
    as_json: Json = False,
) -> None:
    """Undo a decision that has not taken effect yet, or a rejection that has: the item waits again. The undo is recorded.

    Example: `guard quarantine undo 5d31f07a --reason "wrong document"`
    """
    from corpus_guard.review.history import find_entry_id
    from corpus_guard.review.undo import undo_decision as take_back

    with Deployment() as deployment:
        act = review_act(deployment, reviewer, key, reason)
        gone = take_back(deployment.ledger, find_entry_id(deployment.ledger, decision), act)
    if as_json:
        console.print_json({"undone": gone})
        return
    say(f"Undone: {', '.join(gone)}. Unless another decision stands, the item waits again.")


def _record(
    deployment: Deployment,
    choice: Choice,
    names: Sequence[str],
    narrowed: tuple[str | None, ...],
    act: ReviewAct,
    *,
    yes: bool,
    quiet: bool,
) -> list[Decision]:
    """Record a decision on the items that the command names or selects; several are previewed first."""
    from corpus_guard.review import decisions
    from corpus_guard.review.queue import find_item

    chosen = _choose_items(deployment, names, narrowed)
    ledger, rules = deployment.ledger, deployment.policy.review
    if len(chosen) > 1:
        ids = [item.version_id for item in chosen]
        forecast = decisions.preview_decision(ledger, rules, ids, choice, act.reviewer, act.identities)
        _confirm(forecast, [find_item(ledger, name) for name in ids[:NAMES_SHOWN]], yes=yes, quiet=quiet)
    return decisions.decide(ledger, rules, chosen, choice, act)


def _choose_items(deployment: Deployment, names: Sequence[str], narrowed: tuple[str | None, ...]) -> list[ItemRevision]:
    from corpus_guard.review.decisions import MAX_ITEMS
    from corpus_guard.review.queue import QueueFilter, find_item, list_revisions
    from corpus_guard.review.records import ItemRevision

    if bool(names) == any(narrowed):
        raise errors.Misuse("name the items, or select them with --source, --check, --severity or --campaign; not both")
    if names:
        revisions = {item.version_id: item.revision for item in (find_item(deployment.ledger, name) for name in names)}
        return [ItemRevision(name, revision) for name, revision in revisions.items()]
    source, check, severity, campaign = narrowed
    chosen: QueueFilter = QueueFilter(source=source, check=check, severity=severity, campaign=campaign, undecided=True)
    found_items = list_revisions(deployment.ledger, chosen, limit=MAX_ITEMS)
    if not found_items:
        require_known(deployment, source, check, campaign)
        raise errors.Misuse("no item that waits for a decision matches; see `guard quarantine list`")
    return found_items


def require_known(
    deployment: Deployment,
    source: str | None,
    check: str | None = None,
    campaign: str | None = None,
    run: str | None = None,
) -> None:
    """Refuse names that neither the ledger nor the configuration has: nothing could ever match them.

    Raises:
        UnknownSubject: there is no such thing; the message names those there are, or what lists them.
    """
    import sqlalchemy as sa

    from corpus_guard.ledger.tables import documents, runs, versions
    from corpus_guard.ledger.tables import findings as findings_table
    from corpus_guard.screening.registry import BEFORE_CHECKS

    with deployment.ledger.read() as connection:
        if source is not None:
            names = {*connection.scalars(sa.select(documents.c.source).distinct()), *deployment.sources}
            _require("source", source, names)
        if check is not None:
            policy = deployment.screening.policy  # has checks on trial among the shadowed ones
            names = {*policy.checks, *BEFORE_CHECKS, *(name for name in policy.shadow if "." not in name)}
            _require("check", check, {*connection.scalars(sa.select(findings_table.c.check_name).distinct()), *names})
        for what, column, name, where in (
            ("campaign", versions.c.campaign, campaign, "guard quarantine list --json"),
            ("run", runs.c.run_id, run, "guard status"),
        ):
            if name is not None and connection.scalar(sa.select(column).where(column == name).limit(1)) is None:
                raise errors.UnknownSubject(f"{what} {name[:64]!r} is not in the ledger; see `{where}`")


def _require(what: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        raise errors.UnknownSubject(f"{what} {name[:64]!r} is not known; known: {', '.join(sorted(names)) or 'none'}")


def _confirm(shown: DecisionPreview, first: Sequence[QueueItem], *, yes: bool, quiet: bool) -> None:
    """Show what a decision touches, the first items by name, and ask."""
    if not quiet:
        say(f"[bold]{shown.choice} {plural(shown.items, 'item')}[/bold]")
        for item in first:
            say(f"  {item.version_id[:8]} {visible(item.source)} · {visible(item.uri)}")
        if shown.items > len(first):
            say(f"  … and {shown.items - len(first):,} more")
        counts: tuple[tuple[str, Mapping[str, int]], ...] = (
            ("source", shown.by_source), ("trust", shown.by_trust), ("severity", shown.by_severity),
        )  # fmt: skip
        for name, values in counts:
            say(f"  by {name}: {visible(', '.join(f'{count:,} {value}' for value, count in values.items()))}")
        if shown.first_of_two:
            say(f"  {shown.first_of_two:,} need a second person")
        for name, why in shown.refused[:5]:
            say(f"  [red]{visible(name[:8])}[/red] {visible(why)}")
    if yes:
        return
    if quiet or not sys.stdin.isatty():
        raise errors.Misuse(f"{shown.items:,} items would be decided at once; review them, then add --yes")
    typer.confirm("Record this decision?", abort=True)


def _show_decisions(made: Sequence[Decision], applied: ReleaseResult | None) -> None:
    words = {"release": "released", "reject": "rejected", "escalate": "escalated"}
    for decision in made[:20]:
        half = "" if decision.is_complete else " (1 of 2: a second reviewer must also release it)"
        word = styled(words[decision.verdict])
        say(f"{word} {decision.version_id} by {visible(decision.reviewer.name)}{half}")
    if len(made) > 20:
        say(f"… and {len(made) - 20:,} more")
    if applied:
        say(
            f"{plural(applied['published'], 'chunk')} published, {applied['retired']:,} retired; "
            f"manifest sha256:{applied['manifest_sha256'][:16]}…"
        )
        if applied["reopened"]:
            say(
                f"{plural(applied['reopened'], 'served document')} contradict what was released, and wait: "
                "[bold]guard quarantine list[/bold]"
            )
    elif made[0].verdict != "escalate":
        say("It takes effect with the next run of the DAG quarantine_release. Until then it can be undone.")
