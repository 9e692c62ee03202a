"""The corpus of an earlier moment: what was served then, with the texts of then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import TraceOutcome
from corpus_guard.ledger.tables import purges, versions
from corpus_guard.traceback import historical_corpus
from corpus_guard.traceback.historical_corpus import corpus_as_of
from corpus_guard.traceback.live_corpus import LiveCorpus
from corpus_guard.traceback.records import list_traces
from material import Shelf
from trace_cases import QUESTION, Contains, Nearness, poison, report, run, serve, state, truth

RIGHT = "It was put right: the pump house is inspected in spring (near 990)."


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    return Deployment(lite_shelf.settings(tmp_path))


def texts(guard: Deployment, when: datetime, k: int = 50) -> dict[str, str]:
    found = corpus_as_of(guard.ledger, guard.storage, Nearness(), when, QUESTION).retrieve(QUESTION, k)
    return {one.uri: one.text for one in found}


def test_a_text_that_was_replaced_since_is_judged_as_it_was(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, {**poison(3), **truth(6)})
    then = now()
    serve(lite_shelf, dict.fromkeys(poison(3), RIGHT), minute=1)
    complaint = report(lite_shelf)

    today = run(guard, complaint, Contains())
    back_then = run(guard, complaint, Contains(), as_of=then)

    assert today.outcome is TraceOutcome.NOT_POISONING
    assert back_then.outcome is TraceOutcome.TRACED
    assert {one.uri for one in back_then.accused} == set(poison(3))
    assert today.trace_id != back_then.trace_id
    assert (back_then.as_of, back_then.missing) == (then, 0)
    assert state(lite_shelf) == "traced"


def test_it_holds_what_the_live_store_held_byte_for_byte(shelf: Shelf, tmp_path: Path) -> None:
    serve(shelf, {**poison(4), **truth(6)})
    with Deployment(shelf.settings(tmp_path)) as guard:
        live = LiveCorpus(guard.ledger, guard.store, Nearness()).retrieve(QUESTION, 50)
        then = now()
        serve(shelf, dict.fromkeys(poison(4), RIGHT), minute=1)
        shelf.retire(
            *(one.doc_id for one in serve(shelf, {"new.md": "Never seen before (near 999)."}, minute=2).values())
        )
        shelf.drain()
        past_one = corpus_as_of(guard.ledger, guard.storage, Nearness(), then, QUESTION).retrieve(QUESTION, 50)

    assert [replace(one, similarity=0) for one in past_one] == [replace(one, similarity=0) for one in live]
    assert [one.vector.tobytes() for one in past_one] == [one.vector.tobytes() for one in live]
    assert [one.similarity for one in past_one] == pytest.approx([one.similarity for one in live], abs=1e-5)


def test_a_time_at_which_nothing_was_served_is_refused_and_leaves_no_trace(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    before = now()
    with pytest.raises(Misuse, match="nothing was served then; no text was ever published"):
        texts(guard, before)
    serve(lite_shelf, truth(2))
    complaint = report(lite_shelf)

    with pytest.raises(Misuse, match="nothing was served then; the first text was published at 20"):
        run(guard, complaint, Contains(), as_of=before)

    assert list_traces(guard.ledger) == []
    assert state(lite_shelf) == "open"


def test_what_was_withdrawn_by_then_is_not_there(lite_shelf: Shelf, guard: Deployment) -> None:
    served = serve(lite_shelf, truth(3))
    lite_shelf.retire(served["page-01.md"].doc_id)
    lite_shelf.drain()

    assert texts(guard, now()).keys() == {"page-00.md", "page-02.md"}


def test_only_the_number_is_known_of_what_was_erased(lite_shelf: Shelf, guard: Deployment) -> None:
    served = serve(lite_shelf, {**poison(1), **truth(3)})
    then = now()
    gone = {
        "purge_id": "1" * 32,
        "state": "closed",
        "subject": {},
        "versions": [served["lie-00.md"].version_id],
        "requested_by": "ada",
        "reason": "asked for",
        "requested_at": then,
        "run_id": "purge-1",
    }
    guard.ledger.execute(purges.insert().values(gone))

    corpus = corpus_as_of(guard.ledger, guard.storage, Nearness(), then, QUESTION)

    assert corpus.missing == 1
    assert {one.uri for one in corpus.retrieve(QUESTION, 9)} == truth(3).keys()


def test_only_what_a_trace_can_reach_is_read(
    lite_shelf: Shelf, guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(lite_shelf, {**poison(4), **truth(6)})
    serve(lite_shelf, {"other.md": "In another file (near 989)."})
    monkeypatch.setattr(historical_corpus, "MAX_REACHABLE_TEXTS", 3)

    assert set(texts(guard, now())) == {"lie-00.md", "lie-01.md", "other.md"}


def test_a_version_that_came_again_in_another_batch_is_found_beside_its_vectors(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    served = serve(lite_shelf, {**poison(1), **truth(2)})
    serve(lite_shelf, {"far.md": "Elsewhere (near 100)."})
    with guard.ledger.write() as connection:
        other = connection.scalar(sa.select(versions.c.batch).order_by(versions.c.batch.desc()).limit(1))
        mine = versions.c.version_id == served["lie-00.md"].version_id
        connection.execute(versions.update().where(mine).values(batch=other))

    assert set(texts(guard, now())) >= poison(1).keys()


def test_a_file_that_is_gone_is_no_empty_corpus(lite_shelf: Shelf, guard: Deployment, tmp_path: Path) -> None:
    serve(lite_shelf, truth(3))
    for file in (tmp_path / "storage" / "batches").glob("*/vectors.parquet"):
        file.unlink()

    with pytest.raises(Inconsistent, match="missing"):
        texts(guard, now())


@pytest.mark.parametrize("when", [datetime(2999, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)], ids=["future", "no zone"])
def test_the_future_and_a_time_without_a_zone_are_refused(guard: Deployment, when: datetime) -> None:
    with pytest.raises(Misuse, match="expected a time in the past with its time zone"):
        corpus_as_of(guard.ledger, guard.storage, Nearness(), when, QUESTION)
