"""A trace over a real store and a real ledger: every text judged once, nothing missed, and whatever kills it, it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus_guard.deployment import Deployment
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.ledger.tables import reports, suspects, traces
from corpus_guard.traceback import trace_run
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.loop import StopReason
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from material import Shelf
from trace_cases import (
    OUTPUT,
    QUESTION,
    Contains,
    Quoting,
    judged_rows,
    poison,
    report,
    rows,
    run,
    serve,
    state,
    told,
    trace_together,
    trace_until,
    truth,
)

ON_BOTH_STORES = True

MOST_MOMENTS = 40


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    return Deployment(lite_shelf.settings(tmp_path))


def test_forty_deep_every_poisoned_text_is_found_and_none_is_judged_twice(shelf: Shelf, tmp_path: Path) -> None:
    planted = serve(shelf, {**poison(40), **truth(12)})
    complaint, judge = report(shelf), Contains()

    with Deployment(shelf.settings(tmp_path)) as guard:
        done = run(guard, complaint, judge, rag_model=Quoting())

    assert done.outcome is TraceOutcome.TRACED
    assert {one.uri for one in done.accused} == set(poison(40)), "it did not stop early"
    assert max(Counter(judge.asked).values()) == 1, "no text is judged twice"
    assert len(judge.asked) == 45, "forty, and the five that stand"
    assert [one.iteration for one in done.judged] == [1 + place // 5 for place in range(45)]
    assert (done.counts, done.ended) == ({"poisoned": 40, "benign": 5, "undecided": 0}, StopReason.STANDS)
    assert {one.version_id for one in done.accused} == {planted[uri].version_id for uri in poison(40)}
    assert OUTPUT in (done.answer_before or "") and OUTPUT not in (done.answer_after or "")
    assert state(shelf) == "traced"
    assert len(judged_rows(shelf)) == 45
    assert done.activations is not None
    assert done.activations["vote"] == "skipped"
    assert "shows no activations" in done.activations["reason"]
    (event,) = told(shelf, "traced")
    assert event.body["activations"] == "skipped"


def test_what_is_kept_holds_hashes_and_no_text(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, {**poison(2), **truth(6)})
    complaint = report(lite_shelf)

    done = run(guard, complaint, Contains())

    (event,) = told(lite_shelf, "traced")
    assert event.subject == complaint.report_id
    assert (event.body["outcome"], event.body["counts"]["poisoned"]) == ("traced", 2)
    assert event.body["accused"] == sorted(one.text_sha256 for one in done.accused)
    everything = repr([*rows(lite_shelf, suspects), *rows(lite_shelf, traces), event])
    assert "Inspections are due" not in everything
    guard.seal("seal")
    assert guard.verify().holds


def test_a_finished_trace_is_read_and_not_run(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, {**poison(2), **truth(6)})
    complaint, again = report(lite_shelf), Contains()

    first = run(guard, complaint, Contains())
    second = run(guard, complaint, again)
    other_run = run(guard, complaint, again, "night-2")

    assert second == first
    assert other_run.trace_id != first.trace_id
    assert len(again.asked) == 7
    assert len(told(lite_shelf, "traced")) == 2


def test_fewer_texts_than_k(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, {**poison(1), **truth(2)})

    done = run(guard, report(lite_shelf), Contains())

    assert (done.outcome, done.ended) == (TraceOutcome.TRACED, StopReason.RAN_DRY)
    assert done.counts == {"poisoned": 1, "benign": 2, "undecided": 0}


def test_an_empty_corpus_accuses_nobody(lite_shelf: Shelf, guard: Deployment) -> None:
    done = run(guard, report(lite_shelf), Contains())

    assert (done.outcome, done.judged, state(lite_shelf)) == (TraceOutcome.EXHAUSTED, (), "exhausted")


def test_a_judge_that_always_says_yes_exhausts_the_corpus(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, truth(12))

    done = run(guard, report(lite_shelf), Contains(says=Label.POISONED))

    assert done.outcome is TraceOutcome.EXHAUSTED
    assert done.counts["poisoned"] == 12


def test_an_honest_complaint_accuses_nobody_though_single_texts_look_bad(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, {**poison(1), **truth(6)})

    done = run(guard, report(lite_shelf), Contains(probability=0.1))

    assert done.outcome is TraceOutcome.NOT_POISONING
    assert done.accused == ()
    assert {row.label for row in rows(lite_shelf, suspects)} == {"benign"}
    assert told(lite_shelf, "traced")[0].body["accused"] == []


def test_a_judge_that_fails_in_the_second_round_and_the_run_goes_on_with_what_was_kept(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    serve(lite_shelf, {**poison(7), **truth(8)})
    complaint, failing, working = report(lite_shelf), Contains(fails_in=2), Contains()

    failed = run(guard, complaint, failing)
    assert (failed.outcome, failed.failure) == (
        TraceOutcome.JUDGE_FAILED,
        "the endpoint does not answer; start it, then run again",
    )
    assert state(lite_shelf) == "judge_failed"
    assert len(judged_rows(lite_shelf)) == 5
    done = run(guard, complaint, working)

    assert (done.trace_id, done.outcome, done.failure) == (failed.trace_id, TraceOutcome.TRACED, None)
    assert len(done.accused) == 7
    assert not set(working.asked) & set(failing.asked)
    assert len(judged_rows(lite_shelf)) == len(working.asked) + len(failing.asked) == 12


def test_whatever_a_model_library_raises_is_a_failure_of_the_judge_and_quotes_no_text(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    class Breaks(Contains):
        def judge(
            self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
        ) -> list[Opinion]:
            raise RuntimeError(new[0].text)

    serve(lite_shelf, {**poison(1), **truth(6)})

    done = run(guard, report(lite_shelf), Breaks())

    assert done.outcome is TraceOutcome.JUDGE_FAILED
    assert "judge contains: RuntimeError" in (done.failure or "")
    assert OUTPUT not in (done.failure or "")


def test_what_changed_since_it_was_kept_is_judged_again_and_stays_in_the_record(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    old = serve(lite_shelf, {**poison(7), **truth(8)})
    complaint, working = report(lite_shelf), Contains()
    run(guard, complaint, Contains(fails_in=2))
    serve(lite_shelf, {"lie-00.md": "It was put right: in spring and in autumn (near 990)."}, minute=1)

    done = run(guard, complaint, working)

    assert done.outcome is TraceOutcome.TRACED
    corrected = [one for one in done.judged if one.uri == "lie-00.md"]
    assert [(one.label, one.version_id == old["lie-00.md"].version_id) for one in corrected] == [
        (Label.POISONED, True),
        (Label.BENIGN, False),
    ]


def test_an_investigation_leaves_nothing_behind(lite_shelf: Shelf, guard: Deployment) -> None:
    serve(lite_shelf, {**poison(3), **truth(6)})

    done = run(guard, Complaint(QUESTION, OUTPUT), Contains())

    assert (done.trace_id, done.outcome, len(done.accused)) == ("", TraceOutcome.TRACED, 3)
    assert rows(lite_shelf, traces) == rows(lite_shelf, suspects) == rows(lite_shelf, reports) == []
    assert told(lite_shelf, "traced") == []


@pytest.mark.parametrize("output", ["y", "yes"])
def test_a_tiny_output_has_an_outcome(lite_shelf: Shelf, guard: Deployment, output: str) -> None:
    serve(lite_shelf, truth(6))

    done = run(guard, Complaint(QUESTION, output), Contains(probability=0.0))

    assert done.outcome is TraceOutcome.NOT_POISONING
    assert done.accused == ()


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_killed_around_a_write_it_goes_on_and_judges_no_kept_text_again(
    lite_shelf: Shelf, tmp_path: Path, every: int
) -> None:
    serve(lite_shelf, {**poison(9), **truth(8)})
    settings = lite_shelf.settings(tmp_path)
    ends = []
    for moment in range(every, MOST_MOMENTS, every):
        complaint, tape = report(lite_shelf, output=OUTPUT, query=f"{QUESTION} {moment}"), tmp_path / f"tape-{moment}"

        ended = trace_until(settings, complaint, moment, tape)
        kept = {row.chunk_id for row in _of(lite_shelf, complaint)}
        before = tape.read_text().split() if tape.exists() else []
        assert 0 <= len(before) - len(kept) <= 5, "at most the round that was not kept is judged again"
        judge = Contains()
        with Deployment(settings) as guard:
            done = run(guard, complaint, judge)

        ends.append(ended)
        assert done.outcome is TraceOutcome.TRACED
        assert not kept & set(judge.asked)
        assert Counter(row.chunk_id for row in _of(lite_shelf, complaint)) == Counter(
            one.chunk_id for one in done.judged
        )
        assert [one.uri for one in done.accused] == sorted(poison(9))
        assert len(done.judged) == 14
        assert len([one for one in told(lite_shelf, "traced") if one.subject == complaint.report_id]) == 1
        if ended == 0:
            break
    assert ends[-1] == 0
    assert set(ends[:-1]) == {-9}
    assert len(ends) * every > 2 * 5, "beginning, three rounds and the end, before and after"


def test_two_runs_at_once_converge(shelf: Shelf, tmp_path: Path) -> None:
    serve(shelf, {**poison(12), **truth(8)})
    complaint = report(shelf)

    assert trace_together(shelf.settings(tmp_path), complaint, ["night-1", "night-1", "night-2"]) == [0, 0, 0]

    assert sorted(Counter(row.trace_id for row in rows(shelf, suspects)).values()) == [17, 17]
    assert [row.outcome for row in rows(shelf, traces)] == ["traced", "traced"]
    assert len(told(shelf, "traced")) == 2
    assert state(shelf) == "traced"


def test_a_loop_that_judges_twice_would_be_seen(
    lite_shelf: Shelf, guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof of the tests above: without what was kept, the kept texts are judged again."""
    serve(lite_shelf, {**poison(7), **truth(8)})
    complaint, failing, working = report(lite_shelf), Contains(fails_in=2), Contains()
    run(guard, complaint, failing)
    monkeypatch.setattr(trace_run, "_restore_judged_texts", lambda *arguments: [])

    run(guard, complaint, working)

    assert set(failing.asked) <= set(working.asked)


def _of(shelf: Shelf, complaint: Complaint) -> list:
    mine = [row.trace_id for row in rows(shelf, traces, traces.c.report_id == complaint.report_id)]
    return rows(shelf, suspects, suspects.c.trace_id.in_(mine))
