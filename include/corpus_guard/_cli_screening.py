"""`guard calibrate` and `guard rescreen`: what another policy would do, and doing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard._console import Json, out, styled, visible
from corpus_guard.guard import Guard, new_run_id

if TYPE_CHECKING:
    from corpus_guard.refresh.rescreen import Rescreened
    from corpus_guard.screening.calibration import Forecast, Share
    from corpus_guard.screening.policy import Policy

SHOWN = 40  # documents that moved; --json has all


def calibrate(
    source: Annotated[str | None, typer.Option("--source", "-s", help="Only this source.")] = None,
    target: Annotated[
        float, typer.Option(min=0.0001, max=0.5, help="Share of honest documents that may be quarantined.")
    ] = 0.01,
    policy: Annotated[
        Path | None, typer.Option(help="Forecast this policy file instead of the one in force.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast from recorded findings what a policy quarantines of each source, and propose thresholds. Writes nothing.

    Example: `guard calibrate --source handbook --target 0.01`
    """
    from corpus_guard.screening.calibration import forecast
    from corpus_guard.screening.policy import load_policy
    from corpus_guard.screening.records import recorded
    from corpus_guard.screening.registry import build_screening

    with Guard() as guard:
        if source is not None:
            guard.source(source)
        chosen = guard.policy if policy is None else load_policy(policy)
        build_screening(chosen, guard.models)  # refuses what no refresh could use
        changed = _changed_checks(guard.policy, chosen)
        forecasts = forecast(chosen, recorded(guard.ledger, source, guard.screening.mutes), target)
    if as_json:
        proposals = {one.source: one.proposal.threshold for one in forecasts if one.proposal.threshold}
        report = {
            "policy": chosen.name,
            "target": target,
            "not_told": changed,
            "sources": [one.as_dict() for one in forecasts],
            "proposed": {name: threshold.model_dump(mode="json") for name, threshold in proposals.items()},
        }
        console.print_json(report)
        return
    _show_forecasts(forecasts, chosen)
    if changed:
        out.print(
            f"Other parameters of {', '.join(changed)}: recorded findings cannot tell what they would find. "
            "Set CORPUS_GUARD_POLICY_FILE to the file and run [bold]guard rescreen --dry-run[/bold]."
        )
    _show_proposals(forecasts, target)


