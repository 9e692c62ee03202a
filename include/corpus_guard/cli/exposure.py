"""`guard exposure`: whom a text has reached."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import Cell, format_time, print_table, say, visible
from corpus_guard.cli.options import Json
from corpus_guard.deployment import Deployment
from corpus_guard.domain import plural
from corpus_guard.forensics.kinds import SubjectKind

if TYPE_CHECKING:
    from corpus_guard.forensics.exposure import Exposure, Reach
    from corpus_guard.forensics.road import RoadSiblings

app = typer.Typer()

SHOWN = 100  # characters of a question in a table


@app.command("exposure")
def exposure(
    subject: Annotated[
        str,
        typer.Argument(
            help="A chunk, document, trace, source, run, principal or purge, by id or name.", metavar="SUBJECT"
        ),
    ],
    kind: Annotated[SubjectKind | None, typer.Option(help="What SUBJECT is. Default: the first that fits.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Entries of each list at most.")] = 20,
    as_json: Json = False,
) -> None:
    """Show whom a text has reached: questions, sessions and users it was retrieved for and shown to, answers, reports.

    Counts come from the retrieval log, which anyone who may ask questions can write to. A count that nobody recorded is
    "not known", never zero.

    Example: `guard exposure wiki/pumps.md`
    """
    from corpus_guard.forensics.exposure import find_subject, measure_exposure
    from corpus_guard.forensics.road import find_road_siblings

    with Deployment() as deployment:
        exposure_subject = find_subject(deployment.ledger, subject, kind)
        measured = measure_exposure(deployment.ledger, exposure_subject, listed=limit, key=deployment.question_key)
        siblings = find_road_siblings(deployment.ledger, exposure_subject, listed=limit)
    if as_json:
        console.print_json({**measured.as_dict(), "same_road": asdict(siblings)})
        return
    _show(measured)
    _show_siblings(siblings)


def _show(measured: Exposure) -> None:
    for subject in measured.subjects:
        say(f"[bold]{subject.kind}[/bold] {visible(subject.label)}, {plural(measured.chunks, 'chunk')}")
    if measured.log_from is None:
        say("[yellow]not known[/yellow]: the retrieval log is empty")
        return
    say(f"[bold]retrieved[/bold] {_reach(measured.retrieved)}")
    shown = "not known: no application said what it showed" if measured.shown is None else _reach(measured.shown)
    more = f"; of {measured.shown_unknown:,} more it is not known" if measured.shown and measured.shown_unknown else ""
    if measured.retrieved.retrievals:
        say(f"[bold]shown    [/bold] {shown}{more}")
    if measured.context_share is not None:
        say(f"[bold]context  [/bold] {measured.context_share:.0%} of the texts of these retrievals, on average")
    if measured.predates_log:
        say(
            f"[yellow]The log begins {_time(measured.log_from)}[/yellow]; the text was there before, and what it reached then is not known"
        )
    rows: list[tuple[Cell, ...]] = [
        (
            (entry.text or f"hash {entry.query_id[:12]}")[:SHOWN],
            entry.retrievals,
            _count(entry.shown),
            _time(entry.last),
        )
        for entry in measured.questions
    ]
    if rows:
        print_table("Questions", ("question", "retrieved", "shown", "last (UTC)"), rows, right=("shown",))
    for title, parties in (("Sessions", measured.sessions), ("Users", measured.users)):
        rows = [(entry.name, entry.retrievals, _count(entry.shown), _time(entry.last)) for entry in parties]
        if rows:
            print_table(title, ("name", "retrieved", "shown", "last (UTC)"), rows, right=("shown",))
    rows = [(answer.text[:SHOWN], answer.times) for answer in measured.answers or ()]
    if rows:
        print_table("Answers given", ("answer", "times"), rows)
    rows = [(each.report_id[:8], each.query[:SHOWN], each.state, each.road.value) for each in measured.reports]
    if rows:
        title = f"{plural(measured.reports_total, 'report')} of wrong answers"
        print_table(title, ("report", "question", "state", "by"), rows)


def _show_siblings(road_siblings: RoadSiblings) -> None:
    if not road_siblings.total:
        return
    rows = [
        (entry.source, entry.uri, entry.trust, entry.served, ", ".join(entry.roads)) for entry in road_siblings.siblings
    ]
    title = f"{plural(road_siblings.total, 'document')} came the same road"
    print_table(title, ("source", "document", "trust", "served", "in common"), rows)


def _reach(reach: Reach) -> str:
    if not reach.retrievals:
        return "by no question that the log holds"
    sessions = "sessions not known" if reach.sessions is None else plural(reach.sessions, "session")
    users = "users not known" if reach.users is None else plural(reach.users, "user")
    return (
        f"{plural(reach.retrievals, 'time')}: {plural(reach.questions, 'question')}, {sessions}, {users}; "
        f"{_time(reach.first)} to {_time(reach.last)}"
    )


def _count(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"


def _time(moment: datetime | None) -> str:
    return format_time(moment, missing="not known")
