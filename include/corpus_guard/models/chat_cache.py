"""Answers of a chat endpoint, kept by content: in memory, or in the ledger's table of slow results.

What is kept is what a model said of texts, no text itself; but a model may quote. An answer is therefore as hostile as its question, and
a purge has to forget them all (`LedgerAnswers.forget`): which of them quote cannot be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import results

Kept = tuple[str, str]
"""(text, how it ended)."""


class AnswerCache(Protocol):
    """Keeps answers by the digest of their conversation."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """Those that are known."""

    def save(self, answers: Mapping[str, Kept]) -> None:
        """Remember; what is known already stays as it is."""


class AnswersInMemory:
    """For as long as one process, without a bound: an evaluation, a test."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """Those that are known."""
        return {key: self._kept[key] for key in keys if key in self._kept}

    def save(self, answers: Mapping[str, Kept]) -> None:
        """Remember."""
        self._kept = {**answers, **self._kept}


class LedgerAnswers:
    """For good: a trace that was killed, or run again, pays for no answer twice."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """Those that are known."""
        if not keys:
            return {}
        wanted = {_row_key(key): key for key in keys}
        with self._ledger.read() as connection:
            rows = connection.execute(sa.select(results).where(results.c.key.in_(wanted)))
            return {wanted[row.key]: (row.findings[0]["said"], row.findings[0]["ended"]) for row in rows}

    def save(self, answers: Mapping[str, Kept]) -> None:
        """Remember."""
        rows = [
            {"key": _row_key(key), "findings": [{"said": said, "ended": ended}]}
            for key, (said, ended) in answers.items()
        ]
        with self._ledger.write() as connection:
            self._ledger.insert_missing(connection, results, rows)

    @staticmethod
    def forget(connection: sa.Connection) -> int:
        """Delete all answers, in the transaction of a purge: any of them may quote the text that must go. Returns how many."""
        return connection.execute(sa.delete(results).where(results.c.key.startswith(_OURS))).rowcount


_OURS = "chat-"  # tells them from the digests of screening


def _row_key(key: str) -> str:
    return f"{_OURS}{key}"[: results.c.key.type.length]  # type: ignore[attr-defined]
