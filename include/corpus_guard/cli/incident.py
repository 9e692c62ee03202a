"""`guard incident`: deviations that verifications found, and who explained them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import format_time, print_table, say, say_rest, styled, visible
from corpus_guard.cli.options import Json, Reviewer
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural
from corpus_guard.ledger.states import INCIDENT_STATES, IncidentState

if TYPE_CHECKING:
    from corpus_guard.proof.incidents import Incident, IncidentWindow

app = typer.Typer(
    help="Deviations found by verification: show, heal, acknowledge or accept them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="Id of the incident, or a prefix of it.", metavar="INCIDENT")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Reason; kept with the incident and in the signed log.")]
SHOWN = 50


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="State: open, healed, accepted or closed. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """List incidents, newest first.

    Example: `guard incident list --state open`
    """
    from corpus_guard.proof.incidents import list_incidents

    if state is not None:
        errors.require_one_of("--state", state, INCIDENT_STATES)
    with Deployment() as deployment:
        incidents = list_incidents(deployment.ledger, *([state] if state else []))
    if as_json:
        console.print_json([incident.as_dict() for incident in incidents])
        return
    rows = [
        (
            incident.incident_id[:8],
            styled(incident.state),
            incident.opened_at,
            ", ".join(f"{count} {kind}" for kind, count in incident.counts.items()),
            incident.reason,
        )
        for incident in incidents
    ]
    print_table("Incidents", ("incident", "state", "opened (UTC)", "deviations", "reason"), rows)


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show one incident with each deviation: what was sealed, what was there, and since when it can have been there.

    Example: `guard incident show 3fa9`
    """
    from corpus_guard.proof.incidents import find_incident, incident_window, load_deviations

    with Deployment() as deployment:
        incident = find_incident(deployment.ledger, name)
        window = incident_window(deployment.ledger, incident)
        deviations = load_deviations(deployment.storage, incident)
    if as_json:
        console.print_json(
            {
                **incident.as_dict(),
                "window": window.as_dict(),
                "deviations": [deviation.as_dict() for deviation in deviations],
            }
        )
        return
    say(f"[bold]{incident.incident_id}[/bold] {styled(incident.state)}, opened {format_time(incident.opened_at)} UTC")
    if incident.closed_by:
        say(f"{incident.state} by {visible(incident.closed_by)}: {visible(incident.reason or '')}")
    say(_window(window))
    if incident.is_red:
        say(_next_step(incident))
    rows = [
        (deviation.kind.value, deviation.subject, deviation.message, deviation.healable)
        for deviation in deviations[:SHOWN]
    ]
    print_table("Deviations", ("kind", "subject", "what", "healable"), rows)
    say_rest(deviations, SHOWN)


@app.command()
def heal(name: Name, as_json: Json = False) -> None:
    """Restore what can be restored, then verify. The incident stays red until it is acknowledged.

    If only the index of many chunks lost a few of them, which it does by itself, the incident is closed. Records of the collections
    come from the Parquet batches and the ledger; damaged raw bytes are fetched again where the source still has the same bytes.

    Example: `guard incident heal 3fa9 && guard verify`
    """
    with Deployment() as deployment:
        healing = deployment.heal_incident(name, new_run_id("heal"), by="guard incident heal")
    incident, examined, fetched = healing.incident, healing.examination, healing.refetched
    if as_json:
        unanswered = [deviation.as_dict() for deviation in examined.unanswered]
        console.print_json(
            {**incident.as_dict(), "refetched": fetched.restored, "lost": fetched.lost, "left": unanswered}
        )
    else:
        for sha256 in fetched.restored:
            say(f"raw bytes {sha256[:16]}… fetched again")
        for sha256, why in fetched.lost.items():
            say(f"[red]raw bytes {sha256[:16]}… stay damaged[/red]: {visible(why)}")
        left_over = plural(len(examined.unanswered) + examined.verification.more, "deviation")
        say(f"{incident.incident_id[:8]} {styled(incident.state)}, {left_over} left")
        if healing.remaining and healing.remaining.incident_id != incident.incident_id:
            say(f"What is left is incident {healing.remaining.incident_id[:8]}.")
        if examined.clean:
            reason = f"Why: {visible(incident.reason or '')}"
            say(_next_step(incident) if incident.is_red else reason)
    if not examined.clean:
        raise typer.Exit(1)


@app.command()
def accept(name: Name, reason: Reason, by: Reviewer, as_json: Json = False) -> None:
    """Accept the ledger and the files as they are: what deviates in them is not reported again, and is sealed.

    The collections follow the ledger: records that it does not serve are deleted, those that it serves are published again.

    Example: `guard incident accept 3fa9 --reason "ledger restored from Tuesday's backup"`
    """
    run_id = new_run_id("incident")
    with Deployment() as deployment:
        incident, records = deployment.accept_incident(name, run_id, by=by, reason=reason)
        deployment.seal(run_id)
    if as_json:
        console.print_json(incident.as_dict())
        return
    _say_ended(incident, by)
    if records.deleted or records.republished:
        say(f"{plural(records.deleted, 'record')} deleted, {records.republished:,} published again")


@app.command()
def acknowledge(name: Name, reason: Reason, by: Reviewer, as_json: Json = False) -> None:
    """Acknowledge an incident, open or healed, with what caused it: it is no longer red. The same deviations open a new one.

    Example: `guard incident acknowledge 3fa9 --reason "a test of the backup wrote to the live store"`
    """
    from corpus_guard.proof.incidents import end_incident

    run_id, closed = new_run_id("incident"), IncidentState.CLOSED
    with Deployment() as deployment:
        incident = end_incident(
            deployment.ledger, deployment.settings, name, closed, by=by, reason=reason, run_id=run_id
        )
    if as_json:
        console.print_json(incident.as_dict())
    else:
        _say_ended(incident, by)


def _say_ended(incident: Incident, by: str) -> None:
    say(f"{incident.incident_id[:8]} {styled(incident.state)} by {visible(by)}")


def _next_step(incident: Incident) -> str:
    name = incident.incident_id[:8]
    words = "Healed, and nobody has explained it." if incident.state == IncidentState.HEALED else "It is still there."
    return f'[bold red]{words}[/bold red] Once you know the cause: guard incident acknowledge {name} --reason "..."'


def _window(window: IncidentWindow) -> str:
    right = f"{format_time(window.verified_at)} UTC (seal {window.verified_seal})" if window.verified_at else "never"
    seal = f"seal {window.seal} of {format_time(window.sealed_at)} UTC" if window.sealed_at else "no seal"
    return f"Compared with {seal}. Verified right for the last time: {right}"
