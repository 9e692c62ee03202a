"""Files of rows as a source: each row is a document.

Rules:

- A row's uri is ``<file>#<id>``, or ``<file>#row-<number>`` without an id. A second row with the same id in
  one file becomes ``<id>~2`` and carries a finding: an id is the row's own claim and must not overwrite
  another document.
- A row that cannot be read is still a document, of media type ``application/x-broken-row``: parsing turns it
  into a finding that names its line.
- A key that stands twice in a row is a finding. A file with two columns of the name of the text's or the id's
  makes the source unavailable.
- A row's bytes are the canonical JSON of the columns `fields` names: hashing does not depend on the order of
  keys.
- Listing reads the file once and keeps some 100 bytes a row to see duplicates; fetching seeks.
- The modification time of an item is the file's. The row's own column is its claim and goes to ``declared``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from typing import IO, Literal
from urllib.parse import urlsplit

import fsspec
from pydantic import field_validator

from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import GuardError, SourceUnavailable
from corpus_guard.intake.parsing.document import replace_unstorable
from corpus_guard.intake.parsing.media import BROKEN_ROW
from corpus_guard.intake.sources.config import LocatedConfig, RowFields
from corpus_guard.intake.sources.row_documents import cell_text, make_row_document, make_row_problem
from corpus_guard.intake.sources.row_files import READERS, FileRow, RowPlace, reader_for
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    Fetched,
    FetchFailed,
    SourceContext,
    SourceItem,
    as_utc,
    oversize_failure,
    public_url,
    utf8_path,
)

ROW_SUFFIXES = tuple(READERS)
_MAX_ID_CHARS = 300


class RowsConfig(LocatedConfig):
    """Files of rows (JSONL, CSV, Parquet); each row is a document."""

    kind: Literal["rows"]
    fields: RowFields

    @field_validator("url")
    @classmethod
    def _known_suffix(cls, url: str) -> str:
        if PurePosixPath(urlsplit(url).path if "://" in url else url).suffix not in ROW_SUFFIXES:
            raise ValueError(f"expected a file name or glob ending in one of {', '.join(ROW_SUFFIXES)}")
        return url


class RowSource(ConfiguredSource[RowsConfig]):
    """Source over the rows of one or more files; see the module's rules."""

    Config = RowsConfig

    def __init__(self, config: RowsConfig, context: SourceContext) -> None:
        super().__init__(config, context)
        self._fields = fields = config.fields
        columns = [fields.text, fields.id, fields.title, fields.modified, *fields.metadata]
        self._columns = tuple(dict.fromkeys(column for column in columns if column))

    def list(self) -> Iterator[SourceItem]:
        """Yield every row, file by file in the order of names; raise SourceUnavailable (see `Source`)."""
        fs, base, files = self._open()
        required = tuple(column for column in (self._fields.text, self._fields.id) if column)
        for path in files:
            relative = path[len(base) :].lstrip("/")
            try:
                modified = as_utc(_modified_at(fs, path))
                with fs.open(path, "rb") as stream:
                    uris = _UriAllocator(relative)
                    for row in reader_for(path).scan(stream, required, self._context.max_bytes):
                        identity = self._identity(row)
                        uri, duplicate = uris.allocate(identity)
                        locator = {
                            "file": relative,
                            "at": [row.place.at, row.place.extent, row.place.line],
                            "id": identity,
                            "duplicate": duplicate,
                        }
                        yield SourceItem(uri, row.size, modified, json.dumps(locator))
            except GuardError:
                raise
            except ValueError as error:
                raise SourceUnavailable(
                    f"source {self.name}: {public_url(self._config.url)}: the file {relative!r} {error}; "
                    "correct the file, or `fields` in sources.yaml"
                ) from error
            except Exception as error:
                raise SourceUnavailable(
                    f"source {self.name}: {public_url(self._config.url)}: the file {relative!r} cannot be read "
                    f"({type(error).__name__}); check the storage, then run again"
                ) from error

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Fetched | FetchFailed]:
        """Yield the rows in the order of `items`; open each file once for each run of its items."""
        fs, base, _ = self._open()
        for file, run in groupby(items, key=lambda item: json.loads(item.locator)["file"]):
            yield from self._fetch_file(fs, base, file, [*run])

    def _fetch_file(
        self, fs: fsspec.AbstractFileSystem, base: str, file: str, items: Sequence[SourceItem]
    ) -> Iterator[Fetched | FetchFailed]:
        if ".." in PurePosixPath(file).parts:
            yield from (FetchFailed(item, "intake.outside", "the place leads out of the source") for item in items)
            return
        done = 0
        try:
            with fs.open(f"{base}/{file}", "rb") as stream:
                for item, row in self._read_rows(stream, file, items):
                    outcome = self._outcome(item, row)
                    done += 1
                    yield outcome
        except FileNotFoundError:
            for item in items[done:]:
                yield FetchFailed(
                    item, "intake.gone", "the file was listed and is gone; the next run will see it as vanished"
                )
        except Exception as error:
            message = (
                f"the rest of the file could not be read ({type(error).__name__}); "
                "it may have been replaced since it was listed"
            )
            for item in items[done:]:
                yield FetchFailed(item, "intake.unreadable", message)

    def _read_rows(
        self, stream: IO[bytes], file: str, items: Sequence[SourceItem]
    ) -> Iterator[tuple[SourceItem, FileRow]]:
        # Rows above the limit never reach the reader, which would have to hold them.
        reader, limit = reader_for(file), self._context.max_bytes
        for fits, run in groupby(items, key=lambda item: item.size is None or item.size <= limit):
            batch = [*run]
            places = [RowPlace(*json.loads(item.locator)["at"]) for item in batch]
            if fits:
                stream.seek(0)
                yield from zip(batch, reader.read(stream, places, self._columns_of(file), limit), strict=True)
            else:
                for item, place in zip(batch, places, strict=True):
                    yield item, FileRow(place, None, size=item.size)

    def _columns_of(self, file: str) -> tuple[str, ...]:
        # Only Parquet needs to know what to read; the others read whole rows and must not fail on optional columns.
        return self._columns if file.endswith(".parquet") else ()

    def _outcome(self, item: SourceItem, row: FileRow) -> Fetched | FetchFailed:
        locator = json.loads(item.locator)
        limit = self._context.max_bytes
        if row.size is not None and row.size > limit:
            return oversize_failure(item, row.size, limit)
        if self._identity(row) != locator["id"]:
            return FetchFailed(
                item, "intake.changed", "the file changed since it was listed: another row is in this place"
            )
        problems = []
        if locator["duplicate"]:
            message = "another row of this file has the same id"
            problems.append(_make_problem("provenance.duplicate_id", message, row))
        if row.values is None:
            return Fetched(item, row.raw, f"{BROKEN_ROW}; line={row.place.line}", problems=tuple(problems))
        if row.flaw:
            problems.append(_make_problem("parsing.row_shape", row.flaw, row))
        where = f" (line or row {row.place.line})"
        return make_row_document(item, row.values, self._fields, limit, where, problems)

    def _identity(self, row: FileRow) -> str:
        number = f"row-{row.place.line}"
        if row.values is None or self._fields.id is None:
            return number
        identity = replace_unstorable(cell_text(row.values.get(self._fields.id)))
        if not identity.strip():
            return number
        if len(identity) > _MAX_ID_CHARS:
            return f"{identity[:_MAX_ID_CHARS]}~{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        return identity

    def _open(self) -> tuple[fsspec.AbstractFileSystem, str, Sequence[str]]:
        """Return the file system, the folder uris are relative to, and the files."""
        where = f"source {self.name}: {public_url(self._config.url)}"
        try:
            fs, path = open_filesystem(self._config.url)
            fs.invalidate_cache()
            files = [path] if fs.isfile(path) else sorted(file for file in fs.glob(path) if fs.isfile(file))
        except Exception as error:
            raise SourceUnavailable(
                f"{where} cannot be opened ({type(error).__name__}); check url in sources.yaml and the storage"
            ) from error
        if not files:
            raise SourceUnavailable(f"{where}: no such file; check url in sources.yaml")
        folder = path
        while any(magic in folder for magic in "*?[") and folder not in files:
            folder = folder.rpartition("/")[0]
        return fs, folder if folder != path else path.rpartition("/")[0], files


class _UriAllocator:
    """Unique uris for the rows of one file."""

    def __init__(self, file: str) -> None:
        self._file = utf8_path(file)
        self._used: set[bytes] = set()
        self._copies: dict[bytes, int] = {}

    def allocate(self, identity: str) -> tuple[str, bool]:
        """Return the uri for `identity`, and whether the id was in use already."""
        first = key = _hash_key(identity)
        name = identity
        while key in self._used:  # a row may also claim the very name "x~2"
            copy = self._copies[first] = self._copies.get(first, 1) + 1
            name = f"{identity}~{copy}"
            key = _hash_key(name)
        self._used.add(key)
        return f"{self._file}#{name}", name != identity


def _hash_key(identity: str) -> bytes:
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


def _modified_at(fs: fsspec.AbstractFileSystem, path: str) -> object:
    try:
        return fs.modified(path)
    except NotImplementedError:
        return None


def _make_problem(code: str, message: str, row: FileRow) -> Finding:
    return make_row_problem(code, Severity.MEDIUM, f"{message} (line or row {row.place.line})")
