"""
### Quarantine watch

Tells people when items wait in quarantine longer than the policy allows, and marks those that nobody decided for very long.

**What it does.** Every hour: what waits longer than `review.deadline_hours` of policy.yaml is told by e-mail and Slack (connections
`corpus_guard_mail` and `corpus_guard_slack`), again when it becomes more, and once a day. What waits longer than `review.expire_days` is
escalated and marked.

**What it does not do.** It decides nothing: time never releases an item, and never rejects one.

**When it fails.** It is tried again, and runs again within the hour. By task:

- `expire`: the ledger does not answer; the log names its address.
- `alert`: a message could not be sent; the log names the connection. Marking does not depend on it. Without connections the count stands in
  the task's log and on the run.
"""

from datetime import timedelta

from airflow.sdk import dag, task

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_review import expire_waiting, tell_overdue


@dag(
    schedule=timedelta(hours=1),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    tags=["guard/review"],
    doc_md=__doc__,
    **shared(),
)
def quarantine_watch():
    @task(execution_timeout=timedelta(minutes=20))
    def expire() -> int:
        return expire_waiting()

    @task(execution_timeout=timedelta(minutes=10), trigger_rule="all_done")
    def alert() -> int:
        return tell_overdue()

    expire() >> alert()


quarantine_watch()
