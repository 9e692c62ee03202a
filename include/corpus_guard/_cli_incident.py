"""`guard incident`: what verifications found wrong, and how it was answered, in a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._cli_quarantine import Reviewer
from corpus_guard._console import Json, out, styled, visible
from corpus_guard.guard import Guard, new_run_id

app = typer.Typer(
    help="Deviations that a verification found: look at them, heal, accept or close.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The incident's id, or the beginning of it.", metavar="INCIDENT")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the incident and in the signed log.")]
SHOWN = 50


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="open, healed, accepted or closed; all when left out.")] = None,
    as_json: Json = False,
) -> None:
    """All incidents, the newest first.

    Example: `guard incident list --state open`
    """
    from corpus_guard.ledger.tables import INCIDENT_STATES
    from corpus_guard.proof.incidents import listed

    if state is not None and state not in INCIDENT_STATES:
        raise errors.Misuse(f"--state {state}: expected one of {', '.join(INCIDENT_STATES)}")
    with Guard() as guard:
        found = listed(guard.ledger, state)
    if as_json:
        console.print_json([one.as_dict() for one in found])
        return
    rows = [
        (
            one.incident_id[:8],
            styled(one.state),
            one.opened_at.isoformat()[:19],
            ", ".join(f"{count} {kind}" for kind, count in one.counts.items()),
            visible(one.reason or ""),
        )
        for one in found
    ]
    out.print(console.table("Incidents", ("incident", "state", "opened (UTC)", "deviations", "reason"), rows))


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """One incident with each deviation: what was expected, what was found.

    Example: `guard incident show 3fa9`
    """
    from corpus_guard.proof.incidents import deviations_of, find

    with Guard() as guard:
        incident = find(guard.ledger, name)
        deviations = deviations_of(guard, incident)
    if as_json:
        console.print_json({**incident.as_dict(), "deviations": [one.as_dict() for one in deviations]})
        return
    out.print(
        f"[bold]{incident.incident_id}[/bold] {styled(incident.state)}, opened {incident.opened_at.isoformat()[:19]}"
    )
    if incident.closed_by:
        out.print(f"{incident.state} by {visible(incident.closed_by)}: {visible(incident.reason or '')}")
    rows = [
        (one.kind.value, visible(one.subject), visible(one.message), "yes" if one.healable else "no")
        for one in deviations[:SHOWN]
    ]
    out.print(console.table("Deviations", ("kind", "subject", "what", "healable"), rows))
    if len(deviations) > SHOWN:
        out.print(f"{len(deviations) - SHOWN:,} more; --json gives all")


@app.command()
def heal(name: Name, as_json: Json = False) -> None:
    """Publish again, from the Parquet batches and the ledger, what can be undone; then verify.

    Example: `guard incident heal 3fa9 && guard verify`
    """
    from corpus_guard.proof.healing import heal as run
    from corpus_guard.proof.incidents import deviations_of, end, examine, find
    from corpus_guard.proof.sealing import seal_corpus

    run_id = new_run_id("heal")
    with Guard() as guard:
        incident = find(guard.ledger, name)
        run(guard, run_id, deviations_of(guard, incident))
        seal_corpus(guard, run_id)
        examined = examine(guard)
        if examined.clean and incident.state == "open":
            incident = end(guard, name, "healed", by="guard incident heal", reason="published again", run_id=run_id)
    if as_json:
        console.print_json({**incident.as_dict(), "left": [one.as_dict() for one in examined.unanswered]})
    else:
        left = len(examined.unanswered) + examined.found.more
        out.print(f"{incident.incident_id[:8]} {styled(incident.state)}, {left:,} deviations are left")
    if not examined.clean:
        raise typer.Exit(1)


@app.command()
def accept(name: Name, reason: Reason, by: Reviewer, as_json: Json = False) -> None:
    """Take what was found for the new baseline: it is not reported again, and the next seal starts from it.

    Example: `guard incident accept 3fa9 --reason "ledger restored from Tuesday's backup"`
    """
    _end(name, "accepted", reason, by, as_json)


@app.command()
def close(name: Name, reason: Reason, by: Reviewer, as_json: Json = False) -> None:
    """Close it without accepting anything: it was repaired by other means. The same deviation opens it anew.

    Example: `guard incident close 3fa9 --reason "store rebuilt from Parquet"`
    """
    _end(name, "closed", reason, by, as_json)


def _end(name: str, state: str, reason: str, by: str, as_json: bool) -> None:
    from corpus_guard.proof.incidents import end
    from corpus_guard.proof.sealing import seal_corpus

    run_id = new_run_id("incident")
    with Guard() as guard:
        incident = end(guard, name, state, by=by, reason=reason, run_id=run_id)  # type: ignore[arg-type]
        if state == "accepted":
            seal_corpus(guard, run_id)
    if as_json:
        console.print_json(incident.as_dict())
    else:
        out.print(f"{incident.incident_id[:8]} {styled(incident.state)} by {visible(by)}")
