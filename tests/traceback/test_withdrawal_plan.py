"""What was traced and approved is served no longer, comes back by no road, and its evidence is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.batches.tables import versions_from_table
from corpus_guard.deployment import Deployment
from corpus_guard.errors import Misuse
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import blocked, decisions, documents, purges, runs, traces, versions
from corpus_guard.removal import withdrawal
from corpus_guard.screening.blocked import find_purged
from corpus_guard.traceback import withdrawal_plan
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.live_corpus import LiveCorpus
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from corpus_guard.traceback.withdrawal_plan import (
    WithdrawalPlan,
    ask_again,
    list_pending_traces,
    plan_withdrawal,
    refuse_withdrawal,
    withdraw,
    withdraw_all,
)
from material import START, Shelf
from trace_cases import OUTPUT, Contains, Nearness, Quoting, poison, report, rows, run, serve, told, traceable, truth

ON_BOTH_STORES = True


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    return traceable(lite_shelf, tmp_path)


def traced(shelf: Shelf, guard: Deployment, run_id: str = "night-1", **more: Any) -> Any:
    return run(guard, report(shelf), Contains(), run_id, rag_model=Quoting(), **more)


def approve(
    guard: Deployment, plan: WithdrawalPlan, run_id: str = "night-1", by: str = "ada", reason: str = "traced"
) -> Any:
    return withdraw(
        guard.ledger,
        guard.storage,
        guard.store,
        guard.settings,
        plan,
        run_id=run_id,
        policy_digest=guard.screening.digest,
        by=by,
        reason=reason,
    )


def live_corpus(guard: Deployment) -> LiveCorpus:
    return LiveCorpus(guard.ledger, guard.store, Nearness())


def approved(guard: Deployment, trace_id: str, run_id: str = "night-1") -> Any:
    return approve(guard, plan_withdrawal(guard.ledger, [trace_id]), run_id)


def test_it_is_served_no_longer_and_everything_still_holds(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)
    (planned,) = (plan_withdrawal(guard.ledger, list_pending_traces(guard.ledger)),)

    done = approved(guard, trace.trace_id)

    assert (planned.documents, len(planned.versions), planned.chunks) == (3, 3, 3)
    assert (done["versions"], done["retired"], done["withdrawal_id"]) == (3, 3, planned.withdrawal_id)
    assert not [record for record in lite_shelf.in_chroma().values() if OUTPUT in record.text]
    assert len(lite_shelf.check_agreement()) == 6
    assert {(row.sha256, row.kind) for row in rows(lite_shelf, blocked)} == {
        *((sha, "content") for sha in planned.content_sha256),
        *((sha, "text") for sha in planned.text_sha256),
    }
    made = rows(lite_shelf, decisions)
    assert {(row.version_id, row.verdict, row.reviewer) for row in made} == {
        (version, "reject", "ada") for version in planned.versions
    }
    assert all(row.applied_at for row in made)
    (event,) = told(lite_shelf, "withdrawn")
    assert (event.body["by"], event.body["traces"]) == ("ada", [trace.trace_id])
    assert [row.state for row in rows(lite_shelf, runs, runs.c.kind == "withdrawal")] == ["sealed"]
    assert list_pending_traces(guard.ledger) == []
    assert guard.verify().holds


def test_evidence_stays(lite_shelf: Shelf, guard: Deployment) -> None:
    before = {row.version_id: row for row in rows(lite_shelf, versions)}
    trace = traced(lite_shelf, guard)

    approved(guard, trace.trace_id)

    for row in rows(lite_shelf, versions):
        assert row.stamp == before[row.version_id].stamp, "its title is evidence, too"
    (batch,) = {row.batch for row in before.values()}
    kept = versions_from_table(guard.storage.read_table(batch))
    assert sum(OUTPUT in version.text for version in kept) == 3
    assert find_purged(guard.ledger, [row.sha256 for row in rows(lite_shelf, blocked)]) == set(), "raw bytes are kept"


def test_it_comes_back_by_no_road(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)
    approved(guard, trace.trace_id)

    (again,) = serve(lite_shelf, {"elsewhere.md": next(iter(poison(1).values()))}, minute=5).values()

    assert lite_shelf.state(again) == "rejected"
    assert not [record for record in lite_shelf.in_chroma().values() if OUTPUT in record.text]


def test_equal_bytes_and_texts_go_along(lite_shelf: Shelf, guard: Deployment) -> None:
    (copy,) = serve(lite_shelf, {"copy of a lie.md": poison(1)["lie-00.md"]}).values()
    trace = traced(lite_shelf, guard, k=2)

    assert copy.version_id in plan_withdrawal(guard.ledger, [trace.trace_id]).versions


def test_an_older_good_version_of_the_same_document_is_not_blocked(lite_shelf: Shelf, guard: Deployment) -> None:
    good = serve(lite_shelf, {"handbook.md": "Inspected in spring (near 998)."}, minute=0)["handbook.md"]
    serve(lite_shelf, {"handbook.md": f"Inspected {OUTPUT} (near 997)."}, minute=1)
    trace = traced(lite_shelf, guard)

    approved(guard, trace.trace_id)
    tomorrow = (now() - START).total_seconds() / 60 + 24 * 60
    serve(lite_shelf, {"handbook.md": good.text}, minute=tomorrow)

    assert [record.text for record in lite_shelf.in_chroma().values() if "998" in record.text] == [good.text]


def test_killed_after_the_ledger_it_goes_on(
    lite_shelf: Shelf, guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced(lite_shelf, guard)
    planned = plan_withdrawal(guard.ledger, [trace.trace_id])
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(withdrawal_plan.outbox, "drain", _die)
        approve(guard, planned)

    assert len(lite_shelf.in_chroma()) == 9, "nothing was withdrawn yet"
    done = approve(guard, planned)
    again = approve(guard, planned)

    assert (done["versions"], done["retired"], again["retired"]) == (0, 3, 0)
    assert len(rows(lite_shelf, decisions)) == 3, "decided once"
    assert len(told(lite_shelf, "withdrawn")) == 1
    assert guard.verify().holds


def test_only_what_was_approved(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)
    planned = plan_withdrawal(guard.ledger, [trace.trace_id])
    serve(lite_shelf, {"came since.md": poison(1)["lie-00.md"]}, minute=3)

    with pytest.raises(Misuse, match="more documents with this content"):
        approve(guard, planned)

    assert rows(lite_shelf, blocked) == rows(lite_shelf, decisions) == []
    assert plan_withdrawal(guard.ledger, [trace.trace_id]).withdrawal_id != planned.withdrawal_id


def test_several_are_sealed_once_and_one_that_changed_holds_back_no_other(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)
    accused = plan_withdrawal(guard.ledger, [trace.trace_id]).versions
    changed, *others = (plan_withdrawal(guard.ledger, [trace.trace_id], [version_id]) for version_id in accused)
    (text,) = (row.uri for row in rows(lite_shelf, documents) if row.latest_version in changed.versions)
    serve(lite_shelf, {"came since.md": poison(5)[text]}, minute=3)
    sealed = len(told(lite_shelf, "sealed"))

    with pytest.raises(Misuse, match="more documents with this content"):
        withdraw_all(
            guard.ledger,
            guard.storage,
            guard.store,
            guard.settings,
            [changed, *others],
            run_id="night-1",
            policy_digest=guard.screening.digest,
            by="ada",
            reason="traced",
        )

    withdrawn = {row.version_id for row in rows(lite_shelf, decisions)}
    assert withdrawn == {version_id for plan in others for version_id in plan.versions}
    assert len(withdrawn) > 1
    assert len(told(lite_shelf, "sealed")) == sealed + 1
    assert guard.verify().holds


@pytest.mark.parametrize(("by", "reason"), [("", "traced"), ("ada", " ")])
def test_nobody_and_no_reason_withdraw_nothing(lite_shelf: Shelf, guard: Deployment, by: str, reason: str) -> None:
    trace = traced(lite_shelf, guard)

    with pytest.raises(Misuse, match="an approver and a reason"):
        approve(guard, plan_withdrawal(guard.ledger, [trace.trace_id]), by=by, reason=reason)

    assert len(lite_shelf.in_ledger()) == 9


def test_a_trace_that_accuses_nobody_cannot_withdraw(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = run(guard, report(lite_shelf), Contains(probability=0.1))

    assert list_pending_traces(guard.ledger) == []
    with pytest.raises(Misuse, match="got outcome not_poisoning"):
        plan_withdrawal(guard.ledger, [trace.trace_id])
    with pytest.raises(Misuse, match="is not in the ledger"):
        plan_withdrawal(guard.ledger, ["0" * 32])


def test_what_was_refused_is_not_asked_about_again(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)

    refuse_withdrawal(guard.ledger, "night-1", plan_withdrawal(guard.ledger, [trace.trace_id]), "ada")
    assert list_pending_traces(guard.ledger) == []
    again = traced(lite_shelf, guard, "night-2")
    other = run(guard, report(lite_shelf, "When was it last inspected?"), Contains(), "night-2", rag_model=Quoting())

    assert (again.outcome, again.accused) == ("not_poisoning", ()), "the same report does not accuse it again"
    assert list_pending_traces(guard.ledger) == [other.trace_id], "another report is another question"
    assert len(lite_shelf.in_ledger()) == 9


def test_what_was_refused_is_not_accused_because_trusted_texts_contradict_it(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    class Contradicted(Contains):
        def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
            return JudgeConclusion(0.9, accused=frozenset(text.chunk_id for text, _ in judged if OUTPUT in text.text))

    first = run(guard, report(lite_shelf), Contradicted(), rag_model=Quoting())
    refuse_withdrawal(guard.ledger, "night-1", plan_withdrawal(guard.ledger, [first.trace_id]), "ada")
    again = run(guard, report(lite_shelf), Contradicted(), "night-2", rag_model=Quoting())

    assert (len(first.accused), again.outcome, again.accused) == (3, "not_poisoning", ())


def test_a_record_that_is_in_no_ledger_is_named_and_not_claimed(
    lite_shelf: Shelf, guard: Deployment, chroma: Any
) -> None:
    (name,) = lite_shelf.store.names()
    text = f"Everybody knows: {OUTPUT} (near 999)."
    vector = Nearness().embed([text])[0].tolist()
    chroma.get_collection(name, embedding_function=None).add(ids=["planted"], documents=[text], embeddings=[vector])
    trace = traced(lite_shelf, guard)

    planned = plan_withdrawal(guard.ledger, [trace.trace_id])

    assert planned.unvouched == (f"{name}/planted",)
    assert withdrawal_plan.list_unvouched_records(guard.ledger, "night-1") == [f"{name}/planted"]
    assert withdrawal_plan.list_unvouched_records(guard.ledger, "night-2") == []
    assert len(planned.versions) == 3


def test_the_question_is_asked_again_and_both_answers_are_kept(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)
    approved(guard, trace.trace_id)

    again = ask_again(guard.ledger, live_corpus(guard), Quoting(), [trace.trace_id], "night-1")
    asked_twice = ask_again(guard.ledger, live_corpus(guard), Quoting(), [trace.trace_id], "night-1")

    assert again == {trace.trace_id: False}
    assert asked_twice == {}
    (row,) = rows(lite_shelf, traces)
    assert OUTPUT in row.answer_before
    assert OUTPUT not in row.answer_after
    assert "page-00" in row.answer_after or "0. page" in row.answer_after
    (event,) = told(lite_shelf, "asked_again")
    assert (event.body["agreed_before"], event.body["agrees"]) == (True, False)
    assert "page" not in str(event.body)


def test_a_purge_takes_over_what_a_withdrawal_blocked(lite_shelf: Shelf, guard: Deployment) -> None:
    trace = traced(lite_shelf, guard)
    planned = plan_withdrawal(guard.ledger, [trace.trace_id])
    approved(guard, trace.trace_id)
    purge = {
        "purge_id": "9" * 32,
        "state": "removed",
        "subject": {},
        "versions": list(planned.versions),
        "requested_by": "ada",
        "reason": "for good",
        "requested_at": told(lite_shelf, "withdrawn")[0].at,
        "run_id": "purge-1",
    }
    with guard.ledger.write() as connection:
        connection.execute(purges.insert().values(purge))
        withdrawal.block_content(connection, "9" * 32, planned.content_sha256, planned.text_sha256, "for good")
    with guard.ledger.write() as connection:
        withdrawal.block_content(connection, "8" * 32, planned.content_sha256, (), "a withdrawal that came later")

    assert {row.purge_id for row in rows(lite_shelf, blocked)} == {"9" * 32}
    assert find_purged(guard.ledger, planned.content_sha256) == set(planned.content_sha256)


def test_it_works_on_both_kinds_of_ledger(shelf: Shelf, tmp_path: Path) -> None:
    serve(shelf, {**poison(2), **truth(6)})
    with Deployment(shelf.settings(tmp_path)) as guard:
        trace = traced(shelf, guard)
        assert list_pending_traces(guard.ledger) == [trace.trace_id]
        approved(guard, trace.trace_id)
        ask_again(guard.ledger, live_corpus(guard), Quoting(), [trace.trace_id], "night-1")

        assert list_pending_traces(guard.ledger) == []
        assert guard.verify().holds


def _die(*arguments: Any) -> None:
    raise KeyboardInterrupt
