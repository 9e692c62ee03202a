"""Search view: what an application would retrieve for a question, and what was kept from it."""

from __future__ import annotations

from typing import Annotated, Final

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.corpus.retriever import GuardedRetriever, Retrieval
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import SharedDeployment, current_deployment, require_store
from corpus_guard.web.text_display import display_text

router = APIRouter()

ANSWERS: Final = 10
MAX_QUESTION_CHARS: Final = 500
MAX_TEXT_BYTES: Final = 2_500


@router.get("/search")
def search(
    request: Request,
    q: Annotated[str, Query(max_length=MAX_QUESTION_CHARS)] = "",
    trust: Annotated[str, Query(pattern="^(trusted|reviewed|open|)$")] = "",
) -> HTMLResponse:
    """Show the chunks that are nearest to a question. The search is not logged: no application asked."""
    question = q.strip()
    deployment = current_deployment(request)
    retrieval = _search(request, deployment, question, trust) if question else None
    answers = retrieval.answers if retrieval else ()
    served = _served_versions(deployment.ledger, [answer.doc_id for answer in answers])
    return render_page(
        request,
        "search.html",
        question=question,
        trust_level=trust,
        levels=list(TrustLevel),
        retrieval=retrieval,
        retrieval_filter=deployment.settings.retrieval_filter,
        answers=[
            (answer, served.get(answer.doc_id), display_text(answer.text, max_bytes=MAX_TEXT_BYTES))
            for answer in answers
        ],
    )


def _search(request: Request, deployment: Deployment, question: str, trust: str) -> Retrieval:
    require_store(deployment.settings)
    shared: SharedDeployment = request.app.state.shared_deployment
    with shared.model_lock:  # the first request reads the weights
        retriever = GuardedRetriever(deployment.ledger, deployment.store, deployment.models.question_embedder)
        return retriever.query(question, ANSWERS, [TrustLevel(trust)] if trust else tuple(TrustLevel))


def _served_versions(ledger: Ledger, doc_ids: list[str]) -> dict[str, str]:
    statement = sa.select(documents.c.doc_id, documents.c.target_version).where(documents.c.doc_id.in_(doc_ids))
    return {row.doc_id: row.target_version for row in ledger.rows(statement) if row.target_version}
