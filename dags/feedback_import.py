"""
### Feedback import

Imports reports of wrong answers into the ledger: from files, or from feedback that people gave on traces in MLflow.

**What it does.** A run imports the reports of its data interval, a day in UTC, from every source that `CORPUS_GUARD_FEEDBACK` names. A
scheduled run also looks three days further back, for late writes of the exporting system. The same question with the same wrong answer
is one report; importing it again adds nothing. A row that cannot be imported is put aside with its line and the reason (`reports/aside`
in the storage). Triggered by hand it imports everything, or what was reported since a day; the run's note says how many lay outside.

`airflow backfill create --dag-id feedback_import --from-date 2025-01-01 --to-date 2026-01-01` imports a year of history, day by day.

**What it does not do.** It judges nothing and removes nothing: `traceback_nightly` traces the open reports. It does not check who a
reporter is; the name is the exporting system's. One reporter raises a report's priority once, and at most 50 of their reports a day count.

**When it fails.** By task:

- `import_reports`: a source could not be read; the others are imported. Correct it and clear the task, or run a backfill over the
  missing days: importing again changes nothing that is already there.
"""

from datetime import timedelta

from airflow.sdk import Param, dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

from corpus_guard.airflow.feedback import import_feedback
from corpus_guard.airflow.notifications import dag_defaults

IMPORT_TIME = timedelta(hours=2)  # 100,000 rows take minutes


@dag(
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    max_active_runs=2,  # they take turns at the ledger; more would only wait
    dagrun_timeout=timedelta(hours=6),
    params={
        "since": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Reported since",
            description="First day to import, in UTC. Empty: everything. Scheduled runs and backfills import their own day.",
        )
    },
    tags=["guard/traceback"],
    doc_md=__doc__,
    **dag_defaults(),
)
def feedback_import():
    @task(execution_timeout=IMPORT_TIME)
    def import_reports(params: dict) -> dict[str, int]:
        return import_feedback(params["since"])

    import_reports()


feedback_import()
