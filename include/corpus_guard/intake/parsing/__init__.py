"""Bytes to text without trusting the bytes: complex formats are read in a process of its own, under limits."""

from corpus_guard.intake.parsing.document import ParsedDocument
from corpus_guard.intake.parsing.sandbox import ParsingSandbox

PARSER_VERSION = "13"
"""Raise it with every change that can read other text from the same bytes; older batches are then parsed again."""

__all__ = ["PARSER_VERSION", "ParsedDocument", "ParsingSandbox"]
