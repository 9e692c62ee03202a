"""Inputs of a standalone screening: files and folders opened as sources, and read into versions.

In JSONL, CSV and Parquet every row is a document; any other file is one document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from corpus_guard.domain import Finding, Severity, TrustLevel, Version, sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
from corpus_guard.intake.sources.config import RowFields
from corpus_guard.intake.sources.folder import FolderConfig
from corpus_guard.intake.sources.row_files import reader_for
from corpus_guard.intake.sources.rows import ROW_SUFFIXES, RowsConfig
from corpus_guard.intake.sources.source import (
    Fetched,
    FetchFailed,
    Outcome,
    Source,
    SourceContext,
    SourceItem,
    utf8_path,
)
from corpus_guard.intake.sources.sources_file import open_source
from corpus_guard.intake.stamps import make_version
from corpus_guard.settings import Settings

NAMES_SHOWN: Final = 20  # of the fields of rows, in a message


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Names of the columns of a file of rows."""

    text: str
    id: str  # where a file has no such column, its rows are numbered


class DocumentName(NamedTuple):
    """Name of a document in the output."""

    id: str  # path inside the input, or the row's id; by file: the whole path, with the row's id
    file: str  # as it was named, with the path inside the folder


@dataclass(frozen=True, slots=True)
class OpenInput:
    """File or folder that is screened, with the source that reads it."""

    path: Path  # as it was named
    source: Source

    def name_of(self, item: SourceItem, *, by_file: bool) -> DocumentName:
        """Return the name of a document: inside the input or, with `by_file`, by its whole path."""
        locator = json.loads(item.locator)
        row = str(locator["id"]) if isinstance(locator, dict) and "id" in locator else None
        file = self.path.as_posix() if self.path.is_file() else (self.path / item.uri).as_posix()
        if by_file:
            return DocumentName(file if row is None else f"{file}#{row}", file)
        return DocumentName(item.uri if row is None else row, file)


def open_inputs(paths: Sequence[Path], trust: TrustLevel, settings: Settings, columns: RowColumns) -> list[OpenInput]:
    """Open files and folders, each as a source of its own: equal names in two folders stay two documents.

    Raises:
        Misuse: a path does not exist, or a file of rows has no column for the text.
    """
    names = [f"input-{number}" if number else "input" for number in range(len(paths))]
    return [
        OpenInput(path, _open(path, trust, settings, columns, name)) for path, name in zip(paths, names, strict=True)
    ]


def open_references(paths: Sequence[Path], settings: Settings, columns: RowColumns) -> list[Source]:
    """Open the trusted files and folders that inputs are compared with; raises what `open_inputs` raises."""
    return [
        _open(path, TrustLevel.TRUSTED, settings, columns, f"reference-{number}") for number, path in enumerate(paths)
    ]


def fetch_versions(
    source: Source, items: Sequence[SourceItem], sandbox: ParsingSandbox, chunker: Chunker
) -> Iterator[Version]:
    """Yield a version of every item, also of those that could not be read."""
    now = datetime.now(UTC)
    for outcome in source.fetch(items):
        if isinstance(outcome, Fetched):
            content, declared, problems = outcome.content, outcome.declared, outcome.problems
            parsed = sandbox.parse(content, outcome.media_type, outcome.item.uri)
        elif isinstance(outcome, FetchFailed):
            content, declared, problems = b"", {}, ()
            parsed = _unfetched(outcome)
        else:
            raise Inconsistent(
                f'{outcome.item.uri}: the source answered "unchanged", expected the bytes: there is no earlier version'
            )
        yield make_version(
            source=source,
            item=outcome.item,
            content_sha256=sha256_bytes(content),
            size=len(content),
            parsed=parsed,
            problems=problems,
            declared=declared,
            run_id="screen",
            fetched_at=now,
            parent_version=None,
            chunker=chunker,
        )


def _open(path: Path, trust: TrustLevel, settings: Settings, columns: RowColumns, name: str) -> Source:
    if not path.exists():
        raise Misuse(f"{path}: no such file or folder")
    if not (path.is_file() or path.is_dir()):
        raise Misuse(f"{path}: a pipe or a device, expected a folder or a file; save what it gives in a file")
    path = path.absolute()
    owner = "(input)"
    if path.suffix in ROW_SUFFIXES and path.is_file():
        declared = _declared_columns(path)
        names = declared if declared is not None else _names_instead(path, columns.text, settings.max_document_bytes)
        if declared == []:
            raise Misuse(
                f"{path}: the file begins with no header, expected a first line with the column {columns.text!r}"
            )
        if names is not None and columns.text not in names:
            raise Misuse(
                f"{path}: no column {columns.text!r}; it has {', '.join(names)}. Name the right one with --text-field"
            )
        has_id = declared is None or columns.id in declared
        fields = RowFields(text=columns.text, id=columns.id if has_id else None)
        rows = RowsConfig(kind="rows", url=str(path), fields=fields, name=name, owner=owner, trust=trust)
        return open_source(rows, SourceContext(settings.max_document_bytes))
    folder = path.resolve().parent if path.is_file() else path
    config = FolderConfig(kind="folder", url=str(folder), name=name, owner=owner, trust=trust)
    return (
        _SingleFile(path, config, settings)
        if path.is_file()
        else open_source(config, SourceContext(settings.max_document_bytes))
    )


def _declared_columns(path: Path) -> list[str] | None:
    """Return the columns of a file that declares them; None for JSONL, where every row may differ."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except pa.ArrowInvalid:
            return None  # the source reports the error
    if path.suffix in {".csv", ".tsv"}:
        import csv

        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = file.readline(1_000_000)
        return next(csv.reader([header], delimiter="\t" if path.suffix == ".tsv" else ","), [])
    return None


def _names_instead(path: Path, text_field: str, max_bytes: int) -> list[str] | None:
    """Return names in the first rows of a JSONL file of which no row has `text_field`; None if one has it, or none has names."""
    names: dict[str, None] = {}
    if path.suffix != ".parquet":
        with path.open("rb") as file:
            for row in reader_for(path.name).scan(file, (), max_bytes):
                if row.values is not None and text_field in row.values:
                    return None
                if len(names) < NAMES_SHOWN:
                    names |= dict.fromkeys(row.values or ())
    return list(names)[:NAMES_SHOWN] or None


class _SingleFile:
    """Source of one file, wherever it links to and whatever its name begins with; its folder is not listed."""

    def __init__(self, path: Path, folder: FolderConfig, settings: Settings) -> None:
        self.name, self.owner, self.trust = folder.name, folder.owner, folder.trust
        self._path = path
        self._folder = open_source(folder, SourceContext(settings.max_document_bytes))

    def list(self) -> Iterator[SourceItem]:
        """Yield the file."""
        yield SourceItem(
            utf8_path(self._path.name), self._path.stat().st_size, None, json.dumps(self._path.resolve().name)
        )

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield its bytes."""
        return self._folder.fetch(items)


def _unfetched(failure: FetchFailed) -> ParsedDocument:
    # No later run tries again, so a document that could not be fetched must not pass as checked.
    code = failure.code if failure.code.startswith("parsing.") else "parsing.unchecked"
    return ParsedDocument("", problems=(Finding("parsing", code, Severity.CRITICAL, 1.0, failure.message),))
