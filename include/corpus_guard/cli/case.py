"""`guard case`: work on a wrong answer from the first report to the conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import format_time, out, print_table, say, say_rest, styled, visible
from corpus_guard.cli.options import Json, Reviewer, TrustedKeys
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.forensics.cases import Case, Member
    from corpus_guard.forensics.plan import PlannedStep
    from corpus_guard.ledger import Ledger

app = typer.Typer(
    help="Work on a wrong answer: gather what belongs to it, find its cause, approve and run a plan, export the case.",
    no_args_is_help=True,
)

NAMES_SHOWN = 12  # subjects of a step; --json has all
STEP_STYLES = {"proposed": "yellow", "approved": "bold yellow", "done": "green"}

Name = Annotated[str, typer.Argument(help="Id of the case, or a prefix of it.", metavar="CASE")]
Several = list[str] | None
Reason = Annotated[
    str, typer.Option("--reason", "-r", help="Reason; kept in the signed log, so do not quote the content.")
]
OfTrace = Annotated[Several, typer.Option("--trace", help="Id of a trace; repeatable, as are all members.")]
OfReport = Annotated[Several, typer.Option("--report", help="Id of a report.")]
OfIncident = Annotated[Several, typer.Option("--incident", help="Id of an incident.")]
OfDocument = Annotated[
    Several,
    typer.Option("--document", "-d", help="Document: URI, source/URI, or id of a version. It counts as accused."),
]
OfWithdrawal = Annotated[Several, typer.Option("--withdrawal", help="Id of a withdrawal.")]
OfPurge = Annotated[Several, typer.Option("--purge", help="Id of a purge.")]


@app.command("open")
def open_(
    title: Annotated[str, typer.Argument(help="What the case is about, in a few words; kept in the signed log.")],
    by: Reviewer,
    reason: Reason,
    trace: OfTrace = None,
    report: OfReport = None,
    incident: OfIncident = None,
    document: OfDocument = None,
    withdrawal: OfWithdrawal = None,
    purge: OfPurge = None,
    as_json: Json = False,
) -> None:
    """Open a case with its first members.

    Example: `guard case open "Wrong pump interval" --report 3f9ac1d2 --reason "a user reported it"`
    """
    from corpus_guard.forensics.cases import open_case

    with Deployment() as deployment:
        members = _members(deployment.ledger, trace, report, incident, document, withdrawal, purge)
        case = open_case(deployment.ledger, title, members, by=by, reason=reason, run_id=new_run_id("case"))
    if as_json:
        console.print_json(case.as_dict())
    else:
        say(f"Case [bold]{case.case_id[:8]}[/bold] opened with {plural(len(case.members), 'member')}")
        say(f"See what to do: guard case plan {case.case_id[:8]}")


@app.command("add")
def add(
    name: Name,
    by: Reviewer,
    reason: Reason,
    trace: OfTrace = None,
    report: OfReport = None,
    incident: OfIncident = None,
    document: OfDocument = None,
    withdrawal: OfWithdrawal = None,
    purge: OfPurge = None,
    as_json: Json = False,
) -> None:
    """Add members to a case: traces, reports, incidents, documents, withdrawals, purges.

    Example: `guard case add 3fa9 --document wiki/pumps.md --reason "same author, same claim"`
    """
    from corpus_guard.forensics.cases import add_to_case, find_case

    with Deployment() as deployment:
        case = find_case(deployment.ledger, name)
        members = _members(deployment.ledger, trace, report, incident, document, withdrawal, purge)
        added = add_to_case(deployment.ledger, case.case_id, members, by=by, reason=reason)
    if as_json:
        console.print_json(added.as_dict())
    else:
        say(f"{plural(len(added.members) - len(case.members), 'member')} added to case {case.case_id[:8]}")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List cases, newest first."""
    from corpus_guard.forensics.cases import list_cases

    with Deployment() as deployment:
        cases = list_cases(deployment.ledger)
    if as_json:
        console.print_json([case.as_dict() for case in cases])
        return
    rows = [
        (case.case_id[:8], styled(case.state), case.opened_at, case.opened_by, len(case.members), case.title)
        for case in cases
    ]
    print_table("Cases", ("case", "state", "opened (UTC)", "by", "members", "title"), rows)


@app.command("show")
def show(name: Name, as_json: Json = False) -> None:
    """Show a case: its members, the accused documents, and how they came in.

    Example: `guard case show 3fa9`
    """
    from corpus_guard.forensics.cases import find_case
    from corpus_guard.forensics.root_cause import root_cause
    from corpus_guard.forensics.scope import scope_of

    with Deployment() as deployment:
        case = find_case(deployment.ledger, name)
        scope = scope_of(deployment.ledger, case)
        cause = root_cause(deployment.ledger, deployment.policy, scope)
    if as_json:
        console.print_json({**case.as_dict(), "root_cause": cause.as_dict()})
        return
    say(f"[bold]{case.case_id}[/bold] {styled(case.state)}  {visible(case.title)}")
    say(f"Opened {format_time(case.opened_at)} UTC by {visible(case.opened_by)}: {visible(case.reason)}")
    for member in case.members:
        say(f"  {member.kind.value:<10} {visible(member.id)}")
    rows = [
        (
            each.place,
            each.fetched_at,
            each.admitted,
            each.change,
            f"{each.risk:.2f} of {each.threshold:.2f}",
            ", ".join(f"{finding.code} ({finding.reason})" for finding in each.uncounted) or "none",
        )
        for each in cause.versions
    ]
    columns = ("document", "fetched (UTC)", "admitted", "source", "risk", "findings that did not count")
    print_table("Accused documents", columns, rows)
    for sentence in cause.sentences:
        say(f"[bold]Cause[/bold] {visible(sentence)}")
    if case.conclusion:
        say(f"Closed by {visible(case.closed_by)}: {visible(case.conclusion)}")


