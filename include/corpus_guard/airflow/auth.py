"""Access control by Airflow's auth manager: a token in Airflow's cookie or an ``Authorization: Bearer`` header.

Viewing requires read access to the DAG `quarantine_release`; deciding requires the permission to answer its
human-in-the-loop tasks. Both ask Airflow 3.3.2's internal module ``airflow.api_fastapi.core_api.security``,
because a plugin's app is anonymous otherwise and no public interface gives it a user. If an import fails,
no app is created and nothing is served.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote, urlsplit

from fastapi import Depends, HTTPException, Request

from corpus_guard.errors import Misuse
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.web.access import AccessControl

DAG: Final = "quarantine_release"


def airflow_access() -> AccessControl:
    """Return the access control; call it inside Airflow's API server.

    Raises:
        ImportError: Airflow's security module is not where 3.3.2 has it.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
    from airflow.configuration import conf

    signed_in = Depends(get_user)
    require_read = requires_access_dag("GET", None, param_dag_id=DAG)
    require_answer = requires_access_dag("PUT", DagAccessEntity.HITL_DETAIL, param_dag_id=DAG)

    def to_reviewer(request: Request, user: Any) -> Reviewer:
        try:
            reviewer = Reviewer(str(user.get_id()), str(user.get_name()), type(get_auth_manager()).__name__)
        except Misuse as error:  # a decision could not name this user
            raise HTTPException(403, str(error)) from error
        request.state.airflow_user = user
        return reviewer

    def authorize_view(request: Request, user: Any = signed_in) -> Reviewer:
        require_read(request, user)
        return to_reviewer(request, user)

    def authorize_decision(request: Request, user: Any = signed_in) -> Reviewer:
        require_answer(request, user)
        return to_reviewer(request, user)

    def may_decide(request: Request) -> bool:
        try:
            require_answer(request, request.state.airflow_user)
        except HTTPException:
            return False
        return True

    base = urlsplit(conf.get("api", "base_url", fallback="") or "")
    origins = (f"{base.scheme}://{base.netloc}",) if base.netloc else ()

    def sign_in(request: Request) -> str:
        # Airflow's own route: it sends a stranger to the auth manager's page, and back to `next`.
        return f"{base.path.rstrip('/')}/api/v2/auth/login?next={quote(request.scope['path'])}"

    return AccessControl(authorize_view, authorize_decision, may_decide, origins, sign_in, _AirflowDags())


class _AirflowDags:
    """The switch of each DAG, in Airflow's own database: the app runs inside the API server."""

    def list_paused(self, dag_ids: Collection[str]) -> Collection[str]:
        from airflow.models.dag import DagModel

        return DagModel.get_paused_dag_ids(list(dag_ids))

    def resume(self, request: Request, dag_id: str) -> None:
        import sqlalchemy as sa
        from airflow.api_fastapi.core_api.security import requires_access_dag
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        requires_access_dag("PUT", None, param_dag_id=dag_id)(request, request.state.airflow_user)
        with create_session() as session:
            session.execute(sa.update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=False))
