"""Sources of reports: a file, several files, or an experiment of MLflow, and the tool that wrote them.

``exports/june.csv``, ``exports/*.jsonl``, any fsspec URL, or ``mlflow:EXPERIMENT``. The container (CSV,
lines, JSON values) follows from the end of a file's name, else from its first character; the tool from its
first readable record, unless a format is given.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.errors import Misuse, SourceUnavailable
from corpus_guard.intake.sources.source import public_url
from corpus_guard.settings import Settings
from corpus_guard.traceback.importers.csv_records import csv_records
from corpus_guard.traceback.importers.json_records import line_records, value_records
from corpus_guard.traceback.importers.langfuse import Langfuse
from corpus_guard.traceback.importers.mlflow_traces import MlflowTraces, trace_records
from corpus_guard.traceback.importers.phoenix import Phoenix
from corpus_guard.traceback.importers.plain import Plain
from corpus_guard.traceback.importers.record import Dialect, Mark, Record

MLFLOW = "mlflow:"
FORMATS = ("csv", "jsonl", "langfuse", "phoenix")
"""Formats that a file can be declared to have."""
_TOOLS: tuple[Dialect, ...] = (Phoenix(), Langfuse())
_PLAIN = Plain()
_RECORDS_INSPECTED = 20  # read to recognise the tool
_CONTAINERS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "lines", ".ndjson": "lines", ".json": "values"}


@dataclass(frozen=True, slots=True)
class Export:
    """Records that are being read, and their dialect."""

    place: str  # for people and for a filing's origin, without passwords
    dialect: Dialect
    records: Iterator[Record]


def exports(
    settings: Settings,
    source: str,
    mark: Mark,
    file_format: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Iterator[Export]:
    """Open what `source` names, one file after the other.

    Args:
        source: see the module.
        file_format: one of `FORMATS`; None: recognised for each file.
        columns: field → column, for a table of one's own; no tool is recognised then.

    Raises:
        Misuse: there is no such file, the format is unknown, or a file has another one.
        SourceUnavailable: a file cannot be read.
    """
    if file_format is not None and file_format not in FORMATS:
        raise Misuse(
            f"format {file_format!r}: expected one of {', '.join(FORMATS)}; MLflow is given as mlflow:EXPERIMENT"
        )
    if source.startswith(MLFLOW):
        if file_format or columns:
            raise Misuse(f"{source}: a format and a map are for files; leave them out")
        yield Export(source, MlflowTraces(), trace_records(settings, source.removeprefix(MLFLOW), mark))
        return
    address = public_url(source)
    try:
        fs, path = open_filesystem(source)
        is_file = fs.isfile(path)
        files = [path] if is_file else sorted(file for file in fs.glob(path) if fs.isfile(file))
    except Exception as error:
        raise SourceUnavailable(f"{address}: cannot be opened ({type(error).__name__}); check the address") from error
    if not files:
        problem = "this is a folder" if fs.isdir(path) else "no such file"
        raise Misuse(f"{address}: {problem}; give a file, a pattern, an fsspec URL or mlflow:EXPERIMENT")
    for file in files:
        place = address if is_file else file
        try:
            stream = fs.open(file, "rb")
        except Exception as error:
            raise SourceUnavailable(f"{place}: cannot be opened ({type(error).__name__}); check the address") from error
        with stream:
            yield _export(stream, place, file_format, columns)


def _export(stream: IO[bytes], place: str, file_format: str | None, columns: Mapping[str, str] | None) -> Export:
    container = _container(stream, place)
    if file_format == "csv" and container not in {"csv", "tsv"}:
        container = "csv"
    if file_format == "jsonl" and container in {"csv", "tsv"}:
        container = "lines"
    records = _convert_read_errors(_records(stream, container), place)
    inspected = list(itertools.islice(records, _RECORDS_INSPECTED))
    dialect: Dialect | None = Plain(columns) if columns else None
    dialect = dialect or next((tool for tool in _TOOLS if tool.name == file_format), None)
    if dialect is None:
        readable = (record.values for record in inspected if record.values is not None)
        values = next(readable, {}) if file_format is None else {}
        dialect = next((tool for tool in _TOOLS if tool.knows(values)), _PLAIN)
    return Export(place, dialect, itertools.chain(inspected, records))


def _convert_read_errors(records: Iterator[Record], place: str) -> Iterator[Record]:
    """Yield the records, and raise our own errors for what a storage raises while it is read."""
    try:
        yield from records
    except ValueError as error:  # of the reader: no line that names the columns
        raise Misuse(f"{place} {error}") from error
    except Exception as error:
        raise SourceUnavailable(
            f"{place}: cannot be read to its end ({type(error).__name__}); run again to continue where it stopped"
        ) from error


def _records(stream: IO[bytes], container: str) -> Iterator[Record]:
    if container == "empty":
        return iter(())
    if container == "lines":
        return line_records(stream)
    if container == "values":
        return value_records(stream)
    return csv_records(stream, "\t" if container == "tsv" else ",")


def _container(stream: IO[bytes], place: str) -> str:
    beginning = stream.read(2**16).removeprefix(b"\xef\xbb\xbf").lstrip()
    stream.seek(0)
    if not beginning:
        return "empty"
    by_name = _CONTAINERS.get(PurePosixPath(place).suffix.lower())
    return by_name or {b"[": "values", b"{": "lines"}.get(beginning[:1], "csv")
