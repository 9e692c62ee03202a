"""Parquet batches that travel between steps, with declared schemas, in a folder or an object store."""

from corpus_guard.batches.storage import Storage

__all__ = ["Storage"]
