"""A night's work: what is picked, that portions go on, and that a night that lost a report does not balance."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Inconsistent, StoreUnavailable, UnknownSubject
from corpus_guard.ledger.tables import reports, suspects
from corpus_guard.models.chat import ChatEndpoint
from corpus_guard.models.chat_cache import LedgerAnswerCache
from corpus_guard.traceback import batch_run
from corpus_guard.traceback.batch_run import (
    TracedReport,
    count_outcomes,
    endpoint_usage,
    select_reports,
    total_usage,
    trace_portion,
)
from corpus_guard.traceback.judges.llm import LLMJudge
from corpus_guard.traceback.reports import close_report
from corpus_guard.traceback.retrieval import Complaint
from endpoint import says, scripted
from material import Shelf
from trace_cases import Contains, access_of, poison, report, rows, serve, truth


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    serve(lite_shelf, {**poison(2), **truth(6)})
    return Deployment(lite_shelf.settings(tmp_path))


def filed(shelf: Shelf, count: int) -> list[Complaint]:
    return [report(shelf, query=f"Question number {number}?") for number in range(count)]


def test_open_reports_first_then_those_whose_judge_failed_and_the_rest_is_said(shelf: Shelf) -> None:
    complaints = filed(shelf, 7)
    with shelf.ledger.write() as connection:
        close_report(connection, complaints[0].report_id, "judge_failed")
        close_report(connection, complaints[1].report_id, "traced")

    every, some = select_reports(shelf.ledger, portion=4), select_reports(shelf.ledger, max_reports=3, portion=2)

    assert [len(portion) for portion in every.portions] == [4, 2]
    assert every.portions[1][-1] == complaints[0].report_id
    assert complaints[1].report_id not in {name for portion in every.portions for name in portion}
    assert ([len(portion) for portion in some.portions], some.waiting, every.waiting) == ([2, 1], 3, 0)
    assert select_reports(shelf.ledger, max_reports=0).portions == []


def test_a_portion_that_is_run_again_reads_what_is_finished(lite_shelf: Shelf, guard: Deployment) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 3)]
    judge, again = Contains(), Contains()

    first = trace_portion(access_of(guard), "night-1", ids[:2], judge=judge, k=5, rag_model=None)
    whole = trace_portion(access_of(guard), "night-1", ids, judge=again, k=5, rag_model=None)

    assert whole[:2] == first
    assert [one["outcome"] for one in whole] == ["traced"] * 3
    assert (len(judge.asked), len(again.asked)) == (14, 7)
    assert len(rows(lite_shelf, suspects)) == 21
    assert count_outcomes([ids[:2], ids[2:]], [whole]) == {"traced": 3}


def test_one_report_that_cannot_be_traced_does_not_keep_the_others_from_it(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 2)]

    with pytest.raises(UnknownSubject):
        trace_portion(access_of(guard), "night-1", ["0" * 32, *ids], judge=Contains(), k=5, rag_model=None)

    assert {row.state for row in rows(lite_shelf, reports)} == {"traced"}


def test_a_server_that_does_not_answer_ends_the_portion_at_once(
    lite_shelf: Shelf, guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 2)]
    tried: list[Complaint] = []

    def down(guard: Deployment, complaint: Complaint, *rest: object, **more: object) -> None:
        tried.append(complaint)
        raise StoreUnavailable("Chroma does not answer")

    monkeypatch.setattr(batch_run, "run_trace", down)
    with pytest.raises(StoreUnavailable):
        trace_portion(access_of(guard), "night-1", ids, judge=Contains(), k=5, rag_model=None)

    assert len(tried) == 1


@pytest.mark.parametrize(
    "ended", [["a"], ["a", "b", "b"], ["a", "c"], []], ids=["one is lost", "one ended twice", "a stranger", "none"]
)
def test_a_night_that_does_not_balance_is_no_night(ended: list[str]) -> None:
    results = [[TracedReport(report_id=one, trace_id="t", outcome="traced") for one in ended]]

    with pytest.raises(Inconsistent, match="not exactly once"):
        count_outcomes([["a"], ["b"]], results)


def test_an_empty_night_balances() -> None:
    assert count_outcomes([], []) == {}


def test_what_the_judges_endpoint_was_asked_is_kept_report_by_report(lite_shelf: Shelf, guard: Deployment) -> None:
    ids = [one.report_id for one in filed(lite_shelf, 2)]
    with scripted(lambda _: says("It does not lead there.\n[Label: No]")) as endpoint:

        def judge() -> LLMJudge:
            return LLMJudge(ChatEndpoint(endpoint.url, "m", cache=LedgerAnswerCache(lite_shelf.ledger)))

        first = judge()
        night_one = trace_portion(access_of(guard), "night-1", ids, judge=first, k=5, rag_model=None)
        requests = len(endpoint.asked)
        again = judge()
        night_two = trace_portion(access_of(guard), "night-1", ids, judge=again, k=5, rag_model=None)

    assert requests > 1
    for one in night_one:
        assert one["used"]["requests"] > 0
    total = total_usage([night_one[:1], night_one[1:]])
    assert (total["requests"], total["prompt_tokens"], total["completion_tokens"]) == (
        requests,
        11 * requests,
        3 * requests,
    )
    assert total == pytest.approx(endpoint_usage(first))
    assert total_usage([night_one], {"requests": 5})["requests"] == requests + 5
    assert total_usage([night_two])["requests"] == 0, "what is finished is read"


def test_a_judge_without_an_endpoint_used_none(lite_shelf: Shelf, guard: Deployment) -> None:
    (ids,) = select_reports(lite_shelf.ledger).portions or [[one.report_id for one in filed(lite_shelf, 1)]]

    done = trace_portion(access_of(guard), "night-1", ids, judge=Contains(), k=5, rag_model=None)

    assert "used" not in done[0]
    assert total_usage([done]) == endpoint_usage(Contains()) == {}
