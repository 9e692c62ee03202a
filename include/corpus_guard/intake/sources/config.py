"""``sources.yaml``: what to pull, from where, owned by whom, trusted how far.

sources:
  - kind: folder
    name: handbook
    url: corpus/handbook        # relative to this file, or any fsspec URL
    owner: docs@example.org
    trust: trusted
  - kind: rows
    name: tickets
    url: exports/tickets-*.jsonl
    owner: support@example.org
    trust: open
    fields: {id: ticket, text: body, title: subject, metadata: [author]}
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, assert_never
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources.source import MAX_BYTES, Source
from corpus_guard.settings import load_yaml

ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Declared(_Config):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{1,40}$")]
    """Unique; part of every document id, so renaming a source makes new documents."""
    url: Annotated[str, Field(min_length=1)]
    """An fsspec URL, or a path relative to the YAML file's folder."""
    owner: Annotated[str, Field(min_length=1)]
    """Who answers for the content."""
    trust: TrustLevel


class FolderConfig(_Declared):
    """A folder, on disk or in an object store; each file is a document."""

    kind: Literal["folder"]
    include: tuple[str, ...] = ("**/*",)
    """Globs of paths to take; ``**`` is any number of folders."""
    exclude: tuple[str, ...] = ()
    """Globs of paths to leave out; wins over `include`."""


class RowFields(_Config):
    """Which column is what."""

    text: Annotated[str, Field(min_length=1)]
    id: str | None = None
    """None: the row number, counted from 1."""
    title: str | None = None
    modified: str | None = None
    metadata: Annotated[tuple[str, ...], Field(max_length=50)] = ()


class RowsConfig(_Declared):
    """Files of rows (JSONL, CSV, Parquet); each row is a document."""

    kind: Literal["rows"]
    fields: RowFields

    @field_validator("url")
    @classmethod
    def _known_suffix(cls, url: str) -> str:
        if PurePosixPath(urlsplit(url).path if "://" in url else url).suffix not in ROW_SUFFIXES:
            raise ValueError(f"expected a file name or glob ending in one of {', '.join(ROW_SUFFIXES)}")
        return url


SourceConfig = Annotated[FolderConfig | RowsConfig, Field(discriminator="kind")]


class SourcesFile(_Config):
    """The whole file."""

    sources: tuple[SourceConfig, ...]


def load_sources(path: Path, *, max_bytes: int = MAX_BYTES) -> tuple[Source, ...]:
    """Read ``sources.yaml`` and open what it declares; nothing is contacted yet.

    Args:
        path: the file; relative URLs in it start at its folder.
        max_bytes: what one document may have.

    Raises:
        SettingsError: the message names the file, the key and the fix.
    """
    declared = load_yaml(path, SourcesFile).sources
    first: dict[str, int] = {}
    for position, config in enumerate(declared):
        if config.name in first:
            raise SettingsError(
                f"{path}: sources.{position}.name: {config.name!r} is already the name of "
                f"sources.{first[config.name]}; give each source a name of its own"
            )
        first[config.name] = position
    folder = path.absolute().parent
    return tuple(
        open_source(config.model_copy(update={"url": _resolve(config.url, folder)}), max_bytes=max_bytes)
        for config in declared
    )


def open_source(config: FolderConfig | RowsConfig, *, max_bytes: int = MAX_BYTES) -> Source:
    """The connector for one declaration; its URL must be absolute already. Contacts nothing."""
    from corpus_guard.intake.sources.folder import FolderSource
    from corpus_guard.intake.sources.rows import RowSource

    match config:
        case FolderConfig():
            return FolderSource(config, max_bytes=max_bytes)
        case RowsConfig():
            return RowSource(config, max_bytes=max_bytes)
        case _:
            assert_never(config)


def _resolve(url: str, folder: Path) -> str:
    if "://" in url or "::" in url:  # "::" chains fsspec file systems
        return url
    return str(folder / Path(url).expanduser())
