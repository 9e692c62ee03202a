"""What a source calls its connection comes out of Airflow's, by Airflow's own code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corpus_guard.airflow.context import source_connection
from corpus_guard.intake.sources import connections


def test_airflows_connection_is_asked_first_and_the_environment_where_it_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {
        "conn_type": "aws",
        "login": "key-of-it",
        "password": "secret-of-it",
        "extra": {"endpoint_url": "http://x", "a": {"b": 1}},
    }
    monkeypatch.setenv("AIRFLOW_CONN_MY_S3", json.dumps(said))
    asked: list[str] = []

    def environment(name: str) -> Any:
        asked.append(name)
        return connections.Connection(name)

    monkeypatch.setattr(connections, "from_environment", environment)

    found = source_connection("my_s3")

    assert (found.kind, found.login, found.password, dict(found.extra)) == (
        "aws",
        "key-of-it",
        "secret-of-it",
        said["extra"],
    )
    assert asked == []
    source_connection("my_other")
    assert asked == ["my_other"]
