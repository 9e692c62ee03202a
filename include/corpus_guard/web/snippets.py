"""Snippets of queue items: what the worst finding of each says, and the words it points at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.domain import Span
from corpus_guard.errors import GuardError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.tables import versions
from corpus_guard.review.naming import name_documents
from corpus_guard.review.queue import QueueItem
from corpus_guard.web.text_display import DisplayText, display_text

BEFORE_CHARS: Final = 50  # shown in front of the evidence
EVIDENCE_CHARS: Final = 160  # shown of the evidence
AFTER_CHARS: Final = 50  # shown behind it
HIDDEN_CHARS: Final = 200  # shown of text that a reader does not see
MAX_BYTES: Final = 1_500  # of HTML, for one snippet


@dataclass(frozen=True, slots=True)
class Snippet:
    """The reason why an item waits, in a sentence, and the words that show it."""

    message: str
    quote: DisplayText | None  # None: the evidence is not a passage, or the text cannot be read


def load_snippets(ledger: Ledger, storage: Storage, items: Sequence[QueueItem]) -> dict[str, Snippet]:
    """Return snippets by version id, of the items that have a finding. Each batch is read once."""
    worst = {item.version_id: finding for item in items if (finding := item.worst_finding)}
    batches: dict[str, list[str]] = defaultdict(list)
    with ledger.read() as connection:
        statement = sa.select(versions.c.version_id, versions.c.batch)
        quoted = [
            version_id for version_id, finding in worst.items() if finding.span or finding.code.endswith(".hidden")
        ]
        for row in select_in_batches(connection, statement, versions.c.version_id, quoted):
            batches[row.batch].append(row.version_id)
    quotes: dict[str, DisplayText] = {}
    for batch, version_ids in batches.items():
        try:
            table = storage.read_table(
                batch, columns=["version_id", "text", "hidden"], filters=[("version_id", "in", version_ids)]
            )
        except (GuardError, ValueError, OSError):  # purged or damaged: the item page says which
            continue
        for row in table.to_pylist():
            finding = worst[row["version_id"]]
            if finding.span is None:
                quotes[row["version_id"]] = _cut(row["hidden"], 0, HIDDEN_CHARS)
            elif finding.span.end <= len(row["text"]):
                quotes[row["version_id"]] = _quote(row["text"], finding.span)
    messages = name_documents(ledger, [finding.message for finding in worst.values()])
    return {
        version_id: Snippet(message, quotes.get(version_id))
        for version_id, message in zip(worst, messages, strict=True)
    }


def _quote(text: str, span: Span) -> DisplayText:
    end = min(span.end, span.start + EVIDENCE_CHARS)
    return _cut(text, max(0, span.start - BEFORE_CHARS), end + AFTER_CHARS, Span(span.start, end))


def _cut(text: str, start: int, end: int, *marked: Span) -> DisplayText:
    """Return a part of a text, with dots where it goes on, and with these places of the text marked."""
    before, after = "…" if start else "", "…" if end < len(text) else ""
    offset = len(before) - start
    spans = [Span(span.start + offset, span.end + offset) for span in marked]
    return display_text(f"{before}{text[start:end]}{after}", spans, max_bytes=MAX_BYTES)
