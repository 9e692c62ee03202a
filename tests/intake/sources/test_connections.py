from __future__ import annotations

import json

import pytest

from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources.connections import Connection, from_environment

AS_URI = "aws://key:pa%2Fss@host:99/schema?endpoint_url=http%3A%2F%2F127.0.0.1%3A9&region_name=x"
AS_JSON = json.dumps(
    {"conn_type": "aws", "login": "key", "password": "pa/ss", "host": "host", "port": 99, "schema": "schema",
     "extra": {"endpoint_url": "http://127.0.0.1:9", "region_name": "x"}}
)  # fmt: skip


@pytest.mark.parametrize("variable", ["CORPUS_GUARD_CONNECTION_MY_S3", "AIRFLOW_CONN_MY_S3"])
@pytest.mark.parametrize("value", [AS_URI, AS_JSON])
def test_both_forms_of_both_variables_are_read(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)

    found = from_environment("my_s3")

    assert (found.kind, found.login, found.password, found.host, found.port, found.schema) == (
        "aws", "key", "pa/ss", "host", 99, "schema",
    )  # fmt: skip
    assert dict(found.extra) == {"endpoint_url": "http://127.0.0.1:9", "region_name": "x"}
    assert "pa/ss" not in repr(found)


def test_the_forms_are_airflows(monkeypatch: pytest.MonkeyPatch) -> None:
    models = pytest.importorskip("airflow.models.connection")
    made = models.Connection("my_s3", "aws", login="key", password="pa/ss", host="h", extra={"a": {"b": 1}})
    for value in (made.get_uri(), made.as_json()):
        monkeypatch.setenv("AIRFLOW_CONN_MY_S3", value)
        found = from_environment("my_s3")
        assert (found.kind, found.login, found.password, found.host, dict(found.extra)) == (
            "aws", "key", "pa/ss", "h", {"a": {"b": 1}},
        )  # fmt: skip


@pytest.mark.parametrize("value", ["secret-words", "{secret", '{"port": "secret"}', "aws://u:secret@[h"])
def test_what_cannot_be_read_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CORPUS_GUARD_CONNECTION_MY_S3", value)
    with pytest.raises(SettingsError, match="CORPUS_GUARD_CONNECTION_MY_S3") as caught:
        from_environment("my_s3")
    assert "secret" not in str(caught.value)


def test_a_name_nobody_knows_says_what_to_set() -> None:
    with pytest.raises(SettingsError, match=r"airflow connections add my_s3 .*CORPUS_GUARD_CONNECTION_MY_S3"):
        from_environment("my_s3")
    assert Connection("x").extra == {}
