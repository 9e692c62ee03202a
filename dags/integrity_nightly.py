"""
### Integrity, nightly

Checks that the collections hold exactly what was sealed and signed, and that history was not rewritten.

**What it does.** Recomputes everything from the live store and the ledger: each chunk, vector and metadata, each event and head of the
log, each signature; queries the store with every vector. A deviation opens an incident (`guard incident list`) with its evidence. What can
be restored is then published again from the Parquet batches. Healed or not, an incident stays red until a person acknowledges it with a
reason: here under *Required Actions*, each night again, on the review page or with `guard incident acknowledge`. Mail and Slack carry it.
Nobody is asked if only the index of many chunks lost a few of them, which it does by itself.
While no incident is red, stored files that nobody needs any more are removed (`guard clean`).

**What it does not protect against.** Anyone who holds the signing key *and* the machine that remembers the last head; a witness on
another machine helps there (`guard witness`). It does not ask whether a sealed text is true: that is the task of screening.

**When it fails.** A red run means that an incident is not acknowledged or not repaired, or that nothing could be verified. By task:

- `verify`: the ledger, Chroma or a key did not answer; start it and clear the task. Not verified never counts as clean.
- `heal`: the same; what was healed stays healed. Clear the task.
- `report`: the ledger does not answer; start it and clear the task.
- `acknowledge`: the answer could not be taken; clear the task to be asked again. Silence for a day leaves everything red.
- `clean`: the ledger or the storage does not answer; start it and clear the task. What was not removed is removed the next night.
- `settle`: nobody acknowledged, or without a reason, or deviations are still there. See `guard incident show`, repair, clear the task.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param, dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow.integrity import (
    ACCEPT,
    ACKNOWLEDGE,
    LEAVE_RED,
    clean_storage,
    heal_incident,
    report_incidents,
    settle_incidents,
    verify_corpus,
)
from corpus_guard.airflow.notifications import dag_defaults

VERIFY_TIME = timedelta(hours=6)  # a million chunks; 50,000 take minutes
ANSWER_TIME = timedelta(hours=23)


@dag(
    schedule=CronDataIntervalTimetable("30 3 * * *", timezone="UTC"),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/proof"],
    doc_md=__doc__,
    **dag_defaults(),
)
def integrity_nightly():
    verify = task.short_circuit(
        verify_corpus, task_id="verify", execution_timeout=VERIFY_TIME, ignore_downstream_trigger_rules=False
    )
    heal = task(heal_incident, task_id="heal", execution_timeout=VERIFY_TIME)
    report = task(report_incidents, task_id="report", execution_timeout=timedelta(minutes=10), trigger_rule="all_done")
    clean = task(clean_storage, task_id="clean", execution_timeout=timedelta(hours=1), trigger_rule="all_done")
    settle = task(settle_incidents, task_id="settle", execution_timeout=timedelta(minutes=30))
    acknowledge = HITLOperator(
        task_id="acknowledge",
        subject="The corpus was changed: acknowledge the incident",
        body="{% set red = ti.xcom_pull(task_ids='report') %}{{ red['sentence'] }}. "
        "[What was sealed, and what was there]({{ red['link'] }}). Acknowledge once you know the cause. "
        "Accept as the new baseline only what could not be healed, and only if you know it to be right.",
        options=[ACKNOWLEDGE, ACCEPT, LEAVE_RED],
        defaults=LEAVE_RED,
        params={"reason": Param("", type="string", maxLength=2000, description="The cause; recorded for good.")},
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        trigger_rule="none_failed_min_one_success",
    )

    unhealed = heal(verify())
    red = report(unhealed)
    [unhealed, red] >> acknowledge
    settle(red, acknowledge.output)
    red >> clean()


integrity_nightly()
