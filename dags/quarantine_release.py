"""
### Quarantine release

Lets the decisions of reviewers take effect: publishes what was released, keeps out what was rejected, seals the corpus anew.

**What it does.** Looks every ten minutes whether decisions wait (one query; nothing else is loaded when there are none). A
released version is embedded and published through the same outbox as a refresh. A decision holds for exactly the bytes it was made on.

**What it does not do.** It decides nothing. Silence is not consent: what nobody decided stays in quarantine.

**When it fails.** Clear the task, or wait for the next run: applying twice changes nothing.
"""

from datetime import timedelta

from airflow.sdk import Asset, Metadata, dag, task

from corpus_guard.airflow_tasks import annotate, apply_decisions, decisions_wait

CORPUS = Asset(name="corpus", uri="x-guard://corpus")
EVERY = timedelta(minutes=10)


@dag(
    schedule=EVERY,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    default_args={"owner": "corpus-guard", "retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["guard/review"],
    doc_md=__doc__,
)
def quarantine_release():
    @task.short_circuit(execution_timeout=timedelta(minutes=5))
    def anything_decided() -> bool:
        return decisions_wait()

    @task(pool="models", outlets=[CORPUS], execution_timeout=timedelta(hours=1))
    def apply():
        applied = apply_decisions()
        annotate(applied)
        yield Metadata(CORPUS, {"manifest_sha256": applied["manifest_sha256"]})

    anything_decided() >> apply()


quarantine_release()
