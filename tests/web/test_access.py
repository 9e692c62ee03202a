"""Who comes in, and what a request that changes something must look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from reviewing import Reviewing, deciding, plain_access
from starlette.testclient import TestClient

from corpus_guard.review.queue import QueueItem
from corpus_guard.web.access import RateLimit, require_same_origin, require_same_origin_of_spans
from corpus_guard.web.app import make_app
from corpus_guard.web.headers import HEADERS as SEALED

ANY_ID = "0" * 32
STRANGERS = {401}


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path) of everything that answers, mounts included."""
    for route in app.routes:
        assert isinstance(route, APIRoute), f"{route} is no route of FastAPI: nothing guards it"
        for method in route.methods:
            yield method, route.path


def filled(path: str) -> str:
    for name in ("version_id", "report_id", "trace_id", "decision_id", "mute_id", "incident_id", "case_id"):
        path = path.replace(f"{{{name}}}", ANY_ID)
    return path.replace("{name}", "pages.css")


def asked(dependant: Dependant) -> set[Any]:
    """Every dependency that is asked before a route runs."""
    return {dependant.call, *(call for below in dependant.dependencies for call in asked(below))}


def unguarded(app: FastAPI) -> list[str]:
    """Routes that lack a guard, by looking at what they ask for."""
    access, lacking = app.state.access, []
    for route in app.routes:
        if not isinstance(route, APIRoute):
            lacking.append(str(route))
            continue
        same_origin = require_same_origin_of_spans if "/otlp/" in route.path else require_same_origin
        needed = (
            {access.authorize_view}
            if route.methods <= {"GET", "HEAD"}
            else {access.authorize_view, access.authorize_decision, same_origin}
        )
        if not needed <= asked(route.dependant):
            lacking.append(route.path)
    return lacking


def test_every_route_refuses_a_stranger(reviewing: Reviewing) -> None:
    walked = list(routes(reviewing.app))
    with reviewing.client(who="") as client:
        for method, path in walked:
            answer = client.request(method, filled(path), json={} if method != "GET" else None)
            assert answer.status_code in STRANGERS, f"{method} {path} answers {answer.status_code} to a stranger"

    assert len(walked) > 25


def test_every_route_has_its_guards_and_the_test_can_fail(reviewing: Reviewing) -> None:
    app = make_app(reviewing.guard, plain_access())
    assert unguarded(app) == []

    @app.post("/api/v1/added", dependencies=[])
    def added() -> None: ...

    assert unguarded(app) == ["/api/v1/added"]


def test_the_frameworks_own_pages_are_not_there(reviewing: Reviewing) -> None:
    with reviewing.client(who="") as client:
        assert [client.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")] == [404, 404, 404]


def test_a_viewer_looks_and_changes_nothing(reviewing: Reviewing) -> None:
    item = reviewing.wait()
    changing = [(method, path) for method, path in routes(reviewing.app) if method not in ("GET", "HEAD")]
    with reviewing.client("viewer") as client:
        assert client.get("/").status_code == client.get(f"/items/{item.version_id}").status_code == 200
        assert "read-only" in client.get("/").text
        for method, path in changing:
            assert client.request(method, filled(path), json=deciding(item)).status_code == 403, path

    assert len(changing) >= 6
    assert reviewing.item(item.version_id) == item


FOREIGN: list[tuple[dict[str, str | None], int]] = [
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "none"}, 403),
    ({"Sec-Fetch-Site": None, "Origin": "https://evil.example"}, 403),
    ({"Sec-Fetch-Site": None, "Origin": "null"}, 403),
    ({"Sec-Fetch-Site": None, "Origin": "http://airflow.test.evil.example"}, 403),
    ({"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, 403),
    ({"Sec-Fetch-Site": None}, 403),
    ({"X-Corpus-Guard": None}, 403),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
]


@pytest.mark.parametrize(("headers", "status"), FOREIGN, ids=[str(headers) for headers, _ in FOREIGN])
def test_what_another_site_could_send_changes_nothing(
    reviewing: Reviewing, headers: dict[str, str | None], status: int
) -> None:
    item = reviewing.wait()

    answer = _post(reviewing, item, headers)

    assert answer.status_code == status, answer.text
    assert reviewing.item(item.version_id) == item


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://airflow.test"},
        {"Sec-Fetch-Site": None, "Origin": "http://airflow.test"},
        {"Sec-Fetch-Site": None, "Authorization": "Bearer of.a.notebook"},
    ],
    ids=["page", "page with origin", "old browser", "notebook"],
)
def test_what_the_page_and_a_notebook_send_is_taken(reviewing: Reviewing, headers: dict[str, str | None]) -> None:
    assert _post(reviewing, reviewing.wait(), headers).status_code == 201


