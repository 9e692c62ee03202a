"""The result of parsing a document. Imports little: the parsing process starts with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from corpus_guard.domain import Finding, JsonRecord, Severity
from corpus_guard.intake.parsing.mojibake import repair_mojibake

CHECK = "parsing"
MAX_DECLARED = 50
MAX_DECLARED_CHARS = 1_000
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedDocument(JsonRecord):
    """A document as text, with all problems that parsing met.

    A document that cannot be read has an empty `text` and a critical problem that says why.
    """

    text: str  # visible to a reader; no NUL, no lone surrogate
    hidden: str = ""  # invisible to a reader: screened, never published
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # the document's own claims
    problems: tuple[Finding, ...] = ()
    media_type: str = ""  # as decided by content

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> ParsedDocument:
        """Build a document from the form of `as_dict`; raise ValueError, KeyError or TypeError on anything else."""
        text, hidden, media_type, declared = row["text"], row["hidden"], row["media_type"], row["declared"]
        if not (isinstance(text, str) and isinstance(hidden, str) and isinstance(media_type, str)):
            raise TypeError("expected text")
        return cls(text, hidden, clean_declared(declared), tuple(map(Finding.from_dict, row["problems"])), media_type)


def make_problem(code: str, severity: Severity, message: str, score: float = 1.0) -> Finding:
    """Make a finding of the check "parsing"; `code` comes without the check's name."""
    return Finding(CHECK, f"{CHECK}.{code}", severity, score, message)


def failed_document(code: str, message: str, media_type: str = "") -> ParsedDocument:
    """Return the result for a document that cannot be read."""
    return ParsedDocument("", problems=(make_problem(code, Severity.CRITICAL, message),), media_type=media_type)


def clean_declared(pairs: Mapping[str, object]) -> Mapping[str, str]:
    """Return `pairs` as storable strings, capped in number and length; leave out empty values."""
    declared: dict[str, str] = {}
    for key, value in pairs.items():
        text = "" if value is None else replace_unstorable(str(value))[:MAX_DECLARED_CHARS].strip()
        if text and len(declared) < MAX_DECLARED:
            declared[replace_unstorable(str(key))[:MAX_DECLARED_CHARS]] = text
    return MappingProxyType(declared)


def replace_unstorable(text: str) -> str:
    """Replace NUL and lone surrogates by U+FFFD: Chroma cannot search past the former, UTF-8 refuses the latter."""
    return _SURROGATE.sub("\ufffd", text).replace("\x00", "\ufffd")


def finalize(document: ParsedDocument, *, max_chars: int) -> ParsedDocument:
    """Enforce the rules for every text: storable, not empty, not longer than `max_chars` code points."""
    problems = list(document.problems)
    texts = (document.text, document.hidden)
    if any("\x00" in text for text in texts):
        problems.append(make_problem("nul", Severity.MEDIUM, "NUL characters were replaced by U+FFFD"))
    if any(_SURROGATE.search(text) for text in texts):
        problems.append(
            make_problem("surrogates", Severity.MEDIUM, "half characters (lone surrogates) were replaced by U+FFFD")
        )
    (text, repaired), (hidden, repaired_hidden) = (repair_mojibake(replace_unstorable(text)) for text in texts)
    if damaged := repaired + repaired_hidden:
        message = f"{damaged:,} characters of UTF-8 had been read in another encoding (mojibake), and were repaired"
        problems.append(make_problem("mojibake", Severity.LOW, message, score=0.2))
    if len(hidden) > max_chars:
        message = f"{len(hidden):,} hidden characters; only the first {max_chars:,} are screened"
        problems.append(make_problem("hidden_too_long", Severity.HIGH, message))
        hidden = hidden[:max_chars]
    if len(text) > max_chars:
        message = f"{len(text):,} characters; the limit is {max_chars:,}"
        problems.append(make_problem("too_long", Severity.CRITICAL, message))
        text = ""
    elif not text.strip() and not any(problem.severity is Severity.CRITICAL for problem in problems):
        problems.append(make_problem("empty", Severity.CRITICAL, "the document has no visible text"))
    declared = clean_declared(document.declared)
    return replace(document, text=text, hidden=hidden, declared=declared, problems=tuple(problems))
