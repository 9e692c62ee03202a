"""
### Quarantine watch

Reminds reviewers of items that wait longer than the policy allows, and escalates those that nobody decided for very long.

**What it does.** Every hour: items that wait longer than `review.deadline_hours` of policy.yaml are reported by e-mail and Slack
(connections `corpus_guard_mail` and `corpus_guard_slack`), again when their number grows, and once a day. Items that wait longer than
`review.expire_days` are escalated and marked.

**What it does not do.** It decides nothing: time never releases and never rejects an item.

**When it fails.** It is tried again, and runs again within the hour. By task:

- `expire`: the ledger does not answer; the log names its address.
- `alert`: a message could not be sent; the log names the connection. Escalation does not depend on it. Without connections the count is
  in the task's log and on the run's note.
"""

from datetime import timedelta

from airflow.sdk import dag, task

from corpus_guard.airflow.notifications import dag_defaults
from corpus_guard.airflow.review import expire_waiting, notify_overdue


@dag(
    schedule=timedelta(hours=1),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    tags=["guard/review"],
    doc_md=__doc__,
    **dag_defaults(),
)
def quarantine_watch():
    expire = task(expire_waiting, task_id="expire", execution_timeout=timedelta(minutes=20))
    alert = task(notify_overdue, task_id="alert", execution_timeout=timedelta(minutes=10), trigger_rule="all_done")
    expire() >> alert()


quarantine_watch()
