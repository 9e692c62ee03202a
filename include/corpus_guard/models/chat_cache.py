"""Answers of a chat endpoint, cached by content: in memory, or in the ledger's table of slow results.

A cached answer is what a model said of texts; no text itself is cached, but a model may quote. An answer is
therefore as hostile as its question, and a purge deletes them all (`LedgerAnswerCache.delete_all`): which of
them quote is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import insert_missing
from corpus_guard.ledger.tables import results

_KEY_PREFIX = "chat-"  # tells answers from the results of screening


class CachedAnswer(NamedTuple):
    """An answer and the reason why it ends where it does."""

    text: str
    ended: str


class AnswerCache(Protocol):
    """Cache of answers by the digest of their conversation."""

    def load(self, keys: Sequence[str]) -> Mapping[str, CachedAnswer]:
        """Return the cached answers."""

    def save(self, answers: Mapping[str, CachedAnswer]) -> None:
        """Add answers; one that is cached already stays as it is."""


class MemoryAnswerCache:
    """Cache for the life of one process, without a bound: for an evaluation or a test."""

    def __init__(self) -> None:
        self._answers: dict[str, CachedAnswer] = {}

    def load(self, keys: Sequence[str]) -> Mapping[str, CachedAnswer]:
        """Return the cached answers."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def save(self, answers: Mapping[str, CachedAnswer]) -> None:
        """Add answers."""
        self._answers = {**answers, **self._answers}


class LedgerAnswerCache:
    """Cache in the ledger: a trace that was killed, or is run again, pays for no answer twice."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def load(self, keys: Sequence[str]) -> Mapping[str, CachedAnswer]:
        """Return the cached answers."""
        if not keys:
            return {}
        by_row_key = {_row_key(key): key for key in keys}
        with self._ledger.read() as connection:
            rows = connection.execute(sa.select(results).where(results.c.key.in_(by_row_key)))
            return {
                by_row_key[row.key]: CachedAnswer(row.findings[0]["said"], row.findings[0]["ended"]) for row in rows
            }

    def save(self, answers: Mapping[str, CachedAnswer]) -> None:
        """Add answers."""
        rows = [
            {"key": _row_key(key), "findings": [{"said": text, "ended": str(ended)}]}
            for key, (text, ended) in answers.items()
        ]
        with self._ledger.write() as connection:
            insert_missing(connection, results, rows)

    @staticmethod
    def delete_all(connection: sa.Connection) -> int:
        """Delete all answers, in the transaction of a purge, and return how many there were.

        Any of them may quote the text that must go.
        """
        return connection.execute(sa.delete(results).where(results.c.key.startswith(_KEY_PREFIX))).rowcount


def _row_key(key: str) -> str:
    return f"{_KEY_PREFIX}{key}"[: results.c.key.type.length]  # type: ignore[attr-defined]
