"""
### Content purge

Removes documents from the corpus for good: no longer served, blocked by hash, erased from disk, and searched for until nothing is found.

**What it does.** Trigger it by hand with a selection. It plans first (a dry run that changes nothing), waits for a person under
*Required Actions*, then purges what was planned, not what was added to the selection meanwhile. Every document with the same text or the
same bytes is included. The closure is signed into the event log; the hashes, the approver and the reason are kept. Two runs
may wait for their answers at the same time; one of them erases at a time.

**What it does not do.** It does not purge near-copies; `guard search` finds them. It cannot reach backups, or what readers already
fetched. If Chroma's disk is on another machine it cannot be searched, and the purge stays open.

**When it fails.** Nothing is purged without an approval. By task:

- `plan`: the parameters select nothing, name something that is not in the ledger, or give no reason; trigger it again.
- `approve_purge`: it was refused, or nobody answered within a day; trigger it again.
- `purge`: more documents with this content arrived since the plan (trigger it again), or a store did not answer: clear the task or run
  `guard purge --resume`; it continues where it stopped.

**Parameters.** `chunks`, `documents` (URI, source/URI or id), `sources`, `hashes` (SHA-256): together the selection. `reason`: kept in
the log.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, dag, task

from corpus_guard.airflow.notifications import dag_defaults
from corpus_guard.airflow.purge import plan_purge, purge_planned

ANSWER_TIME = timedelta(hours=23)
LIST = ["null", "array"]  # Airflow 3.3.2 marks a list that may not be null as required
NAMES = {"type": LIST, "items": {"type": "string", "minLength": 1, "maxLength": 4096}, "maxItems": 1000}
HASHES = {"type": LIST, "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "maxItems": 1000}


@dag(
    schedule=None,
    max_active_runs=2,  # one waits for its answer while the next is planned
    dagrun_timeout=timedelta(hours=24),
    params={
        "documents": Param([], title="Documents", description="Path, SOURCE/PATH or id of each, one a line.", **NAMES),
        "sources": Param([], title="Sources", description="Everything from these sources.", **NAMES),
        "chunks": Param(
            [], title="Chunks", description="Ids of chunks; the whole version of each document is purged.", **NAMES
        ),
        "hashes": Param(
            [], title="Hashes", description="SHA-256 of raw bytes, a text or a chunk, 64 hex digits each.", **HASHES
        ),
        "reason": Param(
            "",
            title="Reason",
            description="Why. Kept permanently, so do not quote the content.",
            type="string",
            maxLength=2000,
        ),
    },
    tags=["guard/proof"],
    doc_md=__doc__,
    **dag_defaults(),
)
def content_purge():
    @task(execution_timeout=timedelta(hours=1))
    def plan(params: dict) -> dict:
        return plan_purge(params)

    @task(execution_timeout=timedelta(hours=6), max_active_tis_per_dag=1)  # of both runs
    def purge(planned: dict, answer: dict, params: dict):
        purge_planned(planned, answer, params["reason"])

    planned = plan()
    approve_purge = ApprovalOperator(
        task_id="approve_purge",
        subject="Purge these documents for good?",
        body="{% set plan = ti.xcom_pull(task_ids='plan') %}Documents: {{ plan['documents'] }}, chunks: {{ plan['chunks'] }}. "
        "The log of the task `plan` names them. This cannot be undone.",
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        fail_on_reject=True,
        retries=0,
    )
    planned >> approve_purge
    purge(planned, approve_purge.output)


content_purge()
