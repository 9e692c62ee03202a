"""A database that stops while the pages are open: 503, and a page that says what, where, and what next.

Airflow's own database: `test_airflow_roles.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from reviewing import Reviewing, deciding

from postgres import LocalPostgres, free_port

PAGES = ("/", "/history", "/corpus", "/reports", "/health")
WHAT_NEXT = "See that it runs and that CORPUS_GUARD_LEDGER_URL is right"


@pytest.mark.slow  # a server of its own
def test_postgresql_stopped_while_the_page_is_open(tmp_path: Path) -> None:
    password, port = "not-to-be-shown", free_port()
    server = LocalPostgres(tmp_path / "postgresql", port, password, durable=False)
    with server:
        server.create_database("ledger")
        reviewing = Reviewing(tmp_path / "home", ledger_url=server.url("ledger"))
        item = reviewing.wait()
        client = reviewing.client(Accept="text/html")
        assert all(client.get(path).status_code == 200 for path in PAGES)

    for path in (*PAGES, f"/items/{item.version_id}"):
        answer = client.get(path)
        assert (path, answer.status_code) == (path, 503)
        assert "A service is not available" in answer.text
        assert f"127.0.0.1:{port}/ledger failed" in answer.text
        assert WHAT_NEXT in answer.text
        assert password not in answer.text
    refused = client.post("/api/v1/decisions", json=deciding(item))
    assert refused.status_code == 503
    assert WHAT_NEXT in refused.json()["detail"]

    with server:
        assert all(client.get(path).status_code == 200 for path in PAGES), "it does not come back by itself"
        assert client.post("/api/v1/decisions", json=deciding(item)).status_code == 201
    reviewing.close()
