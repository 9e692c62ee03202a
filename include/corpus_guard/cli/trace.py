"""`guard trace`: trace a wrong answer to the texts that caused it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import Cell, print_table, say, say_aside, say_rest, styled, visible
from corpus_guard.cli.options import (
    CorrectAnswer,
    Json,
    MaxRows,
    OwnKey,
    PermanentReason,
    Reporter,
    Reviewer,
    review_act,
)
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural
from corpus_guard.ledger.states import Purpose

if TYPE_CHECKING:
    from corpus_guard.removal.restoring import WithdrawnDocument
    from corpus_guard.traceback.activations.witness import TestimonyRecord
    from corpus_guard.traceback.proposals import ProposedDocument, WithdrawalProposal
    from corpus_guard.traceback.records import JudgedTextRow, Trace
    from corpus_guard.traceback.retrieval import Complaint

OUTCOME_STYLES = {
    "poisoned": "red", "benign": "green", "undecided": "yellow",
    "traced": "bold red", "not_poisoning": "green", "exhausted": "yellow", "judge_failed": "yellow", "unfinished": "dim",
    "clean": "green", "unsure": "yellow", "skipped": "dim",
}  # fmt: skip
TEXTS_SHOWN = 60  # judged texts; --json has all
ANSWER_LENGTH = 400  # characters shown of an answer
NAMES_SHOWN = 10  # documents named in a command to copy
PLACES_SHOWN = 3  # places of now shown for one accused text
SUSPICIOUS_SCORE = 0.5  # of a text, from which its acquittal is explained
EXPLANATION_LENGTH = 200  # characters shown of an explanation
NOT_REPRODUCED = (
    "[yellow]not reproduced[/yellow]: the RAG model, asked again, does not give the reported answer. Nothing is proposed "
    "from this report alone; withdraw only what you have read"
)
OUTCOME_MEANINGS = {
    "traced": "these texts caused the answer",
    "not_poisoning": "no planted text explains this answer",
    "exhausted": "no benign text is left, or the limit of judged texts was reached",
    "undecided": "the judge is not sure, or the model's activations contradict it",
    "judge_failed": "the judge or the RAG model gave no usable answer",
    "unfinished": "the run did not finish",
}


class JudgeName(StrEnum):
    """Judge of a trace."""

    EMBEDDED = "embedded"
    LLM = "llm"


class _DefaultCommandGroup(TyperGroup):
    """Command group in which `guard trace REPORT` means `guard trace follow REPORT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command if none is named."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["follow", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_DefaultCommandGroup,
    help="""Trace a wrong answer to the texts that caused it.

Example: `guard trace --query "How deep can the OX-12 go?" --output "1200 metres"`

Without a command it is `guard trace follow`, which also takes the id of a report, or `--open` for every open report.""",
    no_args_is_help=True,
)

TraceName = Annotated[str, typer.Argument(help="Id of the trace, or a prefix of it.", metavar="TRACE")]
Documents = Annotated[
    list[str] | None,
    typer.Option("--document", "-d", help="Document: URI, source/URI or id of its version; repeatable."),
]


@app.command("follow")
def follow(
    reporter: Reporter,
    report: Annotated[str | None, typer.Argument(help="Id of a report, or a prefix of it.", metavar="REPORT")] = None,
    query: Annotated[str, typer.Option("--query", "-q", help="Question, if no report is given.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="The wrong answer.")] = "",
    correct: CorrectAnswer = None,
    every: Annotated[bool, typer.Option("--open", help="Trace every open report.")] = False,
    as_of: Annotated[
        str | None,
        typer.Option(help="Trace the corpus of this time: 2026-03-01 (end of the day, UTC) or 2026-03-01T12:00Z."),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k", "-k", min=1, max=100, help="Number of texts your application retrieves. Default: the setting."
        ),
    ] = None,
    judge: Annotated[JudgeName | None, typer.Option(help="Judge. Default: the setting.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Record the question as a report, and the trace.")] = False,
    as_json: Json = False,
) -> None:
    """Trace a report: judge the retrieved texts until the rest is benign, and name the texts that caused the answer.

    `guard trace` without a command runs `guard trace follow`. A question given with --query leaves no record
    unless `--keep` is given. Nothing is removed.

    Example: `guard trace --query "How deep can the OX-12 go?" --output "1200 metres"`
    """
    from corpus_guard.settings import load_settings
    from corpus_guard.traceback.records import read_carrying_sentences

    if sum((report is not None, bool(query or output), every)) != 1:
        raise errors.Misuse("give exactly one of: the id of a report, --query with --output, or --open")
    when = _parse_moment(as_of)
    settings = load_settings(judge=judge.value) if judge else load_settings()
    with Deployment(settings) as deployment, console.progress(not as_json) as progress:
        run_id = new_run_id("trace")
        complaints = _complaints(deployment, run_id, report, query, output, correct, reporter, keep)
        traces = _trace(deployment, run_id, complaints, k, when, progress)
        now = _locate_now(deployment, complaints[0].query, traces[0]) if when and not every else {}
        sentences = {} if every else read_carrying_sentences(deployment.ledger, deployment.storage, traces[0])
    if as_json:
        rows = [trace.as_dict() for trace in traces]
        console.print_json(rows if every else {**rows[0], "now": now})
    elif every:
        _show_list(traces)
    else:
        _show(traces[0], complaints[0], sentences)
        _show_now(traces[0], now)


@app.command("list")
def list_(
    report: Annotated[str | None, typer.Option(help="Only traces of this report.")] = None,
    limit: MaxRows = 50,
    as_json: Json = False,
) -> None:
    """List past traces, newest first.

    Example: `guard trace list --report 3f9ac1d2`
    """
    from corpus_guard.traceback.records import list_traces
    from corpus_guard.traceback.reports import find_report

    with Deployment() as deployment:
        only = find_report(deployment.ledger, report).report_id if report else None
        traces = list_traces(deployment.ledger, limit=limit, report_id=only)
    if as_json:
        console.print_json([_summary(trace) for trace in traces])
    else:
        _show_list(traces)


@app.command("show")
def show(name: TraceName, as_json: Json = False) -> None:
    """Show one trace with every judged text.

    Example: `guard trace show 3f9ac1d2`
    """
    from corpus_guard.traceback.records import find_trace, read_carrying_sentences
    from corpus_guard.traceback.reports import find_report

    with Deployment() as deployment:
        trace = find_trace(deployment.ledger, name)
        complaint = find_report(deployment.ledger, trace.report_id).complaint
        sentences = read_carrying_sentences(deployment.ledger, deployment.storage, trace)
    if as_json:
        console.print_json(trace.as_dict())
    else:
        _show(trace, complaint, sentences)


@app.command("withdraw")
def withdraw(
    name: TraceName,
    by: Reviewer,
    document: Documents = None,
    reason: PermanentReason = "",
    refuse: Annotated[
        bool,
        typer.Option("--refuse", help="Keep the documents in service; the same report does not accuse them again."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Execute. Without it, the command only shows what would be withdrawn.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Withdraw accused documents, with what has the same bytes or text, and block them. The evidence stays on disk.

    Without `--yes` it lists every accused document and changes nothing. With it, name each document with `--document`.
    `guard trace restore` takes a withdrawal back; `guard purge` erases permanently.

    Example: `guard trace withdraw 3f9ac1d2 --document forum/7.md --reason "planted" --yes`
    """
    from corpus_guard.traceback import withdrawal_plan as withdrawing
    from corpus_guard.traceback.proposals import list_proposals
    from corpus_guard.traceback.records import find_trace, read_carrying_sentences

    if yes and not document:
        raise errors.Misuse("name each document with --document; without --yes, the command lists them")
    run_id = new_run_id("withdraw")
    with Deployment() as deployment:
        trace = find_trace(deployment.ledger, name)
        trace_id, sentences = trace.trace_id, read_carrying_sentences(deployment.ledger, deployment.storage, trace)
        withdrawing.plan_withdrawal(deployment.ledger, [trace_id])  # refuses a trace that accuses nobody
        proposals = list_proposals(deployment.ledger, [trace_id])
        # What an earlier call withdrew is withdrawn again: if it was killed, this one retires and seals.
        earlier = _withdrawn_before(deployment, trace, document) if yes and document and not refuse else []
        undecided = [name for name in document or [] if not any(_is_named(each, [name]) for each in earlier)]
        chosen = [] if earlier and not undecided else _chosen_proposals(proposals, undecided)
        named = [each.version_id for each in chosen] + [each.version_id for each in earlier]
        planned = withdrawing.plan_withdrawal(deployment.ledger, [trace_id], named)
        result: dict[str, Any] = {
            "dry_run": not yes,
            "proposals": [proposal.as_dict() for proposal in proposals],
            "plan": planned.as_dict(),
        }
        if yes and refuse:
            withdrawing.refuse_withdrawal(deployment.ledger, run_id, planned, by)
        elif yes:
            result |= withdrawing.withdraw(
                deployment.ledger,
                deployment.storage,
                deployment.store,
                deployment.settings,
                planned,
                run_id=run_id,
                policy_digest=deployment.screening.digest,
                by=by,
                reason=reason,
            )
            result["still_wrong"] = deployment.ask_again(planned.traces, run_id, Purpose.WITHDRAW)
    if as_json:
        console.print_json(result)
        return
    _show_proposals(proposals, chosen, sentences)
    done = "stay in service; refused" if refuse else "withdrawn and blocked"
    would = "would be refused." if refuse else "would be withdrawn."
    say(
        f"{plural(len(planned.versions), 'version')} of {plural(planned.documents, 'document')} ({plural(planned.chunks, 'chunk')}) "
        + (f"{done}; withdrawal {planned.withdrawal_id}" if yes else would)
    )
    _say_unvouched(planned.unvouched)
    if not yes:
        say(_how_to_withdraw(trace_id, chosen))
    elif not refuse:
        say(f'To take it back: [bold]guard trace restore {trace_id[:8]} --reason "…" --yes[/bold]')
    _say_still_wrong(result)


@app.command("restore")
def restore(
    by: Reviewer,
    name: Annotated[
        str | None,
        typer.Argument(help="Id of the trace whose withdrawal is taken back, or a prefix of it.", metavar="TRACE"),
    ] = None,
    document: Documents = None,
    reason: PermanentReason = "",
    key: OwnKey = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Execute. Without it, the command only lists what can be restored.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring back what a withdrawal took out of service: unblock it, serve it again, and clear it of its reports.

    Without `--yes` it lists what was withdrawn and changes nothing. Where a release needs two people, so does this. What was purged
    cannot be restored.

    Example: `guard trace restore 3f9ac1d2 --document forum/7.md --reason "it is right" --yes`
    """
    from corpus_guard.removal.restoring import list_withdrawn, request_restore
    from corpus_guard.traceback.records import find_trace

    run_id = new_run_id("restore")
    with Deployment() as deployment:
        report_id = find_trace(deployment.ledger, name).report_id if name else None
        withdrawn = list_withdrawn(deployment.ledger, report_id=report_id)
        chosen = _chosen_withdrawn(withdrawn, document, everything=name is not None)
        result: dict[str, Any] = {"dry_run": not yes, "withdrawn": [each.as_dict() for each in withdrawn]}
        waiting = 0
        if yes:
            decided = request_restore(
                deployment.ledger,
                deployment.policy.review,
                [each.version_id for each in chosen],
                review_act(deployment, by, key, reason),
            )
            waiting = sum(not decision.is_complete for decision in decided)
            done = deployment.restore(run_id)
            result |= {**done, "waiting": waiting, "decisions": [decision.as_dict() for decision in decided]}
            if done["restored"]:
                about = {report for each in chosen for report in each.reports}
                result["still_wrong"] = deployment.ask_again(newest_traces(deployment, about), run_id, Purpose.RESTORE)
    if as_json:
        console.print_json(result)
        return
    _show_withdrawn(withdrawn, chosen)
    if not yes:
        say('Nothing was changed. To execute, repeat with [bold]--yes --reason "…"[/bold]')
        return
    say(f"{plural(result['restored'], 'document')} restored ({plural(result['published'], 'chunk')} published).")
    if waiting:
        say(
            f"{plural(waiting, 'document')}: recorded. A second reviewer must also restore {'it' if waiting == 1 else 'them'}."
        )
    _say_still_wrong(result)


def _chosen_proposals(proposals: Sequence[WithdrawalProposal], names: Sequence[str] | None) -> list[WithdrawalProposal]:
    """Return the proposals that name one of these documents; without names, those that are chosen by default.

    Raises:
        Misuse: a name fits no proposed document, or those of several sources.
    """
    if not names:
        return [proposal for proposal in proposals if proposal.ticked]
    for name in names:
        named = [each for proposal in proposals for each in proposal.documents if _is_named(each, [name])]
        if not named:
            raise errors.Misuse(
                f"--document {name[:200]!r}: not proposed by this trace, or decided before; without --yes, it lists what is"
            )
        if len({each.source for each in named}) > 1:
            raise errors.Misuse(f"--document {name[:200]!r}: several sources have it; write SOURCE/{name[:200]}")
    return [proposal for proposal in proposals if any(_is_named(each, names) for each in proposal.documents)]


def _withdrawn_before(deployment: Deployment, trace: Trace, names: Sequence[str]) -> list[WithdrawnDocument]:
    """Return the documents with these names that the trace accuses and somebody withdrew already."""
    from corpus_guard.removal.restoring import list_withdrawn

    accused = {row.version_id for row in trace.accused}
    return [
        each
        for each in list_withdrawn(deployment.ledger, version_ids=accused)
        if each.version_id in accused and each.status == "withdrawn" and _is_named(each, names)
    ]


def _how_to_withdraw(trace_id: str, chosen: Sequence[WithdrawalProposal]) -> str:
    """Return what to type to withdraw what is chosen."""
    accused = [each.documents[0] for each in chosen]
    paths = {each.version_id: f"{each.source}/{each.uri}" for each in accused}
    # A name with characters that a terminal hides cannot be copied; the version's id can.
    names = [shlex.quote(path) if visible(path) == path else version_id for version_id, path in paths.items()]
    options = "".join(f" --document {name}" for name in names[:NAMES_SHOWN]) or " --document SOURCE/URI"
    others = " …" if len(names) > NAMES_SHOWN else ""
    return (
        f"Nothing was changed. To execute: [bold]guard trace withdraw {trace_id[:8]}{options}{others} "
        '--reason "…" --yes[/bold]'
    )


def _chosen_withdrawn(
    withdrawn: Sequence[WithdrawnDocument], names: Sequence[str] | None, *, everything: bool
) -> list[WithdrawnDocument]:
    """Return the withdrawn documents with these names; without names, all that can be restored if `everything`.

    Raises:
        Misuse: a name fits nothing that was withdrawn.
    """
    if not names:
        return [each for each in withdrawn if everything and not each.problem]
    for name in names:
        if not any(_is_named(each, [name]) for each in withdrawn):
            raise errors.Misuse(
                f"--document {name[:200]!r}: it is not among the withdrawn documents; without --yes, the command lists them"
            )
    return [each for each in withdrawn if _is_named(each, names)]


def _is_named(document: ProposedDocument | WithdrawnDocument, names: Sequence[str]) -> bool:
    return bool({document.uri, f"{document.source}/{document.uri}", document.version_id} & set(names))


def _show_proposals(
    proposals: Sequence[WithdrawalProposal], chosen: Sequence[WithdrawalProposal], sentences: Mapping[str, str]
) -> None:
    rows = [
        (
            proposal in chosen,
            proposal.score,
            document.trust,
            f"{document.source} · {document.uri}",
            document.served_since or "not served",
            document.retrievals,
        )
        for proposal in proposals
        for document in proposal.documents
    ]
    columns = ("chosen", "score", "trust", "document", "served since (UTC)", "retrieved")
    print_table("Accused documents", columns, rows)
    for proposal in proposals[:TEXTS_SHOWN]:
        say(
            f"[bold]Why[/bold] {visible(proposal.documents[0].uri)}: {visible(proposal.explanation[:EXPLANATION_LENGTH])}"
        )
        if sentence := sentences.get(proposal.chunk_id):
            say(f"  [bold]Sentence[/bold] “{visible(sentence[:EXPLANATION_LENGTH])}”")
    if proposals and not any(proposal.reproduced for proposal in proposals):
        say_aside(NOT_REPRODUCED)


def _show_withdrawn(withdrawn: Sequence[WithdrawnDocument], chosen: Sequence[WithdrawnDocument]) -> None:
    rows = [
        (
            each in chosen,
            each.status.replace("_", " "),
            each.trust,
            f"{each.source} · {each.uri}",
            each.withdrawn_at,
            each.withdrawn_by,
            each.version_id[:8],
        )
        for each in withdrawn
    ]
    columns = ("chosen", "state", "trust", "document", "withdrawn (UTC)", "by", "version")
    print_table("Withdrawn documents", columns, rows)
    for each in withdrawn:
        if each.problem:
            say(f"{visible(each.uri)}: {each.problem}")


def _say_still_wrong(result: Mapping[str, Any]) -> None:
    if any(result.get("still_wrong", {}).values()):
        say_aside(
            "[yellow]still wrong[/yellow]: the RAG model still gives the reported answer; check what it retrieves now"
        )


def _complaints(
    deployment: Deployment,
    run_id: str,
    report: str | None,
    query: str,
    output: str,
    correct: str | None,
    reporter: str,
    keep: bool,
) -> list[Complaint]:
    from corpus_guard.traceback import reports
    from corpus_guard.traceback.batch_run import MAX_REPORTS
    from corpus_guard.traceback.filings import Filing, validate_filing
    from corpus_guard.traceback.retrieval import Complaint

    if report is not None:
        return [reports.find_report(deployment.ledger, report).complaint]
    if not (query or output):
        return [open_report.complaint for open_report in reports.list_open_reports(deployment.ledger, MAX_REPORTS)]
    moment = datetime.now(UTC)
    try:
        filing = validate_filing(Filing(query, output, moment, correct, reporter, origin="guard trace --keep"), moment)
    except errors.HostileInput as error:
        raise errors.Misuse(str(error)) from error
    if not keep:
        return [Complaint(filing.query, filing.output, filing.correct)]
    added = reports.file_report(deployment.ledger, filing, run_id)
    return [reports.find_report(deployment.ledger, added.report_id).complaint]


def _trace(
    deployment: Deployment,
    run_id: str,
    complaints: list[Complaint],
    k: int | None,
    when: datetime | None,
    progress: Callable[[str, int, int | None], None],
) -> list[Trace]:
    from corpus_guard.traceback.judge_selection import create_judge, create_rag_model
    from corpus_guard.traceback.trace_run import CorpusAccess, run_trace

    if not complaints:
        return []
    progress("loading models", 0, len(complaints))
    judge = create_judge(deployment.settings, deployment.models, deployment.ledger)
    rag_model = create_rag_model(deployment.settings, deployment.models, deployment.ledger)
    access = CorpusAccess(deployment.ledger, deployment.storage, deployment.store, deployment.models)
    done = []
    for number, complaint in enumerate(complaints):
        progress("tracing", number, len(complaints))
        done.append(
            run_trace(
                access,
                complaint,
                run_id,
                judge=judge,
                k=k or deployment.settings.traceback_k,
                rag_model=rag_model,
                as_of=when,
            )
        )
    return done


def _locate_now(deployment: Deployment, query: str, done: Trace) -> dict[str, list[dict[str, Any]]]:
    from corpus_guard.traceback.trace_run import CorpusAccess, locate_accused_texts

    access = CorpusAccess(deployment.ledger, deployment.storage, deployment.store, deployment.models)
    locations = locate_accused_texts(access, query, done)
    return {chunk: [place.as_dict() for place in places] for chunk, places in locations.items()}


def _parse_moment(text: str | None) -> datetime | None:
    """Parse a point in time: a day means its end, and without a zone it is UTC."""
    if text is None:
        return None
    now = datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise errors.Misuse(
            f"--as-of {text[:40]!r}: expected a date such as 2026-03-01, or 2026-03-01T12:00Z"
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    if len(text) <= len("2026-03-01") and moment <= now:
        moment = min(moment + timedelta(days=1), now)
    return moment


def _show(trace: Trace, complaint: Complaint, sentences: Mapping[str, str]) -> None:
    for name, words in (("Question", complaint.query), ("Reported", complaint.output), ("Right", complaint.correct)):
        if words is not None:
            say(f"[bold]{name:8}[/bold] {visible(words[:ANSWER_LENGTH])}")
    if trace.reproduced is False:
        say(NOT_REPRODUCED)
    outcome = str(trace.outcome or "unfinished")
    title = f"{plural(len(trace.judged), 'text')} judged, rounds: {trace.iterations:,}"
    rows = [_row(text) for text in trace.judged[:TEXTS_SHOWN]]
    print_table(title, ("label", "score", "round", "document"), rows)
    say_rest(trace.judged, TEXTS_SHOWN)
    named = (
        [text for text in trace.judged if text.label.value == "undecided"] if outcome == "undecided" else trace.accused
    )
    for text in named[:TEXTS_SHOWN]:
        say(f"[bold]Why[/bold] {visible(text.uri)}: {visible(text.explanation[:EXPLANATION_LENGTH])}")
        _show_carrier(text, sentences)
    acquitted = [text for text in trace.judged if text.label.value == "benign" and text.score >= SUSPICIOUS_SCORE]
    for text in acquitted[:TEXTS_SHOWN]:
        say(f"[bold]Why not[/bold] {visible(text.uri)}: {visible(text.explanation[:EXPLANATION_LENGTH])}")
    meaning = _meaning(trace, acquitted=bool(acquitted))
    sure = "" if trace.probability is None else f"; probability of an attack {trace.probability:.2f}"
    say(f"[bold]Outcome[/bold] {styled(outcome, OUTCOME_STYLES)}: {meaning}{sure}")
    if trace.missing:
        say(f"{plural(trace.missing, 'chunk')} of that time could not be judged: erased.")
    if trace.failure:
        say_aside(f"[red]failed[/red] {visible(trace.failure)}")
    for name, answer in (("Before", trace.answer_before), ("After", trace.answer_after)):
        if answer is not None:
            say(f"[bold]{name:7}[/bold] {visible(answer[:ANSWER_LENGTH])}")
    if trace.activations and trace.outcome is not None:
        say(_activation_line(trace.activations))
    _say_next(trace)


def _meaning(trace: Trace, *, acquitted: bool) -> str:
    """Return what the outcome of a trace means."""
    outcome = str(trace.outcome or "unfinished")
    if not (trace.judged or trace.failure):
        return "nothing is served that could be judged"
    if outcome == "traced" and trace.reproduced is False:
        return "the judge finds that these texts state the reported claim"
    reasons = {text.explanation for text in trace.judged}
    if outcome == "not_poisoning" and len(reasons) == 1:  # one for all: it is about the report
        return visible(reasons.pop()[:EXPLANATION_LENGTH])
    if outcome == "not_poisoning" and acquitted:
        return "what looks planted by itself is not accused; the reasons are above"
    return OUTCOME_MEANINGS[outcome]


def _show_carrier(text: JudgedTextRow, sentences: Mapping[str, str]) -> None:
    """Print the sentence that carries an accusation, and what asking without it showed."""
    if text.carrier is None:
        return
    place = f"characters {text.carrier.start:,} to {text.carrier.end:,}"
    sentence = sentences.get(text.chunk_id, "")
    quotation = f"“{visible(sentence[:EXPLANATION_LENGTH])}” ({place})" if sentence else place
    effect = "" if text.carrier.changes_answer is None else "; without it, the model still gives the reported answer"
    if text.carrier.changes_answer:
        effect = "; without it, the model no longer gives the reported answer"
    say(f"  [bold]Sentence[/bold] {quotation}{effect}")


def _activation_line(testimony: TestimonyRecord) -> str:
    """Return the line on the activation probe's vote."""
    margin = "" if testimony["margin"] is None else f" (margin {testimony['margin']:+.2f})"
    reason = visible(testimony["reason"][:EXPLANATION_LENGTH])
    return f"[bold]Activations[/bold] {styled(testimony['vote'], OUTCOME_STYLES)}{margin}: {reason}"


def _show_now(trace: Trace, now: dict[str, list[dict[str, Any]]]) -> None:
    """Show where the accused texts of an earlier corpus are today."""
    names = {place.chunk_id: place.uri for place in trace.accused}
    rows = [
        (names[chunk], place["uri"], place["how"], place["confidence"], place["chunk_id"])
        for chunk, places in now.items()
        for place in places[:PLACES_SHOWN]
    ]
    if rows:
        columns = ("accused text", "found in", "found by", "confidence", "chunk")
        print_table("Today's corpus", columns, rows)
    elif now:
        say("No accused text is in today's corpus, in any form.")


def _row(text: JudgedTextRow) -> tuple[Cell, ...]:
    source = text.source if text.version_id else "in no ledger"
    return styled(text.label.value, OUTCOME_STYLES), text.score, text.iteration, f"{source} · {text.uri}"


def _say_next(trace: Trace) -> None:
    if trace.outcome != "traced":
        return
    if trace.trace_id:
        say(f"To see what would be withdrawn: [bold]guard trace withdraw {trace.trace_id[:8]}[/bold]")
    else:
        say("Nothing was recorded. To withdraw these texts, repeat with [bold]--keep[/bold]")
    chunks = [text.chunk_id for text in trace.accused if text.version_id]
    if chunks:
        others = " …" if len(chunks) > 1 else ""
        say(f'To erase: [bold]guard purge --chunk {visible(chunks[0])}{others} --reason "…"[/bold]')
    _say_unvouched([text.chunk_id for text in trace.accused if not text.version_id])


def _say_unvouched(ids: Any) -> None:
    if ids:
        shown = ", ".join(visible(chunk_id) for chunk_id in list(ids)[:3])
        say_aside(
            f"[red]in no ledger[/red]: {len(ids):,} records were written or changed past the guard, such as {shown}; `guard verify`, then "
            "`guard incident heal` removes them"
        )


def _show_list(traces: list[Trace]) -> None:
    rows = [
        (
            trace.trace_id[:8],
            trace.report_id[:8],
            trace.started_at,
            styled(str(trace.outcome or "unfinished"), OUTCOME_STYLES),
            "" if trace.probability is None else f"{trace.probability:.2f}",
            ", ".join(f"{count:,} {label}" for label, count in trace.counts.items() if count),
            styled(_vote(trace), OUTCOME_STYLES),
            trace.as_of,
        )
        for trace in traces
    ]
    columns = ("trace", "report", "started (UTC)", "outcome", "attack", "texts", "activations", "corpus of")
    print_table("Traces", columns, rows, right=("attack",))


def _vote(trace: Trace) -> str:
    """Return what the activations say; empty if they were not looked at."""
    vote = trace.activations["vote"] if trace.activations else ""
    return "" if vote == "skipped" else str(vote)


def _summary(trace: Trace) -> dict[str, Any]:
    return {name: value for name, value in trace.as_dict().items() if name != "judged"}


def newest_traces(deployment: Deployment, report_ids: Iterable[str]) -> list[str]:
    """Return the newest trace of each report that has one."""
    from corpus_guard.traceback.records import list_traces

    newest = (list_traces(deployment.ledger, report_id=report_id, limit=1) for report_id in sorted(report_ids))
    return [trace.trace_id for traces in newest for trace in traces]


def traces_to_ask(deployment: Deployment, names: Sequence[str]) -> list[str]:
    """Return the newest trace of each of these reports.

    Raises:
        Misuse: a report was never traced: its record has no place for an answer.
    """
    from corpus_guard.traceback.reports import find_report

    trace_ids = []
    for name in names:
        report_id = find_report(deployment.ledger, name).report_id
        traced = newest_traces(deployment, [report_id])
        if not traced:
            raise errors.Misuse(
                f"--ask {name[:64]}: this report was never traced; run `guard trace {report_id[:8]}` first"
            )
        trace_ids += traced
    return trace_ids
