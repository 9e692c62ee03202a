"""Killed at any moment, run twice at once, or with a Chroma that dies: running again ends in the same place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from publisher import Journey, Place, Sizes, run_until, together

from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.server import running_server
from corpus_guard.domain import TrustLevel, Verdict, Version
from corpus_guard.errors import StoreUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import events
from corpus_guard.settings import Settings
from material import Held, Shelf, a_version
from postgres import free_port

ON_BOTH_STORES = True

ACCEPT, QUARANTINE = Verdict.ACCEPT, Verdict.QUARANTINE
STEPS = ("a commit", "upsert", "the write", "delete", "read-back")
MOMENTS = {f"{when} {what}" for when in ("before", "after") for what in STEPS}


QUICK = 6  # kills at each sixth moment


def test_killed_at_any_moment_it_converges(lite_shelf: Shelf, tmp_path: Path) -> None:
    _kill_at_every_moment(lite_shelf, Sizes(), tmp_path / "tape", QUICK)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), QUICK])
def test_killed_at_any_moment_of_a_repair_it_converges(lite_shelf: Shelf, tmp_path: Path, every: int) -> None:
    _kill_at_every_moment(lite_shelf, Sizes(losing=True), tmp_path / "tape", every)
    repairs = lite_shelf.ledger.scalars(sa.select(events.c.body).where(events.c.kind == "relinked"))
    assert repairs
    assert all(body["republished"] for body in repairs)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [Sizes(), Sizes(group=2, batch=1)], ids=["whole", "cut"])
def test_killed_at_every_moment_it_converges_however_the_work_is_cut(
    shelf: Shelf, sizes: Sizes, tmp_path: Path
) -> None:
    _kill_at_every_moment(shelf, sizes, tmp_path / "tape")


def _kill_at_every_moment(shelf: Shelf, sizes: Sizes, tape: Path, every: int = 1) -> None:
    place = Place.of(shelf)
    expected: Held = set()
    moment = 0
    while True:
        moment += every
        first, moved, gone, new, doubtful = (
            _page(moment, name) for name in ("changed", "moved", "gone", "new", "doubtful")
        )
        shelf.serve(first, moved, gone)
        second = a_version(f"{moment}/changed", (f"page {moment} is shorter now",), minute=1)
        elsewhere = _page(moment, "moved", minute=1, trust=TrustLevel.REVIEWED)
        journey = Journey([(new, ACCEPT), (second, ACCEPT), (elsewhere, ACCEPT), (doubtful, QUARANTINE)], [gone.doc_id])

        ended = run_until(place, journey, moment, sizes, tape)

        # What a repair was about to write again waits in the outbox; between its delete and its write it is not served.
        _check_promises(shelf, *([] if sizes.losing else [(first, second), (moved, elsewhere)]))
        if ended == 0:
            break
        assert ended == -9
        journey.run(shelf)
        expected |= shelf.held_by(new, second, elsewhere)
        assert shelf.check_agreement() == expected
    assert every > 1 or set(tape.read_text().splitlines()) == MOMENTS


def _page(moment: int, name: str, **stamp: Any) -> Version:
    """A version whose texts no other page has: the vectors of equal texts, hundreds of them, would be one point of the index."""
    return a_version(
        f"{moment}/{name}", (f"Pump {moment} {name} is inspected. ", f"Quay {moment} {name} is swept."), **stamp
    )


def _check_promises(shelf: Shelf, *replaced: tuple[Version, Version]) -> None:
    """What holds at every moment, finished or not."""
    in_chroma, published = shelf.in_chroma(), shelf.in_ledger()
    assert set(in_chroma) <= set(shelf.in_ledger("pending", "published", "retiring"))
    for key, row in published.items():
        assert in_chroma[key].vector_sha256 == row.vector_sha256
        assert in_chroma[key].metadata_sha256 == row.metadata_sha256
    for old, new in replaced:
        assert shelf.held_by(old) <= set(published) or shelf.held_by(new) <= set(published), "nothing was served"


def test_two_processes_at_once_converge(shelf: Shelf) -> None:
    shared = [a_version(f"shared/{number}") for number in range(20)]
    older = [a_version(f"raced/{number}", ("older",), minute=0) for number in range(10)]
    newer = [a_version(f"raced/{number}", ("newer",), minute=1) for number in range(10)]
    here, there = (_accepted([*shared, *raced]) for raced in (older, newer))

    assert together(Place.of(shelf), [Journey(here), Journey(there)]) == [0, 0]

    assert shelf.check_agreement() == shelf.held_by(*shared, *newer)


def test_one_process_publishes_what_another_recorded_once(shelf: Shelf) -> None:
    mine = [a_version(f"mine/{number}") for number in range(10)]
    yours = [a_version(f"yours/{number}") for number in range(10)]

    assert together(Place.of(shelf), [Journey(_accepted(mine)), Journey(_accepted(yours))]) == [0, 0]

    assert shelf.check_agreement() == shelf.held_by(*mine, *yours)
    bodies = shelf.ledger.scalars(sa.select(events.c.body).where(events.c.kind == "published"))
    assert sum(len(body["chunks"]) for body in bodies) == 40


def test_a_chroma_that_dies_is_named_and_a_new_one_gets_the_rest(
    sqlite_ledger: Ledger, lite_shelf: Shelf, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", chroma_url=f"http://127.0.0.1:{free_port()}")
    first, second = a_version("first"), a_version("second")
    with running_server(settings) as url:
        dying = Shelf(sqlite_ledger, lite_shelf.storage, ChromaStore(url, "corpus"))
        dying.serve(first)
    dying.accept(second)

    with pytest.raises(StoreUnavailable, match=url):
        dying.drain()

    assert set(dying.in_ledger("pending")) == dying.held_by(second)
    with running_server(settings) as url:
        revived = Shelf(sqlite_ledger, lite_shelf.storage, ChromaStore(url, "corpus"))
        revived.drain()
        assert revived.check_agreement() == revived.held_by(first, second)


def _accepted(made: Sequence[Version]) -> list[tuple[Version, Verdict]]:
    return [(version, ACCEPT) for version in made]
