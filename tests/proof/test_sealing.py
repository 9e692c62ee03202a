"""A seal that is killed before any of its writes leaves a corpus that can be verified, and the next seal finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sealer

from corpus_guard.deployment import Deployment
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.settings import Settings
from material import Shelf, a_version

MOST = 60  # writes of a seal; there are fewer
EVERY = pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 7])
"""Kill before every write, or, in a quick run, before each seventh."""


@EVERY
def test_killed_before_a_write_the_next_seal_finishes_it(lite_shelf: Shelf, tmp_path: Path, every: int) -> None:
    settings, tape = lite_shelf.settings(tmp_path), tmp_path / "tape"
    lite_shelf.serve(a_version("a"))
    with Deployment(settings) as guard:
        guard.seal("before")
    for write in range(every, MOST, every):
        lite_shelf.serve(a_version(f"new {write}"))

        ended = sealer.run(settings, write, tape)

        with Deployment(settings) as guard:
            found = {one.kind for one in guard.verify().deviations}
            # What was sealed before still holds; what is new is not proved yet, and says so.
            assert found <= {DeviationKind.UNSEALED}, write
            guard.seal("again")
            assert guard.verify().holds, write
        if ended == 0:
            break
        assert ended == -9
    assert ended == 0
    assert every > 1 or {"events", "heads", "seals", "commit", "fsync", "replace"} <= set(tape.read_text().split())


@EVERY
def test_the_first_seal_killed_before_a_write(lite_shelf: Shelf, tmp_path: Path, every: int) -> None:
    """Keys, manifest, head: wherever the first one ends, the next makes what is missing, and one set of keys signs."""
    for write in range(every, MOST, every):
        settings = Settings(
            home=tmp_path / str(write), chroma_url=lite_shelf.store.url, collection_prefix=f"none{write}"
        )
        with Deployment(settings) as guard, guard.ledger.read():
            pass  # migrated

        ended = sealer.run(settings, write, tmp_path / "tape")

        with Deployment(settings) as guard:
            guard.seal("again")
            assert guard.verify().holds, write
        if ended == 0:
            break
    assert ended == 0
