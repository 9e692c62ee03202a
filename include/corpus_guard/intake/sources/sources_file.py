"""``sources.yaml``: the declared sources, with their owners and trust levels, and the connectors that open them.

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

Each kind has its own keys, explained in the module of its connector (`KINDS`). A kind of your own is one
class in a package of yours, registered as an entry point in the group ``corpus_guard.sources`` under the name
of the kind::

    class WikiConfig(SourceConfig):          # pydantic; unknown keys are refused
        kind: Literal["wiki"]
        space: str

    class WikiSource:
        Config = WikiConfig
        def __init__(self, config: WikiConfig, context: SourceContext) -> None: ...   # contacts nothing
        # name, owner, trust, list() and fetch(): see `corpus_guard.intake.sources.source.Source`

Its code runs with the rights of the refresh: install it as carefully as any other package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from corpus_guard.errors import SettingsError, UnknownSubject
from corpus_guard.intake.sources.config import SourceConfig, StrictModel
from corpus_guard.intake.sources.connections import Connections, from_environment
from corpus_guard.intake.sources.source import MAX_BYTES, Source, SourceContext
from corpus_guard.settings import load_yaml, validate

GROUP = "corpus_guard.sources"
"""Entry point group of the kinds that other packages bring."""

KINDS = {
    "folder": "corpus_guard.intake.sources.folder:FolderSource",
    "rows": "corpus_guard.intake.sources.rows:RowSource",
    "web": "corpus_guard.intake.sources.web.source:WebSource",
    "objects": "corpus_guard.intake.sources.objects:ObjectSource",
    "git": "corpus_guard.intake.sources.git:GitSource",
    "sql": "corpus_guard.intake.sources.sql:SqlSource",
}
"""The built-in kinds; a package cannot take their names."""


class SourcesFile(StrictModel):
    """The whole file; each declaration is validated by its kind."""

    sources: tuple[dict[str, object], ...]


class Sources(Mapping[str, Source]):
    """The sources of one ``sources.yaml``, by name."""

    def __init__(self, sources: Iterable[Source], file: Path) -> None:
        """Keep what `load_sources` read from `file`."""
        self._by_name = {source.name: source for source in sources}
        self._file = file

    def __getitem__(self, name: str) -> Source:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def named(self, name: str) -> Source:
        """Return a source.

        Raises:
            UnknownSubject: the file declares no such source.
        """
        if name not in self:
            raise UnknownSubject(f"source {name!r} is not in {self._file}; known: {', '.join(self) or 'none'}")
        return self._by_name[name]


class Connector(Protocol):
    """A class of sources, built in or from another package."""

    Config: type[SourceConfig]

    def __call__(self, config: Any, context: SourceContext) -> Source:
        """Open one declaration without contacting anything."""
        ...


def load_sources(
    path: Path, *, max_bytes: int = MAX_BYTES, connections: Connections = from_environment, cache: Path | None = None
) -> tuple[Source, ...]:
    """Read ``sources.yaml`` and open the sources it declares; contact nothing yet.

    Args:
        path: the file; relative URLs in it start at its folder.
        connections: where credentials come from; asked when a source is read, not before.
        cache: a folder for files that connectors can do without.

    Raises:
        SettingsError: the message names the file, the key and the fix.
    """
    context = SourceContext(max_bytes, connections, cache)
    return tuple(open_source(config, context) for config in read_declarations(path))


def read_declarations(path: Path) -> tuple[SourceConfig, ...]:
    """Return the validated declarations of ``sources.yaml``; raise SettingsError as `load_sources` does."""
    configs = [
        _validate_declaration(path, position, declaration)
        for position, declaration in enumerate(load_yaml(path, SourcesFile).sources)
    ]
    first: dict[str, int] = {}
    for position, config in enumerate(configs):
        if config.name in first:
            raise SettingsError(
                f"{path}: sources.{position}.name: {config.name!r} is already the name of "
                f"sources.{first[config.name]}; give each source a name of its own"
            )
        first[config.name] = position
    folder = path.absolute().parent
    return tuple(config.beside(folder) for config in configs)


def open_source(config: SourceConfig, context: SourceContext) -> Source:
    """Return the source of one declaration, whose URL must be absolute already; contact nothing."""
    return _load_connector(config.kind)(config, context)


def _validate_declaration(path: Path, position: int, declaration: Mapping[str, object]) -> SourceConfig:
    kind = declaration.get("kind")
    if not isinstance(kind, str):
        raise SettingsError(f"{path}: sources.{position}.kind: missing; expected one of {', '.join(_list_kinds())}")
    try:
        model = _load_connector(kind).Config
    except SettingsError as error:
        raise SettingsError(f"{path}: sources.{position}.kind: {error}") from error
    return validate(dict(declaration), model, where=str(path), below=f"sources.{position}.{kind}")


def _list_kinds() -> list[str]:
    return sorted({*KINDS, *(point.name for point in entry_points(group=GROUP))})


def _load_connector(kind: str) -> Connector:
    if kind in KINDS:
        module, _, name = KINDS[kind].partition(":")
        built_in: Connector = getattr(import_module(module), name)
        return built_in
    points = {point.value: point for point in entry_points(group=GROUP) if point.name == kind}
    if not points:
        raise SettingsError(
            f"{kind!r} is none of {', '.join(_list_kinds())}; correct it, or install the package that provides it "
            f"(entry point group {GROUP})"
        )
    if len(points) > 1:
        raise SettingsError(
            f"{kind!r} comes from several packages ({', '.join(sorted(points))}); uninstall all but one"
        )
    ((value, point),) = points.items()
    try:
        connector: Connector = point.load()
        derived = issubclass(connector.Config, SourceConfig)
    except Exception as error:  # another package's code: whatever it raises, the message must name the package
        raise SettingsError(
            f"{kind!r} cannot be loaded from {value} ({type(error).__name__}: {error}); reinstall its package"
        ) from error
    if not derived:
        raise SettingsError(
            f"{kind!r}: {value} needs a Config that derives from corpus_guard.intake.sources.SourceConfig"
        )
    return connector