@app.command("timeline")
def timeline(name: Name, as_json: Json = False) -> None:
    """Show what happened, oldest first, each line with the event of the signed log that proves it.

    Example: `guard case timeline 3fa9`
    """
    from corpus_guard.forensics.cases import find_case
    from corpus_guard.forensics.retrieved import case_exposure, retrieval_lines
    from corpus_guard.forensics.scope import scope_of
    from corpus_guard.forensics.timeline import case_timeline

    with Deployment() as deployment:
        case = find_case(deployment.ledger, name)
        scope = scope_of(deployment.ledger, case)
        retrievals = retrieval_lines(case_exposure(deployment.ledger, scope, key=deployment.question_key))
        lines = case_timeline(deployment.ledger, case, scope, retrievals)
    if as_json:
        console.print_json([line.as_dict() for line in lines])
        return
    for line in lines:
        say(f"{format_time(line.at, seconds=True)}  {visible(line.text)}  [dim]{line.proof}[/dim]")


@app.command("plan")
def plan(name: Name, as_json: Json = False) -> None:
    """Show the steps of a case: what is proposed, what a person approved, and what is done. Changes nothing.

    Example: `guard case plan 3fa9`
    """
    with Deployment() as deployment:
        case, steps = _plan(deployment, name)
    if as_json:
        console.print_json([step.as_dict() for step in steps])
        return
    for step in steps:
        _show_step(step)
    if any(step.state == "proposed" for step in steps):
        say(f'To approve one: [bold]guard case approve {case.case_id[:8]} STEP --reason "…"[/bold]')
    if any(step.state == "approved" for step in steps):
        say(f"To run what is approved: [bold]guard case run {case.case_id[:8]}[/bold]")


