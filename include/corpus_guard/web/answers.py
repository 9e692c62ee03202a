"""What is answered besides pages: JSON that cannot be read as anything else, files that no browser opens.

CSV is opened by spreadsheets, which take a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula: such a cell begins with an
apostrophe here. Steering characters stand as code points.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.responses import JSONResponse

from corpus_guard._unseen import in_brackets

MOST: Final = 50_000  # rows of a file
FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


class Problem(BaseModel):
    """What went wrong."""

    detail: str


ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": Problem, "description": text}
    for code, text in (
        (400, "misuse"),
        (401, "not signed in"),
        (403, "not allowed, or another site asks"),
        (404, "there is no such thing"),
        (409, "it changed since it was seen; nothing was done"),
        (413, "the body is too large"),
        (415, "not JSON"),
        (422, "a field is wrong"),
        (429, "too many decisions in a minute"),
        (503, "the ledger, the store or the configuration is not available"),
    )
}
"""What any route may answer."""


class SafeJSON(JSONResponse):
    """ASCII only: lone surrogates and steering characters leave as escapes."""

    def render(self, content: Any) -> bytes:
        """Bytes of `content`."""
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def attachment(parts: Iterator[str], media_type: str, name: str) -> StreamingResponse:
    """A download."""
    return StreamingResponse(
        parts, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


class Part(Protocol):
    """A page of something longer."""

    @property
    def next(self) -> str | None:
        """What the page after begins after; None on the last."""


P = TypeVar("P", bound=Part)


def every_row(first: P, following: Callable[[str], P], rows: Callable[[P], Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """From first to last, a page at a time, `MOST` rows or a page more; what changes meanwhile may be missed, never shown twice.

    Args:
        first: read already, so that what is wrong with the question was refused while there still could be an answer that says so.
        following: gives the page after.
        rows: of a page; each has `as_dict`.
    """
    part, sent = first, 0
    while True:
        shown = rows(part)
        yield from (one.as_dict() for one in shown)
        sent += len(shown)
        if not part.next or sent >= MOST:
            return
        part = following(part.next)


def lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """JSON lines, ASCII."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=True, default=str) + "\n"


def table(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """CSV with a header."""
    names = list(columns)
    yield _row(names)
    for row in rows:
        yield _row([cell(row.get(name)) for name in names])


def cell(value: Any) -> str:
    """A value that no spreadsheet takes for a formula."""
    text = in_brackets("" if value is None else str(value))
    if isinstance(value, int | float):
        return text
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def _row(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()
