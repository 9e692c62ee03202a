"""Run in a process of its own, with Airflow's configuration in its environment: asks the pages as each role, prints JSON.

The whole chain is real: Airflow's own app with its auth manager, the plugin file, tokens that the auth manager signs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import create_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from starlette.testclient import TestClient

from airflow import settings

ROLES = ("viewer", "user", "op", "admin")
JSON = {"Sec-Fetch-Site": "same-origin", "X-Corpus-Guard": "test", "Content-Type": "application/json"}


def _kind(answer: Any) -> list[Any]:
    return [answer.status_code, "does not answer" in answer.text, "sql_alchemy_conn" in answer.text]


def _token(manager: Any, role: str) -> str:
    return str(manager.generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role)))


def _paused_dag(ask: Callable[..., Any], tokens: dict[str, str]) -> dict[str, Any]:
    """Pause `quarantine_release`, look, and resume it as each role."""

    def look(role: str) -> list[bool]:
        page = ask("GET", "/", tokens[role], cookie=True, headers={"Accept": "text/html"}).text
        return ["quarantine_release is paused" in page, "Resume quarantine_release" in page]

    with create_session() as session:
        session.add(DagBundleModel(name="a-bundle"))
        session.flush()
        session.add(DagModel(dag_id="quarantine_release", bundle_name="a-bundle", is_paused=True))
    told = {"before": {role: look(role) for role in ROLES}}
    for role in ("viewer", "user"):
        ways = ("dags/quarantine_release/resume", "dags/somebody_elses/resume")
        told[role] = [
            ask("POST", f"/api/v1/{way}", tokens[role], content="{}", headers=JSON).status_code for way in ways
        ]
    told["after"] = look("user")
    return told


def main() -> None:
    """Ask, and print what was answered."""
    app = create_app(apps="core")
    manager = app.state.auth_manager
    version, revision = sys.argv[1:3]
    told: dict[str, Any] = {}
    with TestClient(app, base_url="http://airflow.test", raise_server_exceptions=False) as client:

        def ask(method: str, path: str, token: str | None = None, *, cookie: bool = False, **more: Any) -> Any:
            client.cookies.clear()
            headers = dict(more.pop("headers", {}))
            if token and cookie:
                client.cookies.set("_token", token)
            elif token:
                headers["Authorization"] = f"Bearer {token}"
            return client.request(method, f"/corpus-guard{path}", headers=headers, **more)

        def decide(choice: str, token: str | None, *, headers: dict[str, str] = JSON, cookie: bool = False) -> Any:
            body = {"items": [{"version_id": version, "revision": revision}], "choice": choice, "reason": "asked"}
            return ask("POST", "/api/v1/decisions", token, cookie=cookie, content=json.dumps(body), headers=headers)

        for role in ROLES:
            token = manager.generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role))
            page = ask("GET", "/", token, cookie=True, headers={"Accept": "text/html"})
            told[role] = {
                "sees": page.status_code,
                "offered": "can decide" in page.text,
                "sees_api": ask("GET", "/api/v1/queue", token).status_code,
                "previews": ask(
                    "POST",
                    "/api/v1/previews",
                    token,
                    content=json.dumps({"ids": [version], "choice": "release"}),
                    headers=JSON,
                ).status_code,
            }
        told["paused"] = _paused_dag(ask, {role: _token(manager, role) for role in ROLES})
        told["stranger_reads"] = ask("GET", "/", headers={"Accept": "text/html"}).text
        token = manager.generate_jwt(SimpleAuthManagerUser(username="a-user", role="user"))
        told["strangers"] = {
            path: ask("GET", path).status_code
            for path in ("/", "/history", "/static/pages.css", "/api/v1/openapi.json", f"/items/{version}/raw")
        }
        told["stranger_decides"] = decide("release", None).status_code
        told["forged"] = decide("release", token[:-4] + "AAAA").status_code
        told["none_algorithm"] = decide(
            "release", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwicm9sZSI6ImFkbWluIn0."
        ).status_code
        old = manager.generate_jwt(
            SimpleAuthManagerUser(username="a-user", role="user"), expiration_time_in_seconds=-60
        )
        told["expired"] = decide("release", old).status_code
        foreign = {**JSON, "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
        told["cross_site_cookie"] = decide("release", token, headers=foreign, cookie=True).status_code
        told["bare_cookie"] = decide(
            "release", token, headers={"Content-Type": "application/json", "X-Corpus-Guard": "x"}, cookie=True
        ).status_code
        decided = decide("escalate", token, cookie=True)
        told["decided"] = [decided.status_code, decided.json()]
        told["replayed"] = decide("escalate", token, cookie=True).status_code
        logged_out = client.get(
            "/api/v2/auth/logout", headers={"Authorization": f"Bearer {token}"}, follow_redirects=False
        )
        told["logout"] = logged_out.status_code
        told["after_logout"] = ask("GET", "/", token).status_code
        told["page_head"] = page.text[:400]

        # A folder in the place of Airflow's database: the driver cannot open it.
        token = manager.generate_jwt(SimpleAuthManagerUser(username="a-user", role="user"))
        database = Path(str(settings.engine.url.database))
        settings.engine.dispose()
        database.rename(database.with_suffix(".away"))
        database.mkdir()
        told["outage"] = {
            "by cookie": _kind(ask("GET", "/", token, cookie=True, headers={"Accept": "text/html"})),
            "by token": _kind(ask("GET", "/history", token, headers={"Accept": "text/html"})),
            "decision": _kind(decide("release", token, cookie=True)),
            "elsewhere": client.get("/api/v2/dags", headers={"Authorization": f"Bearer {token}"}).status_code,
        }
        database.rmdir()
        database.with_suffix(".away").rename(database)
        told["after_outage"] = ask("GET", "/", token, cookie=True).status_code
    print(json.dumps(told))


if __name__ == "__main__":
    main()
