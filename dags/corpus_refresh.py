"""
### Corpus refresh

Pulls every source, embeds and screens what changed, publishes what was accepted, and seals the corpus with a manifest and a
signed log.

**What it does.** A document whose bytes are the same costs one hash comparison. One that changed is parsed in a sandboxed
process, stamped, cut into chunks, embedded and screened; what the policy does not accept waits in quarantine (`guard quarantine list`).
Accepted chunks go to Chroma and are read back; the manifest lists every published chunk. Between tasks travel paths and counts only.

**What it does not protect against.** A fluent lie in an otherwise ordinary document. Whoever can edit `policy.yaml` or
`sources.yaml`, or the ledger between two seals. Whoever writes to Chroma directly is noticed at every guarded query and by
`integrity_nightly`, not prevented.

**When it fails.** Clear the failed task, or trigger the DAG again: every step may be repeated and converges. The error names the
address that did not answer. A source that could not be listed fails the run *after* the other sources are sealed.

**Parameters.** `sources`: names from `sources.yaml`; none means all. Thresholds are deliberately not parameters.
"""

from datetime import timedelta

from airflow.sdk import Asset, Metadata, Param, dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_tasks import annotate, step
from corpus_guard.settings import source_names

CORPUS = Asset(name="corpus", uri="x-guard://corpus")
QUARANTINE = Asset(name="quarantine", uri="x-guard://quarantine")

MODELS = "models"  # pool: one slot a machine, because a model takes all cores
SHARD_TIME = timedelta(hours=1)  # 256 documents take seconds to minutes; a PDF farm may take longer
NAMES = source_names()


@dag(
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=2,  # two runs at once converge; more would only wait for each other
    dagrun_timeout=timedelta(hours=12),
    default_args={"owner": "corpus-guard", "retries": 2, "retry_delay": timedelta(seconds=30)},
    params={"sources": Param([], type="array", items={"type": "string", "enum": NAMES}, examples=NAMES)},
    tags=["guard/ingest"],
    doc_md=__doc__,
)
def corpus_refresh():
    @task(execution_timeout=SHARD_TIME)
    def discover(params: dict) -> list[str]:
        return step("discover", params["sources"])

    @task(execution_timeout=SHARD_TIME, max_active_tis_per_dagrun=8)
    def intake(listing: str) -> dict:
        return step("intake", listing)

    @task(execution_timeout=SHARD_TIME, trigger_rule="none_failed")
    def changed(shards: list[dict]) -> list[dict]:
        return step("changed", list(shards or []))

    @task(execution_timeout=SHARD_TIME, pool=MODELS)
    def embed(shard: dict) -> dict:
        return step("embed", shard)

    @task(execution_timeout=SHARD_TIME, trigger_rule="none_failed")
    def survey(shards: list[dict]) -> list[dict]:
        return step("survey", list(shards or []))

    @task(execution_timeout=SHARD_TIME, pool=MODELS)
    def screen(shard: dict) -> dict:
        return step("screen", shard)

    @task(execution_timeout=SHARD_TIME, max_active_tis_per_dag=1)
    def publish(shard: dict) -> dict:
        return step("publish", shard)

    @task(execution_timeout=SHARD_TIME, trigger_rule="none_failed", pool=MODELS, outlets=[CORPUS, QUARANTINE])
    def seal(taken: list[dict], published: list[dict]):
        sealed = step("seal", list(taken or []), list(published or []))
        annotate(sealed)
        yield Metadata(CORPUS, {"chunks": sealed["served"], "manifest_sha256": sealed["manifest_sha256"]})
        yield Metadata(QUARANTINE, {"quarantined": sealed["quarantined"]})

    taken = intake.expand(listing=discover())
    surveyed = survey(embed.expand(shard=changed(taken)))
    seal(taken, publish.expand(shard=screen.expand(shard=surveyed)))


corpus_refresh()
