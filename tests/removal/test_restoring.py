"""What a withdrawal took comes back: served, unblocked, logged, with two people where a release needs two, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.corpus import outbox
from corpus_guard.deployment import Deployment
from corpus_guard.errors import Misuse, NotAllowed, UnknownSubject
from corpus_guard.ledger.states import Purpose
from corpus_guard.ledger.tables import blocked, decisions, documents, purges, versions
from corpus_guard.removal import restoring, withdrawal
from corpus_guard.removal.restoring import apply_restores, list_withdrawn, request_restore
from corpus_guard.removal.withdrawal import block_content
from corpus_guard.review.history import load_history
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.labels import load_labels
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.traceback.live_corpus import LiveCorpus
from corpus_guard.traceback.withdrawal_plan import (
    ask_again,
    changed_by_run,
    list_pending_traces,
    plan_withdrawal,
    withdraw,
)
from material import Shelf
from trace_cases import OUTPUT, Contains, Nearness, Quoting, poison, report, rows, run, serve, told, traceable

ON_BOTH_STORES = True

ADA, BEN = Reviewer("1", "ada", "FabAuthManager"), Reviewer("2", "ben", "FabAuthManager")


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    return traceable(lite_shelf, tmp_path)


def withdrawn(shelf: Shelf, guard: Deployment, run_id: str = "night-1") -> list[str]:
    """Ids of the versions that a trace accused and ada withdrew."""
    trace = run(guard, report(shelf), Contains(), run_id, rag_model=Quoting())
    plan = plan_withdrawal(guard.ledger, [trace.trace_id])
    withdraw(
        guard.ledger, guard.storage, guard.store, guard.settings, plan,
        run_id=run_id, policy_digest=guard.screening.digest, by="ada", reason="traced",
    )  # fmt: skip
    return list(plan.versions)


def decide(guard: Deployment, version_ids: list[str], reviewer: Reviewer = ADA, reason: str = "honest") -> Any:
    return request_restore(
        guard.ledger, guard.policy.review, version_ids, ReviewAct(reviewer, reason, guard.screening.digest)
    )


def served_lies(shelf: Shelf) -> set[str]:
    return {str(record.metadata["uri"]) for record in shelf.in_chroma().values() if OUTPUT in record.text}


def test_copies_are_looked_up_for_all_withdrawn_documents_at_once(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    statements: list[str] = []

    def count(connection: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", count)
    try:
        one = list_withdrawn(guard.ledger, version_ids=version_ids[:1])
        for_one, statements[:] = len(statements), []
        every = list_withdrawn(guard.ledger, version_ids=version_ids)
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", count)

    assert (len(one), len(every)) == (1, 3)
    assert {document.restores for document in every} == {(version_id,) for version_id in version_ids}
    assert len(statements) == for_one


def test_one_of_three_comes_back_and_is_served_and_everything_holds(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    [one] = [document for document in list_withdrawn(guard.ledger) if document.uri == "lie-01.md"]

    decide(guard, [one.version_id])
    done = guard.restore("restore-1")

    assert (done["restored"], done["published"]) == (1, 1)
    assert served_lies(lite_shelf) == {"lie-01.md"}
    assert len(lite_shelf.check_agreement()) == 7
    assert [row.state for row in rows(lite_shelf, versions, versions.c.version_id == one.version_id)] == ["released"]
    assert len(rows(lite_shelf, blocked)) == 4, "the bytes and the texts of the two others"
    assert {document.status for document in list_withdrawn(guard.ledger)} == {"withdrawn", "restored"}
    (event,) = told(lite_shelf, "restored")
    assert (event.body["versions"], event.body["by"]) == ([one.version_id], ["ada"])
    assert guard.verify(deep=True).holds
    actions = [(entry.action, entry.uri) for entry in load_history(guard.ledger, version_id=one.version_id).entries]
    assert actions == [("restore", "lie-01.md"), ("withdraw", "lie-01.md")]
    assert len(version_ids) == 3


def test_twice_changes_nothing(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    decide(guard, version_ids)
    guard.restore("restore-1")
    before = rows(lite_shelf, decisions), rows(lite_shelf, versions), rows(lite_shelf, documents)

    assert decide(guard, version_ids) == []
    assert guard.restore("restore-2")["restored"] == 0
    assert (rows(lite_shelf, decisions), rows(lite_shelf, versions), rows(lite_shelf, documents)) == before
    assert len(told(lite_shelf, "restored")) == 1


@pytest.mark.parametrize("moment", ["apply_restores", "drain", "seal_run"])
def test_killed_anywhere_it_goes_on(
    lite_shelf: Shelf, guard: Deployment, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    decide(guard, version_ids)
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(outbox if moment == "drain" else restoring, moment, _die)
        guard.restore("restore-1")

    assert decide(guard, version_ids) == [], "what was decided is not decided again"
    guard.restore("restore-2")

    assert len(served_lies(lite_shelf)) == 3
    assert len(told(lite_shelf, "restored")) == 1
    assert guard.verify().holds


def test_a_restored_document_is_not_accused_again_on_the_same_report(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    decide(guard, version_ids)
    guard.restore("restore-1")

    again = run(guard, report(lite_shelf), Contains(), "night-2", rag_model=Quoting())
    other = run(guard, report(lite_shelf, "Who inspects it?"), Contains(), "night-2", rag_model=Quoting())

    assert again.accused == ()
    assert len(other.accused) == 3
    assert list_pending_traces(guard.ledger) == [other.trace_id]


def test_two_people_where_a_release_needs_two(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    guard.ledger.execute(versions.update().where(versions.c.version_id == version_ids[0]).values(severity="critical"))
    before = served_lies(lite_shelf)

    first = decide(guard, version_ids[:1])
    guard.restore("restore-1")
    assert [(decision.approval, decision.of) for decision in first] == [(1, 2)]
    assert served_lies(lite_shelf) == before, "one person brings nothing back"
    assert guard.verify().holds
    with pytest.raises(NotAllowed, match="another person must agree"):
        decide(guard, version_ids[:1])
    decide(guard, version_ids[:1], BEN)
    guard.restore("restore-2")

    assert len(served_lies(lite_shelf)) == 1
    assert guard.verify().holds


def test_the_question_is_asked_again_after_each_and_the_answers_are_in_the_log(
    lite_shelf: Shelf, guard: Deployment
) -> None:
    version_ids = withdrawn(lite_shelf, guard, "night-1")
    decide(guard, version_ids)
    guard.restore("restore-1")
    corpus = LiveCorpus(guard.ledger, guard.store, Nearness())

    assert changed_by_run(guard.ledger, "night-2") == {}
    for run_id, purpose, wrong in (
        ("restore-1", Purpose.RESTORE, True),
        ("night-1", Purpose.WITHDRAW, True),  # restored meanwhile: the corpus of now answers
    ):
        [(done, trace_ids)] = changed_by_run(guard.ledger, run_id).items()
        assert done is purpose
        assert ask_again(guard.ledger, corpus, Quoting(), trace_ids, run_id, done) == dict.fromkeys(trace_ids, wrong)

    assert [event.body["after"] for event in told(lite_shelf, "asked_again")] == ["restore", "withdraw"]
    assert all(event.body["agrees"] for event in told(lite_shelf, "asked_again"))
    assert guard.verify().holds


def purge(lite_shelf: Shelf, guard: Deployment, version_id: str) -> None:
    """Write what a purge leaves in the ledger."""
    [row] = rows(lite_shelf, versions, versions.c.version_id == version_id)
    with guard.ledger.write() as connection:
        connection.execute(
            purges.insert().values(
                purge_id="9" * 32, state="removed", subject={}, versions=[version_id], requested_by="ada",
                reason="for good", requested_at=row.judged_at, run_id="purge-1",
            )
        )  # fmt: skip
        block_content(connection, "9" * 32, [row.content_sha256], [row.text_sha256], "for good")


def test_what_was_purged_cannot_be_restored(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    purge(lite_shelf, guard, version_ids[0])

    with pytest.raises(Misuse, match="was purged: it is erased for good and cannot be restored"):
        decide(guard, version_ids[:1])


def test_a_purge_after_the_decision_wins(lite_shelf: Shelf, guard: Deployment) -> None:
    version_ids = withdrawn(lite_shelf, guard)
    decide(guard, version_ids[:1])
    purge(lite_shelf, guard, version_ids[0])

    applied = apply_restores(guard.ledger, guard.storage, guard.store, guard.models, guard.screening, "restore-1")
    assert (applied.version_ids, applied.reopened) == ([], 0)
    assert served_lies(lite_shelf) == set()


def test_what_nobody_withdrew_cannot_be_restored(guard: Deployment) -> None:
    with pytest.raises(UnknownSubject, match="not among the withdrawn versions"):
        decide(guard, ["0" * 32])
    with pytest.raises(Misuse, match="nothing is named"):
        decide(guard, [])


def test_a_copy_that_waited_in_quarantine_waits_again_and_is_not_released(lite_shelf: Shelf, guard: Deployment) -> None:
    (copy,) = serve(lite_shelf, {"copy.md": poison(1)["lie-00.md"]}).values()
    guard.ledger.execute(versions.update().where(versions.c.version_id == copy.version_id).values(state="quarantined"))
    version_ids = withdrawn(lite_shelf, guard)
    assert copy.version_id in version_ids

    decide(guard, [document.version_id for document in list_withdrawn(guard.ledger)])
    guard.restore("restore-1")

    assert lite_shelf.state(copy) == "quarantined"
    assert served_lies(lite_shelf) == {"lie-00.md", "lie-01.md", "lie-02.md"}


def test_withdrawals_and_restores_are_no_reviews(lite_shelf: Shelf, guard: Deployment) -> None:
    """The figures of reviewers tell how often a check was wrong, and nobody has looked at a check here."""
    version_ids = withdrawn(lite_shelf, guard)
    assert list(load_labels(guard.ledger)) == []
    decide(guard, version_ids)
    guard.restore("restore-1")

    assert list(load_labels(guard.ledger)) == []
    assert {row.purpose for row in rows(lite_shelf, decisions)} == {"withdraw", "restore"}


def test_an_older_withdrawal_that_logged_no_states_can_be_restored(
    lite_shelf: Shelf, guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = withdrawal.append_event

    def append_as_before(connection: Any, kind: str, subject: str, run_id: str, **body: Any) -> None:
        kept = {name: value for name, value in body.items() if name not in {"states", "reports"}}
        logged(connection, kind, subject, run_id, **kept)

    monkeypatch.setattr(withdrawal, "append_event", append_as_before)
    version_ids = withdrawn(lite_shelf, guard)
    decide(guard, version_ids)
    guard.restore("restore-1")

    assert len(served_lies(lite_shelf)) == 3


def test_it_works_on_both_kinds_of_ledger(shelf: Shelf, tmp_path: Path) -> None:
    guard = traceable(shelf, tmp_path)
    decide(guard, withdrawn(shelf, guard))
    guard.restore("restore-1")

    assert len(served_lies(shelf)) == 3
    assert guard.verify().holds


def _die(*arguments: Any) -> None:
    raise KeyboardInterrupt
