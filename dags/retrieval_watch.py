"""
### Retrieval watch

Looks at what applications retrieve, and names documents that are retrieved as no honest one is.

**What it does.** Every hour, over the four weeks before the end of its data interval: texts retrieved for far more topics than others
(*hub*), new documents in sudden demand (*newcomer*), edited ones in sudden demand (*surge*), new documents that take the places of
others (*displacement*), a few askers who retrieve a new document again and again (*burst*), texts served and never published (*foreign*),
answers that contradict those before a seal (*flip*). New alerts are events of the log, and are reported by e-mail and Slack (connections
`corpus_guard_mail` and `corpus_guard_slack`). A budget of 0.2 % of the documents a week keeps it readable; what does not fit is counted.

`airflow backfill create --dag-id retrieval_watch --from-date 2026-01-01 --to-date 2026-01-08` looks at a past week; nothing is told twice.

**What it does not do.** It withdraws nothing: `guard exposure` shows whom a document reached. It sees what the retrieval log holds, and
anybody who may ask questions can write to it; the run's note says what it could not see.

**When it fails.** It is tried again, and the next run looks at the same weeks. By task:

- `watch`: the ledger does not answer; the log names its address.
- `notify`: a message could not be sent; the alerts are on the page Watch and in `guard watch` all the same.
"""

from datetime import timedelta

from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow.notifications import dag_defaults
from corpus_guard.airflow.retrieval_watch import notify_alerts, watch_interval


@dag(
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    max_active_runs=1,  # alerts of one run keep those of the next from being told twice
    dagrun_timeout=timedelta(hours=1),
    tags=["guard/forensics"],
    doc_md=__doc__,
    **dag_defaults(),
)
def retrieval_watch():
    watch = task(watch_interval, task_id="watch", execution_timeout=timedelta(minutes=30))
    notify = task(notify_alerts, task_id="notify", execution_timeout=timedelta(minutes=10))
    notify(watch())


retrieval_watch()
