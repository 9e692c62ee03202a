"""`guard calibrate` and `guard rescreen`: forecast the effect of another policy, and apply it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import Markup, format_time, print_table, say, say_rest, styled, visible
from corpus_guard.cli.options import FromSource, FromSources, Json
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.pipeline.rescreen import RescreenResult
    from corpus_guard.screening.calibration import Forecast, Proportion
    from corpus_guard.screening.policy import Policy

app = typer.Typer()


DOCUMENTS_SHOWN = 40  # documents that moved; --json has all


@app.command("calibrate")
def calibrate(
    source: FromSource = None,
    target: Annotated[
        float, typer.Option(min=0.0001, max=0.5, help="Share of honest documents that may be quarantined.")
    ] = 0.01,
    policy: Annotated[
        Path | None, typer.Option(help="Forecast this policy file instead of the current one.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast from recorded findings what a policy would quarantine, and propose thresholds. Writes nothing.

    Example: `guard calibrate --source handbook --target 0.01`
    """
    from corpus_guard.screening.calibration import forecast_sources
    from corpus_guard.screening.extensions import load_extensions
    from corpus_guard.screening.history import load_judged_documents
    from corpus_guard.screening.policy import load_policy
    from corpus_guard.screening.registry import CHECKS, build_screening

    with Deployment() as deployment:
        if source is not None:
            deployment.sources.named(source)
        chosen = deployment.policy if policy is None else load_policy(policy)
        # Refuses what no refresh could use, and puts checks without a section on trial.
        extensions = load_extensions(deployment.settings, CHECKS)
        chosen = build_screening(chosen, deployment.models, extensions=extensions).policy
        changed = _changed_checks(deployment.policy, chosen)
        forecasts = forecast_sources(
            chosen, load_judged_documents(deployment.ledger, source, deployment.screening.mutes), target
        )
    if as_json:
        proposals = {
            forecast.source: forecast.proposal.threshold for forecast in forecasts if forecast.proposal.threshold
        }
        report = {
            "policy": chosen.name,
            "target": target,
            "not_told": changed,
            "sources": [forecast.as_dict() for forecast in forecasts],
            "proposed": {name: threshold.model_dump(mode="json") for name, threshold in proposals.items()},
        }
        console.print_json(report)
        return
    _show_forecasts(forecasts, chosen)
    if changed:
        say(
            f"Other parameters of {', '.join(changed)}: their findings under these parameters were not recorded. "
            "Set CORPUS_GUARD_POLICY_FILE to the file and run [bold]guard rescreen --dry-run[/bold]."
        )
    _show_proposals(forecasts, target)


@app.command("rescreen")
def rescreen(
    source: FromSources = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without recording them.")] = False,
    as_json: Json = False,
) -> None:
    """Judge stored documents again by today's policy, without fetching them, and show which verdicts changed.

    A rejection stays in force. A release of a text that is now another one is undone, on record: nobody has seen the new text, and
    today's policy decides. It may be killed or run twice.

    Example: `guard rescreen --dry-run`
    """
    with console.resumable("guard rescreen"), Deployment() as deployment, console.progress(not as_json) as progress:
        result = deployment.rescreen(new_run_id("rescreen"), source or (), dry_run=dry_run, progress=progress)
    if as_json:
        console.print_json(result)
        return
    _show_difference(result)


