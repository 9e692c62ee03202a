"""What Airflow tasks call: a step of the library inside a guard that is opened and closed for it.

Airflow is imported inside functions only: DAG files import this when they are parsed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from corpus_guard.airflow_runs import annotate, event_of, gauge, lineage, note, run_id

if TYPE_CHECKING:
    from corpus_guard.intake.sources.connections import Connection as SourceConnection
    from corpus_guard.proof.incidents import Incident

log = logging.getLogger(__name__)

APPROVE = "Approve"
"""The one answer that lets something be withdrawn."""


def step(name: str, *arguments: Any) -> Any:
    """Run one step of `corpus_guard.refresh.steps` for the DAG run of the current task."""
    from corpus_guard.guard import Guard
    from corpus_guard.refresh import steps

    with Guard(connections=source_connection) as guard:
        result = getattr(steps, name)(guard, run_id(), *arguments)
    if isinstance(result, dict):
        log.info("%s", {key: value for key, value in result.items() if isinstance(value, int)})
    return result


def seal_refresh(taken: Any, published: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Seal a refresh, put its counts on the run, in metrics and in lineage; what the events of *corpus* and *quarantine* say.

    Raises:
        SourceUnavailable: a source could not be listed; the others are sealed, and the note says so.
    """
    from corpus_guard.errors import SourceUnavailable
    from corpus_guard.guard import Guard
    from corpus_guard.ledger.runs import counts_of, sources_of
    from corpus_guard.refresh import steps

    with Guard(connections=source_connection) as guard:
        try:
            sealed: Mapping[str, Any] = steps.seal(guard, run_id(), list(taken or []), list(published or []))
        except SourceUnavailable:
            annotate(counts_of(guard.ledger, run_id()), "a source could not be listed; of the others: ")
            raise
        lineage(guard, sealed, sources_of(guard.ledger, run_id()))
    annotate(sealed)
    corpus = ("documents", "accepted", "unchanged", "vanished", "published", "retired")
    return (
        {**event_of(sealed, *corpus), "chunks": sealed["served"]},
        event_of(sealed, "quarantined", "rejected"),
    )


def source_connection(name: str) -> SourceConnection:
    """What a source of ``sources.yaml`` calls its connection, out of Airflow's; out of the environment where Airflow has none.

    Raises:
        SettingsError: neither has it.
    """
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    from corpus_guard.intake.sources.connections import Connection as Known
    from corpus_guard.intake.sources.connections import from_environment

    try:
        found = Connection.get(name)
    except (AirflowNotFoundException, AirflowRuntimeError):
        return from_environment(name)
    texts = (found.conn_type or "", found.host or "", found.port, found.login or "", found.password or "")
    return Known(name, *texts, found.schema or "", dict(found.extra_dejson or {}))


def decisions_wait() -> bool:
    """Whether a decision has not taken effect yet."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.applying import unapplied

    with Guard() as guard:
        return unapplied(guard.ledger) > 0


def apply_decisions() -> dict[str, Any]:
    """Let every decision take effect; what the event of *corpus* says."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.applying import apply

    with Guard() as guard:
        applied = apply(guard, run_id())
    annotate(applied)
    return event_of(applied, "released", "rejected", "published", "retired")


def verify_corpus() -> str:
    """Verify; the id of the incident when something deviates, "" when everything was checked and holds. Metrics go to MLflow."""
    from corpus_guard.errors import Infrastructure
    from corpus_guard.evaluation.integrity import track
    from corpus_guard.guard import Guard
    from corpus_guard.proof.incidents import examine, open_incident

    with Guard() as guard:
        examined = examine(guard)
        found = examined.found
        log.info("%s", {key: value for key, value in found.as_dict().items() if key != "deviations"})
        try:
            track(guard.settings, found)
        except Infrastructure as error:
            log.warning("%s; the figures are in this log", error)  # what was verified stays verified
        gauge("integrity.deviations", len(found.deviations))
        gauge("integrity.records", found.records)
        if examined.clean:
            with guard.ledger.write() as connection:
                told = {"records": found.records, "vectors": found.queried, "events": found.events}
                guard.ledger.event(connection, "verified", "corpus", run_id(), **told)
            note(f"holds: {found.records:,} records, {found.queried:,} vectors, {found.events:,} events")
            return ""
        incident = open_incident(guard, run_id(), examined.unanswered or found.deviations)
    note(_told(incident))
    return incident.incident_id


