"""The door that Airflow's own auth manager keeps: the token in Airflow's cookie or an ``Authorization: Bearer`` header.

Seeing needs read on the DAG `quarantine_release`; deciding needs what answering its human-in-the-loop tasks needs. Both ask Airflow
3.3.2's internal module ``airflow.api_fastapi.core_api.security``, because a plugin's app is anonymous otherwise and nothing public gives
it a user. Where an import fails, no app is made and nothing is served.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request

from corpus_guard.errors import Misuse
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.web.access import AccessControl

DAG = "quarantine_release"


def airflow_access() -> AccessControl:
    """Made inside Airflow's API server; imports Airflow.

    Raises:
        ImportError: Airflow's security module is not where 3.3.2 has it.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
    from airflow.configuration import conf

    signed_in = Depends(get_user)
    reads = requires_access_dag("GET", None, param_dag_id=DAG)
    answers = requires_access_dag("PUT", DagAccessEntity.HITL_DETAIL, param_dag_id=DAG)

    def reviewer(request: Request, user: Any) -> Reviewer:
        try:
            found = Reviewer(str(user.get_id()), str(user.get_name()), type(get_auth_manager()).__name__)
        except Misuse as error:  # nobody could be named in the decision
            raise HTTPException(403, str(error)) from error
        request.state.airflow_user = user
        return found

    def see(request: Request, user: Any = signed_in) -> Reviewer:
        reads(request, user)
        return reviewer(request, user)

    def decide(request: Request, user: Any = signed_in) -> Reviewer:
        answers(request, user)
        return reviewer(request, user)

    def may_decide(request: Request) -> bool:
        try:
            answers(request, request.state.airflow_user)
        except HTTPException:
            return False
        return True

    base = urlsplit(conf.get("api", "base_url", fallback="") or "")
    origins = (f"{base.scheme}://{base.netloc}",) if base.netloc else ()
    return AccessControl(see, decide, may_decide, origins)
