"""
### Corpus refresh

Pulls every source, screens what changed, publishes what was accepted, and seals the corpus with a manifest and a signed log.

**What it does.** An unchanged document costs one hash comparison. One that changed is parsed in a sandboxed process, cut into chunks,
embedded and screened; what the policy does not accept waits in quarantine (`guard quarantine list`). Accepted chunks go to Chroma and are
read back. Between tasks travel paths and counts only. A run that is late is told like one that failed.

**What it does not protect against.** A fluent lie in an otherwise ordinary document. Whoever can edit `policy.yaml`, `sources.yaml`, or
the ledger between two seals. Whoever writes to Chroma directly is noticed by every guarded query and `integrity_nightly`, not prevented.

**When it fails.** Clear the failed task, or trigger the DAG again: every step may be repeated and converges. By task:

- `discover`: `sources.yaml` is wrong; the log names the key. `guard source check` tries one source.
- `intake`, `changed`, `survey`: storage or ledger do not answer; the log names the address. A document that cannot be read fails nothing.
- `embed`, `screen`: a model is missing (`guard models prepare`), or too little memory: fewer slots in the pool `models`.
- `publish`: Chroma does not answer; start it. Nothing is half published: the outbox goes on where it was.
- `seal`: a source could not be listed (the others are sealed), or the counts do not balance (trigger it again, then `guard verify`).

**Parameters.** `sources`: names from `sources.yaml`; none means all. Thresholds are deliberately not parameters.
"""

from datetime import timedelta

from airflow.sdk import Asset, Metadata, Param, dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_notices import late_after, shared
from corpus_guard.airflow_tasks import seal_refresh, step
from corpus_guard.settings import load_settings, source_names

CORPUS = Asset(name="corpus", uri="x-guard://corpus")
QUARANTINE = Asset(name="quarantine", uri="x-guard://quarantine")
MODELS = "models"  # pool: one slot a machine, because a model takes all cores
SHARD_TIME = timedelta(hours=1)  # 256 documents take seconds to minutes; a PDF farm may take longer
NAMES = source_names()


@dag(
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    max_active_runs=2,  # two runs at once converge; more would only wait for each other
    dagrun_timeout=timedelta(hours=12),
    deadline=late_after(load_settings().refresh_deadline_hours),
    params={"sources": Param([], type="array", items={"type": "string", "enum": NAMES}, examples=NAMES)},
    tags=["guard/ingest"],
    doc_md=__doc__,
    **shared(),
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
        corpus, quarantine = seal_refresh(taken, published)
        yield Metadata(CORPUS, corpus)
        yield Metadata(QUARANTINE, quarantine)

    taken = intake.expand(listing=discover())
    surveyed = survey(embed.expand(shard=changed(taken)))
    seal(taken, publish.expand(shard=screen.expand(shard=surveyed)))


corpus_refresh()
