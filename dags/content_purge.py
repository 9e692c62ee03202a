"""
### Content purge

Takes documents out of the corpus for good: no longer served, blocked by hash, erased from disk, and searched for until nothing is found.

**What it does.** Started by hand with what shall go. It plans first (a dry run that changes nothing), then waits for a person under
*Required Actions*, then purges what was planned: not what was added to the selection meanwhile. Whatever has the same text or the same
bytes goes along. The closure is signed into the event log; hashes, who and why stay.

**What it does not do.** Near-copies stay; `guard search` finds them. Backups, and what readers already fetched, are out of its reach. Where
Chroma's disk is on another machine nothing can be searched, and the purge stays open.

**When it fails.** Nothing is purged without an answer. By task:

- `plan`: the parameters select nothing, name something that is not in the ledger, or give no reason; trigger it again with others.
- `approve_purge`: it was refused, or nobody answered within a day; trigger it again.
- `purge`: something with this content came in since the plan (trigger it again), or a store did not answer: clear the task or run
  `guard purge --resume`, it goes on where it was.

**Parameters.** `chunks`, `documents` (URI, source/URI or id), `sources`, `hashes` (SHA-256): together the selection. `reason`: kept for
good.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, dag, task

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import plan_purge, purge_planned

ANSWER_TIME = timedelta(hours=23)
NAMES = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 4096}, "maxItems": 1000}
HASHES = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "maxItems": 1000}


@dag(
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    params={
        "chunks": Param([], **NAMES),
        "documents": Param([], **NAMES),
        "sources": Param([], **NAMES),
        "hashes": Param([], **HASHES),
        "reason": Param("", type="string", maxLength=2000),
    },
    tags=["guard/proof"],
    doc_md=__doc__,
    **shared(),
)
def content_purge():
    @task(execution_timeout=timedelta(hours=1))
    def plan(params: dict) -> dict:
        return plan_purge(params)

    @task(execution_timeout=timedelta(hours=6))
    def purge(planned: dict, answer: dict, params: dict):
        purge_planned(planned, answer, params["reason"])

    planned = plan()
    approve_purge = ApprovalOperator(
        task_id="approve_purge",
        subject="Purge this for good?",
        body="{% set plan = ti.xcom_pull(task_ids='plan') %}{{ plan['documents'] }} documents with {{ plan['chunks'] }} chunks would go; "
        "the log of the task `plan` names them. It cannot be undone.",
        response_timeout=ANSWER_TIME,
        execution_timeout=ANSWER_TIME,
        fail_on_reject=True,
        retries=0,
    )
    planned >> approve_purge
    purge(planned, approve_purge.output)


content_purge()
