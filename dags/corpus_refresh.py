"""
### Corpus refresh

Pulls every source, screens what changed, publishes what was accepted, and seals the corpus with a manifest and a signed log.

**What it does.** An unchanged document costs one hash comparison. A changed one is parsed in a sandboxed process, cut into chunks,
embedded and screened. What the policy does not accept waits in quarantine (`guard quarantine list`). Accepted chunks are written to
Chroma and read back. Tasks exchange only paths and counts. One run works at a time. A late run is reported like a failed one.

**What it does not protect against.** A fluent lie that no trusted document contradicts. Anyone who can edit `policy.yaml`, `sources.yaml`,
or the ledger between two seals. Direct writes to Chroma are detected by every guarded query and by `integrity_nightly`, not prevented.

**When it fails.** Clear the failed task, or trigger the DAG again: every step may be repeated and converges. By task:

- `discover`: `sources.yaml` is wrong; the log names the key. `guard source check` tries one source. Or there are more shards than
  `core.max_map_length` (1,024: 1.7 million documents): refresh a few `sources` at a time, or raise it. Or somebody's `guard refresh` has
  been at work on the same sources for hours; the log names its run.
- `intake`, `changed`, `survey`: the storage or the ledger does not answer; the log names the address. An unreadable document fails no task.
- `embed`, `screen`: a model is missing (`guard models prepare`), or memory is short: give the pool `models` fewer slots.
- `publish`: Chroma does not answer; start it. Nothing is half published: the outbox continues where it stopped.
- `seal`: a source could not be listed (the others are sealed; the note names it; trigger the DAG again once it answers), or the counts
  do not balance (trigger it again, then `guard verify`).
- `data_docs`: the storage does not answer. The corpus is sealed; only the page with the results of the suites is missing.

**Parameters.** `sources`: names from `sources.yaml`; none means all. Thresholds are deliberately not parameters.
"""

from datetime import timedelta

from airflow.sdk import Metadata, Param, dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow import refresh
from corpus_guard.airflow.assets import CORPUS, EMBEDDING, LANGUAGE_MODEL, PARSING, QUARANTINE
from corpus_guard.airflow.notifications import dag_defaults, run_deadline
from corpus_guard.settings import load_settings, source_names

SHARD_TIME = timedelta(hours=1)  # 256 documents take seconds to minutes; large PDFs take longer
NAMES = source_names()
NAME = {"type": "string", "enum": NAMES} if NAMES else {"type": "string"}


@dag(
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    max_active_runs=1,  # two at once would converge, and do all the work twice
    dagrun_timeout=timedelta(hours=12),
    deadline=run_deadline(load_settings().refresh_deadline_hours),
    params={
        "sources": Param(
            [],
            type=["null", "array"],  # Airflow 3.3.2 marks a list that may not be null as required
            items=NAME,
            examples=NAMES,
            title="Sources",
            description="Refresh only these. Empty: all sources of sources.yaml.",
        )
    },
    tags=["guard/ingest"],
    doc_md=__doc__,
    **dag_defaults(),
)
def corpus_refresh():
    @task(execution_timeout=SHARD_TIME)
    def discover(params: dict) -> list[str]:
        return refresh.discover_sources(params["sources"] or [])

    @task(execution_timeout=SHARD_TIME, trigger_rule="none_failed", outlets=[CORPUS, QUARANTINE], **LANGUAGE_MODEL)
    def seal(fetched: list[dict], published: list[dict]):
        corpus, quarantine = refresh.seal_refresh(fetched, published)
        yield Metadata(CORPUS, corpus)
        yield Metadata(QUARANTINE, quarantine)

    step = task(execution_timeout=SHARD_TIME)
    joined = task(execution_timeout=SHARD_TIME, trigger_rule="none_failed")
    intake = step(refresh.intake_shard).override(task_id="intake", max_active_tis_per_dagrun=8, **PARSING)
    changed = joined(refresh.changed_shards).override(task_id="changed")
    embed = step(refresh.embed_shard).override(task_id="embed", **EMBEDDING)
    survey = joined(refresh.survey_shards).override(task_id="survey")
    screen = step(refresh.screen_shard).override(task_id="screen", **LANGUAGE_MODEL)
    publish = step(refresh.publish_shard).override(task_id="publish", max_active_tis_per_dag=1)
    data_docs = step(refresh.document_expectations).override(task_id="data_docs")

    fetched = intake.expand(listing=discover())
    surveyed = survey(embed.expand(shard=changed(fetched)))
    sealed = seal(fetched, publish.expand(shard=screen.expand(shard=surveyed)))
    sealed >> data_docs()


corpus_refresh()