def rescreen(
    source: Annotated[
        list[str] | None, typer.Option("--source", "-s", help="Only this source; may be given several times.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference and record nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Judge anew, without fetching, what another policy, rule pack or model judged, and show what moved.

    Decisions of reviewers stay in force. Killed or run twice, it converges.

    Example: `guard rescreen --dry-run`
    """
    from corpus_guard.refresh.rescreen import rescreen as run

    with Guard() as guard, console.progress(not as_json) as progress:
        result = run(guard, new_run_id("rescreen"), source or (), dry_run=dry_run, progress=progress)
    if as_json:
        console.print_json(result)
        return
    _show_difference(result)


def show_screening(report: Mapping[str, Any]) -> None:
    """The part of `guard status` about canaries, shadowed checks and sources with a threshold of their own."""
    canaries = report["canaries"]
    if canaries:
        parts = [f"{canaries['caught']} of {canaries['planted']} caught"]
        parts += [f"[red]missed: {', '.join(canaries['missed'])}[/red]"] if canaries["missed"] else []
        parts += [f"seen by shadowed checks alone: {', '.join(canaries['shadowed'])}"] if canaries["shadowed"] else []
        alarms = canaries["false_alarms"]
        parts += [f"[red]false alarms: {', '.join(alarms)}[/red]"] if alarms else [f"{canaries['innocent']} passed"]
        out.print(f"[bold]Canaries [/bold] {'; '.join(parts)}", soft_wrap=True)
    if report["shadow"]:
        wait = ", ".join(f"{count:,} of {visible(source)}" for source, count in report["would_wait"].items())
        out.print(f"[bold]Shadow   [/bold] {', '.join(report['shadow'])}; enforced, would wait: {wait or 'none'}")
    for source, codes in report["muted"].items():
        out.print(f"[bold]Muted    [/bold] {visible(source)}: {visible(', '.join(codes))}")
    for source, threshold in report["thresholds"].items():
        text = f"severity {threshold['severity']}, risk {threshold['risk']}"
        out.print(f"[bold]Threshold[/bold] {visible(source)}: {text}")


def _changed_checks(now: Policy, chosen: Policy) -> list[str]:
    """Checks whose findings under `chosen` were not recorded: other parameters, or switched on."""
    return sorted(
        name
        for name in set(now.checks) | set(chosen.checks)
        if chosen.checks.get(name) != now.checks.get(name) and chosen.checks.get(name, {}).get("enabled") is not False
    )


def _show_forecasts(forecasts: Sequence[Forecast], policy: Policy) -> None:
    columns = ("source", "trust", "documents", "stopped", "95 %", "honest stopped", "reviewers released", "undecided")
    rows = []
    for one in forecasts:
        outcomes = one.as_dict()["outcomes"]
        rows.append(
            (
                visible(one.source),
                one.trust.value,
                f"{one.documents:,}",
                _percent(one.stopped),
                _interval(one.stopped),
                f"{one.false_alarms.count:,} of {one.false_alarms.of:,}",
                f"{one.released.count:,} of {one.released.of:,}",
                f"{outcomes['waiting']:,}",
            )
        )
    title = f"What the policy {visible(policy.name)} quarantines or rejects"
    out.print(console.table(title, columns, rows, right=columns[2:]))
    for one in forecasts:
        if policy.shadow:
            share = _percent(one.stopped_without_shadow)
            out.print(f"{visible(one.source)}: {share} if nothing were shadowed")
        if one.unseen:
            out.print(
                f"{visible(one.source)}: {one.unseen:,} would pass that a slow check never looked at; "
                "[bold]guard rescreen --dry-run[/bold] tells"
            )
    alarms = [
        (
            visible(one.source),
            visible(alarm.name) + (" (shadowed)" if alarm.shadowed else ""),
            f"{alarm.found:,}",
            f"{alarm.stopped.count:,}",
            _interval(alarm.stopped),
            f"{alarm.alone:,}",
            f"{alarm.released:,}",
            f"{alarm.rejected:,}",
        )
        for one in forecasts
        for alarm in (*one.checks, *one.codes)
        if alarm.stopped.count or alarm.released or alarm.rejected
    ]
    names = ("source", "check or code", "found", "stopped", "95 %", "alone", "released", "rejected")
    out.print(console.table("By check and code, in documents", names, alarms, right=names[2:]))


def _show_proposals(forecasts: Sequence[Forecast], target: float) -> None:
    lines = []
    for one in forecasts:
        proposed = one.proposal.threshold
        if proposed is None:
            out.print(f"No threshold for {visible(one.source)}: {one.proposal.reason}")
        else:
            threshold = f"{{severity: {proposed.severity.value}, risk: {proposed.risk}}}"
            lines.append(f"  {one.source}: {threshold}  # {one.proposal.reason}")
    if lines:
        out.print(f"For at most {target:.2%} false alarms (95 % confidence), put into policy.yaml:")
        out.print(visible("\n".join(["sources:", *lines]), lines=True), soft_wrap=True)


def _show_difference(result: Rescreened) -> None:
    recorded = "; a dry run, nothing was recorded" if result["dry_run"] else ""
    out.print(f"[bold]{result['examined']:,} judged anew, {len(result['moved']):,} moved{recorded}[/bold]")
    verdicts: list[Any] = [(name, f"{count:,}") for name, count in result["verdicts"].items()]
    out.print(console.table("Verdicts", ("verdict", "documents"), verdicts, right=("documents",)))
    counts = ("before", "after", "gained", "lost")
    checks = [
        (visible(name), f"{change['before']:,}", f"{change['after']:,}", f"{change['gained']:,}", f"{change['lost']:,}")
        for name, change in result["checks"].items()
    ]
    out.print(console.table("Documents with findings", ("check", *counts), checks, right=counts))
    moved = [
        (
            one["version_id"][:8],
            visible(one["source"]),
            visible(one["uri"]),
            f"{styled(one['before'])} → {styled(one['after'])}",
            f"{one['risk'][0]:.2f} → {one['risk'][1]:.2f}",
            visible(", ".join([*(f"+{code}" for code in one["gained"]), *(f"-{code}" for code in one["lost"])])),
            f"stays: {one['decided']}" if one["decided"] else "",
        )
        for one in result["moved"][:SHOWN]
    ]
    columns = ("item", "source", "document", "verdict", "risk", "findings", "decision")
    if moved:
        out.print(console.table("Moved", columns, moved))
    if len(result["moved"]) > SHOWN:
        out.print(f"The first {SHOWN}; --json has all")
    if result["passed_over"]:
        out.print(f"{result['passed_over']:,} were judged by somebody else meanwhile; run again")
    if not result["dry_run"]:
        out.print(
            f"{result['published']:,} chunks published, {result['retired']:,} retired; "
            f"manifest sha256:{result['manifest_sha256'][:16]}…"
        )


def _percent(share: Share) -> str:
    return f"{share.count / share.of:.1%}" if share.of else "-"


def _interval(share: Share) -> str:
    low, high = share.interval
    return f"{low:.1%} to {high:.1%}"
