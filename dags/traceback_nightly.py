"""
### Traceback, nightly

Follows every open report of a wrong answer back to the texts that led to it, and takes those out of service once somebody approved.

**What it does.** Retrieves what the reported question retrieves, judges each text, sets the poisoned ones aside and goes on until what
stands is benign (RAGForensics). Outcome, every judged text and the reasons are in the ledger (`guard trace list`), figures and plots in
MLflow. What a trace accuses waits under *Required Actions*; approved, it is served no longer, its hashes are blocked, and the question is
asked again. What was accused on an earlier night and neither withdrawn nor refused is asked about again.

**What it does not do.** It accuses nobody on a report's word alone: a wrong answer where no text is poisoned ends as *not poisoning*. It
erases nothing; `guard purge` does. A record that somebody wrote past the guard is named and left to `integrity_nightly`. The corpus of
an earlier day is traced with `guard trace --as-of`.

**When it fails.** A trace goes on where it was and judges no text twice. By task:

- `pick`: the ledger does not answer. Clear the task.
- `trace`: a model or the judge's endpoint is not there; clear it. A report whose judge failed alone is tried again the next night.
- `summarise`: a report was lost between the tasks, or the ledger does not answer; clear the run.
- `approve_withdrawal`: nobody answered in time. Nothing is withdrawn, and the next night asks again.
- `withdraw`: what is accused changed since it was approved (the next night asks again), or Chroma does not answer: clear the task.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import APPROVE, end_night, pick_reports, trace_reports, withdraw_traced

MODELS = "models"  # pool: one slot a machine, because a model takes all cores
TRACE_TIME = timedelta(hours=2)  # 25 reports take minutes; an endpoint that judges may be slow
ANSWER_TIME = timedelta(hours=18)


@dag(
    schedule=CronDataIntervalTimetable("30 4 * * *", timezone="UTC"),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/traceback"],
    doc_md=__doc__,
    **shared(),
)
def traceback_nightly():
    @task(execution_timeout=timedelta(minutes=10))
    def pick() -> list[list[str]]:
        return pick_reports()

    @task(execution_timeout=TRACE_TIME, pool=MODELS)
    def trace(report_ids: list[str]) -> list[dict]:
        return trace_reports(report_ids)

    @task.short_circuit(execution_timeout=TRACE_TIME, pool=MODELS, trigger_rule="none_failed")
    def summarise(portions: list[list[str]], results: list[list[dict]]) -> dict:
        return end_night(list(portions or []), list(results or []))

    @task(execution_timeout=TRACE_TIME, pool=MODELS)
    def withdraw(planned: dict, answer: dict):
        withdraw_traced(planned, answer)

    portions = pick()
    planned = summarise(portions, trace.expand(report_ids=portions))
    approve_withdrawal = HITLOperator(
        task_id="approve_withdrawal",
        subject="Take traced texts out of service?",
        body="{% set plan = ti.xcom_pull(task_ids='summarise') %}{{ plan['versions'] }} versions of {{ plan['documents'] }} documents, "
        "{{ plan['chunks'] }} chunks, were traced from {{ plan['traces'] | length }} reports. `guard trace list` names them. Evidence "
        "stays on disk. Whatever is not approved stays in service; a rejection is remembered.",
        options=[APPROVE, "Reject"],
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        retries=0,
    )
    planned >> approve_withdrawal
    withdraw(planned, approve_withdrawal.output)


traceback_nightly()
