"""Intake: fetch documents from their sources, parse them in a sandbox, stamp them and split them into chunks.

sources    list and fetch documents; one connector a file
blobs      the raw bytes, stored by their SHA-256
parsing    bytes to text, in a process of its own with limits
chunking   text to chunks with exact offsets
stamps     the result as one `corpus_guard.domain.Version`
"""
