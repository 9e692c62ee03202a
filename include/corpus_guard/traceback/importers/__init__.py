"""Reports from where people file them: CSV and JSON Lines, exports of Langfuse and Phoenix, assessments in MLflow.

`import_reports` takes what a source names, says how many rows became what, and puts aside what it cannot take. Importing this imports no
connector: MLflow is imported when it is asked.
"""

from corpus_guard.traceback.importers.importing import Imported, import_reports
from corpus_guard.traceback.importers.record import REPORTED, Mark
from corpus_guard.traceback.importers.source import FORMATS

__all__ = ["FORMATS", "REPORTED", "Imported", "Mark", "import_reports"]
