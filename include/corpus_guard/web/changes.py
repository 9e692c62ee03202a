"""/api/v1: what changes something. The app gives this router its guards: same origin, JSON, header, permission, pace (`app`, `door`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.errors import Stale
from corpus_guard.guard import Guard
from corpus_guard.review import decisions, muting
from corpus_guard.review.decisions import MOST, Choice, Chosen
from corpus_guard.review.queue import find
from corpus_guard.review.reviewer import LONGEST_REASON, Reviewer
from corpus_guard.review.undoing import undo as undo_decision
from corpus_guard.web.answers import ERRORS

router = APIRouter(tags=["review"], responses=ERRORS)

Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="32 hex digits.")]
PathId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="32 hex digits.")]
Reason = Annotated[str, Field(min_length=1, max_length=LONGEST_REASON, description="Why; kept for good.")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ItemSeen(_Body):
    """An item as the reviewer saw it."""

    version_id: Id
    revision: Annotated[str, Field(max_length=64, description="From the queue or the item: what was decided on.")]


class Deciding(_Body):
    """A decision on one or many items: all are decided or none."""

    items: Annotated[list[ItemSeen], Field(min_length=1, max_length=MOST)]
    choice: Choice
    reason: Reason
    policy_digest: Annotated[str | None, Field(max_length=64, description="What the page showed.")] = None


class Previewing(_Body):
    """What a decision would touch."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=MOST)]
    choice: Choice


class Giving(_Body):
    """A reason alone."""

    reason: Reason


class Muting(_Body):
    """A rule that is wrong for the source of this item."""

    version_id: Id
    code: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[a-z0-9_.]+$")]
    reason: Reason


@router.post("/previews", summary="What a decision would touch, and which items would be refused")
def preview(request: Request, body: Previewing) -> dict[str, Any]:
    """Changes nothing; a POST because a thousand ids are no address."""
    guard = _guard(request)
    return decisions.preview(guard.ledger, guard.policy.review, body.ids, body.choice, _reviewer(request)).as_dict()


@router.post("/decisions", status_code=201, summary="Release, reject or escalate; all items or none")
def decide(request: Request, body: Deciding) -> dict[str, Any]:
    """It takes effect with the next run of the DAG `quarantine_release`; until then it can be undone. 409 where an item changed since
    it was seen: nothing was decided then.
    """
    guard = _guard(request)
    _same_policy(guard, body.policy_digest)
    made = decisions.decide(
        guard.ledger,
        guard.policy.review,
        [Chosen(item.version_id, item.revision) for item in body.items],
        body.choice,
        reviewer=_reviewer(request),
        reason=body.reason,
        policy_digest=guard.screening.digest,
    )
    return {"decisions": [decision.as_dict() for decision in made]}


@router.post("/decisions/{decision_id}/undo", summary="Take back a decision that has not taken effect")
def undo(request: Request, decision_id: PathId, body: Giving) -> dict[str, Any]:
    """Kept beside the decision. With a first approval the second falls."""
    guard = _guard(request)
    undone = undo_decision(
        guard.ledger,
        decision_id,
        reviewer=_reviewer(request),
        reason=body.reason,
        policy_digest=guard.screening.digest,
    )
    return {"undone": list(undone)}


@router.post("/mutes", status_code=201, summary="Propose that a rule means nothing in the source of an item")
def mute(request: Request, body: Muting) -> dict[str, Any]:
    """Nothing is muted until another person confirms it."""
    guard = _guard(request)
    item = find(guard.ledger, body.version_id)
    made = muting.propose(
        guard.ledger,
        guard.policy,
        item.source,
        body.code,
        reviewer=_reviewer(request),
        reason=body.reason,
        policy_digest=guard.screening.digest,
        version_id=item.version_id,
    )
    return made.as_dict()


@router.post("/mutes/{mute_id}/confirm", summary="Agree to a mute that somebody else proposed")
def confirm(request: Request, mute_id: PathId, body: Giving) -> dict[str, Any]:
    """It holds from the next screening of its source on."""
    return _of_mute(request, muting.confirm, mute_id, body)


@router.post("/mutes/{mute_id}/lift", summary="End a mute, or a proposal")
def lift(request: Request, mute_id: PathId, body: Giving) -> dict[str, Any]:
    """One person suffices: the guard sees more again."""
    return _of_mute(request, muting.lift, mute_id, body)


def _of_mute(request: Request, act: Callable[..., muting.Mute], mute_id: str, body: Giving) -> dict[str, Any]:
    guard = _guard(request)
    digest = guard.screening.digest
    done = act(guard.ledger, mute_id, reviewer=_reviewer(request), reason=body.reason, policy_digest=digest)
    return done.as_dict()


def _guard(request: Request) -> Guard:
    guard: Guard = request.app.state.desk.guard()
    return guard


def _reviewer(request: Request) -> Reviewer:
    reviewer: Reviewer = request.state.reviewer
    return reviewer


def _same_policy(guard: Guard, shown: str | None) -> None:
    if shown is not None and shown != guard.screening.digest:
        raise Stale(
            "the policy changed after the page was shown; nothing was decided. Load the page again and look once more"
        )
