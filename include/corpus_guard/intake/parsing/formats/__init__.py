"""Readers, one file a format.

Each has ``read(content) -> Parsed`` and raises `corpus_guard.errors.HostileInput` where nothing can be read; what is
odd but readable is a problem of the result.
"""
