"""Documents that came the same road are found, those with the most in common first."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from corpus_guard.forensics.exposure import find_subject
from corpus_guard.forensics.road import Road, find_road_siblings
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import bands, versions
from forensics_material import write_corpus
from material import START

LATER = START.replace(day=9).isoformat()


@pytest.fixture
def travelled(ledger: Ledger) -> Ledger:
    """An accused page, one that came with it, one of its author, one in its words, and a stranger."""
    write_corpus(ledger, {"accused": ("wiki", "a.md", ("c-a",)), "with": ("wiki", "b.md", ("c-b",))})
    write_corpus(ledger, {"author": ("wiki", "c.md", ("c-c",))}, fetched_at=LATER)
    write_corpus(ledger, {"words": ("forum", "d.md", ("c-d",)), "stranger": ("forum", "e.md", ("c-e",))})
    with ledger.write() as connection:
        connection.execute(versions.update().where(versions.c.doc_id == "with").values(run_id="run-accused"))
        rows = [
            {"band": band, "version_id": name} for band, name in ((1, "v-accused"), (1, "v-words"), (2, "v-stranger"))
        ]
        connection.execute(bands.insert(), rows)
    return ledger


def test_siblings_are_found_by_every_road(travelled: Ledger) -> None:
    found = find_road_siblings(travelled, find_subject(travelled, "accused"))

    assert {sibling.doc_id: sibling.roads for sibling in found.siblings} == {
        "with": (Road.RUN, Road.PRINCIPAL, Road.DAY),
        "author": (Road.PRINCIPAL,),
        "words": (Road.WORDING,),
    }
    assert found.siblings[0].doc_id == "with"
    assert found.totals == {Road.CLAIM: 0, Road.WORDING: 1, Road.RUN: 1, Road.PRINCIPAL: 2, Road.DAY: 1}
    assert found.total == 3


def test_the_list_is_cut_and_the_counts_are_not(travelled: Ledger) -> None:
    found = find_road_siblings(travelled, find_subject(travelled, "accused"), listed=1)

    assert [sibling.doc_id for sibling in found.siblings] == ["with"]
    assert found.total == 3


def test_without_common_words_run_or_author_none_is_found(travelled: Ledger) -> None:
    travelled.execute(sa.delete(bands))
    subject = find_subject(travelled, "stranger")

    assert {sibling.doc_id for sibling in find_road_siblings(travelled, subject).siblings} == {"words"}
