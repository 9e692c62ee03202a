"""
### Feedback import

Takes reports of wrong answers into the ledger: from files, or from the feedback that people gave on traces in MLflow.

**What it does.** A run imports the reports whose time lies in its data interval, a day in UTC, from every source that
`CORPUS_GUARD_FEEDBACK` names; a scheduled run looks three days further back, for what the exporting system wrote late. The same question
with the same wrong answer is one report; importing it again adds nothing. A row that cannot be taken is put aside with its line and the
reason (`reports/aside` in the storage). Triggered by hand without a logical date, it imports everything there is.

`airflow backfill create --dag-id feedback_import --from-date 2025-01-01 --to-date 2026-01-01` imports a year of history, day by day.

**What it does not do.** It judges nothing and removes nothing: `traceback_nightly` follows what is open. It does not know who a reporter
is; the name is the exporting system's. One reporter moves a report up once, and at most 50 a day count.

**When it fails.** By task:

- `import_reports`: a source could not be read; the others are imported. Put it right and clear the task, or run a backfill over the days
  that are missing: what is there already stays as it is.
"""

from datetime import timedelta

from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow_notices import shared
from corpus_guard.airflow_tasks import import_feedback

IMPORT_TIME = timedelta(hours=2)  # 100,000 rows take minutes


@dag(
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    max_active_runs=2,  # they take turns at the ledger; more would only wait
    dagrun_timeout=timedelta(hours=6),
    tags=["guard/traceback"],
    doc_md=__doc__,
    **shared(),
)
def feedback_import():
    @task(execution_timeout=IMPORT_TIME)
    def import_reports() -> dict:
        return import_feedback()

    import_reports()


feedback_import()
