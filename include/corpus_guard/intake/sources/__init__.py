"""Sources of documents: connectors behind one protocol, declared in ``sources.yaml``."""

from corpus_guard.intake.sources.config import SourceConfig
from corpus_guard.intake.sources.connections import Connection
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    Fetched,
    FetchFailed,
    Outcome,
    Source,
    SourceContext,
    SourceItem,
    Unchanged,
)
from corpus_guard.intake.sources.sources_file import Sources, load_sources, open_source

__all__ = [
    "ConfiguredSource",
    "Connection",
    "FetchFailed",
    "Fetched",
    "Outcome",
    "Source",
    "SourceConfig",
    "SourceContext",
    "SourceItem",
    "Sources",
    "Unchanged",
    "load_sources",
    "open_source",
]