def test_a_body_of_more_than_a_megabyte_is_refused(reviewing: Reviewing) -> None:
    with reviewing.client() as client:
        answer = client.post(
            "/api/v1/decisions", content=b" " * (1024 * 1024 + 1), headers={"Content-Type": "application/json"}
        )

    assert answer.status_code == 413


def test_decisions_are_paced_for_each_person(reviewing: Reviewing) -> None:
    item = reviewing.wait()
    now = [0.0]
    reviewing.app.state.rate_limit = RateLimit(max_actions=2, seconds=60, clock=lambda: now[0])
    body = {"ids": [item.version_id], "choice": "release"}
    with reviewing.client("ada") as ada, reviewing.client("ben") as ben:
        first = [ada.post("/api/v1/previews", json=body) for _ in range(3)]
        assert [answer.status_code for answer in first] == [200, 200, 429]
        assert first[2].headers["retry-after"] == "31"
        assert ben.post("/api/v1/previews", json=body).status_code == 200
        assert ada.get("/").status_code == 200, "looking is not paced"
        now[0] = 31.0
        assert ada.post("/api/v1/previews", json=body).status_code == 200


def test_every_answer_is_sealed(reviewing: Reviewing) -> None:
    item = reviewing.wait()
    with reviewing.client() as client:
        answers = [
            client.get("/"),
            client.get(f"/items/{item.version_id}"),
            client.get(f"/items/{item.version_id}/raw"),
            client.get("/static/pages.css"),
            client.get("/nothing"),
            client.get("/items/ffffffffff"),
            client.get("/api/v1/queue"),
            client.post("/api/v1/decisions", json={}),
            client.get("/", headers={"Who": ""}),
        ]
    for answer in answers:
        for name, value in SEALED.items():
            assert answer.headers[name] == value, f"{answer.url} {answer.status_code}"
        assert "no-store" in answer.headers["cache-control"] or "/static/" in str(answer.url)
    policy = SEALED["Content-Security-Policy"]
    assert "unsafe" not in policy and "http" not in policy and "default-src 'none'" in policy


def test_what_fails_says_nothing_of_the_text(reviewing: Reviewing, caplog: pytest.LogCaptureFixture) -> None:
    text = reviewing.wait(text="a secret that the document holds").uri + " secret"

    def broken(*_: Any) -> None:
        raise ValueError(text)

    reviewing.app.state.shared_deployment.get = broken
    client = TestClient(reviewing.app, headers={"Who": "ada"}, raise_server_exceptions=False)

    answer = client.get("/")

    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == SEALED["Content-Security-Policy"]
    assert "secret" not in answer.text and "secret" not in caplog.text
    assert "ValueError" in caplog.text


def test_a_websocket_is_closed(reviewing: Reviewing) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), reviewing.client().websocket_connect("/"):
        pass


def _post(reviewing: Reviewing, item: QueueItem, headers: dict[str, str | None]) -> Any:
    told: dict[str, Any] = {"Who": "ada", "Sec-Fetch-Site": "same-origin", "X-Corpus-Guard": "x", **headers}
    told.setdefault("Content-Type", "application/json")
    client = TestClient(reviewing.app, base_url="http://airflow.test")
    kept = {name: value for name, value in told.items() if value is not None}
    return client.post("/api/v1/decisions", content=json.dumps(deciding(item)), headers=kept)
