"""What a verification reads of the ledger grows in proportion to it."""

from __future__ import annotations

from corpus_guard.domain import no_progress
from corpus_guard.proof.verify.expected import SignedSeal
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.proof.verify.ledger import check_ledger
from material import Shelf, a_version
from sqlite_steps import sqlite_steps

NEVER_SEALED = SignedSeal(event=None, manifest_intact=False)


def test_four_times_the_versions_take_four_times_the_steps(lite_shelf: Shelf) -> None:
    lite_shelf.accept(*(a_version(f"notes/{number}.md") for number in range(200)))
    few = _steps(lite_shelf)
    lite_shelf.accept(*(a_version(f"more/{number}.md") for number in range(600)))

    assert _steps(lite_shelf) < 5 * few


def _steps(shelf: Shelf) -> int:
    collector = DeviationCollector()
    return sqlite_steps(
        shelf.ledger, lambda: check_ledger(shelf.ledger, shelf.storage, NEVER_SEALED, collector, no_progress)
    )
