"""The note of a feedback import: what became of the rows, and what to do about those of other days."""

from __future__ import annotations

from datetime import UTC, datetime

from corpus_guard.airflow.feedback import summarize_import

START, END = datetime(2026, 11, 19, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC)


def test_only_what_is_there_is_said() -> None:
    assert summarize_import({"new": 1, "known": 0, "outside": 0}, None, None) == "1 new report"
    counts = {"new": 1_204, "known": 2, "aside": 3, "unmarked": 4, "outside": 0}
    assert summarize_import(counts, START, END) == (
        "1,204 new reports, 2 known already, 3 put aside (the log says why), 4 not marked as wrong"
    )


def test_rows_of_other_days_come_with_the_way_to_import_them() -> None:
    assert summarize_import({"outside": 12}, START, END) == (
        "0 new reports, 12 outside the days of this run (from 2026-11-19 until 2026-11-23; trigger the DAG by hand to import all)"
    )
    assert "(from 2026-11-19; trigger" in summarize_import({"outside": 1}, START, None)
