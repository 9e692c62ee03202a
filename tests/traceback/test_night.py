"""A night's work: what is picked, that portions go on, and that a night that lost a report does not balance."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.errors import Inconsistent, StoreUnavailable, UnknownSubject
from corpus_guard.guard import Guard
from corpus_guard.ledger.tables import reports, suspects
from corpus_guard.models.chat import ChatEndpoint
from corpus_guard.models.chat_cache import LedgerAnswers
from corpus_guard.traceback import Complaint, night
from corpus_guard.traceback.judges.llm import LLMJudge
from corpus_guard.traceback.night import Done, balanced, pick, trace_portion, used, used_by
from corpus_guard.traceback.reports import close
from endpoint import says, scripted
from material import Shelf
from trace_cases import Contains, Nearness, poison, report, rows, serve, truth


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Guard:
    serve(lite_shelf, {**poison(2), **truth(6)})
    return Guard(lite_shelf.settings(tmp_path))


def filed(shelf: Shelf, count: int) -> list[Complaint]:
    return [report(shelf, query=f"Question number {number}?") for number in range(count)]


def test_open_reports_first_then_those_whose_judge_failed_and_the_rest_is_said(shelf: Shelf) -> None:
    complaints = filed(shelf, 7)
    with shelf.ledger.write() as connection:
        close(connection, complaints[0].report_id, "judge_failed")
        close(connection, complaints[1].report_id, "traced")

    every, some = pick(shelf.ledger, portion=4), pick(shelf.ledger, most=3, portion=2)

    assert [len(portion) for portion in every.portions] == [4, 2]
    assert every.portions[1][-1] == complaints[0].report_id
    assert complaints[1].report_id not in {name for portion in every.portions for name in portion}
    assert ([len(portion) for portion in some.portions], some.left, every.left) == ([2, 1], 3, 0)
    assert pick(shelf.ledger, most=0).portions == []


def test_a_portion_that_is_run_again_reads_what_is_finished(lite_shelf: Shelf, guard: Guard) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 3)]
    judge, again = Contains(), Contains()

    first = trace_portion(guard, "night-1", ids[:2], judge=judge, answers=None, embedder=Nearness())
    whole = trace_portion(guard, "night-1", ids, judge=again, answers=None, embedder=Nearness())

    assert whole[:2] == first
    assert [one["outcome"] for one in whole] == ["traced"] * 3
    assert (len(judge.asked), len(again.asked)) == (14, 7)
    assert len(rows(lite_shelf, suspects)) == 21
    assert balanced([ids[:2], ids[2:]], [whole]) == {"traced": 3}


def test_one_report_that_cannot_be_traced_does_not_keep_the_others_from_it(lite_shelf: Shelf, guard: Guard) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 2)]

    with pytest.raises(UnknownSubject):
        trace_portion(guard, "night-1", ["0" * 32, *ids], judge=Contains(), answers=None, embedder=Nearness())

    assert {row.state for row in rows(lite_shelf, reports)} == {"traced"}


def test_a_server_that_does_not_answer_ends_the_portion_at_once(
    lite_shelf: Shelf, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 2)]
    tried: list[Complaint] = []

    def down(guard: Guard, complaint: Complaint, *rest: object, **more: object) -> None:
        tried.append(complaint)
        raise StoreUnavailable("Chroma does not answer")

    monkeypatch.setattr(night, "trace", down)
    with pytest.raises(StoreUnavailable):
        trace_portion(guard, "night-1", ids, judge=Contains(), answers=None)

    assert len(tried) == 1


@pytest.mark.parametrize(
    "ended", [["a"], ["a", "b", "b"], ["a", "c"], []], ids=["one is lost", "one ended twice", "a stranger", "none"]
)
def test_a_night_that_does_not_balance_is_no_night(ended: list[str]) -> None:
    results = [[Done(report_id=one, trace_id="t", outcome="traced") for one in ended]]

    with pytest.raises(Inconsistent, match="otherwise than once"):
        balanced([["a"], ["b"]], results)


def test_an_empty_night_balances() -> None:
    assert balanced([], []) == {}


def test_what_the_judges_endpoint_was_asked_is_kept_report_by_report(lite_shelf: Shelf, guard: Guard) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 2)]
    with scripted(lambda _: says("It does not lead there.\n[Label: No]")) as endpoint:

        def judge() -> LLMJudge:
            return LLMJudge(ChatEndpoint(endpoint.url, "m", cache=LedgerAnswers(lite_shelf.ledger)))

        first = judge()
        night_one = trace_portion(guard, "night-1", ids, judge=first, answers=None, embedder=Nearness())
        requests = len(endpoint.asked)
        again = judge()
        night_two = trace_portion(guard, "night-1", ids, judge=again, answers=None, embedder=Nearness())

    assert requests > 1
    for one in night_one:
        assert one["used"]["requests"] > 0
    total = used([night_one[:1], night_one[1:]])
    assert (total["requests"], total["prompt_tokens"], total["completion_tokens"]) == (
        requests,
        11 * requests,
        3 * requests,
    )
    assert total == pytest.approx(used_by(first))
    assert used([night_one], {"requests": 5})["requests"] == requests + 5
    assert used([night_two])["requests"] == 0, "what is finished is read"


def test_a_judge_without_an_endpoint_used_none(lite_shelf: Shelf, guard: Guard) -> None:
    (ids,) = pick(lite_shelf.ledger).portions or [[one.report_id for one in filed(lite_shelf, 1)]]

    done = trace_portion(guard, "night-1", ids, judge=Contains(), answers=None, embedder=Nearness())

    assert "used" not in done[0]
    assert used([done]) == used_by(Contains()) == {}
