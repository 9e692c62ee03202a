"""
### Traceback, nightly

Traces every open report of a wrong answer back to the texts that caused it, and takes those out of service after approval.

**What it does.** Picks the open reports, the closed ones traced longest ago (50), and all whose last trace had another judge, or is older
than a change of the policy or a large refresh; one that was right and is wrong now is opened again.

Each trace retrieves what the reported question retrieves, judges each text, sets the poisoned ones aside and repeats until the remaining
texts are benign (RAGForensics). The ledger keeps the outcome, the judged texts and the reasons (`guard trace list`); MLflow keeps figures
and plots. Accused documents wait under *Required Actions*, each with a switch of its own; none that is trusted or reviewed on. What is on
is no longer served, its hashes are blocked, and the question is asked again; `guard trace restore` brings it back. What is off stays in
service, and the same report does not accuse it again. Nothing is proposed from a report whose wrong answer the model, asked again, does not
give.

**What it does not do.** It accuses no text on a report's word alone: a wrong answer without a poisoned text ends as *not poisoning*. It
erases nothing; `guard purge` does. A record written to Chroma past the guard is named and left to `integrity_nightly`. To trace an
earlier corpus, use `guard trace --as-of`.

**When it fails.** A trace continues where it stopped and judges no text twice. By task:

- `pick`: the ledger does not answer. Clear the task.
- `trace`: a model or the judge's endpoint is missing; clear the task. A report whose judge failed is tried again the next night.
- `summarise`: a report was lost between the tasks, or the ledger does not answer; clear the run.
- `approve_withdrawal`: nobody answered in time. Nothing is withdrawn, and the next night asks again.
- `withdraw`: the accused texts changed since the approval (the next night asks again), or Chroma does not answer: clear the task.
"""

from datetime import timedelta

from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow import traceback
from corpus_guard.airflow.approval import WithdrawalApproval
from corpus_guard.airflow.assets import LANGUAGE_MODEL
from corpus_guard.airflow.notifications import dag_defaults

TRACE_TIME = timedelta(hours=2)  # 25 reports take minutes; a judge behind an endpoint may be slow
ANSWER_TIME = timedelta(hours=18)


@dag(
    schedule=CronDataIntervalTimetable("30 4 * * *", timezone="UTC"),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/traceback"],
    doc_md=__doc__,
    **dag_defaults(),
)
def traceback_nightly():
    models_task = {"execution_timeout": TRACE_TIME, **LANGUAGE_MODEL}
    pick = task(traceback.pick_reports, task_id="pick", execution_timeout=timedelta(minutes=10))
    trace = task(traceback.trace_reports, task_id="trace", **models_task)
    summarise = task.short_circuit(
        traceback.summarise_night, task_id="summarise", trigger_rule="none_failed", **models_task
    )
    withdraw = task(traceback.withdraw_traced, task_id="withdraw", **models_task)
    approve_withdrawal = WithdrawalApproval(
        task_id="approve_withdrawal",
        subject="Which accused documents shall be withdrawn?",
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        retries=0,
    )

    portions = pick()
    planned = summarise(portions, trace.expand(report_ids=portions))
    planned >> approve_withdrawal
    withdraw(planned, approve_withdrawal.output)


traceback_nightly()
