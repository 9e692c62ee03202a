"""
### Quarantine review

After a refresh that put documents in quarantine: one required action that says what waits, with a link to the review page.

**What it does.** Triggered by the asset *quarantine*. It counts the undecided items ("12 to review: 9 instructions, 2 perplexity, 1
provenance"), notifies reviewers over the connections `corpus_guard_mail` and `corpus_guard_slack` if they exist, and waits under
*Required Actions*. *Seen* closes the action. With *Escalate them all*, every item of the run is escalated in the name of the person who
answered. If several refreshes ended meanwhile, one action covers all of them.

**What it does not do.** No answer releases anything, and nothing waits for it: accepted documents are already served. It is a DAG of its
own because a run that waits for a person counts against the number of refreshes that may run at once. Decide items on the review page or
with `guard quarantine`.

**When it fails.** Everything stays in quarantine, and `quarantine_watch` still reports overdue items. By task:

- `summarise`: the ledger does not answer. Clear the task.
- `approve_review`: nobody answered in time. Nothing has to be repeated; the items are on the review page.
- `settle`: the answer could not be recorded; clear the task.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import dag, task

from corpus_guard.airflow.assets import QUARANTINE
from corpus_guard.airflow.notifications import dag_defaults
from corpus_guard.airflow.review import ESCALATE, SEEN, apply_answer, summarise_waiting

ANSWER_TIME = timedelta(hours=20)


@dag(
    schedule=[QUARANTINE],
    max_active_runs=2,  # one waits for its answer while the next is summarised
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/review"],
    doc_md=__doc__,
    **dag_defaults(),
)
def quarantine_review():
    summarise = task.short_circuit(summarise_waiting, task_id="summarise", execution_timeout=timedelta(minutes=10))
    settle = task(apply_answer, task_id="settle", execution_timeout=timedelta(minutes=30))
    approve_review = HITLOperator(
        task_id="approve_review",
        subject="Review the quarantine",
        body="{% set queue = ti.xcom_pull(task_ids='summarise') %}{{ queue['sentence'] }}. "
        "[Open the queue]({{ queue['link'] }}). No answer here releases anything.",
        options=[SEEN, ESCALATE],
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        retries=0,
    )

    summary = summarise()
    summary >> approve_review
    settle(summary, approve_review.output)


quarantine_review()