@app.command("reparse")
def reparse(
    source: FromSources = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what reads differently.")] = False,
    as_json: Json = False,
) -> None:
    """Read the stored bytes again by today's parser, and judge and publish the documents that give another text.

    For an upgrade that reads a format better, and for a batch that was lost and cannot be made again as it was. Nothing is fetched.
    A rejection stays in force. A release of a text that is now another one is undone, on record: nobody has seen the new text, and
    today's policy decides. It may be killed or run twice. Exits with code 1 if raw bytes are missing or damaged.

    Example: `guard reparse --dry-run`
    """
    with console.resumable("guard reparse"), Deployment() as deployment, console.progress(not as_json) as progress:
        result = deployment.reparse(new_run_id("reparse"), source or (), dry_run=dry_run, progress=progress)
    if as_json:
        console.print_json(result)
    else:
        recorded = "; dry run, nothing was recorded" if dry_run else ""
        say(
            f"[bold]{plural(result['examined'], 'version')} read again, {len(result['changed']):,} differ{recorded}[/bold]"
        )
        if result["changed"] and not dry_run:
            say(
                f"{result['accepted']:,} accepted, {result['quarantined']:,} quarantined, {result['rejected']:,} rejected; "
                f"{plural(result['published'], 'chunk')} published, {result['retired']:,} retired"
            )
        if result["releases_undone"]:
            say(
                f"{plural(result['releases_undone'], 'release')} undone: the text is another one; see `guard quarantine history`"
            )
        if result["unreadable"]:
            say(
                f"[bold red]{len(result['unreadable']):,} have no raw bytes, or damaged ones[/bold red]: `guard verify --deep` "
                "names them"
            )
    if result["unreadable"]:
        raise typer.Exit(1)


@app.command("configuration")
def configuration(
    loosened: Annotated[bool, typer.Option("--loosened", help="Only changes that loosened something.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of changes.")] = 20,
    as_json: Json = False,
) -> None:
    """List the logged changes of policy, checks, trained parts, sources, mutes and reviewers, newest first.

    Each names the run that saw it first and the user who ran it. Loosened values are red.

    Example: `guard configuration --loosened`
    """
    from corpus_guard.pipeline.configuration import load_changes

    with Deployment() as deployment:
        changes = [change for change in load_changes(deployment.ledger) if change.loosened or not loosened][:limit]
    if as_json:
        console.print_json([change.as_dict() for change in changes])
        return
    for change in changes:
        who = f"{visible(change.run_id)} of {visible(change.user)}"
        say(f"[bold]{format_time(change.at)} UTC[/bold] {who}: {plural(len(change.changes), 'value')}")
        for path, line in zip(change.changes, change.lines, strict=True):
            is_loosened = path in change.loosened
            say(f"  [red]{visible(line)}[/red]" if is_loosened else f"  {visible(line)}")
    if not changes:
        say("No change is logged. The first refresh logs the whole configuration.")


def show_screening(report: Mapping[str, Any]) -> None:
    """Print the part of `guard status` on loosened values, canaries, shadowed checks, mutes and thresholds per source."""
    for change in report["loosened"]:
        say(
            f"[bold red]Loosened [/bold red] {change['at'][:16]} UTC, {visible(change['sentence'])}; see guard configuration"
        )
    canaries = report["canaries"]
    if canaries:
        parts = [f"{canaries['caught']} of {canaries['planted']} caught"]
        parts += [f"[red]missed: {', '.join(canaries['missed'])}[/red]"] if canaries["missed"] else []
        parts += [f"caught only by shadowed checks: {', '.join(canaries['shadowed'])}"] if canaries["shadowed"] else []
        alarms = canaries["false_alarms"]
        parts += [f"[red]false alarms: {', '.join(alarms)}[/red]"] if alarms else [f"{canaries['innocent']} passed"]
        say(f"[bold]Canaries [/bold] {'; '.join(parts)}")
    if report["shadow"]:
        wait = ", ".join(f"{count:,} of {visible(source)}" for source, count in report["would_wait"].items())
        say(f"[bold]Shadow   [/bold] {', '.join(report['shadow'])}; if enforced, would wait: {wait or 'none'}")
    for source, codes in report["muted"].items():
        say(f"[bold]Muted    [/bold] {visible(source)}: {visible(', '.join(codes))}")
    for source, threshold in report["thresholds"].items():
        text = f"severity {threshold['severity']}, risk {threshold['risk']}"
        say(f"[bold]Threshold[/bold] {visible(source)}: {text}")


def _changed_checks(now: Policy, chosen: Policy) -> list[str]:
    """Return the checks whose findings under `chosen` were not recorded: changed parameters, or switched on."""
    return sorted(
        name
        for name in set(now.checks) | set(chosen.checks)
        if chosen.checks.get(name) != now.checks.get(name) and chosen.checks.get(name, {}).get("enabled") is not False
    )


