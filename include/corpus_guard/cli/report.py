"""`guard report`: reports of wrong answers."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.panel import Panel

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import Markup, format_time, out, print_table, say, styled, visible
from corpus_guard.cli.options import CorrectAnswer, FileFormat, Json, MaxRows, Reporter
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import json_ready, plural

REASONS_SHOWN = 10  # kinds of rows put aside; the file has each row

app = typer.Typer(help="Reports of wrong answers: file one, import many, list and show them.", no_args_is_help=True)

STYLES = {
    "open": "yellow", "traced": "bold red", "not_poisoning": "green",
    "exhausted": "red", "undecided": "yellow", "judge_failed": "red",
}  # fmt: skip
SHOWN = 120  # characters of a question or an answer in a table

Name = Annotated[str, typer.Argument(help="Id of the report, or a prefix of it.", metavar="REPORT")]


@app.command("add")
def add(
    query: Annotated[str, typer.Option("--query", "-q", help="Question as it was asked.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The wrong answer, whole or in part.")],
    reporter: Reporter,
    correct: CorrectAnswer = None,
    session: Annotated[str, typer.Option(help="Id of the conversation.")] = "",
    served: Annotated[list[str] | None, typer.Option(help="Id of a chunk behind the answer (repeatable).")] = None,
    at: Annotated[str | None, typer.Option(help="Time of the report, such as 2026-03-01T12:00Z. Default: now.")] = None,
    as_json: Json = False,
) -> None:
    """File a report. The same question with the same answer is one report, even if several people file it.

    Example: `guard report add --query "How deep can the OX-12 go?" --output "1200 metres" --correct "300 m"`
    """
    from corpus_guard.traceback import reports
    from corpus_guard.traceback.filings import Filing

    filing = Filing(
        query,
        output,
        parse_moment("--at", at) or datetime.now(UTC),
        correct,
        reporter,
        session,
        tuple(served or ()),
        "guard report add",
    )
    with Deployment() as deployment:
        try:
            added = reports.file_report(deployment.ledger, filing, new_run_id("report"))
        except errors.HostileInput as error:
            raise errors.Misuse(str(error)) from error
        report = reports.find_report(deployment.ledger, added.report_id)
    if as_json:
        console.print_json({**asdict(added), "state": report.state, "filings": report.filings})
        return
    what = "reported" if added.new_report else "filed again" if added.new_filing else "was already filed"
    say(f"{what}: {report.report_id}, {styled(report.state, STYLES)}, filed {plural(report.filings, 'time')}")
    if added.cut:
        say("[yellow]shortened[/yellow]: a text exceeded the maximum length")
    if report.state == "open":
        say(f"Trace it: [bold]guard trace {report.report_id[:8]}[/bold]")


@app.command("import")
def import_(
    source: Annotated[str, typer.Argument(help="File, pattern, fsspec URL, or mlflow:EXPERIMENT.", metavar="SOURCE")],
    file_format: FileFormat = None,
    since: Annotated[str | None, typer.Option(help="Only reports from this time on, such as 2026-03-01.")] = None,
    until: Annotated[str | None, typer.Option(help="Only reports before this time.")] = None,
    mark: Annotated[
        str | None,
        typer.Option(
            help="NAME=VALUE of the score, annotation or assessment that marks an answer as wrong; empty: every record. "
            "CORPUS_GUARD_FEEDBACK_MARK when left out."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="FIELD=COLUMN for a column with an uncommon name (repeatable). Fields: query, output, reported_at; optional: "
            "correct, reporter, session, served.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if a row was put aside.")] = False,
    as_json: Json = False,
) -> None:
    """Import reports. Importing again adds only new ones; rows that cannot be imported are put aside with line and reason.

    Example: `guard report import exports/june.csv --since 2026-06-01 --until 2026-07-01 --map query=question_text`
    """
    from corpus_guard.traceback.importers.importing import import_reports
    from corpus_guard.traceback.importers.plain import parse_columns
    from corpus_guard.traceback.importers.record import Mark

    begin, end = parse_moment("--since", since), parse_moment("--until", until)
    if begin and end and begin >= end:
        raise errors.Misuse(f"--since {since} --until {until}: nothing lies between; the first must be the earlier")
    with Deployment() as deployment, console.progress(not as_json) as progress:
        made = Mark.parse(deployment.settings.feedback_mark if mark is None else mark)
        done = import_reports(
            deployment.ledger,
            deployment.storage,
            deployment.settings,
            source,
            new_run_id("import"),
            file_format=file_format,
            mark=made,
            columns=parse_columns(columns or ()),
            progress=progress,
            since=begin,
            until=end,
        )
        where = deployment.storage.location(done.aside_file) if done.aside_file else None
    if as_json:
        console.print_json({**done.as_dict(), "aside_file": where})
    else:
        _show_import(done, where)
    if strict and done.aside:
        raise typer.Exit(1)


@app.command("list")
def list_(
    state: Annotated[
        str | None,
        typer.Option(help="State: open, traced, not_poisoning, exhausted, undecided or judge_failed. Default: all."),
    ] = None,
    limit: MaxRows = 50,
    as_json: Json = False,
) -> None:
    """List reports in the order of tracing: highest weight first, then oldest.

    Example: `guard report list --state open`
    """
    from corpus_guard.traceback.reports import list_reports

    with Deployment() as deployment:
        listed, total = list_reports(deployment.ledger, state=state, limit=limit)
    if as_json:
        console.print_json({"total": total, "reports": [report.as_dict() for report in listed]})
        return
    rows = [
        (
            report.report_id[:8],
            styled(report.state, STYLES),
            report.weight,
            report.filings,
            f"{report.last_reported_at:%Y-%m-%d}",
            report.query[:SHOWN],
            report.output[:SHOWN],
        )
        for report in listed
    ]
    columns = ("report", "state", "weight", "filings", "last", "question", "wrong answer")
    title = plural(total, f"{state.replace('_', ' ')} report" if state else "report")
    print_table(title, columns, rows)


@app.command("show")
def show(report: Name, as_json: Json = False) -> None:
    """Show one report, who filed it, and its traces. Invisible characters appear as code points.

    Example: `guard report show 3f9ac1d2`
    """
    from corpus_guard.traceback.records import list_traces
    from corpus_guard.traceback.reports import find_report, list_filings

    with Deployment() as deployment:
        stored = find_report(deployment.ledger, report)
        filed = list_filings(deployment.ledger, stored.report_id)
        traces = list_traces(deployment.ledger, report_id=stored.report_id)
    if as_json:
        console.print_json(
            {**stored.as_dict(), "filed": json_ready(filed), "traces": [trace.as_dict() for trace in traces]}
        )
        return
    say(
        f"[bold]{stored.report_id}[/bold] {styled(stored.state, STYLES)}, weight {stored.weight:.2f}, "
        f"filed {plural(stored.filings, 'time')}, {stored.first_reported_at:%Y-%m-%d} to {stored.last_reported_at:%Y-%m-%d}"
    )
    for title, text in (("Question", stored.query), ("Wrong answer", stored.output), ("Right answer", stored.correct)):
        if text:
            out.print(Panel(visible(text, lines=True), title=title, title_align="left", border_style="dim"))
    rows = [
        (
            filing["reported_at"],
            filing["reporter"] or Markup("[dim]unknown[/dim]"),
            filing["counted"],
            filing["session"],
            len(filing["served"]),
            filing["origin"],
        )
        for filing in filed
    ]
    columns = ("reported (UTC)", "by", "counts", "session", "chunks", "from")
    print_table("Filings, newest first", columns, rows)
    if stored.filings > len(filed):
        say(f"{stored.filings - len(filed):,} older filings are not shown")
    for trace in traces:
        say(
            f"{format_time(trace.started_at)} UTC {styled(trace.outcome or 'running', STYLES)}: "
            f"[bold]guard trace show {trace.trace_id[:8]}[/bold]"
        )
    if not traces:
        say(f"Not traced yet. Trace it: [bold]guard trace {stored.report_id[:8]}[/bold]")


def _show_import(done: Any, where: str | None) -> None:
    names = ("new", "known", "aside", "unmarked", "outside")
    rows = [*((name, getattr(done, name)) for name in names), (Markup("[bold]rows[/bold]"), done.rows)]
    say(f"From {visible(done.source)}")
    print_table("Rows", ("rows", "count"), rows)
    say(f"{plural(done.reports, 'new report')}, {done.reopened:,} reopened, format {', '.join(done.formats)}")
    if done.cut:
        say(f"[yellow]shortened[/yellow]: {done.cut:,} exceeded the maximum length")
    for reason, count in list(done.reasons.items())[:REASONS_SHOWN]:
        say(f"[yellow]put aside[/yellow]: {plural(count, 'row')}, {visible(reason)}")
    if where:
        say(f"The rows that were put aside: {visible(where)}")
    if done.unmarked and not done.new and not done.known:
        say(
            "No record is marked as wrong. Name your mark with --mark NAME=VALUE, or use --format csv for your own table."
        )


def parse_moment(option: str, text: str | None) -> datetime | None:
    """Return the time that an option gives; None if it is left out.

    Raises:
        Misuse: it is no time.
    """
    from corpus_guard.traceback.importers.fields import parse_time

    if text is None:
        return None
    try:
        return parse_time(text)
    except errors.HostileInput as error:
        raise errors.Misuse(f"{option}: {error}") from error
