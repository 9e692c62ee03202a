"""`guard trace`: from a reported wrong answer to the texts that led to it, in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._cli_quarantine import Reviewer
from corpus_guard._console import Json, err, out, styled, visible
from corpus_guard.guard import Guard, new_run_id

if TYPE_CHECKING:
    from corpus_guard.traceback.records import Line, Trace
    from corpus_guard.traceback.suspects import Complaint

STYLES = {
    "poisoned": "red", "benign": "green", "undecided": "yellow",
    "traced": "bold red", "not_poisoning": "green", "exhausted": "yellow", "judge_failed": "yellow", "unfinished": "dim",
    "clean": "green", "unsure": "yellow", "skipped": "dim",
}  # fmt: skip
SHOWN = 60  # judged texts; --json has all
ANSWER = 400  # characters shown of an answer
NOW = 3  # places of now shown for one accused text
WHY = 200  # characters shown of an explanation
MEANT = {
    "traced": "these texts led to the answer",
    "not_poisoning": "no text was planted for this answer: nobody is accused",
    "exhausted": "nothing benign is left to answer from, or too many texts were judged",
    "undecided": "the judge could not say, or the model's activations contradict it",
    "judge_failed": "the judge or the RAG model gave nothing that can be used",
    "unfinished": "the run that began it has not ended it",
}


class JudgeName(StrEnum):
    """What judges."""

    EMBEDDED = "embedded"
    LLM = "llm"


class _Follows(TyperGroup):
    """`guard trace WORD` follows a report unless WORD is a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name where it was left out."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["follow", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Follows, help="From a reported wrong answer to the texts that led to it.", no_args_is_help=True)

TraceName = Annotated[str, typer.Argument(help="The trace's id, or the beginning of it.", metavar="TRACE")]


