"""What every declaration in ``sources.yaml`` says, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import TrustLevel

ConnectionName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,100}$")]
"""A connection of Airflow, or of the environment: see `corpus_guard.intake.sources.connections`."""


class Strict(BaseModel):
    """Unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Declared(Strict):
    """A source of any kind; a kind's own configuration derives from it."""

    kind: str
    """Which connector reads it."""
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{1,40}$")]
    """Unique; part of every document id, so renaming a source makes new documents."""
    owner: Annotated[str, Field(min_length=1)]
    """Who answers for the content."""
    trust: TrustLevel

    def beside(self, folder: Path) -> Self:
        """The same, with what is relative to the folder of ``sources.yaml`` made absolute."""
        return self


class RowFields(Strict):
    """Which column is what."""

    text: Annotated[str, Field(min_length=1)]
    id: str | None = None
    """None: the row number, counted from 1."""
    title: str | None = None
    modified: str | None = None
    metadata: Annotated[tuple[str, ...], Field(max_length=50)] = ()


class Globs(Strict):
    """Which paths of a tree are taken."""

    include: tuple[str, ...] = ("**/*",)
    """Globs of paths to take; ``**`` is any number of folders."""
    exclude: tuple[str, ...] = ()
    """Globs of paths to leave out; wins over `include`."""
