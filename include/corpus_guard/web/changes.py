"""/api/v1, changing: decisions, undoing, mutes, withdrawals, restores, acknowledging incidents, resuming DAGs.

The app protects this router: permission, same origin, JSON, header, rate limit.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Stale
from corpus_guard.ledger.states import IncidentState
from corpus_guard.proof.incidents import end_incident
from corpus_guard.removal.restoring import request_restore
from corpus_guard.review import decisions, muting
from corpus_guard.review.decisions import MAX_ITEMS, Choice
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.queue import find_item
from corpus_guard.review.records import ItemRevision
from corpus_guard.review.reviewer import MAX_REASON_CHARS, Reviewer, clean_reason
from corpus_guard.review.undo import undo_decision
from corpus_guard.traceback.proposals import decide_proposal, find_proposal
from corpus_guard.traceback.withdrawal_plan import plan_withdrawal, refuse_withdrawal
from corpus_guard.web.render import PAGE_DAGS
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter(tags=["review"], responses=ERRORS)

Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="32 hex digits.")]
PathId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="32 hex digits.")]
Reason = Annotated[str, Field(min_length=1, max_length=MAX_REASON_CHARS, description="Why; recorded for good.")]


class Body(BaseModel):
    """The body of a request; a field that nobody expects is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ItemRevisionBody(Body):
    """An item in the revision that the reviewer saw."""

    version_id: Id
    revision: Annotated[str, Field(max_length=64, description="From the queue or the item.")]


class DecisionBody(Body):
    """A decision on one or more items: all of them or none."""

    items: Annotated[list[ItemRevisionBody], Field(min_length=1, max_length=MAX_ITEMS)]
    choice: Choice
    reason: Reason
    policy_digest: Annotated[
        str | None, Field(max_length=64, description="The policy digest that the page showed.")
    ] = None


class PreviewBody(Body):
    """A decision whose effects are previewed."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_ITEMS)]
    choice: Choice


class ReasonBody(Body):
    """A reason."""

    reason: Reason


class MuteBody(Body):
    """A rule that is wrong for the source of this item."""

    version_id: Id
    code: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[a-z0-9_.]+$")]
    reason: Reason


class WithdrawalBody(Body):
    """A person's answer to one proposal of a trace."""

    trace_id: Id
    proposal_id: Id
    choice: Literal["withdraw", "keep"]
    reason: Reason


class RestoreBody(Body):
    """A withdrawn version that is to come back, with what has equal content."""

    version_id: Id
    reason: Reason


@router.post("/previews", summary="Effects of a decision, and the items that would be refused")
def preview(request: Request, body: PreviewBody) -> dict[str, object]:
    """Changes nothing; it is a POST because a thousand ids do not fit into a URL."""
    deployment = current_deployment(request)
    return decisions.preview_decision(
        deployment.ledger,
        deployment.policy.review,
        body.ids,
        body.choice,
        current_reviewer(request),
        deployment.identities,
    ).as_dict()


@router.post("/decisions", status_code=201, summary="Release, reject or escalate items: all of them or none")
def decide(request: Request, body: DecisionBody) -> dict[str, object]:
    """The decision takes effect with the next run of the DAG `quarantine_release`; until then it can be undone.

    If an item changed since it was read, the response is 409 and nothing is decided.
    """
    deployment = current_deployment(request)
    _require_same_policy(deployment, body.policy_digest)
    made = decisions.decide(
        deployment.ledger,
        deployment.policy.review,
        [ItemRevision(item.version_id, item.revision) for item in body.items],
        body.choice,
        _act(request, body.reason),
    )
    return {"decisions": [decision.as_dict() for decision in made]}


@router.post("/decisions/{decision_id}/undo", summary="Undo a decision that has not taken effect")
def undo(request: Request, decision_id: PathId, body: ReasonBody) -> dict[str, object]:
    """The undoing is recorded. Undoing the first of two approvals undoes the second as well."""
    undone = undo_decision(current_deployment(request).ledger, decision_id, _act(request, body.reason))
    return {"undone": list(undone)}


@router.post("/mutes", status_code=201, summary="Propose to mute a rule in the source of an item")
def mute(request: Request, body: MuteBody) -> dict[str, object]:
    """Nothing is muted until another person confirms it."""
    deployment = current_deployment(request)
    item = find_item(deployment.ledger, body.version_id)
    proposal = muting.propose_mute(
        deployment.ledger,
        deployment.policy,
        item.source,
        body.code,
        _act(request, body.reason),
        version_id=item.version_id,
    )
    return proposal.as_dict()


