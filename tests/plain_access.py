"""Simple access control: the header `Who` names the person, who may decide unless the name begins with ``viewer``."""

from __future__ import annotations

from fastapi import HTTPException, Request

from corpus_guard.review.reviewer import Reviewer
from corpus_guard.web.access import AccessControl


def plain_access() -> AccessControl:
    def authorize_view(request: Request) -> Reviewer:
        name = request.headers.get("who")
        if not name:
            raise HTTPException(401, "Not authenticated")
        return Reviewer(name, name, "PlainAccess")

    def may_decide(request: Request) -> bool:
        return not request.headers["who"].startswith("viewer")

    def authorize_decision(request: Request) -> Reviewer:
        reviewer = authorize_view(request)
        if not may_decide(request):
            raise HTTPException(403, "Forbidden")
        return reviewer

    return AccessControl(authorize_view, authorize_decision, may_decide)
