"""Where documents come from: connectors behind one protocol, declared in ``sources.yaml``."""

from corpus_guard.intake.sources.config import (
    FolderConfig,
    RowsConfig,
    SourceConfig,
    SourcesFile,
    load_sources,
    open_source,
)
from corpus_guard.intake.sources.connections import Connection
from corpus_guard.intake.sources.declared import Declared
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Opening, Outcome, Source, Unchanged

__all__ = [
    "Connection",
    "Declared",
    "FetchFailed",
    "Fetched",
    "FolderConfig",
    "Item",
    "Opening",
    "Outcome",
    "RowsConfig",
    "Source",
    "SourceConfig",
    "SourcesFile",
    "Unchanged",
    "load_sources",
    "open_source",
]
