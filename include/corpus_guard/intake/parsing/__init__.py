"""Bytes to text, without trusting the bytes: HTML, PDF, Office documents and EPUB are read in a process of its own, under limits."""

from corpus_guard.intake.parsing.parsed import Parsed
from corpus_guard.intake.parsing.sandbox import ParsingSandbox

PARSER_VERSION = "2"
"""Raise it with every change that can read other text from the same bytes; batches made before are then made anew."""

__all__ = ["PARSER_VERSION", "Parsed", "ParsingSandbox"]
