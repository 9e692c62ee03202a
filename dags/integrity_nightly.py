"""
### Integrity, nightly

Checks that the collections hold exactly what was sealed and signed, and that history was not rewritten.

**What it does.** Recomputes everything from the live store and the ledger: each chunk, vector and metadata, each event and head of the
log, each signature; asks every vector for itself. A deviation opens an incident (`guard incident list`) with its evidence, then what can
be undone is published again from the Parquet batches. What stays different waits for a person under *Required Actions*.

**What it does not protect against.** Whoever holds the signing key *and* the machine that remembers the last head; that is what a
witness on another machine is for (`guard witness`). What was sealed wrong is sealed: whether a text is true is screening's question.

**When it fails.** Red means: an incident is open and nobody accepted it, or nothing could be verified. By task:

- `verify`: the ledger, Chroma or a key did not answer; start it and clear the task. Not verified is never "clean".
- `heal`: the same; what was healed stays healed. Clear the task.
- `approve_new_baseline`: it was refused, or nobody answered within a day: silence is not consent. `guard incident show`, repair, clear it.
- `accept`: the log could not be signed; see that the signing key is there, clear the task.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import accept_incident, heal_incident, verify_corpus

VERIFY_TIME = timedelta(hours=6)  # a million chunks; 50,000 take minutes
ANSWER_TIME = timedelta(hours=23)


@dag(
    schedule=CronDataIntervalTimetable("30 3 * * *", timezone="UTC"),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    tags=["guard/proof"],
    doc_md=__doc__,
    **shared(),
)
def integrity_nightly():
    @task.short_circuit(execution_timeout=VERIFY_TIME)
    def verify() -> str:
        return verify_corpus()

    @task.short_circuit(execution_timeout=VERIFY_TIME)
    def heal(incident: str) -> str:
        return heal_incident(incident)

    @task(execution_timeout=timedelta(minutes=10))
    def accept(incident: str, answer: dict):
        accept_incident(incident, answer)

    incident = heal(verify())
    approve_new_baseline = ApprovalOperator(
        task_id="approve_new_baseline",
        subject="Accept what deviates as the new baseline?",
        body="Incident {{ ti.xcom_pull(task_ids='heal') }} could not be healed whole. `guard incident show` lists what was found. "
        "Approve only what you know the reason of; rejecting leaves the incident open and this run red.",
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        fail_on_reject=True,
        retries=0,
    )
    incident >> approve_new_baseline
    accept(incident, approve_new_baseline.output)


integrity_nightly()
