"""Import of reports: CSV and JSON Lines, exports of Langfuse and Phoenix, assessments in MLflow.

`corpus_guard.traceback.importers.importing.import_reports` imports what a source names, counts what became of
each row, and puts rows that it cannot take into a separate file. Importing this package loads no connector;
MLflow is imported when an experiment is read.
"""
