"""A filing: what somebody says was asked and wrongly answered, in the form it can be stored in.

What is refused, and what is cut, is said in `corpus_guard.traceback.reports`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from corpus_guard.corpus import retrieval_log
from corpus_guard.domain import digest
from corpus_guard.errors import HostileInput

QUERY = retrieval_log.LONGEST  # characters kept of a question
OUTPUT = 8_000  # characters kept of an answer, wrong or right
REPORTER = 200  # characters kept of a reporter's name
NAME = 250  # characters kept of a session's name and of a chunk's id
ORIGIN = 500  # characters kept of where a filing came from
SERVED = 100  # chunk ids kept of one filing
CLOCKS_DIFFER = timedelta(minutes=5)  # a filing from the future is believed that far


@dataclass(frozen=True, slots=True)
class Filing:
    """Somebody said that an answer was wrong."""

    query: str
    output: str  # the answer that was wrong
    reported_at: datetime  # with its zone
    correct: str | None = None  # the right one, where somebody knew it
    reporter: str = ""  # empty: nobody said who; all of those count as one
    session: str = ""
    served: tuple[str, ...] = ()  # chunk ids that the answer was made from, as told
    origin: str = ""  # command line, file and line, trace id
    cut: bool = False  # something was longer than is kept

    @property
    def report_id(self) -> str:
        """Of question and answer, however they are spelt."""
        return digest("report/v1", [_normalised(self.query), _normalised(self.output)])[:32]

    @property
    def filing_id(self) -> str:
        """Of the report, and who filed it when and in which session."""
        when = self.reported_at.astimezone(UTC).isoformat(timespec="microseconds")
        return digest("filing/v1", [self.report_id, self.reporter, when, self.session])[:32]


def checked(filing: Filing, at: datetime) -> Filing:
    """`filing` as it can be stored: bounded, and with nothing in it that a database refuses.

    Args:
        filing: as somebody told it.
        at: now.

    Raises:
        HostileInput: `report.empty_query`, `report.empty_output`, `report.no_zone` or `report.future`.
    """
    for name in ("query", "output"):
        if _says_nothing(getattr(filing, name)):
            raise HostileInput(
                f"report.empty_{name}", f"{name} is empty; a report needs a question and the wrong answer"
            )
    if filing.reported_at.tzinfo is None:
        raise HostileInput("report.no_zone", "reported_at has no time zone; expected one such as 2026-03-01T12:00:00Z")
    if filing.reported_at > at + CLOCKS_DIFFER:
        raise HostileInput(
            "report.future", f"reported_at is later than now ({at:%Y-%m-%dT%H:%M}Z); check the clock that wrote it"
        )
    correct = None if filing.correct is None or _says_nothing(filing.correct) else filing.correct
    limits = ((filing.query, QUERY), (filing.output, OUTPUT), (correct or "", OUTPUT), (filing.reporter, REPORTER))
    return replace(
        filing,
        query=_storable(filing.query, QUERY),
        output=_storable(filing.output, OUTPUT),
        correct=None if correct is None else _storable(correct, OUTPUT),
        reporter=_storable(filing.reporter.strip(), REPORTER).rstrip(),
        session=_storable(filing.session.strip(), NAME).rstrip(),
        served=tuple(_storable(one, NAME) for one in filing.served[:SERVED]),
        origin=_storable(filing.origin, ORIGIN),
        cut=filing.cut or any(len(text) > limit for text, limit in limits) or len(filing.served) > SERVED,
    )


def _normalised(text: str) -> str:
    # As `retrieval_log.query_id` does, which cuts at the length of a question.
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .?!")


def _says_nothing(text: str) -> bool:
    return all(unicodedata.category(character)[0] in "ZC" for character in text)


def _storable(text: str, longest: int) -> str:
    # PostgreSQL refuses NUL, and UTF-8 lone surrogates.
    return text[:longest].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
