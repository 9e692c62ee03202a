"""A row's bytes: the canonical JSON of the columns a source names, so that hashing does not depend on the order of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corpus_guard.domain import Finding, Severity, canonical_json
from corpus_guard.intake.parsing.parsed import declare
from corpus_guard.intake.sources.declared import RowFields
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, too_large

ROW_TYPE = "application/x-row+json"


def row_document(
    item: Item, values: Mapping[str, Any], fields: RowFields, limit: int, where: str, problems: Sequence[Finding] = ()
) -> Fetched | FetchFailed:
    """A row as a document.

    Args:
        item: its place.
        values: by column; those that are missing count as empty.
        fields: which column is what.
        limit: bytes a document may have.
        where: what a finding says of the place, " (line or row 7)".
        problems: what is wrong with it besides.
    """
    found = [*problems]
    text = row_text(values.get(fields.text))
    if not text.strip():
        found.append(row_problem("parsing.no_text", Severity.CRITICAL, f"the row has no {fields.text!r}{where}"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        message = f"half characters (lone surrogates) were replaced by U+FFFD{where}"
        found.append(row_problem("parsing.surrogates", Severity.MEDIUM, message))
    claims = {column: values.get(column) for column in fields.metadata}
    for name, column in (("title", fields.title), ("modified", fields.modified)):
        if column:
            claims[name] = values.get(column)
    declared = declare(claims)
    content = canonical_json({"text": text, "declared": dict(declared)})
    if len(content) > limit:
        return too_large(item, len(content), limit)
    return Fetched(item, content, ROW_TYPE, declared, tuple(found))


def row_text(value: Any) -> str:
    """A cell as text; nested values are none."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None or isinstance(value, dict | list) else str(value)


def row_problem(code: str, severity: Severity, message: str) -> Finding:
    """A finding about a row; the check is the first part of `code`."""
    return Finding(code.partition(".")[0], code, severity, 1.0, message)
