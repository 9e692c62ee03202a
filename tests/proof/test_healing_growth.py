"""What healing one record costs the ledger does not depend on how many are served."""

from __future__ import annotations

from functools import partial

from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.healing import heal
from material import Shelf, a_version
from sqlite_steps import sqlite_steps


def test_a_record_takes_as_many_steps_beside_four_times_as_many(lite_shelf: Shelf) -> None:
    few = _steps(lite_shelf, range(40))
    many = _steps(lite_shelf, range(40, 160))

    assert many < 1.5 * few


def _steps(shelf: Shelf, numbers: range) -> int:
    """Return the steps for healing a record, beside those of these documents and all that are served."""
    made = [a_version(f"notes/{number}.md") for number in numbers]
    shelf.serve(*made)
    collection, chunk_id = next(iter(shelf.held_by(made[0])))
    shelf.store.delete(collection, [chunk_id])
    removed = Deviation(DeviationKind.REMOVED, chunk_id, "it is gone", collection=collection)
    return sqlite_steps(shelf.ledger, partial(heal, shelf.ledger, shelf.storage, shelf.store, "run-2", [removed]))