def _show_forecasts(forecasts: Sequence[Forecast], policy: Policy) -> None:
    from corpus_guard.screening.calibration import VersionOutcome

    columns = ("source", "trust", "documents", "stopped", "95 %", "honest stopped", "reviewers released", "undecided")
    rows = [
        (
            forecast.source,
            forecast.trust.value,
            forecast.documents,
            _percent(forecast.stopped),
            _interval(forecast.stopped),
            f"{forecast.false_alarms.count:,} of {forecast.false_alarms.of:,}",
            f"{forecast.released.count:,} of {forecast.released.of:,}",
            forecast.outcomes[VersionOutcome.WAITING],
        )
        for forecast in forecasts
    ]
    title = f"Quarantined or rejected by the policy {visible(policy.name)}"
    print_table(title, columns, rows, right=columns[2:])
    for forecast in forecasts:
        if policy.shadow:
            share = _percent(forecast.stopped_without_shadow)
            say(f"{visible(forecast.source)}: {share} if every check were enforced")
        if forecast.unseen:
            say(
                f"{visible(forecast.source)}: {forecast.unseen:,} would pass without the slow checks; "
                "run [bold]guard rescreen --dry-run[/bold]"
            )
    alarms = [
        (
            forecast.source,
            alarm.name + (" (shadowed)" if alarm.shadowed else ""),
            alarm.documents,
            alarm.stopped.count,
            _interval(alarm.stopped),
            alarm.alone,
            alarm.released,
            alarm.rejected,
        )
        for forecast in forecasts
        for alarm in (*forecast.checks, *forecast.codes)
        if alarm.stopped.count or alarm.released or alarm.rejected
    ]
    names = ("source", "check or code", "found", "stopped", "95 %", "alone", "released", "rejected")
    print_table("By check and code, in documents", names, alarms, right=("95 %",))


def _show_proposals(forecasts: Sequence[Forecast], target: float) -> None:
    lines = []
    for forecast in forecasts:
        proposed = forecast.proposal.threshold
        if proposed is None:
            say(f"No threshold for {visible(forecast.source)}: {forecast.proposal.reason}")
        else:
            threshold = f"{{severity: {proposed.severity.value}, risk: {proposed.risk}}}"
            lines.append(f"  {forecast.source}: {threshold}  # {forecast.proposal.reason}")
    if lines:
        say(f"For at most {target:.2%} false alarms (95 % confidence), add to policy.yaml:")
        say(visible("\n".join(["sources:", *lines]), lines=True))


def _show_difference(result: RescreenResult) -> None:
    recorded = "; dry run, nothing was recorded" if result["dry_run"] else ""
    say(f"[bold]{result['examined']:,} judged again, {len(result['moved']):,} changed{recorded}[/bold]")
    print_table("Verdicts", ("verdict", "documents"), result["verdicts"].items())
    checks = [
        (name, change["before"], change["after"], change["gained"], change["lost"])
        for name, change in result["checks"].items()
    ]
    print_table("Documents with findings", ("check", "before", "after", "gained", "lost"), checks)
    moved = [
        (
            document["version_id"][:8],
            document["source"],
            document["uri"],
            Markup(f"{styled(document['before'])} → {styled(document['after'])}"),
            f"{document['risk'][0]:.2f} → {document['risk'][1]:.2f}",
            ", ".join([*(f"+{code}" for code in document["gained"]), *(f"-{code}" for code in document["lost"])]),
            f"stays: {document['decided']}" if document["decided"] else "",
        )
        for document in result["moved"][:DOCUMENTS_SHOWN]
    ]
    columns = ("item", "source", "document", "verdict", "risk", "findings", "decision")
    if moved:
        print_table("Changed verdicts", columns, moved)
    say_rest(result["moved"], DOCUMENTS_SHOWN)
    if result["passed_over"]:
        say(f"{result['passed_over']:,} were judged by another run meanwhile; run the command again")
    if not result["dry_run"]:
        say(
            f"{plural(result['published'], 'chunk')} published, {result['retired']:,} retired; "
            f"manifest sha256:{result['manifest_sha256'][:16]}…"
        )


def _percent(share: Proportion) -> str:
    return f"{share.count / share.of:.1%}" if share.of else "-"


def _interval(share: Proportion) -> str:
    low, high = share.interval
    return f"{low:.1%} to {high:.1%}"
