"""What parsing leaves of a document's bytes. Imports little: the parsing process starts with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from corpus_guard.domain import Finding, Severity

CHECK = "parsing"
MAX_DECLARED = 50
MAX_DECLARED_CHARS = 1_000
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as text, with everything parsing found wrong.

    A document nothing could be read of has an empty `text` and a critical problem that says why.
    """

    text: str  # what a reader sees; no NUL, no lone surrogate
    hidden: str = ""  # text a reader does not see: screened, never published
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # what it says of itself
    problems: tuple[Finding, ...] = ()
    media_type: str = ""  # as decided by content

    @property
    def unreadable(self) -> bool:
        """Whether a problem says that nothing could be read."""
        return any(problem.severity is Severity.CRITICAL for problem in self.problems)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "text": self.text,
            "hidden": self.hidden,
            "declared": dict(self.declared),
            "problems": [problem.as_dict() for problem in self.problems],
            "media_type": self.media_type,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Parsed:
        """The inverse of `as_dict`; raises ValueError, KeyError or TypeError on anything else."""
        text, hidden, media_type, declared = row["text"], row["hidden"], row["media_type"], row["declared"]
        if not (isinstance(text, str) and isinstance(hidden, str) and isinstance(media_type, str)):
            raise TypeError("expected text")
        return cls(text, hidden, declare(declared), tuple(map(Finding.from_dict, row["problems"])), media_type)


def problem(code: str, severity: Severity, message: str, score: float = 1.0) -> Finding:
    """A finding of the check "parsing"; `code` comes without the check's name."""
    return Finding(CHECK, f"{CHECK}.{code}", severity, score, message)


def failure(code: str, message: str, media_type: str = "") -> Parsed:
    """The outcome for a document nothing could be read of."""
    return Parsed("", problems=(problem(code, Severity.CRITICAL, message),), media_type=media_type)


def declare(pairs: Mapping[str, Any]) -> Mapping[str, str]:
    """`pairs` as strings that can be stored, capped in number and length; empty values are left out."""
    declared: dict[str, str] = {}
    for key, value in pairs.items():
        text = "" if value is None else storable(str(value))[:MAX_DECLARED_CHARS].strip()
        if text and len(declared) < MAX_DECLARED:
            declared[storable(str(key))[:MAX_DECLARED_CHARS]] = text
    return MappingProxyType(declared)


def storable(text: str) -> str:
    """`text` with NUL and lone surrogates as U+FFFD: UTF-8 refuses the latter, Chroma cannot search past the former."""
    return _SURROGATE.sub("\ufffd", text).replace("\x00", "\ufffd")


def finish(parsed: Parsed, *, max_chars: int) -> Parsed:
    """Hold `parsed` to what every text must be: storable, not empty, not longer than `max_chars` code points."""
    problems = list(parsed.problems)
    everything = (parsed.text, parsed.hidden)
    if any("\x00" in text for text in everything):
        problems.append(
            problem("nul", Severity.MEDIUM, "NUL characters were replaced by U+FFFD; text does not hold them")
        )
    if any(_SURROGATE.search(text) for text in everything):
        problems.append(
            problem("surrogates", Severity.MEDIUM, "half characters (lone surrogates) were replaced by U+FFFD")
        )
    text, hidden = map(storable, everything)
    if len(hidden) > max_chars:
        problems.append(
            problem(
                "hidden_too_long",
                Severity.HIGH,
                f"{len(hidden):,} hidden characters; the first {max_chars:,} are screened",
            )
        )
        hidden = hidden[:max_chars]
    if len(text) > max_chars:
        problems.append(problem("too_long", Severity.CRITICAL, f"{len(text):,} characters; the limit is {max_chars:,}"))
        text = ""
    elif not text.strip() and not any(each.severity is Severity.CRITICAL for each in problems):
        problems.append(problem("empty", Severity.CRITICAL, "the document has no visible text"))
    return replace(parsed, text=text, hidden=hidden, declared=declare(parsed.declared), problems=tuple(problems))
