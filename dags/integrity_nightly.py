"""
### Integrity, nightly

Checks that the collections hold exactly what was sealed and signed, and that history was not rewritten.

**What it does.** Recomputes everything from the live store and the ledger: each chunk, vector and metadata, each event and head of the
log, each signature; queries the store with every vector. A deviation opens an incident (`guard incident list`) with its evidence. What can
be restored is then published again from the Parquet batches. What still deviates waits for a person under *Required Actions*.

**What it does not protect against.** Anyone who holds the signing key *and* the machine that remembers the last head; a witness on
another machine helps there (`guard witness`). It does not ask whether a sealed text is true: that is the task of screening.

**When it fails.** A red run means that an incident is open and nobody accepted it, or that nothing could be verified. By task:

- `verify`: the ledger, Chroma or a key did not answer; start it and clear the task. Not verified never counts as clean.
- `heal`: the same; what was healed stays healed. Clear the task.
- `approve_new_baseline`: it was refused, or nobody answered within a day: silence is not consent. See `guard incident show`, repair, clear.
- `accept`: the log could not be signed; check that the signing key exists, clear the task.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow.integrity import accept_incident, heal_incident, verify_corpus
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
    verify = task.short_circuit(verify_corpus, task_id="verify", execution_timeout=VERIFY_TIME)
    heal = task.short_circuit(heal_incident, task_id="heal", execution_timeout=VERIFY_TIME)
    accept = task(accept_incident, task_id="accept", execution_timeout=timedelta(minutes=10))
    approve_new_baseline = ApprovalOperator(
        task_id="approve_new_baseline",
        subject="Accept the deviations as the new baseline?",
        body="Incident {{ ti.xcom_pull(task_ids='heal') }} could not be healed completely. `guard incident show` lists the deviations. "
        "Approve only if you know their cause; rejecting leaves the incident open and this run red.",
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        fail_on_reject=True,
        retries=0,
    )

    incident = heal(verify())
    incident >> approve_new_baseline
    accept(incident, approve_new_baseline.output)


integrity_nightly()
