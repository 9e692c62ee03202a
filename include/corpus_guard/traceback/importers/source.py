"""Where reports are imported from: a file, several, or an experiment of MLflow; and which tool wrote it.

``exports/june.csv``, ``exports/*.jsonl``, any fsspec URL, or ``mlflow:EXPERIMENT``. How a file is written follows from the end of its name,
else from its first character; whose it is from its first record that can be read, unless a format is given.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from fsspec.core import url_to_fs

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
"""What a file can be said to be."""
_TOOLS: tuple[Dialect, ...] = (Phoenix(), Langfuse())
_PLAIN = Plain()
_LOOKED_AT = 20  # records that are read to find out whose they are
_CONTAINERS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "lines", ".ndjson": "lines", ".json": "values"}


@dataclass(frozen=True, slots=True)
class Export:
    """Records that are being read, and what they mean."""

    place: str  # for people and for a filing's origin, without passwords
    dialect: Dialect
    records: Iterator[Record]


def exports(settings: Settings, source: str, mark: Mark, said: str | None = None) -> Iterator[Export]:
    """Open what `source` names, one file after the other.

    Args:
        settings: for MLflow's place.
        source: see the module.
        mark: what MLflow is asked for.
        said: one of `FORMATS`; None: found out for each file.

    Raises:
        Misuse: the format is not known, or a file is not of it.
        SourceUnavailable: there is no such file, or it cannot be read.
    """
    if said is not None and said not in FORMATS:
        raise Misuse(f"format {said!r}: expected one of {', '.join(FORMATS)}; MLflow is named as mlflow:EXPERIMENT")
    if source.startswith(MLFLOW):
        if said:
            raise Misuse(f"{source}: a format is for files; leave it out")
        yield Export(source, MlflowTraces(), trace_records(settings, source.removeprefix(MLFLOW), mark))
        return
    where = public_url(source)
    try:
        fs, path = url_to_fs(source)
        one = fs.isfile(path)
        files = [path] if one else sorted(file for file in fs.glob(path) if fs.isfile(file))
    except Exception as error:
        raise SourceUnavailable(f"{where}: cannot be opened ({type(error).__name__}); check the address") from error
    if not files:
        raise SourceUnavailable(f"{where}: no such file; give a file, a pattern, an fsspec URL or mlflow:EXPERIMENT")
    for file in files:
        place = where if one else file
        try:
            stream = fs.open(file, "rb")
        except Exception as error:
            raise SourceUnavailable(f"{place}: cannot be opened ({type(error).__name__}); check the address") from error
        with stream:
            yield _export(stream, place, said)


def _export(stream: IO[bytes], place: str, said: str | None) -> Export:
    container = _container(stream, place)
    if said == "csv" and container not in {"csv", "tsv"}:
        container = "csv"
    if said == "jsonl" and container in {"csv", "tsv"}:
        container = "lines"
    records = _answering(_records(stream, container), place)
    looked = list(itertools.islice(records, _LOOKED_AT))
    dialect = next((tool for tool in _TOOLS if tool.name == said), None)
    if dialect is None:
        known = next((one.values for one in looked if one.values is not None), {}) if said is None else {}
        dialect = next((tool for tool in _TOOLS if tool.knows(known)), _PLAIN)
    return Export(place, dialect, itertools.chain(looked, records))


def _answering(records: Iterator[Record], place: str) -> Iterator[Record]:
    """The same, with what a storage raises while it is read told as what it is."""
    try:
        yield from records
    except ValueError as error:  # of the reader: no line that names the columns
        raise Misuse(f"{place} {error}") from error
    except Exception as error:
        raise SourceUnavailable(
            f"{place}: cannot be read to its end ({type(error).__name__}); running again goes on"
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
    begins = stream.read(2**16).removeprefix(b"\xef\xbb\xbf").lstrip()
    stream.seek(0)
    if not begins:
        return "empty"
    named = _CONTAINERS.get(PurePosixPath(place).suffix.lower())
    return named or {b"[": "values", b"{": "lines"}.get(begins[:1], "csv")
