"""
### Quarantine release

Lets the decisions of reviewers take effect: publishes what was released, keeps out what was rejected, seals the corpus anew.

**What it does.** Looks every ten minutes whether decisions wait (one query; nothing else is loaded when there are none). A
released version is embedded and published through the same outbox as a refresh. A decision holds for exactly the bytes it was made on.

**What it does not do.** It decides nothing. Silence is not consent: what nobody decided stays in quarantine.

**When it fails.** Applying twice changes nothing: clear the task, or wait for the next run. By task:

- `anything_decided`: the ledger does not answer; the log names its address.
- `apply`: Chroma or a model is not there; start it. Decisions wait until then.
"""

from datetime import timedelta

from airflow.sdk import Asset, Metadata, dag, task

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import apply_decisions, decisions_wait

CORPUS = Asset(name="corpus", uri="x-guard://corpus")
EVERY = timedelta(minutes=10)


@dag(
    schedule=EVERY,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    tags=["guard/review"],
    doc_md=__doc__,
    **shared(),
)
def quarantine_release():
    @task.short_circuit(execution_timeout=timedelta(minutes=5))
    def anything_decided() -> bool:
        return decisions_wait()

    @task(pool="models", outlets=[CORPUS], execution_timeout=timedelta(hours=1))
    def apply():
        yield Metadata(CORPUS, apply_decisions())

    anything_decided() >> apply()


quarantine_release()