@router.post("/mutes/{mute_id}/confirm", summary="Confirm a mute that another person proposed")
def confirm(request: Request, mute_id: PathId, body: ReasonBody) -> dict[str, object]:
    """The mute applies from the next screening of its source."""
    return muting.confirm_mute(current_deployment(request).ledger, mute_id, _act(request, body.reason)).as_dict()


@router.post("/mutes/{mute_id}/lift", summary="End a mute, or a proposal")
def lift(request: Request, mute_id: PathId, body: ReasonBody) -> dict[str, object]:
    """One person suffices, because more findings count afterwards."""
    return muting.lift_mute(current_deployment(request).ledger, mute_id, _act(request, body.reason)).as_dict()


@router.post(
    "/withdrawals", status_code=201, summary="Withdraw a document that a trace proposes, or keep it in service"
)
def withdraw(request: Request, body: WithdrawalBody) -> dict[str, object]:
    """A withdrawal takes effect with the next run of the DAG `quarantine_release`; until then it can be undone.

    Kept, the same report does not accuse the document again. If the proposal changed since it was read, the response is 409.
    """
    deployment = current_deployment(request)
    act = _act(request, body.reason)
    if body.choice == "keep":
        proposal = find_proposal(deployment.ledger, body.trace_id, body.proposal_id)
        plan = plan_withdrawal(deployment.ledger, [body.trace_id], [proposal.version_id])
        refuse_withdrawal(deployment.ledger, "", plan, act.reviewer.name, act.reason)
        return {"decisions": [], "message": "Kept in service. The same report does not accuse it again."}
    made = decide_proposal(
        deployment.ledger,
        deployment.policy.review,
        body.trace_id,
        body.proposal_id,
        act,
    )
    message = "Withdrawal recorded. It takes effect with the next run of quarantine_release; until then you can undo it in History."
    return {"decisions": [decision.as_dict() for decision in made], "message": message}


@router.post("/restores", status_code=201, summary="Bring back what a withdrawal took out of service")
def restore(request: Request, body: RestoreBody) -> dict[str, object]:
    """It takes effect with the next run of the DAG `quarantine_release`. Where a release needs two people, so does this."""
    deployment = current_deployment(request)
    made = request_restore(
        deployment.ledger,
        deployment.policy.review,
        [body.version_id],
        _act(request, body.reason),
    )
    if any(not decision.is_complete for decision in made):
        message = "Recorded. A second reviewer must also restore it."
    elif made:
        message = "Restore recorded. It takes effect with the next run of quarantine_release; until then you can undo it in History."
    else:
        message = "It is restored already, or will be with the next run of quarantine_release."
    return {"decisions": [decision.as_dict() for decision in made], "message": message}


@router.post("/dags/{dag_id}/resume", summary="Let a paused DAG run again")
def resume(request: Request, dag_id: str) -> dict[str, object]:
    """Only the DAGs on which the review pages rely; the user also needs the right to edit the DAG."""
    switch = request.app.state.access.dags
    if switch is None or dag_id not in {name for names in PAGE_DAGS.values() for name in names}:
        raise HTTPException(404, "no such DAG of the review pages")
    switch.resume(request, dag_id)
    return {"message": f"{dag_id} runs again."}


@router.post("/incidents/{incident_id}/acknowledge", summary="Acknowledge an incident with what caused it")
def acknowledge(request: Request, incident_id: PathId, body: ReasonBody) -> dict[str, object]:
    """It is no longer red. If it was not healed, the same deviations open a new incident."""
    deployment = current_deployment(request)
    incident = end_incident(
        deployment.ledger,
        deployment.settings,
        incident_id,
        IncidentState.CLOSED,
        by=current_reviewer(request).name,
        reason=clean_reason(body.reason),
    )
    return incident.as_dict()


def _act(request: Request, reason: str) -> ReviewAct:
    deployment = current_deployment(request)
    return ReviewAct(current_reviewer(request), reason, deployment.screening.digest, deployment.identities)


def current_reviewer(request: Request) -> Reviewer:
    """Return who sent the request."""
    reviewer: Reviewer = request.state.reviewer
    return reviewer


def _require_same_policy(deployment: Deployment, page_digest: str | None) -> None:
    if page_digest is not None and page_digest != deployment.screening.digest:
        raise Stale(
            "the policy changed after this page was loaded; nothing was decided. Reload the page and look again"
        )
