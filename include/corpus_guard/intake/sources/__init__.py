"""Where documents come from: connectors behind one protocol, declared in ``sources.yaml``."""

from corpus_guard.intake.sources.config import (
    FolderConfig,
    RowsConfig,
    SourceConfig,
    SourcesFile,
    load_sources,
    open_source,
)
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Source

__all__ = [
    "FetchFailed",
    "Fetched",
    "FolderConfig",
    "Item",
    "RowsConfig",
    "Source",
    "SourceConfig",
    "SourcesFile",
    "load_sources",
    "open_source",
]
