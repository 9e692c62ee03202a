"""/api/v1, changing: filing a report; opening, filling, approving and closing cases.

The app protects this router: permission, same origin, JSON, header, rate limit.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Request
from pydantic import Field

from corpus_guard.deployment import new_run_id
from corpus_guard.errors import HostileInput, Misuse, Stale
from corpus_guard.forensics import cases
from corpus_guard.forensics.cases import MAX_TITLE, MemberKind
from corpus_guard.forensics.plan import plan_case
from corpus_guard.forensics.scope import scope_of
from corpus_guard.ledger.ledger import now
from corpus_guard.review.reviewer import clean_reason
from corpus_guard.traceback.filings import MAX_NAME_LENGTH, MAX_OUTPUT_LENGTH, MAX_QUERY_LENGTH, Filing
from corpus_guard.traceback.reports import file_report
from corpus_guard.web.changes import Body, Id, PathId, ReasonBody, current_reviewer
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter(tags=["cases"], responses=ERRORS)

MAX_MEMBER_NAME: Final = 2_000  # characters; a URI may be long


class FilingBody(Body):
    """An answer that was wrong, as the person who reports it saw it."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_LENGTH, description="The question as it was asked.")]
    output: Annotated[str, Field(min_length=1, max_length=MAX_OUTPUT_LENGTH, description="The wrong answer.")]
    correct: Annotated[str, Field(max_length=MAX_OUTPUT_LENGTH, description="The right answer; empty: unknown.")] = ""
    session: Annotated[str, Field(max_length=MAX_NAME_LENGTH, description="Name of the conversation.")] = ""


class MemberBody(ReasonBody):
    """A thing that belongs to a case."""

    kind: MemberKind
    name: Annotated[str, Field(min_length=1, max_length=MAX_MEMBER_NAME, description="Id; of a document also its URI.")]


class CaseBody(MemberBody):
    """A new case with its first member."""

    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE, description="What it is about; kept for good.")]


class ApprovalBody(ReasonBody):
    """A person's approval of a step, as its id names it."""

    step_id: Id


@router.post("/reports", status_code=201, summary="Report a wrong answer")
def file(request: Request, body: FilingBody) -> dict[str, object]:
    """The DAG `traceback_nightly` traces it. The same question with the same answer is one report."""
    filing = Filing(
        body.query,
        body.output,
        now(),
        body.correct or None,
        current_reviewer(request).name,
        body.session,
        origin="review pages",
    )
    try:
        receipt = file_report(current_deployment(request).ledger, filing, new_run_id("report"))
    except HostileInput as error:
        raise Misuse(str(error)) from error
    message = "Reported. The DAG traceback_nightly traces it; to trace it now: guard trace " + receipt.report_id[:8]
    return {"report_id": receipt.report_id, "message": message, "page": f"reports/{receipt.report_id}"}


@router.post("/cases", status_code=201, summary="Open a case with its first member")
def open_case(request: Request, body: CaseBody) -> dict[str, object]:
    """It is an event of the signed log, with the name of who opened it."""
    ledger = current_deployment(request).ledger
    case = cases.open_case(
        ledger,
        body.title,
        cases.find_member(ledger, body.kind, body.name),
        by=current_reviewer(request).name,
        reason=clean_reason(body.reason),
        run_id=new_run_id("case"),
    )
    return {"case_id": case.case_id, "message": "Case opened.", "page": f"cases/{case.case_id}"}


@router.post("/cases/{case_id}/members", status_code=201, summary="Add to a case what belongs to it")
def add_member(request: Request, case_id: PathId, body: MemberBody) -> dict[str, object]:
    """A document that is added counts as accused: the plan proposes to withdraw it."""
    ledger = current_deployment(request).ledger
    before = cases.find_case(ledger, case_id)
    members = cases.find_member(ledger, body.kind, body.name.strip())
    by, reason = current_reviewer(request).name, clean_reason(body.reason)
    after = cases.add_to_case(ledger, case_id, members, by=by, reason=reason)
    is_new = len(after.members) > len(before.members)
    return {"members": len(after.members), "message": "Added to the case." if is_new else "The case holds it already."}


@router.post("/cases/{case_id}/approvals", status_code=201, summary="Approve a step of a case's plan as it is shown")
def approve(request: Request, case_id: PathId, body: ApprovalBody) -> dict[str, object]:
    """Nothing is done yet: `guard case run` does what was approved. A step that is no longer proposed is refused."""
    deployment = current_deployment(request)
    case = cases.find_case(deployment.ledger, case_id)
    scope = scope_of(deployment.ledger, case)
    steps = {each.step.step_id: each for each in plan_case(deployment.ledger, deployment.policy, case, scope)}
    if body.step_id not in steps:
        raise Stale(
            "this step is no longer proposed: what it is about changed; load the page again, nothing was approved"
        )
    planned = steps[body.step_id]
    by, reason = current_reviewer(request).name, clean_reason(body.reason)
    cases.approve_step(deployment.ledger, case_id, planned.step, by=by, reason=reason)
    return {"step_id": body.step_id, "message": f"Approved. guard case run {case_id[:8]} does it."}


@router.post("/cases/{case_id}/close", summary="Close a case with what was concluded")
def close(request: Request, case_id: PathId, body: ReasonBody) -> dict[str, object]:
    """Every approved step must be done. A closed case changes no more."""
    by, conclusion = current_reviewer(request).name, clean_reason(body.reason)
    closed = cases.end_case(current_deployment(request).ledger, case_id, by=by, conclusion=conclusion)
    message = f"Closed. To hand it over: guard case export {case_id[:8]} --out FOLDER"
    return {"state": closed.state, "message": message}
