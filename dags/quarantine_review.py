"""
### Quarantine review

After a refresh that put something in quarantine, one required action that says what waits, with a link to the page.

**What it does.** Started by the asset *quarantine*. It counts what nobody decided yet ("12 to review: 9 instructions, 2 perplexity, 1
provenance"), tells people by the connections `corpus_guard_mail` and `corpus_guard_slack` where these are there, and waits under *Required
Actions*. *Seen* ends it. *Escalate them all* marks every item of the run, in the name of who answered. Where several refreshes ended
meanwhile, one action stands for all of them.

**What it does not do.** It releases nothing, whatever is answered, and holds up nothing: what was accepted is served before this begins,
and a refresh does not wait for it. That is why it is a DAG of its own: a run that waits for a person would count against the refreshes
that may run at once. Items are decided on the page, or with `guard quarantine`.

**When it fails.** Whatever fails here, everything stays in quarantine, and `quarantine_watch` goes on telling what is overdue. By task:

- `summarise`: the ledger does not answer. Clear the task.
- `approve_review`: nobody answered in time. Nothing needs to be repeated; the page has the items.
- `settle`: the answer could not be written down; clear the task.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Asset, dag, task

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_review import ESCALATE, SEEN, summarise_waiting, take_answer

QUARANTINE = Asset(name="quarantine", uri="x-guard://quarantine")
ANSWER_TIME = timedelta(hours=20)


@dag(
    schedule=[QUARANTINE],
    max_active_runs=2,  # one waits for its answer while the next is summarised
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/review"],
    doc_md=__doc__,
    **shared(),
)
def quarantine_review():
    @task.short_circuit(execution_timeout=timedelta(minutes=10))
    def summarise() -> dict:
        return summarise_waiting()

    @task(execution_timeout=timedelta(minutes=30))
    def settle(summary: dict, answer: dict):
        take_answer(summary, answer)

    summary = summarise()
    approve_review = HITLOperator(
        task_id="approve_review",
        subject="Review the quarantine",
        body="{% set waits = ti.xcom_pull(task_ids='summarise') %}{{ waits['sentence'] }}. "
        "[Open the queue]({{ waits['link'] }}). Whatever is answered here releases nothing.",
        options=[SEEN, ESCALATE],
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        retries=0,
    )
    summary >> approve_review
    settle(summary, approve_review.output)


quarantine_review()
