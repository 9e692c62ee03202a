"""Responses other than pages: JSON that cannot be read as anything else, and files that no browser opens.

Spreadsheets take a CSV cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula: such a cell gets a
leading apostrophe. Control characters are written as code points.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.responses import JSONResponse

from corpus_guard.errors import Misuse
from corpus_guard.invisible import reveal_invisible

MAX_EXPORT_ROWS: Final = 50_000
FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


class Problem(BaseModel):
    """Body of every error response."""

    detail: str


ERRORS: Final[dict[int | str, dict[str, object]]] = {
    code: {"model": Problem, "description": text}
    for code, text in (
        (400, "the request is invalid"),
        (401, "not signed in"),
        (403, "not allowed, or sent by another site"),
        (404, "not found"),
        (409, "the item changed since it was read; nothing was changed"),
        (413, "the body is too large"),
        (415, "the body is not JSON"),
        (422, "a field is invalid"),
        (429, "too many decisions in a minute"),
        (503, "the ledger, the store or the configuration is not available"),
    )
}
"""Error responses that any route may give."""


class SafeJSON(JSONResponse):
    """JSON in ASCII: lone surrogates and control characters are escaped."""

    def render(self, content: object) -> bytes:
        """Return the bytes of `content`."""
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def attachment(parts: Iterator[str], media_type: str, name: str) -> StreamingResponse:
    """Return a streamed download."""
    return StreamingResponse(
        parts, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


class CursorPage(Protocol):
    """A page of a longer list."""

    @property
    def total(self) -> int:
        """Rows on all pages."""

    @property
    def next(self) -> str | None:
        """Cursor of the next page; None on the last page."""


PageT = TypeVar("PageT", bound=CursorPage)
RowT = TypeVar("RowT")


def iterate_rows(
    first: PageT, load_next: Callable[[str], PageT], rows_of: Callable[[PageT], Sequence[RowT]]
) -> Iterator[RowT]:
    """Return the rows of all pages.

    Rows that change meanwhile may be missed, but none is returned twice.

    Args:
        first: the first page, loaded already, so that what is refused is refused before the response starts.

    Raises:
        Misuse: there are more than `MAX_EXPORT_ROWS`: a file that ends early looks complete.
    """
    if first.total > MAX_EXPORT_ROWS:
        raise Misuse(f"{first.total:,} rows match, and a file holds {MAX_EXPORT_ROWS:,} at most; narrow the filter")
    return _follow_pages(first, load_next, rows_of)


def _follow_pages(
    page: PageT, load_next: Callable[[str], PageT], rows_of: Callable[[PageT], Sequence[RowT]]
) -> Iterator[RowT]:
    yield from rows_of(page)
    while page.next:
        page = load_next(page.next)
        yield from rows_of(page)


def json_lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield rows as JSON lines in ASCII."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=True, default=str) + "\n"


def csv_lines(columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield a CSV header and rows."""
    names = list(columns)
    yield _csv_line(names)
    for row in rows:
        yield _csv_line([safe_cell(row.get(name)) for name in names])


def safe_cell(value: object) -> str:
    """Return a value as text that no spreadsheet takes for a formula."""
    text = reveal_invisible("" if value is None else str(value))
    if isinstance(value, int | float):
        return text
    return f"'{text}" if text.lstrip().startswith(FORMULA_STARTS) else text


def _csv_line(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()
