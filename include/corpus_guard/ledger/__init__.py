"""The one source of truth: every state change, in SQLite on one machine or PostgreSQL on many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corpus_guard.ledger.ledger import Ledger

__all__ = ["Ledger"]


def __getattr__(name: str) -> object:
    """Import `Ledger` when it is first used: the words in `states` are needed by `guard --help`, SQLAlchemy is not."""
    if name != "Ledger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from corpus_guard.ledger.ledger import Ledger

    return Ledger
