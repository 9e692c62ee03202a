"""Corpus Guard decides which documents may enter a RAG knowledge base, proves what is in it, and traces wrong answers to their cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corpus_guard.corpus.retriever import GuardedRetriever
    from corpus_guard.deployment import Deployment
    from corpus_guard.screening.standalone import screen

__version__ = "0.2.0"
__all__ = ["Deployment", "GuardedRetriever", "__version__", "screen"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `guard --help` and DAG files must start without the models."""
    from importlib import import_module

    homes = {
        "Deployment": "corpus_guard.deployment",
        "GuardedRetriever": "corpus_guard.corpus.retriever",
        "screen": "corpus_guard.screening.standalone",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
