"""Keys that declarations in ``sources.yaml`` share, whatever their kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from corpus_guard.domain import TrustLevel

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{1,40}")

ConnectionName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,100}$")]
"""Name of a connection in Airflow or in the environment: see `corpus_guard.intake.sources.connections`."""


class StrictModel(BaseModel):
    """Immutable model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _require_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("expected 2 to 41 lower case letters, digits, - and _, with a letter first")
    return name


class SourceConfig(StrictModel):
    """Configuration of a source of any kind; each kind derives its own from it."""

    kind: str
    """Connector that reads it."""
    name: Annotated[str, AfterValidator(_require_name)]
    """2 to 41 lower case letters, digits, ``-`` and ``_``, with a letter first. Unique; part of every document id, so
    renaming a source makes new documents."""
    owner: Annotated[str, Field(min_length=1)]
    """Person or team that answers for the content."""
    trust: TrustLevel

    def beside(self, folder: Path) -> Self:
        """Return a copy in which paths relative to `folder`, where ``sources.yaml`` lies, are absolute."""
        return self


class LocatedConfig(SourceConfig):
    """Configuration of a source that fsspec opens."""

    url: Annotated[str, Field(min_length=1)]
    """An fsspec URL, or a path relative to the YAML file's folder."""

    def beside(self, folder: Path) -> Self:
        """Return a copy with an absolute path."""
        if "://" in self.url or "::" in self.url:  # "::" chains fsspec file systems
            return self
        return self.model_copy(update={"url": str(folder / Path(self.url).expanduser())})


class RowFields(StrictModel):
    """Names of the columns that hold a row's text, id and metadata."""

    text: Annotated[str, Field(min_length=1)]
    id: str | None = None
    """None: the row number, counted from 1."""
    title: str | None = None
    modified: str | None = None
    metadata: Annotated[tuple[str, ...], Field(max_length=50)] = ()


class PathGlobs(StrictModel):
    """Globs that select paths of a tree."""

    include: tuple[str, ...] = ("**/*",)
    """Globs of paths to take; ``**`` is any number of folders."""
    exclude: tuple[str, ...] = ()
    """Globs of paths to leave out; wins over `include`."""

    def matcher(self) -> Callable[[str], bool]:
        """Return a function that tells whether a path, relative to the source, is one of its documents."""
        included = [_compile_glob(pattern) for pattern in self.include]
        excluded = [_compile_glob(pattern) for pattern in self.exclude]

        def matches(path: str) -> bool:
            return any(glob.fullmatch(path) for glob in included) and not any(glob.fullmatch(path) for glob in excluded)

        return matches


def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob over posix paths: ``**/`` any folders, ``*`` and ``?`` within one name, ``[...]`` a set."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/"):
            parts.append("(?:[^/]+/)*")
            position += 3
        elif match := re.match(r"\*+", rest):
            parts.append(".*" if match.end() > 1 else "[^/]*")
            position += match.end()
        elif match := re.match(r"\[(!?)([^\]/]+)\]", rest):
            members = match[2].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^").replace("&", r"\&")
            parts.append(f"[{'^' if match[1] else ''}{members}]")
            position += match.end()
        else:
            parts.append("[^/]" if pattern[position] == "?" else re.escape(pattern[position]))
            position += 1
    return re.compile("".join(parts), re.DOTALL)
