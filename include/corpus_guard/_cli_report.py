"""`guard report`: wrong answers that somebody reported: file one, import many, look at them."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.panel import Panel

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import Json, out, styled, visible
from corpus_guard.guard import Guard, new_run_id

app = typer.Typer(
    help="Wrong answers that somebody reported: file one, import many, look at them.", no_args_is_help=True
)

STYLES = {
    "open": "yellow", "traced": "bold red", "not_poisoning": "green",
    "exhausted": "red", "undecided": "yellow", "judge_failed": "red",
}  # fmt: skip
SHOWN = 120  # characters of a question or an answer in a table

Name = Annotated[str, typer.Argument(help="The report's id, or the beginning of it.", metavar="REPORT")]


def _login() -> str:
    return os.environ.get("USER") or f"uid {os.getuid()}"


@app.command("add")
def add(
    query: Annotated[str, typer.Option("--query", "-q", help="The question, as it was asked.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The answer that was wrong: a phrase or all of it.")],
    reporter: Annotated[str, typer.Option(help="Who says so.", default_factory=_login, show_default="your login name")],
    correct: Annotated[str | None, typer.Option(help="The right answer, where you know it.")] = None,
    session: Annotated[str, typer.Option(help="The conversation it came up in.")] = "",
    served: Annotated[
        list[str] | None, typer.Option(help="A chunk id the answer was made from; may be given several times.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="When it was reported, such as 2026-03-01T12:00Z; now when left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """File one report. The same question with the same answer is one report, however many file it.

    Example: `guard report add --query "How deep can the OX-12 go?" --output "1200 metres" --correct "300 m"`
    """
    from corpus_guard.ledger.ledger import now
    from corpus_guard.traceback import reports

    filing = reports.Filing(
        query, output, _moment("--at", at) or now(), correct, reporter, session, tuple(served or ()), "guard report add"
    )
    with Guard() as guard:
        try:
            added = reports.add(guard.ledger, filing, new_run_id("report"))
        except errors.HostileInput as error:
            raise errors.Misuse(str(error)) from error
        report = reports.find_report(guard.ledger, added.report_id)
    if as_json:
        console.print_json({**asdict(added), "state": report.state, "filings": report.filings})
        return
    what = "reported" if added.new_report else "filed again" if added.new_filing else "was filed already"
    out.print(f"{what}: {report.report_id}, {styled(report.state, STYLES)}, filed {report.filings:,} times")
    if added.cut:
        out.print("[yellow]cut[/yellow]: something was longer than is kept")
    if report.state == "open":
        out.print(f"Follow it to the texts: [bold]guard trace {report.report_id[:8]}[/bold]")


@app.command("import")
def import_(
    source: Annotated[
        str, typer.Argument(help="A file, a pattern, an fsspec URL, or mlflow:EXPERIMENT.", metavar="SOURCE")
    ],
    file_format: Annotated[
        str | None, typer.Option("--format", help="csv, jsonl, langfuse or phoenix; found out when left out.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Reported from then on, such as 2026-03-01.")] = None,
    until: Annotated[str | None, typer.Option(help="Reported before then; that moment is left out.")] = None,
    mark: Annotated[
        str | None,
        typer.Option(
            help="Name and value of the score, annotation or assessment that says wrong; empty: every record. "
            "CORPUS_GUARD_FEEDBACK_MARK when left out."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a row was put aside.")] = False,
    as_json: Json = False,
) -> None:
    """Import reports. Run again, it adds what is new; rows that cannot be taken are put aside with line and reason.

    Example: `guard report import exports/june.csv --since 2026-06-01 --until 2026-07-01`
    """
    from corpus_guard.traceback.importers import Mark, import_reports

    window = {"since": _moment("--since", since), "until": _moment("--until", until)}
    with Guard() as guard, console.progress(not as_json) as progress:
        made = Mark.parse(guard.settings.feedback_mark if mark is None else mark)
        done = import_reports(
            guard, source, new_run_id("import"), said=file_format, mark=made, progress=progress, **window
        )
        where = guard.storage.location(done.aside_file) if done.aside_file else None
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
        typer.Option(help="open, traced, not_poisoning, exhausted, undecided or judge_failed; all when left out."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """Reports in the order they are traced in: the heaviest first, of equal weight the oldest.

    Example: `guard report list --state open`
    """
    from corpus_guard.ledger.tables import REPORT_STATES
    from corpus_guard.traceback.reports import listed

    if state is not None and state not in REPORT_STATES:
        raise errors.Misuse(f"--state {state}: expected one of {', '.join(REPORT_STATES)}")
    with Guard() as guard:
        found, total = listed(guard.ledger, state=state, limit=limit)
    if as_json:
        console.print_json({"total": total, "reports": [one.as_dict() for one in found]})
        return
    rows = [
        (
            one.report_id[:8],
            styled(one.state, STYLES),
            f"{one.weight:.2f}",
            f"{one.filings:,}",
            f"{one.last_reported_at:%Y-%m-%d}",
            visible(one.query[:SHOWN]),
            visible(one.output[:SHOWN]),
        )
        for one in found
    ]
    columns = ("report", "state", "weight", "filings", "last", "question", "wrong answer")
    out.print(console.table(f"{total:,} {state or 'reports'}", columns, rows, right=("weight", "filings")))


@app.command("show")
def show(report: Name, as_json: Json = False) -> None:
    """One report with who filed it. Invisible characters are shown as code points.

    Example: `guard report show 3f9ac1d2`
    """
    from corpus_guard.traceback.reports import filings_of, find_report

    with Guard() as guard:
        found = find_report(guard.ledger, report)
        filed = filings_of(guard.ledger, found.report_id)
    if as_json:
        console.print_json({**found.as_dict(), "filed": [_jsonable(one) for one in filed]})
        return
    out.print(
        f"[bold]{found.report_id}[/bold] {styled(found.state, STYLES)}, weight {found.weight:.2f}, "
        f"filed {found.filings:,} times, {found.first_reported_at:%Y-%m-%d} to {found.last_reported_at:%Y-%m-%d}"
    )
    for title, text in (("Question", found.query), ("Wrong answer", found.output), ("Right answer", found.correct)):
        if text:
            out.print(Panel(visible(text, lines=True), title=title, title_align="left", border_style="dim"))
    rows = [
        (
            f"{one['reported_at']:%Y-%m-%d %H:%M}",
            visible(one["reporter"]) or "[dim]nobody said[/dim]",
            f"{one['counted']:.2f}",
            visible(one["session"]),
            f"{len(one['served']):,}",
            visible(one["origin"]),
        )
        for one in filed
    ]
    columns = ("reported (UTC)", "by", "counts", "session", "chunks", "from")
    out.print(console.table("Filings, the newest first", columns, rows, right=("counts", "chunks")))
    if found.filings > len(filed):
        out.print(f"{found.filings - len(filed):,} older ones are not shown")


def _show_import(done: Any, where: str | None) -> None:
    names = ("new", "known", "aside", "unmarked", "outside")
    rows = [(name, f"{getattr(done, name):,}") for name in names] + [("[bold]rows[/bold]", f"{done.rows:,}")]
    out.print(f"From {visible(done.source)}", soft_wrap=True)
    out.print(console.table("Rows", ("rows", "count"), rows, right=("count",)))
    out.print(f"{done.reports:,} new reports, {done.reopened:,} opened again, read as {', '.join(done.formats)}")
    if done.cut:
        out.print(f"[yellow]cut[/yellow]: {done.cut:,} were longer than is kept")
    if where:
        out.print(f"[yellow]put aside[/yellow]: {visible(where)} says which rows and why", soft_wrap=True)
    if done.unmarked and not done.new and not done.known:
        out.print(
            "No record has the mark; name yours with --mark NAME=VALUE, or say --format csv for a table of your own."
        )


def _moment(option: str, text: str | None) -> datetime | None:
    from corpus_guard.traceback.importers.fields import moment

    if text is None:
        return None
    try:
        return moment(text)
    except errors.HostileInput as error:
        raise errors.Misuse(f"{option}: {error}") from error


def _jsonable(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}
