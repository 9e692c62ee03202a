"""What the importers have in common: a record of an export, and the mark that makes it a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from corpus_guard.errors import Misuse
from corpus_guard.traceback.reports import Filing

REPORTED = "reported_wrong=true"
"""The mark that is looked for where nobody names another."""
LARGEST = 2**20  # bytes of one record; an answer of a million characters is nobody's report
RAW = 4_000  # characters kept of a record that was put aside

_TRUE = frozenset({"true", "1", "1.0", "yes"})
_FALSE = frozenset({"false", "0", "0.0", "no"})


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an export, or what stands in its place."""

    line: int  # 1-based: of the file; for MLflow, which has no lines, the trace's ordinal
    values: Mapping[str, Any] | None  # None: it cannot be read
    raw: str = ""  # its beginning
    code: str = ""  # why it cannot be read
    message: str = ""
    place: str = ""  # an id where there is one


@dataclass(frozen=True, slots=True)
class Mark:
    """How people say in their tool that an answer was wrong: a score, an annotation or an assessment, and its value."""

    name: str = ""  # empty: every record is a report
    value: str = "true"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """``NAME=VALUE``, ``NAME`` (true) or nothing (every record).

        Raises:
            Misuse: there is a value and no name.
        """
        name, equals, value = text.strip().partition("=")
        if equals and not name.strip():
            raise Misuse(f"mark {text!r}: expected NAME=VALUE, such as {REPORTED}, or nothing for every record")
        return cls(name.strip(), value.strip() if equals else "true")

    def fits(self, value: Any) -> bool:
        """Whether a value, or one of several, is the one that is looked for. True is 1 and "yes", false is 0 and "no"."""
        if isinstance(value, list | tuple):
            return any(self.fits(one) for one in value[:1_000] if not isinstance(one, list | tuple))
        return value is not None and _folded(value) == _folded(self.value)


class Dialect(Protocol):
    """What the records of one tool mean."""

    name: str

    def knows(self, values: Mapping[str, Any]) -> bool:
        """Whether a record looks like this tool's."""
        ...

    def filings(self, values: Mapping[str, Any], mark: Mark) -> list[Filing]:
        """The filings in a record, without their origin; none where nobody said that it was wrong.

        Raises:
            HostileInput: the record has no question, no answer or no time.
        """
        ...


def _folded(value: Any) -> str:
    text = str(value).strip().casefold()
    return "true" if text in _TRUE else "false" if text in _FALSE else text
