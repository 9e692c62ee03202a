"""Records of exports, marks that make them reports, and dialects of tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from corpus_guard.errors import Misuse
from corpus_guard.traceback.filings import Filing

DEFAULT_MARK = "reported_wrong=true"
"""Mark of a report unless another one is given."""
MAX_RECORD_BYTES = 2**20  # of one record; no real answer has a million characters
MAX_RAW_LENGTH = 4_000  # characters stored of a record that was put aside

_TRUE = frozenset({"true", "1", "1.0", "yes"})
_FALSE = frozenset({"false", "0", "0.0", "no"})


@dataclass(frozen=True, slots=True)
class Record:
    """Record of an export, or the reason why it cannot be read."""

    line: int  # 1-based, of the file; for MLflow, which has no lines, the number of the trace
    values: Mapping[str, object] | None  # None: it cannot be read
    raw: str = ""  # the record's beginning
    code: str = ""  # why it cannot be read
    message: str = ""
    place: str = ""  # an id, if there is one


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark of a wrong answer in a tool: name and value of a score, an annotation or an assessment."""

    name: str = ""  # empty: every record is a report
    value: str = "true"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Parse ``NAME=VALUE``, ``NAME`` (true) or nothing (every record).

        Raises:
            Misuse: there is a value without a name.
        """
        name, equals, value = text.strip().partition("=")
        if equals and not name.strip():
            raise Misuse(f"mark {text!r}: expected NAME=VALUE, such as {DEFAULT_MARK}, or nothing for every record")
        return cls(name.strip(), value.strip() if equals else "true")

    def fits(self, value: object) -> bool:
        """Return whether a value, or one of a list, is the mark's. 1 and "yes" are true, 0 and "no" false."""
        if isinstance(value, list | tuple):
            return any(self.fits(element) for element in value[:1_000] if not isinstance(element, list | tuple))
        return value is not None and _folded(value) == _folded(self.value)


class Dialect(Protocol):
    """Reader of the records of one tool."""

    name: str

    def knows(self, values: Mapping[str, object]) -> bool:
        """Return whether a record looks like this tool's."""
        ...

    def filings(self, values: Mapping[str, object], mark: Mark) -> list[Filing]:
        """Return the filings in a record, without their origin; none if nobody marked it as wrong.

        Raises:
            HostileInput: the record has no question, no answer or no time.
        """
        ...


def _folded(value: object) -> str:
    text = str(value).strip().casefold()
    return "true" if text in _TRUE else "false" if text in _FALSE else text
