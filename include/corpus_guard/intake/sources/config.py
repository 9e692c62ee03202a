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

Each kind has its own keys, named in `KINDS` and explained where its connector is. A kind of your own is one class in a package of yours,
found by an entry point in the group ``corpus_guard.sources`` whose name is the kind::

    class WikiConfig(Declared):              # pydantic; unknown keys are refused
        kind: Literal["wiki"]
        space: str

    class WikiSource:
        Config = WikiConfig
        def __init__(self, config: WikiConfig, opening: Opening) -> None: ...   # contacts nothing
        # name, owner, trust, list() and fetch() as `corpus_guard.intake.sources.source.Source` says

It is code that runs with the rights of the refresh: install it as you would any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Protocol, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources.connections import Connections, from_environment
from corpus_guard.intake.sources.declared import Declared, Globs, RowFields, Strict
from corpus_guard.intake.sources.source import MAX_BYTES, Opening, Source
from corpus_guard.settings import load_yaml, validate

ROW_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
GROUP = "corpus_guard.sources"
"""The entry points other packages' kinds are found by."""

KINDS = {
    "folder": "corpus_guard.intake.sources.folder:FolderSource",
    "rows": "corpus_guard.intake.sources.rows:RowSource",
    "web": "corpus_guard.intake.sources.web.source:WebSource",
    "objects": "corpus_guard.intake.sources.objects:ObjectSource",
    "git": "corpus_guard.intake.sources.git:GitSource",
    "sql": "corpus_guard.intake.sources.sql:SqlSource",
}
"""The kinds that come with the guard; a package cannot take their names."""

__all__ = [
    "GROUP",
    "KINDS",
    "ROW_SUFFIXES",
    "Connector",
    "FolderConfig",
    "RowFields",
    "RowsConfig",
    "SourceConfig",
    "SourcesFile",
    "load_sources",
    "open_source",
    "read_declarations",
]

SourceConfig = Declared


class _Located(Declared):
    url: Annotated[str, Field(min_length=1)]
    """An fsspec URL, or a path relative to the YAML file's folder."""

    def beside(self, folder: Path) -> Self:
        """With an absolute path."""
        return self.model_copy(update={"url": _resolve(self.url, folder)})


class FolderConfig(_Located, Globs):
    """A folder, on disk or in an object store; each file is a document."""

    kind: Literal["folder"]


class RowsConfig(_Located):
    """Files of rows (JSONL, CSV, Parquet); each row is a document."""

    kind: Literal["rows"]
    fields: RowFields

    @field_validator("url")
    @classmethod
    def _known_suffix(cls, url: str) -> str:
        if PurePosixPath(urlsplit(url).path if "://" in url else url).suffix not in ROW_SUFFIXES:
            raise ValueError(f"expected a file name or glob ending in one of {', '.join(ROW_SUFFIXES)}")
        return url


class SourcesFile(Strict):
    """The whole file; each declaration is validated by its kind."""

    sources: tuple[dict[str, Any], ...]


class Connector(Protocol):
    """A class of sources, the guard's or another package's."""

    Config: type[Declared]

    def __call__(self, config: Any, opening: Opening) -> Source:
        """Open one declaration; contacts nothing."""
        ...


def load_sources(
    path: Path,
    *,
    max_bytes: int = MAX_BYTES,
    connections: Connections = from_environment,
    cache: Path | None = None,
) -> tuple[Source, ...]:
    """Read ``sources.yaml`` and open what it declares; nothing is contacted yet.

    Args:
        path: the file; relative URLs in it start at its folder.
        max_bytes: what one document may have.
        connections: where credentials come from; asked when a source is read, not before.
        cache: a folder for what connectors may lose.

    Raises:
        SettingsError: the message names the file, the key and the fix.
    """
    opening = Opening(max_bytes, connections, cache)
    return tuple(_open(config, opening) for config in read_declarations(path))


def read_declarations(path: Path) -> tuple[Declared, ...]:
    """What ``sources.yaml`` declares, validated; raises SettingsError as `load_sources` does."""
    declared = [_declaration(path, n, one) for n, one in enumerate(load_yaml(path, SourcesFile).sources)]
    first: dict[str, int] = {}
    for position, config in enumerate(declared):
        if config.name in first:
            raise SettingsError(
                f"{path}: sources.{position}.name: {config.name!r} is already the name of "
                f"sources.{first[config.name]}; give each source a name of its own"
            )
        first[config.name] = position
    folder = path.absolute().parent
    return tuple(config.beside(folder) for config in declared)


def open_source(
    config: Declared,
    *,
    max_bytes: int = MAX_BYTES,
    connections: Connections = from_environment,
    cache: Path | None = None,
) -> Source:
    """The connector for one declaration; its URL must be absolute already. Contacts nothing."""
    return _open(config, Opening(max_bytes, connections, cache))


def _open(config: Declared, opening: Opening) -> Source:
    return _connector(config.kind)(config, opening)


def _declaration(path: Path, position: int, said: Mapping[str, Any]) -> Declared:
    kind = said.get("kind")
    if not isinstance(kind, str):
        raise SettingsError(f"{path}: sources.{position}.kind: missing; one of {', '.join(_kinds())}")
    try:
        model = _connector(kind).Config
    except SettingsError as error:
        raise SettingsError(f"{path}: sources.{position}.kind: {error}") from error
    return validate(dict(said), model, where=str(path), below=f"sources.{position}.{kind}")


def _kinds() -> list[str]:
    return sorted({*KINDS, *(point.name for point in entry_points(group=GROUP))})


def _connector(kind: str) -> Connector:
    if kind in KINDS:
        module, _, name = KINDS[kind].partition(":")
        found: Connector = getattr(import_module(module), name)
        return found
    points = {point.value: point for point in entry_points(group=GROUP) if point.name == kind}
    if not points:
        raise SettingsError(
            f"{kind!r} is none of {', '.join(_kinds())}; correct it, or install the package that brings it (entry point group {GROUP})"
        )
    if len(points) > 1:
        raise SettingsError(
            f"{kind!r} comes from several packages ({', '.join(sorted(points))}); uninstall all but one"
        )
    ((value, point),) = points.items()
    try:
        loaded: Connector = point.load()
        fits = issubclass(loaded.Config, Declared)
    except Exception as error:  # somebody else's code: whatever it raises, the file's reader must know which package
        raise SettingsError(
            f"{kind!r} cannot be loaded from {value} ({type(error).__name__}: {error}); reinstall its package"
        ) from error
    if not fits:
        raise SettingsError(f"{kind!r}: {value} needs a Config that derives from corpus_guard.intake.sources.Declared")
    return loaded


def _resolve(url: str, folder: Path) -> str:
    if "://" in url or "::" in url:  # "::" chains fsspec file systems
        return url
    return str(folder / Path(url).expanduser())
