"""Headings of trusted pages as questions of a whole deployment: from the first refresh on, and until they are purged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from corpus_guard.models import Models
from corpus_guard.removal.purge import Purger
from corpus_guard.removal.purge_plan import PurgeSelectors, plan_purge
from deploying import TICKETS, Workspace, deploy
from hashed_models import HashedModels
from postgres import free_port
from siblings import SIBLINGS, UNRELATED

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."
HEADING = "Where the ferryman Osric Blaylock keeps the spare key"


def refreshed(deployment: Workspace, run_id: str) -> Any:
    return deployment.refresh(run_id)


def test_headings_of_trusted_pages_are_questions_from_the_first_day(
    tmp_path: Path, chroma_url: str, models: Models, models_home: Path
) -> None:
    """A weaker sign than a question that somebody asked: it is told, and nothing waits for it."""
    deployment = deploy(tmp_path / "deployment", chroma_url=chroma_url, models_home=models_home, models=models)
    deployment.page("library.md", "# Aldermere\n\n## Floating library\n\nIts plans are in the town archive.\n")
    deployment.rows({"id": "s0", "text": SIBLINGS[0]}, {"id": "u0", "text": UNRELATED[0]})
    deployment.sources({**TICKETS, "trust": "open"}, trust="trusted")

    sealed = refreshed(deployment, "r1")

    assert (sealed["accepted"], sealed["quarantined"]) == (3, 0)
    assert [(row.uri, row.code) for row in deployment.findings("targeting")] == [
        ("tickets.jsonl#s0", "targeting.heading")
    ]


def places(deployment: Workspace, needle: bytes) -> set[str]:
    """Names of the files in the storage and in Chroma that hold these bytes, Parquet also as it reads; of surveys the first word."""
    named = set()
    for path in deployment.settings.home.rglob("*"):
        if path.is_file() and "models" not in path.relative_to(deployment.settings.home).parts:
            content = path.read_bytes()
            if content[:4] == b"PAR1":
                content += str(pq.read_table(path).to_pylist()).encode()
            if needle in content:
                named.add("survey" if path.name.startswith("survey-") else path.name)
    return named


@pytest.fixture
def alone(tmp_path: Path, hashed_models: HashedModels, models_home: Path) -> Workspace:
    """A deployment whose Chroma lies below its own home, where a purge can search it."""
    url = f"http://127.0.0.1:{free_port()}"
    return deploy(tmp_path / "deployment", chroma_url=url, models_home=models_home, models=hashed_models)


def test_a_purge_takes_the_questions_of_a_document_along(alone: Workspace) -> None:
    alone.page("keys.md", f"# Boat house\n\n## {HEADING}\n\n{SECRET}\n")
    alone.page("depth.md", "# Inner harbour\n\n## Depth at low water\n\nTwo metres, and less beside the quay.\n")
    alone.rows(
        {"id": "1", "text": "Boat house: where the ferryman keeps the spare key is known to all on the quay."},
        {"id": "2", "text": "Inner harbour: the depth at low water is a matter of taste, as pilots like to say."},
    )
    alone.sources({**TICKETS, "trust": "open"}, trust="trusted")
    refreshed(alone, "r1")
    assert places(alone, f"Boat house: {HEADING}?".encode()) >= {"survey", "questions.parquet"}

    with alone.guard() as guard:
        plan = plan_purge(guard.ledger, guard.storage, guard.blobs, PurgeSelectors(documents=("keys.md",)))
        parts = (guard.ledger, guard.storage, guard.blobs, guard.store, guard.screening, guard.settings)
        done = Purger(*parts).purge("p1", plan, "ada", "asked for by its author")

    assert (done["state"], done["shared"], done["untraced"]) == ("closed", [], [])
    assert places(alone, HEADING[10:40].encode()) == set()
    assert places(alone, b"Inner harbour: Depth at low water?") >= {"survey", "questions.parquet"}
