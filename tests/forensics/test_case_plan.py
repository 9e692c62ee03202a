"""A case from its opening to its conclusion: members, plan, approvals, and steps that converge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.store import Store
from corpus_guard.corpus.vectors import set_apart
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Misuse, SettingsError, Stale
from corpus_guard.exports.case_file import export_case
from corpus_guard.forensics.cases import (
    Case,
    CaseStep,
    Member,
    MemberKind,
    StepKind,
    add_to_case,
    approve_step,
    end_case,
    find_case,
    find_member,
    list_cases,
    open_case,
    reopen_case,
)
from corpus_guard.forensics.map import corpus_map
from corpus_guard.forensics.plan import CaseWorker, find_step, narrow_step, plan_case
from corpus_guard.forensics.root_cause import root_cause
from corpus_guard.forensics.scope import scope_of
from corpus_guard.forensics.timeline import UNSIGNED, TimelineEntry, case_timeline
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import blocked, events, publications, versions
from corpus_guard.traceback.withdrawal_plan import plan_withdrawal, refuse_withdrawal
from material import MODEL, Shelf, a_version, vector_of
from trace_cases import OUTPUT, Contains, NearModels, Quoting, poison, report, rows, run, serve, told, truth


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    guard = Deployment(lite_shelf.settings(tmp_path))
    guard.models = NearModels(guard.settings)
    serve(lite_shelf, {**poison(3), **truth(3)})
    guard.seal("before")
    return guard


@pytest.fixture
def case(lite_shelf: Shelf, guard: Deployment) -> Case:
    trace = run(guard, report(lite_shelf), Contains(), "night-1", rag_model=Quoting())
    members = find_member(guard.ledger, MemberKind.TRACE, trace.trace_id[:8])
    return open_case(guard.ledger, "wrong interval", members, by="ada", reason="a user reported it")


def worker(guard: Deployment) -> CaseWorker:
    return CaseWorker(
        guard.ledger,
        guard.storage,
        guard.blobs,
        guard.store,
        guard.models,
        guard.sources,
        guard.screening,
        guard.settings,
    )


def approve(guard: Deployment, case: Case, kind: StepKind, *documents: str) -> CaseStep:
    planned = find_step(plan_case(guard.ledger, guard.policy, case, scope_of(guard.ledger, case)), kind.value)
    step = narrow_step(guard.ledger, planned, documents)
    approve_step(guard.ledger, case.case_id, step, by="ada", reason="planted")
    return step


def served_lies(shelf: Shelf) -> set[str]:
    return {str(record.metadata["uri"]) for record in shelf.in_chroma().values() if OUTPUT in record.text}


def test_a_case_is_opened_found_by_prefix_and_grows(lite_shelf: Shelf, guard: Deployment, case: Case) -> None:
    (lie,) = find_member(guard.ledger, MemberKind.VERSION, "page-00.md")
    grown = add_to_case(guard.ledger, case.case_id, [lie, *case.members], by="ben", reason="looks alike")

    assert find_case(guard.ledger, case.case_id[:6]) == grown
    assert [each.case_id for each in list_cases(guard.ledger)] == [case.case_id]
    assert grown.members == (*case.members, lie)
    assert [event.body["by"] for event in told(lite_shelf, "case_added")] == ["ben"]
    assert scope_of(guard.ledger, grown).versions[-1:] != () and len(scope_of(guard.ledger, grown).accused) == 4


@pytest.mark.parametrize(("title", "by", "reason"), [("", "ada", "why"), ("what", " ", "why"), ("what", "ada", "")])
def test_a_case_needs_title_name_and_reason(sqlite_ledger: Ledger, title: str, by: str, reason: str) -> None:
    with pytest.raises(Misuse):
        open_case(sqlite_ledger, title, [Member(MemberKind.VERSION, "0" * 32)], by=by, reason=reason)


@pytest.mark.parametrize("kind", list(MemberKind))
def test_what_is_not_in_the_ledger_is_no_member(sqlite_ledger: Ledger, kind: MemberKind) -> None:
    for name in ("", "%", "ffffffffffff", "no/such.md"):
        with pytest.raises(Misuse):
            find_member(sqlite_ledger, kind, name)


def test_an_approved_withdrawal_takes_what_was_approved_and_no_more(
    lite_shelf: Shelf, guard: Deployment, case: Case
) -> None:
    assert worker(guard).run(case, "case-0") == {}, "nothing is approved"
    step = approve(guard, case, StepKind.WITHDRAW, "lie-00.md", "harbour/lie-02.md")

    done = worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")

    assert done[step.step_id]["versions"] == 2
    assert served_lies(lite_shelf) == {"lie-01.md"}
    assert len(rows(lite_shelf, blocked)) == 4
    after = find_case(guard.ledger, case.case_id)
    assert after.ids(MemberKind.WITHDRAWAL) == (done[step.step_id]["withdrawal_id"],)
    left = find_step(plan_case(guard.ledger, guard.policy, after, scope_of(guard.ledger, after)), "withdraw")
    assert [left.names[subject] for subject in left.step.subjects] == ["harbour/lie-01.md"]
    assert worker(guard).run(after, "case-2") == {}, "done once"
    assert guard.verify().holds


def test_killed_between_the_deed_and_its_record_the_next_run_converges(
    lite_shelf: Shelf, guard: Deployment, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve(guard, case, StepKind.WITHDRAW)
    approve(guard, case, StepKind.NOTIFY)
    approved = find_case(guard.ledger, case.case_id)
    with monkeypatch.context() as killed:
        killed.setattr("corpus_guard.forensics.plan.record_result", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            worker(guard).run(approved, "case-1")
    assert served_lies(lite_shelf) == set()

    done = worker(guard).run(find_case(guard.ledger, case.case_id), "case-2")

    assert [result.get("sent") for result in done.values()] == [None, False]
    assert len(told(lite_shelf, "withdrawn")) == 1
    assert len(told(lite_shelf, "case_step_done")) == 2
    assert guard.verify().holds


def test_a_purge_that_cannot_be_proved_is_not_done(lite_shelf: Shelf, guard: Deployment, case: Case) -> None:
    approve(guard, case, StepKind.PURGE)

    with pytest.raises(SettingsError, match="another machine"):  # the tests' server is not this deployment's
        worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")

    assert told(lite_shelf, "purged") == told(lite_shelf, "case_step_done") == []
    assert served_lies(lite_shelf) == set(), "out of service"


def test_a_copy_that_came_after_the_approval_stops_the_step(lite_shelf: Shelf, guard: Deployment, case: Case) -> None:
    approve(guard, case, StepKind.WITHDRAW)
    (text,) = [record.text for record in lite_shelf.in_chroma().values() if record.metadata["uri"] == "lie-00.md"]
    lite_shelf.serve(a_version("copy.md", (text,)))

    with pytest.raises(Stale, match="arrived since"):
        worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")

    assert "copy.md" in served_lies(lite_shelf)
    assert told(lite_shelf, "case_step_done") == []


def test_what_is_trusted_is_a_step_of_its_own(lite_shelf: Shelf, guard: Deployment, case: Case) -> None:
    (text,) = [record.text for record in lite_shelf.in_chroma().values() if record.metadata["uri"] == "lie-00.md"]
    lite_shelf.serve(a_version("handbook.md", (text,), trust=TrustLevel.TRUSTED, source="handbook"))

    steps = plan_case(guard.ledger, guard.policy, case, scope_of(guard.ledger, case))

    named = [sorted(step.names.values()) for step in steps if step.step.kind is StepKind.WITHDRAW]
    assert named == [["harbour/lie-01.md", "harbour/lie-02.md"], ["handbook/handbook.md", "harbour/lie-00.md"]]
    with pytest.raises(Misuse, match="2 steps"):
        find_step(steps, "withdraw")


def test_the_root_cause_is_told_and_what_people_cleared_is_not_accused(guard: Deployment, case: Case) -> None:
    _check_root_cause(guard, case)
    trace_id = case.ids(MemberKind.TRACE)[0]
    first = scope_of(guard.ledger, case).versions[0]
    refuse_withdrawal(guard.ledger, "", plan_withdrawal(guard.ledger, [trace_id], [first]), "ada", "it is right")

    assert first not in scope_of(guard.ledger, case).versions
    assert len(scope_of(guard.ledger, case).versions) == 2


def test_a_closed_case_takes_nothing_until_it_is_opened_again(guard: Deployment, case: Case) -> None:
    step = approve(guard, case, StepKind.NOTIFY)
    with pytest.raises(Stale, match="not done: notify"):
        end_case(guard.ledger, case.case_id, by="ada", conclusion="planted")
    worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")

    closed = end_case(guard.ledger, case.case_id, by="ada", conclusion="planted by an insider")

    assert (closed.state, closed.conclusion) == ("closed", "planted by an insider")
    for refused in (
        lambda: add_to_case(guard.ledger, case.case_id, case.members, by="ada", reason="more"),
        lambda: approve_step(guard.ledger, case.case_id, step, by="ada", reason="more"),
        lambda: worker(guard).run(closed, "case-2"),
        lambda: end_case(guard.ledger, case.case_id, by="ada", conclusion="again"),
    ):
        with pytest.raises(Stale):
            refused()
    assert reopen_case(guard.ledger, case.case_id, by="ben", reason="a second report").is_open


def test_a_vector_that_is_not_its_texts_is_replaced(lite_shelf: Shelf, guard: Deployment, case: Case) -> None:
    skewed = a_version("skewed.md", ("The old quay is swept in autumn. (near 100)",))
    lite_shelf.serve(skewed)  # the shelf's own vectors say nothing of nearness: not those of this embedder
    guard.seal("skewed")
    (chunk,) = skewed.chunks
    before = next(row for (_, name), row in lite_shelf.in_ledger().items() if name == chunk.chunk_id)

    step = approve(guard, case, StepKind.RE_EMBED)
    done = worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")[step.step_id]

    assert before.model == MODEL
    assert (done["replaced"], done["other_model"]) == ([chunk.chunk_id], 0)
    after = next(row for (_, name), row in lite_shelf.in_ledger().items() if name == chunk.chunk_id)
    assert after.vectors != before.vectors and after.vector_sha256 != before.vector_sha256
    stored = next(record for (_, name), record in lite_shelf.in_chroma().items() if name == chunk.chunk_id)
    (computed,) = set_apart(guard.models.embedder.embed([chunk.text]), [chunk.chunk_id])
    assert abs(float(stored.vector @ computed) - 1) < 1e-5
    assert abs(float(stored.vector @ vector_of(chunk.text))) < 0.99
    assert guard.verify(deep=True).holds


def test_a_sibling_of_the_same_author_is_reopened_and_stays_served(
    lite_shelf: Shelf, guard: Deployment, case: Case
) -> None:
    step = approve(guard, case, StepKind.REOPEN, "page-00.md")

    assert worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")[step.step_id]["reopened"] == 1

    (event,) = [event for event in told(lite_shelf, "reopened") if "case" in event.body]
    assert event.body["case"] == case.case_id
    with guard.ledger.read() as connection:
        waiting = connection.execute(sa.select(versions).where(versions.c.reopened_at.is_not(None))).all()
        assert [row.version_id for row in waiting] == [event.subject]
        served = sa.select(publications.c.state).where(publications.c.version_id == event.subject)
        assert set(connection.scalars(served)) == {"published"}


def test_each_line_of_the_timeline_is_the_event_it_names(lite_shelf: Shelf, guard: Deployment, case: Case) -> None:
    approve(guard, case, StepKind.WITHDRAW)
    worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")
    after = find_case(guard.ledger, case.case_id)
    seen = TimelineEntry(now(), "retrieved", "x", "3 retrievals")

    lines = case_timeline(guard.ledger, after, scope_of(guard.ledger, after), [seen])

    logged = {row.seq: row for row in guard.ledger.rows(sa.select(events))}
    for line in lines:
        if line.seq is None:
            assert (line.proof, line.leaf) == (UNSIGNED, "")
        else:
            row = logged[line.seq]
            assert (line.leaf, line.kind, line.at) == (row.leaf_sha256, row.kind, row.at)
            assert line.is_signed
    kinds = [line.kind for line in lines]
    order = ["judged", "published", "sealed", "traced", "case_opened", "case_step_approved", "withdrawn", "unpublished"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert lines[-1].kind == "retrieved"
    assert not any("page-" in line.text for line in lines), "only what is accused"


def _check_root_cause(guard: Deployment, case: Case) -> None:
    cause = root_cause(guard.ledger, guard.policy, scope_of(guard.ledger, case))

    assert [version.admitted for version in cause.versions] == ["accepted by the policy"] * 3
    assert {version.change for version in cause.versions} == {"new document"}
    assert dict(cause.sources) == {"harbour": 3}
    assert len(cause.runs) == 1 and cause.served_documents == {"harbour": 6}
    assert any("no finding at all" in sentence for sentence in cause.sentences)
    assert f"came in at {cause.first[:10]} " in replace(cause, last=cause.first).sentences[0]
    assert " and 2999-01-01 00:00 UTC" in replace(cause, last="2999-01-01T00:00:00").sentences[0]


@pytest.mark.slow
def test_a_case_is_worked_on_postgresql(
    postgresql_ledger: Ledger, storage: Storage, store: Store, tmp_path: Path
) -> None:
    shelf = Shelf(postgresql_ledger, storage, ChromaStore(store.url, store.prefix, lambda: postgresql_ledger))
    guard = Deployment(shelf.settings(tmp_path))
    guard.models = NearModels(guard.settings)
    serve(shelf, {**poison(3), **truth(3)})
    guard.seal("before")
    trace = run(guard, report(shelf), Contains(), "night-1", rag_model=Quoting())
    members = find_member(guard.ledger, MemberKind.TRACE, trace.trace_id[:8])
    case = open_case(guard.ledger, "wrong interval", members, by="ada", reason="a user reported it")
    for kind in (StepKind.WITHDRAW, StepKind.REOPEN):
        approve(guard, case, kind)

    worker(guard).run(find_case(guard.ledger, case.case_id), "case-1")

    assert served_lies(shelf) == set()
    export_case(
        guard.ledger,
        guard.storage,
        guard.settings,
        guard.policy,
        find_case(guard.ledger, case.case_id),
        tmp_path / "file",
        "ada",
    )
    assert len(corpus_map(guard.ledger, guard.storage, guard.settings.map_cache, trace_versions(trace)).points) == 6
    assert guard.verify().holds


def trace_versions(trace: Any) -> set[str]:
    return {text.version_id for text in trace.accused}
