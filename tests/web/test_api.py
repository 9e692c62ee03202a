"""The REST API as its own description tells it: whatever is sent, the answer is one that the description names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reviewing import Reviewing

from corpus_guard.ledger.tables import decisions
from corpus_guard.web.responses import ERRORS

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60)
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
WORDS = st.text(max_size=300) | st.sampled_from(["quarantined", "risk", "high", "0", "1", "true", "-1", "%00", "🎣"])


@pytest.fixture(scope="module")
def quarantine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewing]:
    from corpus_guard.web.access import RateLimit

    one = Reviewing(tmp_path_factory.mktemp("api") / "home", RateLimit(max_actions=10**9))
    one.wait()
    one.wait("two.md", "another")
    yield one
    one.close()


@pytest.fixture(scope="module")
def described(quarantine: Reviewing) -> Any:
    with quarantine.client() as client:
        return client.get("/api/v1/openapi.json").json()


def operations(described: Any) -> list[tuple[str, str, Any]]:
    return [(method, path, one) for path, methods in described["paths"].items() for method, one in methods.items()]


def test_it_describes_every_route_of_the_api_and_no_other(quarantine: Reviewing, described: Any) -> None:
    served = {route.path for route in quarantine.app.routes if route.path.startswith("/api/v1/")}

    assert described["openapi"].startswith("3.")
    assert set(described["paths"]) == served - {"/api/v1/openapi.json"}
    for method, path, one in operations(described):
        assert one.get("summary"), path
        assert set(one["responses"]) >= {str(code) for code in ERRORS}, path
        if method != "get":
            assert "X-Corpus-Guard" in {parameter["name"] for parameter in one["parameters"]}, path


def test_it_is_signed_with_a_bearer_token_where_airflow_controls_access(described: Any) -> None:
    # The simple access control of these tests has no scheme; Airflow's is seen in test_airflow_roles.
    assert "Bearer" in described["info"]["description"]


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_asked_is_answered_as_described(quarantine: Reviewing, described: Any, data: st.DataObject) -> None:
    method, path, one = data.draw(st.sampled_from(operations(described)))
    declared = [parameter for parameter in one.get("parameters", []) if parameter["in"] == "query"]
    asked = {parameter["name"]: data.draw(WORDS) for parameter in declared if data.draw(st.booleans())}
    filled = re.sub(r"\{\w+\}", lambda _: data.draw(HEX | st.text("abc/.%\\é", min_size=1, max_size=20)), path)
    body = data.draw(_body(one, described) | JUNK) if "requestBody" in one else None
    with quarantine.client() as client:
        answer = client.request(
            method,
            filled.replace("?", "").replace("#", ""),
            params={name: value.encode("utf-8", "replace").decode() for name, value in asked.items()},
            content=None if body is None else json.dumps(body).encode("utf-8", "surrogatepass"),
            headers={"Content-Type": "application/json"},
        )

    assert answer.status_code < 500, f"{method} {filled} {asked} {body}: {answer.text[:300]}"
    assert str(answer.status_code) in {*one["responses"], "404", "405"}
    if answer.status_code >= 400 and answer.status_code != 405:
        assert isinstance(answer.json()["detail"], str)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(body=st.binary(max_size=300))
@example(b"")
@example(b"\x00")
@example(b'{"items": [], "choice": "release", "reason": "x"}')
@example(b"[" * 5_000)
@example(b'{"a":1e999999}')
def test_whatever_bytes_are_sent_nothing_is_decided(quarantine: Reviewing, body: bytes) -> None:
    with quarantine.client() as client:
        for path in ("previews", "decisions", f"decisions/{'0' * 32}/undo", "mutes"):
            answer = client.post(f"/api/v1/{path}", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in {400, 404, 422}, answer.text[:300]
    assert quarantine.ledger.rows(decisions.select()) == []


def _body(one: Any, described: Any) -> st.SearchStrategy[Any]:
    reference = one["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return _of(described["components"]["schemas"][reference.rpartition("/")[2]], described)


def _of(schema: Any, described: Any) -> st.SearchStrategy[Any]:
    """Values that fit a schema, as far as ours go."""
    if "$ref" in schema:
        return _of(described["components"]["schemas"][schema["$ref"].rpartition("/")[2]], described)
    if "enum" in schema:
        # An undecided queue is what the other tests of this module look at.
        return st.sampled_from([one for one in schema["enum"] if one != "release"] or schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(_of(part, described) for part in schema["anyOf"]))
    if schema.get("type") == "object":
        known = {name: _of(part, described) for name, part in schema["properties"].items()}
        needed = set(schema.get("required", ()))
        return st.fixed_dictionaries(
            {name: known[name] for name in needed},
            optional={name: one for name, one in known.items() if name not in needed},
        )
    if schema.get("type") == "array":
        return st.lists(_of(schema["items"], described), min_size=schema.get("minItems", 0), max_size=3)
    if schema.get("type") == "null":
        return st.none()
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).map(lambda text: text[: schema.get("maxLength", 200)])
    return st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 100), 100))