@app.command("approve")
def approve(
    name: Name,
    step: Annotated[
        str,
        typer.Argument(
            help="Id of a step from `guard case plan`, or its kind where only one is proposed.", metavar="STEP"
        ),
    ],
    by: Reviewer,
    reason: Reason,
    document: Annotated[
        Several,
        typer.Option("--document", "-d", help="Only these documents of the step, as the plan names them; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve one step exactly as it is shown, or only for some of its documents. Nothing is done yet.

    Example: `guard case approve 3fa9 withdraw --document wiki/pumps.md --reason "planted"`
    """
    from corpus_guard.forensics.cases import approve_step
    from corpus_guard.forensics.plan import find_step, narrow_step

    with Deployment() as deployment:
        case, steps = _plan(deployment, name)
        planned = find_step(steps, step)
        narrowed = narrow_step(deployment.ledger, planned, document or ())
        approve_step(deployment.ledger, case.case_id, narrowed, by=by, reason=reason)
    if as_json:
        console.print_json({"case_id": case.case_id, "step_id": narrowed.step_id, "subjects": list(narrowed.subjects)})
        return
    say(f"Approved by {visible(by)}: {planned.title}")
    for subject in narrowed.subjects[:NAMES_SHOWN]:
        say(f"  {visible(planned.names[subject])}")
    if len(narrowed.subjects) > NAMES_SHOWN:
        say(f"  and {len(narrowed.subjects) - NAMES_SHOWN:,} more")


@app.command("run")
def run(name: Name, as_json: Json = False) -> None:
    """Run the approved steps of a case, and seal. It may be killed or run twice; a step that is done is not repeated.

    Example: `guard case run 3fa9`
    """
    from corpus_guard.forensics.cases import find_case

    with Deployment() as deployment, console.progress(not as_json) as progress:
        case = find_case(deployment.ledger, name)
        results = deployment.run_case(case, new_run_id("case"), progress)
        done = find_case(deployment.ledger, case.case_id)
    if as_json:
        console.print_json({"case_id": case.case_id, "results": results})
        return
    kinds = {approval.step.step_id: approval.step.kind.value for approval in done.approvals}
    for step_id, result in results.items():
        say(f"[green]done[/green] {kinds[step_id]}: {visible(_result(result))}")
    if not results:
        say("No approved step waits.")


@app.command("close")
def close(
    name: Name,
    by: Reviewer,
    conclusion: Annotated[
        str,
        typer.Option("--conclusion", "-c", help="What was found; kept in the signed log, so do not quote the content."),
    ],
    as_json: Json = False,
) -> None:
    """Close a case with its conclusion. Every approved step must be done.

    Example: `guard case close 3fa9 --conclusion "an insider planted eight texts; withdrawn and purged"`
    """
    from corpus_guard.forensics.cases import end_case, find_case

    with Deployment() as deployment:
        case = end_case(deployment.ledger, find_case(deployment.ledger, name).case_id, by=by, conclusion=conclusion)
    _say_state(case, as_json)


@app.command("reopen")
def reopen(name: Name, by: Reviewer, reason: Reason, as_json: Json = False) -> None:
    """Open a closed case again.

    Example: `guard case reopen 3fa9 --reason "a second report names the same text"`
    """
    from corpus_guard.forensics.cases import find_case, reopen_case

    with Deployment() as deployment:
        case = reopen_case(deployment.ledger, find_case(deployment.ledger, name).case_id, by=by, reason=reason)
    _say_state(case, as_json)


@app.command("export")
def export(
    name: Name,
    by: Reviewer,
    folder: Annotated[Path, typer.Option("--out", "-o", help="New folder for the case file.", metavar="FOLDER")],
    as_json: Json = False,
) -> None:
    """Write the case file: report, timeline, plan, OCSF, STIX, SARIF, notices, and the signed log to check it all with.

    It holds no text of a document, no question and no answer. `guard case check` checks it with the public key alone.

    Example: `guard case export 3fa9 --out case-3fa9`
    """
    from corpus_guard.exports.case_file import export_case
    from corpus_guard.forensics.cases import find_case

    with Deployment() as deployment:
        case = find_case(deployment.ledger, name)
        count = export_case(
            deployment.ledger, deployment.storage, deployment.settings, deployment.policy, case, folder, by
        )
    if as_json:
        console.print_json({"case_id": case.case_id, "files": count, "folder": str(folder)})
        return
    say(f"{plural(count, 'file')} and the signed log written to {visible(str(folder))}")
    say(f"To check it elsewhere: guard case check {visible(str(folder))} --key KEYFILE")


@app.command("check")
def check(
    folder: Annotated[Path, typer.Argument(help="Folder that `guard case export` wrote.", metavar="FOLDER")],
    key: TrustedKeys,
    as_json: Json = False,
) -> None:
    """Check a case file with a public key only: no ledger, store or network. Exits with code 1 if it does not hold.

    Example: `guard case check case-3fa9 --key log.pub`
    """
    from corpus_guard.cli.proof import read_keys, show_steps
    from corpus_guard.exports.case_check import check_case

    report = check_case(folder, read_keys(key))
    if as_json:
        console.print_json(report.as_dict())
    else:
        show_steps(report)
        words = (
            "[green]It holds[/green]: this is what the log says."
            if report.holds
            else "[bold red]It proves nothing.[/bold red]"
        )
        out.print(words)
    if not report.holds:
        raise typer.Exit(1)


def _say_state(case: Case, as_json: bool) -> None:
    if as_json:
        console.print_json(case.as_dict())
    else:
        say(f"Case {case.case_id[:8]} is {styled(case.state)}")


def _plan(deployment: Deployment, name: str) -> tuple[Case, list[PlannedStep]]:
    from corpus_guard.forensics.cases import find_case
    from corpus_guard.forensics.plan import plan_case
    from corpus_guard.forensics.scope import scope_of

    case = find_case(deployment.ledger, name)
    return case, plan_case(deployment.ledger, deployment.policy, case, scope_of(deployment.ledger, case))


def _show_step(step: PlannedStep) -> None:
    state = styled(step.state, STEP_STYLES)
    say(f"[bold]{step.step.step_id[:8]}[/bold] {state} [bold]{step.title}[/bold] ({step.step.kind.value})")
    for place in list(step.names.values())[:NAMES_SHOWN]:
        say(f"    {visible(place)}")
    say_rest(step.names, NAMES_SHOWN, indent="    ")
    if step.note:
        say(f"    [dim]{visible(step.note)}[/dim]")
    if step.approval:
        say(f"    approved by {visible(step.approval.by)}: {visible(step.approval.reason)}")
        if step.approval.result is not None:
            say(f"    {visible(_result(step.approval.result))}")


def _result(result: Any) -> str:
    parts = [
        f"{key.replace('_', ' ')} {len(value) if isinstance(value, list) else value}" for key, value in result.items()
    ]
    return ", ".join(parts)


def _members(
    ledger: Ledger,
    trace: Several,
    report: Several,
    incident: Several,
    document: Several,
    withdrawal: Several,
    purge: Several,
) -> Sequence[Member]:
    from corpus_guard.forensics.cases import MemberKind, find_member

    named = {
        MemberKind.TRACE: trace,
        MemberKind.REPORT: report,
        MemberKind.INCIDENT: incident,
        MemberKind.VERSION: document,
        MemberKind.WITHDRAWAL: withdrawal,
        MemberKind.PURGE: purge,
    }
    members = [
        member for kind, names in named.items() for name in names or () for member in find_member(ledger, kind, name)
    ]
    if not members:
        raise errors.Misuse(
            "name at least one member: --trace, --report, --incident, --document, --withdrawal or --purge"
        )
    return members
