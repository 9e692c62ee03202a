"""A person who is asked to withdraw a document sees its name, its trust and its use; nothing trusted is chosen for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.deployment import Deployment
from corpus_guard.ledger.tables import documents
from corpus_guard.traceback.proposals import WithdrawalProposal, divide_by_answer, list_proposals
from corpus_guard.traceback.withdrawal_plan import (
    count_not_reproduced,
    list_pending_traces,
    plan_withdrawal,
    refuse_withdrawal,
    withdraw,
)
from material import START, Shelf
from trace_cases import OUTPUT, QUESTION, Contains, Quoting, poison, report, rows, run, serve, truth


@pytest.fixture
def guard(shelf: Shelf, tmp_path: Path) -> Deployment:
    guard = Deployment(shelf.settings(tmp_path))
    serve(shelf, {**poison(3), **truth(6)})
    guard.seal("before")
    return guard


def proposals(shelf: Shelf, guard: Deployment, rag_model: object = None) -> list[WithdrawalProposal]:
    trace = run(guard, report(shelf), Contains(), rag_model=rag_model or Quoting())
    return list_proposals(guard.ledger, [trace.trace_id])


def test_each_document_is_proposed_with_what_a_person_needs(shelf: Shelf, guard: Deployment) -> None:
    record = next(record for record in shelf.in_chroma().values() if OUTPUT in record.text)
    chunk, owner = record.chunk_id, record.metadata["version_id"]
    RetrievalLog(guard.ledger, days=3_000).add(
        [LoggedRetrieval(QUESTION, served, at=START) for served in ((LoggedChunk(chunk),), (LoggedChunk(chunk),), ())]
    )

    listed = proposals(shelf, guard)

    assert {proposal.documents[0].uri for proposal in listed} == {"lie-00.md", "lie-01.md", "lie-02.md"}
    counted = {document.version_id: document.retrievals for proposal in listed for document in proposal.documents}
    assert counted == {version: 2 if version == owner else 0 for version in counted}
    assert all(document.served_since for proposal in listed for document in proposal.documents)
    assert all(proposal.score == 1.0 and proposal.explanation and proposal.reproduced for proposal in listed)
    assert all(proposal.as_dict()["ticked"] is proposal.ticked for proposal in listed)


@pytest.mark.parametrize(("trust", "ticked"), [("open", True), ("reviewed", False), ("trusted", False)])
def test_nothing_trusted_or_reviewed_is_ticked(shelf: Shelf, guard: Deployment, trust: str, ticked: bool) -> None:
    with guard.ledger.write() as connection:
        connection.execute(documents.update().where(documents.c.uri == "lie-01.md").values(trust=trust))
        connection.execute(documents.update().where(documents.c.uri != "lie-01.md").values(trust="open"))

    chosen = {proposal.documents[0].uri: proposal.ticked for proposal in proposals(shelf, guard)}

    assert chosen == {"lie-00.md": True, "lie-01.md": ticked, "lie-02.md": True}


def test_a_copy_of_a_trusted_source_keeps_a_proposal_from_being_ticked(shelf: Shelf, guard: Deployment) -> None:
    serve(shelf, {"copy.md": poison(1)["lie-00.md"]})
    with guard.ledger.write() as connection:
        connection.execute(documents.update().values(trust="open"))
        connection.execute(documents.update().where(documents.c.uri == "copy.md").values(trust="trusted"))

    with_copy = [proposal for proposal in proposals(shelf, guard) if len(proposal.documents) == 2]

    assert with_copy
    assert not any(proposal.ticked for proposal in with_copy)


def test_one_of_three_is_withdrawn_and_one_is_refused_and_one_is_asked_about_again(
    shelf: Shelf, guard: Deployment
) -> None:
    one, two, three = proposals(shelf, guard)
    withdraw(
        guard.ledger, guard.storage, guard.store, guard.settings,
        plan_withdrawal(guard.ledger, one.traces, [one.version_id]),
        run_id="night-1", policy_digest=guard.screening.digest, by="ada", reason="planted",
    )  # fmt: skip
    refuse_withdrawal(guard.ledger, "night-1", plan_withdrawal(guard.ledger, two.traces, [two.version_id]), "ada")

    served = {str(record.metadata["uri"]) for record in shelf.in_chroma().values() if OUTPUT in record.text}
    assert served == {two.documents[0].uri, three.documents[0].uri}
    [left] = list_proposals(guard.ledger, list_pending_traces(guard.ledger))
    assert left.version_id == three.version_id
    assert guard.verify().holds


def test_nothing_is_proposed_from_a_report_whose_answer_the_model_does_not_give(
    shelf: Shelf, guard: Deployment
) -> None:
    class Right:
        name = "right"

        def answer(self, question: str, texts: object) -> str:
            return "twice a year"

    listed = proposals(shelf, guard, Right())

    assert listed
    assert not any(proposal.reproduced or proposal.ticked for proposal in listed)
    assert list_pending_traces(guard.ledger) == []
    assert count_not_reproduced(guard.ledger) == 1
    assert rows(shelf, documents, documents.c.retired_at.is_not(None)) == []


def test_what_arose_after_the_question_was_shown_is_neither_withdrawn_nor_refused() -> None:
    shown, kept, later = (
        WithdrawalProposal(name, f"v-{name}", "c", (), (), (), 0.9, "", True) for name in ("shown", "kept", "later")
    )

    assert divide_by_answer([shown, kept, later], {"shown": True, "kept": False}) == ([shown], [kept])
    assert divide_by_answer([shown, later], {"shown": False, "gone": True}) == ([], [shown])