@app.command("follow")
def follow(
    reporter: Reviewer,
    report: Annotated[
        str | None, typer.Argument(help="A report's id, or the beginning of it.", metavar="[REPORT]")
    ] = None,
    query: Annotated[str, typer.Option("--query", "-q", help="The question, where no report is named.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="The answer that was wrong.")] = "",
    correct: Annotated[str | None, typer.Option(help="The right answer, where you know it.")] = None,
    every: Annotated[bool, typer.Option("--open", help="Every report that is open.")] = False,
    as_of: Annotated[
        str | None, typer.Option(help="Against the corpus of then: 2026-03-01 (its end, UTC) or 2026-03-01T12:00Z.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", "-k", min=1, max=100, help="Texts your application retrieves; as set.")
    ] = None,
    judge: Annotated[JudgeName | None, typer.Option(help="What judges; as set when left out.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add question and answer to the reports, and keep the trace.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge what a question retrieves until what stands is benign, and name the texts that led to the answer.

    `guard trace follow` may be said shorter: `guard trace` does this when no other command is named. A question from the command line
    is an investigation and leaves nothing behind unless `--keep` is given. Nothing is removed.

    Example: `guard trace --query "How deep can the OX-12 go?" --output "1200 metres"`
    """
    if sum((report is not None, bool(query or output), every)) != 1:
        raise errors.Misuse("give the id of a report, or --query with --output, or --open; one of them")
    when = _moment(as_of)
    with Guard(_settings(judge)) as guard, console.progress(not as_json) as progress:
        run_id = new_run_id("trace")
        complaints = _complaints(guard, run_id, report, query, output, correct, reporter, keep)
        done = _trace(guard, run_id, complaints, k, when, progress)
        now = _where_now(guard, complaints[0].query, done[0]) if when and not every else {}
    if as_json:
        told = [one.as_dict() for one in done]
        console.print_json(told if every else {**told[0], "now": now})
    elif every:
        _show_list(done)
    else:
        _show(done[0], correct=complaints[0].correct)
        _show_now(done[0], now)


@app.command("list")
def list_(
    report: Annotated[str | None, typer.Option(help="Only of this report.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """Past traces, the newest first.

    Example: `guard trace list --report 3f9ac1d2`
    """
    from corpus_guard.traceback.records import listed
    from corpus_guard.traceback.reports import find_report

    with Guard() as guard:
        only = find_report(guard.ledger, report).report_id if report else None
        found = listed(guard.ledger, limit=limit, report_id=only)
    if as_json:
        console.print_json([_summary(one) for one in found])
    else:
        _show_list(found)


@app.command("show")
def show(name: TraceName, as_json: Json = False) -> None:
    """One trace with every text it judged.

    Example: `guard trace show 3f9ac1d2`
    """
    from corpus_guard.traceback.records import find

    with Guard() as guard:
        found = find(guard.ledger, name)
    if as_json:
        console.print_json(found.as_dict())
    else:
        _show(found)


@app.command("withdraw")
def withdraw(
    name: TraceName,
    by: Reviewer,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; kept for good, so quote nothing here.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without, only what would go is shown.")] = False,
    as_json: Json = False,
) -> None:
    """Take what a trace accuses out of service and block it, with everything that has the same bytes or text. Evidence stays on disk.

    Without `--yes` nothing is changed. `guard purge` erases for good.

    Example: `guard trace withdraw 3f9ac1d2 --reason "planted" --yes`
    """
    from corpus_guard.traceback import withdrawing
    from corpus_guard.traceback.making import make_answers
    from corpus_guard.traceback.records import find

    run_id = new_run_id("withdraw")
    with Guard() as guard:
        planned = withdrawing.plan(guard, [find(guard.ledger, name).trace_id])
        told: dict[str, Any] = {"dry_run": not yes, "plan": planned.as_dict()}
        if yes and planned.versions:
            told |= withdrawing.withdraw(guard, run_id, planned, by, reason)
            answers = make_answers(guard.settings, guard.models, guard.ledger)
            told["still_wrong"] = withdrawing.ask_again(guard, run_id, planned.traces, answers)
    if as_json:
        console.print_json(told)
        return
    out.print(
        f"{len(planned.versions):,} versions of {planned.documents:,} documents, {planned.chunks:,} chunks "
        + (
            f"are out of service and blocked; withdrawal {planned.withdrawal_id}" if yes else "would go out of service."
        ),
        soft_wrap=True,
    )
    _say_unvouched(planned.unvouched)
    if not yes:
        out.print('Nothing was changed. To do it: the same with [bold]--yes --reason "…"[/bold]')
    elif told.get("still_wrong") == {planned.traces[0]: True}:
        err.print(
            "[yellow]still wrong[/yellow]: asked again, the RAG model gives the reported answer; look at what it retrieves now"
        )


def _settings(judge: JudgeName | None) -> Any:
    from corpus_guard.settings import load_settings

    return load_settings(**({"judge": judge.value} if judge else {}))


def _complaints(
    guard: Guard,
    run_id: str,
    report: str | None,
    query: str,
    output: str,
    correct: str | None,
    reporter: str,
    keep: bool,
) -> list[Complaint]:
    from corpus_guard.ledger.ledger import now
    from corpus_guard.traceback import reports
    from corpus_guard.traceback.night import MOST
    from corpus_guard.traceback.suspects import Complaint

    if report is not None:
        return [reports.find_report(guard.ledger, report).complaint]
    if not (query or output):
        return [one.complaint for one in reports.open_reports(guard.ledger, MOST)]
    try:
        filing = reports.checked(
            reports.Filing(query, output, now(), correct, reporter, origin="guard trace --keep"), now()
        )
    except errors.HostileInput as error:
        raise errors.Misuse(str(error)) from error
    if not keep:
        return [Complaint(filing.query, filing.output, filing.correct)]
    added = reports.add(guard.ledger, filing, run_id)
    return [reports.find_report(guard.ledger, added.report_id).complaint]


def _trace(
    guard: Guard,
    run_id: str,
    complaints: list[Complaint],
    k: int | None,
    when: datetime | None,
    progress: Callable[[str, int, int | None], None],
) -> list[Trace]:
    from corpus_guard.traceback.making import make_answers, make_judge
    from corpus_guard.traceback.running import trace

    if not complaints:
        return []
    progress("loading models", 0, len(complaints))
    judge = make_judge(guard.settings, guard.models, guard.ledger)
    answers = make_answers(guard.settings, guard.models, guard.ledger)
    done = []
    for number, complaint in enumerate(complaints):
        progress("tracing", number, len(complaints))
        done.append(trace(guard, complaint, run_id, judge=judge, answers=answers, k=k, as_of=when))
    return done


def _where_now(guard: Guard, query: str, done: Trace) -> dict[str, list[dict[str, Any]]]:
    from corpus_guard.traceback.running import where_now

    found = where_now(guard, query, done)
    return {chunk: [one.as_dict() for one in places] for chunk, places in found.items()}


def _moment(text: str | None) -> datetime | None:
    """A day means its end; without a zone it is UTC."""
    if text is None:
        return None
    now = datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise errors.Misuse(
            f"--as-of {text[:40]!r}: expected a date such as 2026-03-01, or 2026-03-01T12:00Z"
        ) from None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    if len(text) <= len("2026-03-01") and found <= now:
        found = min(found + timedelta(days=1), now)
    return found


def _show(done: Trace, correct: str | None = None) -> None:
    outcome = str(done.outcome or "unfinished")
    title = f"{len(done.judged):,} texts judged in {done.iterations:,} rounds"
    rows = [_row(one) for one in done.judged[:SHOWN]]
    out.print(console.table(title, ("label", "score", "round", "document"), rows, right=("score", "round")))
    if len(done.judged) > SHOWN:
        out.print(f"{len(done.judged) - SHOWN:,} more; --json gives all")
    for one in done.accused[:SHOWN]:
        out.print(f"[bold]Why[/bold] {visible(one.uri)}: {visible(one.explanation[:WHY])}", soft_wrap=True)
    sure = "" if done.probability is None else f"; probability of an attack {done.probability:.2f}"
    out.print(f"[bold]Outcome[/bold] {styled(outcome, STYLES)}: {MEANT[outcome]}{sure}", soft_wrap=True)
    if done.missing:
        out.print(f"{done.missing:,} chunks that were served then are erased now and could not be judged.")
    if done.failure:
        err.print(f"[red]failed[/red] {visible(done.failure)}", soft_wrap=True)
    for name, answer in (("Before", done.answer_before), ("After", done.answer_after), ("Right", correct)):
        if answer is not None:
            out.print(f"[bold]{name:7}[/bold] {visible(answer[:ANSWER])}", soft_wrap=True)
    if done.activations and done.outcome is not None:
        out.print(_second(done.activations), soft_wrap=True)
    _say_next(done)


def _second(heard: dict[str, Any]) -> str:
    """What the second witness says."""
    margin = "" if heard["margin"] is None else f" (margin {heard['margin']:+.2f})"
    return f"[bold]Activations[/bold] {styled(heard['vote'], STYLES)}{margin}: {visible(heard['reason'][:WHY])}"


def _show_now(done: Trace, now: dict[str, list[dict[str, Any]]]) -> None:
    """Where the accused texts of an earlier day lie today."""
    names = {one.chunk_id: one.uri for one in done.accused}
    rows = [
        (
            visible(names[chunk]),
            visible(one["uri"]),
            one["how"],
            f"{one['confidence']:.2f}",
            visible(one["chunk_id"]),
        )
        for chunk, places in now.items()
        for one in places[:NOW]
    ]
    if rows:
        columns = ("accused then", "lies today in", "found by", "confidence", "chunk")
        out.print(console.table("The corpus of now", columns, rows, right=("confidence",)))
    elif now:
        out.print("None of the accused texts is in the corpus of now, in whatever form.")


def _row(one: Line) -> tuple[str, ...]:
    source, uri = (one.source, one.uri) if one.version_id else ("in no ledger", one.uri)
    return (
        styled(one.label.value, STYLES),
        f"{one.score:.2f}",
        str(one.iteration),
        f"{visible(source)} · {visible(uri)}",
    )


def _say_next(done: Trace) -> None:
    if done.outcome != "traced":
        return
    if done.trace_id:
        out.print(
            f'Out of service: [bold]guard trace withdraw {done.trace_id[:8]} --reason "…" --yes[/bold]', soft_wrap=True
        )
    else:
        out.print("Nothing was kept. To withdraw what was traced, the same with [bold]--keep[/bold]")
    chunk = next((one.chunk_id for one in done.accused if one.version_id), None)
    if chunk:
        out.print(f'For good: [bold]guard purge --chunk {visible(chunk)} … --reason "…"[/bold]', soft_wrap=True)
    _say_unvouched([one.chunk_id for one in done.accused if not one.version_id])


def _say_unvouched(ids: Any) -> None:
    if ids:
        shown = ", ".join(visible(one) for one in list(ids)[:3])
        err.print(
            f"[red]in no ledger[/red]: {len(ids):,} records were written or changed past the guard, first {shown}; `guard verify`, then "
            "`guard incident heal` removes them",
            soft_wrap=True,
        )


def _show_list(found: list[Trace]) -> None:
    rows = [
        (
            one.trace_id[:8],
            one.report_id[:8],
            one.started_at.isoformat()[:19],
            styled(str(one.outcome or "unfinished"), STYLES),
            "" if one.probability is None else f"{one.probability:.2f}",
            ", ".join(f"{count:,} {label}" for label, count in one.counts.items() if count),
            styled((one.activations or {}).get("vote", ""), STYLES),
            one.as_of.isoformat()[:16] if one.as_of else "now",
        )
        for one in found
    ]
    columns = ("trace", "report", "started (UTC)", "outcome", "attack", "texts", "activations", "corpus of")
    out.print(console.table("Traces", columns, rows, right=("attack",)))


def _summary(one: Trace) -> dict[str, Any]:
    return {name: value for name, value in one.as_dict().items() if name != "judged"}