def heal_incident(incident: str) -> str:
    """Undo what can be undone and verify again; the id of the incident that is left, "" when nothing is."""
    from corpus_guard.errors import Inconsistent
    from corpus_guard.guard import Guard
    from corpus_guard.proof.healing import heal
    from corpus_guard.proof.incidents import deviations_of, end, examine, find, open_incident
    from corpus_guard.proof.sealing import seal_corpus

    with Guard() as guard:
        known = find(guard.ledger, incident)
        log.info("%s", heal(guard, run_id(), deviations_of(guard, known)))
        try:
            seal_corpus(guard, run_id())
        except Inconsistent as error:
            log.warning("%s", error)  # what is left says so, too
        examined = examine(guard)
        left = examined.unanswered or examined.found.deviations
        rest = None if examined.clean else open_incident(guard, run_id(), left)
        if known.state == "open" and (rest is None or rest.incident_id != known.incident_id):
            reason = f"in part; what is left is incident {rest.incident_id}" if rest else "published again"
            known = end(guard, incident, "healed", by="integrity_nightly", reason=reason, run_id=run_id())
    note(_told(rest or known))
    return rest.incident_id if rest else ""


def accept_incident(incident: str, answer: Mapping[str, Any]) -> None:
    """Take what deviates for the new baseline, in the name of whoever approved it, and seal it."""
    from corpus_guard.guard import Guard
    from corpus_guard.proof.incidents import end, find
    from corpus_guard.proof.sealing import seal_corpus

    by = answered_by(answer)
    with Guard() as guard:
        if find(guard.ledger, incident).state == "open":  # not so when this task is run again
            end(guard, incident, "accepted", by=by, reason="approved in Airflow", run_id=run_id())
        seal_corpus(guard, run_id())


def plan_purge(selection: Mapping[str, Any]) -> dict[str, Any]:
    """What a purge would take out, logged; its identity and its size.

    Raises:
        Misuse: nothing is selected, or no reason is given.
        UnknownSubject: something is not in the ledger.
    """
    from corpus_guard.errors import Misuse
    from corpus_guard.guard import Guard
    from corpus_guard.proof.purge import plan

    if not str(selection["reason"]).strip():
        raise Misuse("parameter reason is empty; say why, it is kept for good")
    with Guard() as guard:
        planned = plan(guard, _selectors(selection))
    log.info("%s", planned.as_dict())
    note(
        f"{len(planned.documents):,} documents with {len(planned.chunks):,} chunks would be purged; waits for approval"
    )
    return {
        "purge_id": planned.purge_id,
        "documents": len(planned.documents),
        "chunks": len(planned.chunks),
        "selection": planned.selectors.as_dict(),
    }


def purge_planned(planned: Mapping[str, Any], answer: Mapping[str, Any], reason: str) -> None:
    """Purge what was approved, in the name of whoever approved it.

    Raises:
        Misuse: the selection now holds other versions than those that were approved.
    """
    from corpus_guard.errors import Misuse
    from corpus_guard.guard import Guard
    from corpus_guard.proof.purge import plan, purge

    with Guard() as guard:
        now = plan(guard, _selectors(planned["selection"]))
        if now.purge_id != planned["purge_id"]:
            raise Misuse(
                f"purge {planned['purge_id']} was approved, the same selection is {now.purge_id} by now: something with this "
                "content came in since. Nothing was purged; trigger the DAG again"
            )
        done = purge(guard, run_id(), now, answered_by(answer), reason)
    log.info("%s", done)
    note(
        f"{planned['documents']:,} documents with {planned['chunks']:,} chunks purged, approved by {answered_by(answer)}"
    )


def _selectors(selection: Mapping[str, Any]) -> Any:
    from corpus_guard.proof.purge import Selectors

    return Selectors(*(tuple(selection.get(name, ())) for name in ("chunks", "documents", "sources", "hashes")))


def _told(incident: Incident) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in incident.counts.items())
    return (
        f"incident {incident.incident_id} is {incident.state}: {counts}; guard incident show {incident.incident_id[:8]}"
    )


def answered_by(answer: Mapping[str, Any]) -> str:
    """Who answered a task that asks a person."""
    return (answer.get("responded_by_user") or {}).get("name") or "unknown"


def import_feedback() -> dict[str, int]:
    """Import the reports of the run's data interval from every source; how many rows became what.

    A run without an interval takes everything. A source that fails does not keep the others from being imported.

    Raises:
        GuardError: the first source that could not be read, after the others.
    """
    from collections import Counter
    from datetime import timedelta

    from airflow.sdk import get_current_context

    from corpus_guard.errors import GuardError
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.importers import Mark, import_reports

    context = get_current_context()
    since, until = context.get("data_interval_start"), context.get("data_interval_end")
    if since and context["dag_run"].run_type == "scheduled":
        since -= timedelta(days=3)  # exporting systems write late; what is there already stays as it is
    counts: Counter[str] = Counter()
    failed: list[GuardError] = []
    with Guard() as guard:
        mark = Mark.parse(guard.settings.feedback_mark)
        for source in guard.settings.feedback_sources:
            try:
                done = import_reports(guard, source, run_id(), since=since, until=until, mark=mark)
            except GuardError as error:
                log.warning("%s; the other sources go on", error)
                failed.append(error)
                continue
            log.info("%s", done.as_dict())
            counts.update({name: value for name, value in done.as_dict().items() if isinstance(value, int)})
    told = ", ".join(f"{counts[name]:,} {name}" for name in ("new", "known", "aside", "unmarked", "outside"))
    note(told if counts else "no source: set CORPUS_GUARD_FEEDBACK")
    if failed:
        raise failed[0]
    return dict(counts)


