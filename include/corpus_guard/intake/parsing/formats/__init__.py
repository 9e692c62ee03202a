"""Readers, one module a format.

Each has ``read(content) -> ParsedDocument`` and raises `corpus_guard.errors.HostileInput` where a document
cannot be read; problems that leave it readable are problems of the result.
"""
