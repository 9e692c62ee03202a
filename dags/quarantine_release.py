"""
### Quarantine release

Brings reviewers' decisions into effect: publishes what was released, keeps out what was rejected, seals the corpus again.

**What it does.** Checks every ten minutes whether decisions wait (one query; nothing else is loaded if there are none). A released
version is embedded and published through the same outbox as a refresh. A decision applies to exactly the bytes that were reviewed.

**What it does not do.** It decides nothing. Silence is not consent: undecided items stay in quarantine.

**When it fails.** Applying twice changes nothing: clear the task, or wait for the next run. By task:

- `anything_decided`: the ledger does not answer; the log names its address.
- `apply`: Chroma or a model is missing; start it. Decisions wait until then.
"""

from datetime import timedelta

from airflow.sdk import Metadata, dag, task

from corpus_guard.airflow.assets import CORPUS, EMBEDDING
from corpus_guard.airflow.notifications import dag_defaults
from corpus_guard.airflow.release import apply_decisions, has_pending_decisions


@dag(
    schedule=timedelta(minutes=10),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    tags=["guard/review"],
    doc_md=__doc__,
    **dag_defaults(),
)
def quarantine_release():
    @task(outlets=[CORPUS], execution_timeout=timedelta(hours=1), **EMBEDDING)
    def apply():
        yield Metadata(CORPUS, apply_decisions())

    anything_decided = task.short_circuit(
        has_pending_decisions, task_id="anything_decided", execution_timeout=timedelta(minutes=5)
    )
    anything_decided() >> apply()


quarantine_release()
