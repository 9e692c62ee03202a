"""The one source of truth: every state change, in SQLite on one machine or PostgreSQL on many."""

from corpus_guard.ledger.ledger import Ledger

__all__ = ["Ledger"]
