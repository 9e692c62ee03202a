"""Files of rows as a source: each row is a document.

Rules:

- A row's uri is ``<file>#<id>``, or ``<file>#row-<number>`` without an id. A second row with the same id in one file
  becomes ``<id>~2`` and carries a finding: an id is the row's own claim and must not overwrite another document.
- A row that cannot be read is a document all the same, of media type ``application/x-broken-row``: parsing turns it
  into a finding that names its line.
- A row's bytes are the canonical JSON of the columns `fields` names: hashing does not depend on the order of keys.
- Listing reads the file once, keeping some 100 bytes a row to see duplicates; fetching seeks.
- The modification time of an item is the file's. The row's own column is its claim and goes to ``declared``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import GuardError, SourceUnavailable
from corpus_guard.intake.parsing.parsed import storable as storable_text
from corpus_guard.intake.sources._row import Place, Row, RowFile
from corpus_guard.intake.sources._row_csv import SeparatedValues
from corpus_guard.intake.sources._row_document import row_document, row_problem, row_text
from corpus_guard.intake.sources._row_jsonl import JsonLines
from corpus_guard.intake.sources._row_parquet import Parquet
from corpus_guard.intake.sources.config import RowsConfig
from corpus_guard.intake.sources.source import (
    Fetched,
    FetchFailed,
    Item,
    Opening,
    as_utc,
    public_url,
    storable,
    too_large,
)

BROKEN_ROW_TYPE = "application/x-broken-row"
_MAX_ID_CHARS = 300
_FORMATS: dict[str, RowFile] = {
    ".jsonl": JsonLines(),
    ".ndjson": JsonLines(),
    ".csv": SeparatedValues(","),
    ".tsv": SeparatedValues("\t"),
    ".parquet": Parquet(),
}


class RowSource:
    """See the module's rules."""

    Config = RowsConfig

    def __init__(self, config: RowsConfig, opening: Opening) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self._url = config.url
        self._fields = config.fields
        self._max_bytes = opening.max_bytes
        fields = config.fields
        named = [fields.text, fields.id, fields.title, fields.modified, *fields.metadata]
        self._columns = tuple(dict.fromkeys(column for column in named if column))

    def list(self) -> Iterator[Item]:
        """Every row, file by file in the order of names; raises SourceUnavailable (see `Source`)."""
        fs, base, files = self._open()
        required = tuple(column for column in (self._fields.text, self._fields.id) if column)
        for path in files:
            relative = path[len(base) :].lstrip("/")
            try:
                modified = as_utc(_modified(fs, path))
                with fs.open(path, "rb") as stream:
                    names = _Names(relative)
                    for row in _format(path).scan(stream, required, self._max_bytes):
                        identity = self._identity(row)
                        uri, duplicate = names.take(identity)
                        locator = {
                            "file": relative,
                            "at": [row.place.at, row.place.extent, row.place.line],
                            "id": identity,
                            "duplicate": duplicate,
                        }
                        yield Item(uri, row.size, modified, json.dumps(locator))
            except GuardError:
                raise
            except ValueError as error:
                raise SourceUnavailable(
                    f"source {self.name}: {public_url(self._url)}: the file {relative!r} {error}; "
                    "correct the file, or `fields` in sources.yaml"
                ) from error
            except Exception as error:
                raise SourceUnavailable(
                    f"source {self.name}: {public_url(self._url)}: the file {relative!r} cannot be read "
                    f"({type(error).__name__}); check the storage, then run again"
                ) from error

    def fetch(self, items: Sequence[Item]) -> Iterator[Fetched | FetchFailed]:
        """The rows, in the order asked for; each file is opened once for its run of items."""
        fs, base, _ = self._open()
        for file, run in groupby(items, key=lambda item: json.loads(item.locator)["file"]):
            yield from self._fetch_file(fs, base, file, [*run])

    def _fetch_file(
        self, fs: fsspec.AbstractFileSystem, base: str, file: str, items: Sequence[Item]
    ) -> Iterator[Fetched | FetchFailed]:
        if ".." in PurePosixPath(file).parts:
            yield from (FetchFailed(item, "intake.outside", "the place leads out of the source") for item in items)
            return
        done = 0
        try:
            with fs.open(f"{base}/{file}", "rb") as stream:
                for item, row in self._rows(stream, file, items):
                    outcome = self._outcome(item, row)
                    done += 1
                    yield outcome
        except FileNotFoundError:
            for item in items[done:]:
                yield FetchFailed(
                    item, "intake.gone", "the file was listed and is gone; the next run sees what is there"
                )
        except Exception as error:
            why = (
                f"the file could not be read on ({type(error).__name__}); it may have been replaced since it was listed"
            )
            for item in items[done:]:
                yield FetchFailed(item, "intake.unreadable", why)

    def _rows(self, stream: Any, file: str, items: Sequence[Item]) -> Iterator[tuple[Item, Row]]:
        # Rows above the limit are never asked of the reader, which would have to hold them.
        reader, limit = _format(file), self._max_bytes
        for small, run in groupby(items, key=lambda item: item.size is None or item.size <= limit):
            batch = [*run]
            places = [Place(*json.loads(item.locator)["at"]) for item in batch]
            if small:
                stream.seek(0)
                yield from zip(batch, reader.read(stream, places, self._columns_of(file), limit), strict=True)
            else:
                for item, place in zip(batch, places, strict=True):
                    yield item, Row(place, None, size=item.size)

    def _columns_of(self, file: str) -> tuple[str, ...]:
        # Only Parquet needs to know what to read; the others read whole rows and must not fail on optional columns.
        return self._columns if file.endswith(".parquet") else ()

    def _outcome(self, item: Item, row: Row) -> Fetched | FetchFailed:
        locator = json.loads(item.locator)
        if row.size is not None and row.size > self._max_bytes:
            return too_large(item, row.size, self._max_bytes)
        if self._identity(row) != locator["id"]:
            return FetchFailed(
                item, "intake.changed", "the file changed since it was listed: another row is in this place"
            )
        problems = []
        if locator["duplicate"]:
            problems.append(
                _problem("provenance.duplicate_id", Severity.MEDIUM, "another row of this file has the same id", row)
            )
        if row.values is None:
            return Fetched(item, row.raw, f"{BROKEN_ROW_TYPE}; line={row.place.line}", problems=tuple(problems))
        if row.misshapen:
            problems.append(
                _problem(
                    "parsing.row_shape",
                    Severity.MEDIUM,
                    "the row is not UTF-8, or its cells do not match the columns",
                    row,
                )
            )
        where = f" (line or row {row.place.line})"
        return row_document(item, row.values, self._fields, self._max_bytes, where, problems)

    def _identity(self, row: Row) -> str:
        number = f"row-{row.place.line}"
        if row.values is None or self._fields.id is None:
            return number
        value = row.values.get(self._fields.id)
        identity = storable_text(row_text(value))
        if not identity.strip():
            return number
        if len(identity) > _MAX_ID_CHARS:
            return f"{identity[:_MAX_ID_CHARS]}~{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        return identity

    def _open(self) -> tuple[fsspec.AbstractFileSystem, str, Sequence[str]]:
        """The file system, the folder uris are relative to, and the files."""
        where = f"source {self.name}: {public_url(self._url)}"
        try:
            fs, path = url_to_fs(self._url)
            fs.invalidate_cache()
            files = [path] if fs.isfile(path) else sorted(file for file in fs.glob(path) if fs.isfile(file))
        except Exception as error:
            raise SourceUnavailable(
                f"{where} cannot be opened ({type(error).__name__}); check url in sources.yaml and the storage"
            ) from error
        if not files:
            raise SourceUnavailable(f"{where}: no such file; check url in sources.yaml")
        fixed = path
        while any(magic in fixed for magic in "*?[") and fixed not in files:
            fixed = fixed.rpartition("/")[0]
        return fs, fixed if fixed != path else path.rpartition("/")[0], files


class _Names:
    """Gives each row of one file a uri of its own."""

    def __init__(self, file: str) -> None:
        self._file = storable(file)
        self._seen: set[bytes] = set()
        self._copies: dict[bytes, int] = {}

    def take(self, identity: str) -> tuple[str, bool]:
        """The uri for `identity`, and whether the id had been taken."""
        first = key = _key(identity)
        name = identity
        while key in self._seen:  # a row may also claim the very name "x~2"
            copy = self._copies[first] = self._copies.get(first, 1) + 1
            name = f"{identity}~{copy}"
            key = _key(name)
        self._seen.add(key)
        return f"{self._file}#{name}", name != identity


def _key(identity: str) -> bytes:
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


def _format(path: str) -> RowFile:
    suffix = PurePosixPath(path).suffix
    if suffix not in _FORMATS:
        raise ValueError(f"has an unknown format; expected one of {', '.join(_FORMATS)}")
    return _FORMATS[suffix]


def _modified(fs: fsspec.AbstractFileSystem, path: str) -> Any:
    try:
        return fs.modified(path)
    except NotImplementedError:
        return None


def _problem(code: str, severity: Severity, message: str, row: Row) -> Finding:
    return row_problem(code, severity, f"{message} (line or row {row.place.line})")
