"""What trusted documents say about an item, and what a question retrieves: with real vectors and a real Chroma."""

from __future__ import annotations

import sqlalchemy as sa
from reviewing import plain_access
from starlette.testclient import TestClient

from corpus_guard.deployment import Deployment
from corpus_guard.ledger.tables import retrievals
from corpus_guard.review.queue import QueueFilter, load_page
from corpus_guard.web.app import make_app
from deploying import BAD, TICKETS, Workspace


def test_the_nearest_trusted_texts_stand_beside_the_item(deployment: Workspace) -> None:
    deployment.page("pumps.md", "# Pumps\n\nThe harbour keeps one spare pump behind the office, and Ola has the key.\n")
    deployment.page("bread.md", "# Bread\n\nThe bakery opens at six and sells rye bread on Fridays.\n")
    deployment.rows({"id": "t1", "text": BAD.replace("{title}", "Pump <b>house</b>")})
    deployment.sources(TICKETS, trust="trusted")
    with deployment.guard() as guard:
        guard.refresh("r1")
        (item,) = load_page(guard.ledger, QueueFilter(source="tickets")).items
    with TestClient(make_app(deployment.guard, plain_access()), headers={"Who": "ada"}) as client:
        page = client.get(f"/items/{item.version_id}/neighbours")
        told = client.get(f"/api/v1/items/{item.version_id}/neighbours").json()["neighbours"]

    assert page.status_code == 200, page.text
    assert [near["uri"] for near in told] == ["pumps.md", "bread.md"], "the nearest stands first"
    assert {near["trust"] for near in told} == {"trusted"}
    assert "Ola has the key" in page.text and "<b>house" not in page.text
    assert page.text.index("pumps.md") < page.text.index("bread.md")


def test_a_question_finds_what_an_application_would_get(deployment: Workspace) -> None:
    deployment.page("pumps.md", "# Pumps\n\nThe harbour keeps one spare <b>pump</b>; Ola has the key.\n")
    deployment.page("bread.md", "# Bread\n\nThe bakery opens at six and sells rye bread on Fridays.\n")
    with deployment.guard() as guard:
        guard.refresh("r1")
        logged = count_rows(guard)
    with TestClient(make_app(deployment.guard, plain_access()), headers={"Who": "ada"}) as client:
        empty = client.get("/search").text
        page = client.get("/search?q=where is the spare pump?&trust=").text
        nothing = client.get("/search?q=pump&trust=trusted").text
        wrong = client.get("/search?q=pump&trust=everything").status_code

    assert "Ola has" not in empty
    assert page.index("pumps.md") < page.index("bread.md") and "<b>pump" not in page
    assert "Nothing is published at this trust level" in nothing
    assert wrong == 422
    with deployment.guard() as guard:
        assert count_rows(guard) == logged, "no application asked"


def count_rows(guard: Deployment) -> int:
    return int(guard.ledger.scalar(sa.select(sa.func.count()).select_from(retrievals)) or 0)
