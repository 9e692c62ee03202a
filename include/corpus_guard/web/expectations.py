"""Data Docs view: what the expectation suites said about the documents of a run."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from corpus_guard.ledger.runs import run_folder
from corpus_guard.pipeline.data_docs import last_judging_refresh, load_data_docs
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()

FOLDER: Final = r"^[0-9a-f]{16}$"


@router.get("/expectations")
def last_expectations(request: Request) -> HTMLResponse:
    """Show the Data Docs of the last refresh that judged a document."""
    return _show(request, run_folder(last_judging_refresh(current_deployment(request).ledger)))


@router.get("/expectations/{folder}")
def show_expectations(request: Request, folder: Annotated[str, Path(pattern=FOLDER)]) -> HTMLResponse:
    """Show the Data Docs of the run with this folder."""
    return _show(request, f"runs/{folder}")


def _show(request: Request, folder: str) -> HTMLResponse:
    docs = load_data_docs(current_deployment(request).storage, folder)
    return render_page(request, "expectations.html", docs=docs)