def pick_reports() -> list[list[str]]:
    """The reports of tonight, in portions; how many wait for another night is logged. Enhancements past their end go first."""
    from corpus_guard.guard import Guard
    from corpus_guard.traceback import enhancement
    from corpus_guard.traceback.night import pick

    with Guard() as guard:
        if enhancement.past_end(guard.ledger):
            enhancement.expire(guard, run_id())
        picked = pick(guard.ledger)
    log.info("%s reports in %s portions, %s left", sum(map(len, picked.portions)), len(picked.portions), picked.left)
    return picked.portions


def trace_reports(report_ids: Sequence[str]) -> list[Any]:
    """Trace a portion; report, trace and outcome of each."""
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.making import make_answers, make_judge
    from corpus_guard.traceback.night import trace_portion

    with Guard() as guard:
        judge = make_judge(guard.settings, guard.models, guard.ledger)
        answers = make_answers(guard.settings, guard.models, guard.ledger)
        return trace_portion(guard, run_id(), report_ids, judge=judge, answers=answers)


def end_night(portions: Sequence[Sequence[str]], results: Sequence[Any]) -> dict[str, Any]:
    """Balance the night, keep its figures in MLflow, and plan what waits to be withdrawn, of this night or an earlier one.

    Returns:
        What a person is asked about; empty where nothing is to be withdrawn.

    Raises:
        Inconsistent: a report was picked and has not ended, or ended twice.
    """
    from corpus_guard.errors import Infrastructure
    from corpus_guard.evaluation import nightly
    from corpus_guard.guard import Guard
    from corpus_guard.traceback import canaries
    from corpus_guard.traceback.making import make_judge
    from corpus_guard.traceback.night import balanced, pick, used, used_by
    from corpus_guard.traceback.withdrawing import plan, unvouched, waiting

    counts, took = balanced(portions, results), used(results)
    with Guard() as guard:
        if counts:
            seen = None
            try:
                judge = make_judge(guard.settings, guard.models, guard.ledger)
                seen = canaries.examine(judge, guard.models.embedder, run_id())
                took = used(results, used_by(judge))
            except Infrastructure as error:
                log.warning("%s; the canaries were not followed", error)
            left = pick(guard.ledger)
            waits = left.left + sum(map(len, left.portions))
            try:
                nightly.track(guard.settings, guard.ledger, run_id(), left=waits, seen=seen, used=took)
            except Infrastructure as error:
                log.warning("%s; the traces are in the ledger", error)  # what was traced stays traced
        planned = plan(guard, waiting(guard.ledger))
        strangers = len(unvouched(guard.ledger, run_id()))
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "no report was open"
    past = f"; {strangers:,} accused records are in no ledger: guard verify" if strangers else ""
    asked = (
        f"; the judge's endpoint: {took['requests']:,.0f} requests, {took['prompt_tokens'] + took['completion_tokens']:,.0f} tokens"
        if took
        else ""
    )
    note(f"{told}; {len(planned.versions):,} versions wait to be withdrawn{past}{asked}")
    if not planned.versions:
        return {}
    sizes = {"documents": planned.documents, "versions": len(planned.versions), "chunks": planned.chunks}
    return {"withdrawal_id": planned.withdrawal_id, "traces": list(planned.traces), **sizes}


def withdraw_traced(planned: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Withdraw what was approved, in the name of whoever approved it, and ask the questions again; keep a refusal.

    Raises:
        Misuse: the same traces now accuse other versions than those that were approved.
    """
    from corpus_guard.errors import Misuse
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.making import make_answers
    from corpus_guard.traceback.withdrawing import ask_again, plan, refuse, withdraw

    by = answered_by(answer)
    with Guard() as guard:
        now = plan(guard, planned["traces"])
        if now.withdrawal_id != planned["withdrawal_id"]:
            raise Misuse(
                f"withdrawal {planned['withdrawal_id']} was approved, the same traces come to {now.withdrawal_id} by now: something "
                "with this content came in since. Nothing was withdrawn; the next night asks again"
            )
        if list(answer.get("chosen_options") or ()) != [APPROVE]:
            refuse(guard, run_id(), now, by)
            note(f"{len(now.versions):,} versions stay in service: refused by {by}")
            return
        done = withdraw(guard, run_id(), now, by, "traced from reports, approved in Airflow")
        again = ask_again(guard, run_id(), now.traces, make_answers(guard.settings, guard.models, guard.ledger))
    still = sum(again.values())
    note(
        f"{len(now.versions):,} versions withdrawn, approved by {by}; {len(again):,} questions asked again, {still:,} still wrong"
    )
    log.info("%s", done)
