"""Rows as documents: the canonical JSON of the named columns, so that hashing does not depend on their order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from corpus_guard.domain import Finding, Severity, canonical_json
from corpus_guard.intake.parsing.document import clean_declared
from corpus_guard.intake.parsing.media import ROW
from corpus_guard.intake.sources.config import RowFields
from corpus_guard.intake.sources.source import Fetched, FetchFailed, SourceItem, oversize_failure

ROW_PROBLEMS: Final = frozenset(
    {"parsing.encoding", "parsing.no_text", "parsing.row_shape", "parsing.surrogates", "provenance.duplicate_id"}
)
"""Codes of findings about a row, which its stored bytes do not show again."""


def make_row_document(
    item: SourceItem,
    values: Mapping[str, object],
    fields: RowFields,
    limit: int,
    where: str,
    problems: Sequence[Finding] = (),
) -> Fetched | FetchFailed:
    """Turn a row into a document.

    Args:
        values: cells by column; a missing one counts as empty.
        where: the place as findings name it, " (line or row 7)".
    """
    row_problems = [*problems]
    cell = values.get(fields.text)
    text = cell_text(cell)
    if isinstance(cell, bytes) and text.encode() != cell:
        message = f"some bytes of {fields.text!r} are not UTF-8; they were replaced by U+FFFD{where}"
        row_problems.append(make_row_problem("parsing.encoding", Severity.MEDIUM, message))
    if not text.strip():
        is_group = isinstance(cell, dict | list)
        problem = (
            f"{fields.text!r} is a list or an object, expected text" if is_group else f"the row has no {fields.text!r}"
        )
        row_problems.append(make_row_problem("parsing.no_text", Severity.CRITICAL, f"{problem}{where}"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        message = f"half characters (lone surrogates) were replaced by U+FFFD{where}"
        row_problems.append(make_row_problem("parsing.surrogates", Severity.MEDIUM, message))
    claims = {column: values.get(column) for column in fields.metadata}
    for name, column in (("title", fields.title), ("modified", fields.modified)):
        if column:
            claims[name] = values.get(column)
    declared = clean_declared(claims)
    content = canonical_json({"text": text, "declared": dict(declared)})
    if len(content) > limit:
        return oversize_failure(item, len(content), limit)
    return Fetched(item, content, ROW, declared, tuple(row_problems))


def cell_text(value: object) -> str:
    """Return a cell as text; nested values and numbers that are none (NaN, which stands for a missing value) give none."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return str(value)


def make_row_problem(code: str, severity: Severity, message: str) -> Finding:
    """Make a finding about a row; the check is the first part of `code`."""
    return Finding(code.partition(".")[0], code, severity, 1.0, message)
