"""`guard watch`: alerts of the retrieval watch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say
from corpus_guard.cli.options import Json, MaxRows
from corpus_guard.cli.report import parse_moment
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

app = typer.Typer()


@app.command("watch")
def watch(
    run: Annotated[
        bool, typer.Option("--run", help="Look at the log first, as the DAG `retrieval_watch` does every hour.")
    ] = False,
    until: Annotated[
        str | None, typer.Option(help="With --run: look at the weeks before this time. Default: now.")
    ] = None,
    limit: MaxRows = 50,
    as_json: Json = False,
) -> None:
    """List documents that are retrieved as no honest one is: hubs, newcomers, surges, displacements, bursts, foreign texts,
    turned answers.

    An alert withdraws nothing. `guard exposure DOCUMENT` shows whom the document reached. Exits with code 1 if `--run`
    raised an alert.

    Example: `guard watch --run`
    """
    from corpus_guard.forensics.watch.alerts import list_alerts, watch_retrievals

    now = datetime.now(UTC)
    moment = parse_moment("--until", until) or now
    if until and (moment > now or not run):
        raise errors.Misuse(
            f"--until {until}: {'expected --run with it' if not run else 'expected a time in the past'}"
        )
    with Deployment() as deployment:
        result = watch_retrievals(deployment.ledger, moment, new_run_id("watch")) if run else None
        alerts = list_alerts(deployment.ledger, limit=limit)
    new = len(result.alerts) if result else 0
    if as_json:
        limits = result.limits if result else None
        console.print_json({"new": new, "limits": limits, "alerts": [alert.as_dict() for alert in alerts]})
        raise typer.Exit(1 if new else 0)
    rows = [
        (
            alert.until,
            alert.detector,
            f"{alert.source} · {alert.uri}" if alert.source else alert.subject,
            alert.sentence,
        )
        for alert in alerts
    ]
    if rows:
        print_table("Alerts", ("until (UTC)", "detector", "document", "what was seen"), rows)
    else:
        say("No alerts." if result else "No alerts yet. Look now: [bold]guard watch --run[/bold]")
    if result:
        say(f"Looked at {plural(result.retrievals, 'retrieval')} of {plural(result.questions, 'question')}.")
        for limit_of_watch in result.limits:
            say(f"[yellow]limit[/yellow]: {limit_of_watch}")
    if new:
        raise typer.Exit(1)
