"""Intake: take documents from their sources, read them behind bars, stamp them and cut them into chunks.

sources    list and fetch; one connector a file
blobs      the raw bytes, kept by their SHA-256
parsing    bytes to text, in a process of its own with limits
chunking   text to chunks with exact offsets
stamps     all of it as one `corpus_guard.domain.Version`
"""
