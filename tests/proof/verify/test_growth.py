"""What a verification reads of the ledger grows in proportion to it."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from corpus_guard.domain import no_progress
from corpus_guard.proof.verify.expected import SignedSeal
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.proof.verify.ledger import check_ledger
from material import Shelf, a_version

NEVER_SEALED = SignedSeal(event=None, manifest_intact=False)


def test_four_times_the_versions_take_four_times_the_steps(lite_shelf: Shelf) -> None:
    lite_shelf.accept(*(a_version(f"notes/{number}.md") for number in range(200)))
    few = _steps(lite_shelf)
    lite_shelf.accept(*(a_version(f"more/{number}.md") for number in range(600)))

    assert _steps(lite_shelf) < 5 * few


def _steps(shelf: Shelf) -> int:
    """Return how many hundreds of instructions SQLite's machine takes to compare rows and log."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    def listen(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(count, 100)

    engine = shelf.ledger.engine
    sa.event.listen(engine, "checkout", listen)
    collector = DeviationCollector()
    check_ledger(shelf.ledger, shelf.storage, NEVER_SEALED, collector, no_progress)
    sa.event.remove(engine, "checkout", listen)
    return counted
