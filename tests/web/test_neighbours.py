"""What trusted documents say about an item: with the real embedder and a real Chroma."""

from __future__ import annotations

from reviewing import plain_access
from starlette.testclient import TestClient

from corpus_guard.review.queue import list_items
from corpus_guard.web.app import make_app
from deploying import BAD, TICKETS, Workspace


def test_the_nearest_trusted_texts_stand_beside_the_item(deployment: Workspace) -> None:
    deployment.page("pumps.md", "# Pumps\n\nThe harbour keeps one spare pump behind the office, and Ola has the key.\n")
    deployment.page("bread.md", "# Bread\n\nThe bakery opens at six and sells rye bread on Fridays.\n")
    deployment.rows({"id": "t1", "text": BAD.replace("{title}", "Pump <b>house</b>")})
    deployment.sources(TICKETS, trust="trusted")
    with deployment.guard() as guard:
        guard.refresh("r1")
        (item,) = list_items(guard.ledger, source="tickets")[0]
    with TestClient(make_app(deployment.guard, plain_access()), headers={"Who": "ada"}) as client:
        page = client.get(f"/items/{item.version_id}/neighbours")
        told = client.get(f"/api/v1/items/{item.version_id}/neighbours").json()["neighbours"]

    assert page.status_code == 200, page.text
    assert [near["uri"] for near in told] == ["pumps.md", "bread.md"], "the nearest stands first"
    assert {near["trust"] for near in told} == {"trusted"}
    assert "Ola has the key" in page.text and "<b>house" not in page.text
    assert page.text.index("pumps.md") < page.text.index("bread.md")
