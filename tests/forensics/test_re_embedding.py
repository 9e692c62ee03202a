"""Equal vectors of an older release are moved apart, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from corpus_guard.domain import Verdict, sha256_bytes
from corpus_guard.forensics import re_embedding
from corpus_guard.forensics.re_embedding import count_equal_vectors, set_published_apart
from material import Shelf, a_version

FOOTER = "This page may be copied by anybody who keeps this note with it."


@pytest.fixture
def crowded(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Four pages with one footer, in two runs, and two with another."""
    monkeypatch.setattr(re_embedding, "MANY_EQUAL", 3)
    shelf.serve(*(a_version(f"{name}.md", passages=(name, FOOTER)) for name in "ab"))
    shelf.serve(*(a_version(f"{name}.md", passages=(name, FOOTER)) for name in "cd"))
    shelf.serve(*(a_version(f"{name}.md", passages=(name, "Another footer.")) for name in "ef"))
    return shelf


def test_many_equal_vectors_are_moved_apart_and_few_are_left(crowded: Shelf) -> None:
    before = crowded.in_chroma()
    assert count_equal_vectors(crowded.ledger) == 4

    assert set_published_apart(crowded.ledger, crowded.storage, crowded.store, "apart") == 4

    after = crowded.in_chroma()
    crowded.check_agreement()
    assert count_equal_vectors(crowded.ledger) == 0
    for key, record in after.items():
        cosine = float(record.vector @ before[key].vector)
        assert (record.text, record.metadata) == (before[key].text, before[key].metadata)
        assert (
            (0.9999 < cosine < 0.999999) if record.text == FOOTER else np.array_equal(record.vector, before[key].vector)
        )
    footers = [sha256_bytes(record.vector.tobytes()) for record in after.values() if record.text == FOOTER]
    assert len(set(footers)) == 4
    assert set_published_apart(crowded.ledger, crowded.storage, crowded.store, "again") == 0


def test_killed_before_the_store_is_written_the_next_call_completes_it(
    crowded: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(re_embedding.outbox, "drain", _die)
        set_published_apart(crowded.ledger, crowded.storage, crowded.store, "killed")

    set_published_apart(crowded.ledger, crowded.storage, crowded.store, "again")

    crowded.check_agreement()
    assert count_equal_vectors(crowded.ledger) == 0


def test_what_waits_for_review_is_not_counted(crowded: Shelf) -> None:
    crowded.record(*((a_version(f"w{n}.md", passages=(FOOTER,)), Verdict.QUARANTINE) for n in range(3)))
    assert count_equal_vectors(crowded.ledger) == 4


def _die(*_: object) -> None:
    raise KeyboardInterrupt
