"""Tables of a real PostgreSQL and of SQLite."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SettingsError, SourceUnavailable
from corpus_guard.intake.sources import Connection, Fetched, FetchFailed, SourceContext
from corpus_guard.intake.sources.sql import SqlConfig, SqlSource
from postgres import LocalPostgres

FIELDS = {"id": "Id", "text": "Body", "title": "subject", "modified": "updated", "metadata": ["author"]}
_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[str]:
    """A database with a table whose names need quoting."""
    if request.param == "sqlite":
        made = f"sqlite:///{tmp_path / 'kb.sqlite'}"
    else:
        server: LocalPostgres = request.getfixturevalue("postgresql")
        name = f"kb_{next(_numbers)}"
        server.create_database(name)
        made = server.url(name)
    run(
        made,
        'CREATE TABLE "Article; x" ("Id" INTEGER, "Body" TEXT, subject TEXT, updated TIMESTAMP, author TEXT, v INTEGER)',
        *(
            f"""INSERT INTO "Article; x" VALUES ({n}, 'text {n}', 'title {n}', '2026-01-0{n} 00:00:00', 'ann', 1)"""
            for n in (1, 2, 3)
        ),
    )
    yield made


def run(url: str, *statements: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def source(url: str, max_bytes: int = 10_000, **more: Any) -> SqlSource:
    made = sa.engine.make_url(url)
    sqlite = made.get_backend_name() == "sqlite"
    known = Connection(
        "kb", "sqlite" if sqlite else "postgres", (made.database if sqlite else made.host) or "", made.port, made.username or "",
        made.password or "", "" if sqlite else made.database or "",
    )  # fmt: skip
    said = {"table": "Article; x", "fields": FIELDS, "watermark": "v", "connection": "kb", **more}
    said = {key: value for key, value in said.items() if value is not None}
    config = SqlConfig(kind="sql", name="articles", owner="o", trust=TrustLevel.OPEN, **said)
    return SqlSource(config, SourceContext(max_bytes, connections=lambda name: known))


def test_every_row_is_a_document(url: str) -> None:
    made = source(url)
    items = [*made.list()]
    assert [item.uri for item in items] == ["Article; x#1", "Article; x#2", "Article; x#3"]
    first = next(iter(made.fetch(items)))
    assert isinstance(first, Fetched)
    assert json.loads(first.content)["text"] == "text 1"
    assert (first.declared["title"], first.declared["author"]) == ("title 1", "ann")
    assert first.validator == first.item.validator


def test_a_watermark_that_did_not_change_is_the_same_validator_and_the_table_is_the_same_for_a_query(url: str) -> None:
    before = {item.uri: item.validator for item in source(url).list()}
    run(url, """UPDATE "Article; x" SET "Body" = 'new', v = 2 WHERE "Id" = 2""")
    made = source(url)
    after = {item.uri: item.validator for item in made.list()}
    assert [uri for uri in after if before[uri] != after[uri]] == ["Article; x#2"]
    query = source(url, table=None, query='SELECT * FROM "Article; x" WHERE "Id" < 3;')
    assert {item.uri for item in query.list()} == {"articles#1", "articles#2"}
    assert {json.loads(one.content)["text"] for one in query.fetch([*query.list()])} == {"text 1", "new"}  # type: ignore[union-attr]


def test_a_row_that_is_deleted_is_no_longer_listed_and_gone_when_asked_for(url: str) -> None:
    made = source(url)
    items = [*made.list()]
    run(url, 'DELETE FROM "Article; x" WHERE "Id" = 1')
    assert len([*made.list()]) == 2
    assert [getattr(one, "code", "") for one in made.fetch(items)] == ["intake.gone", "", ""]


def test_the_watermark_that_is_kept_is_the_one_read_with_the_text(url: str) -> None:
    made = source(url)
    items = [*made.list()]
    run(url, """UPDATE "Article; x" SET "Body" = 'new', v = 2 WHERE "Id" = 1""")
    (one,) = made.fetch(items[:1])
    assert isinstance(one, Fetched)
    now = {item.uri: item.validator for item in made.list()}
    assert (json.loads(one.content)["text"], one.validator) == ("new", now["Article; x#1"])
    assert one.validator != items[0].validator


def test_another_text_column_makes_other_validators(url: str) -> None:
    other = source(url, fields={**FIELDS, "text": "subject"})
    assert not {i.validator for i in source(url).list()} & {i.validator for i in other.list()}
    assert {i.validator for i in source(url, watermark=None).list()} == {None}


def test_ids_that_name_no_row_or_two_are_failures(url: str) -> None:
    run(url, """INSERT INTO "Article; x" VALUES (NULL, 'a', '', NULL, '', 1), (2, 'b', '', NULL, '', 1)""")
    made = source(url)
    outcomes = [*made.fetch([*made.list()])]
    assert len(outcomes) == 5
    codes = sorted(getattr(one, "code", "ok") for one in outcomes)
    assert codes == ["intake.no_id", "intake.no_id", "intake.no_id", "ok", "ok"]


def test_nothing_is_written_and_a_large_text_is_not_sent(url: str) -> None:
    run(
        url,
        """UPDATE "Article; x" SET "Body" = replace("Body", 'text', '%s') WHERE "Id" = 1""".replace("%s", "é" * 9_000),
    )
    made = source(url)
    (one,) = [one for one in made.fetch([*made.list()]) if isinstance(one, FetchFailed)]
    assert (one.code, "18,002 bytes" in one.message) == ("parsing.too_large", True)
    with made._reading() as connection, pytest.raises(sa.exc.DBAPIError):
        connection.exec_driver_sql('DELETE FROM "Article; x"')
    with pytest.raises(SourceUnavailable):
        [*source(url, table=None, query='DELETE FROM "Article; x" RETURNING *').list()]
    assert len([*made.list()]) == 3


def test_names_are_quoted_and_values_bound(url: str) -> None:
    run(
        url,
        """ALTER TABLE "Article; x" ADD COLUMN "x' OR 1=1 --" TEXT""",
        """UPDATE "Article; x" SET "x' OR 1=1 --" = "Id" || ''' OR 1=1 --'""",
    )
    made = source(url, fields={**FIELDS, "id": "x' OR 1=1 --"})
    found = [*made.fetch([*made.list()][:1])]
    assert [json.loads(one.content)["text"] for one in found] == ["text 1"]  # type: ignore[union-attr]
    for wrong in ({"table": "no such"}, {"fields": {**FIELDS, "text": "nothing"}}):
        broken = source(url, **wrong)
        with pytest.raises(SourceUnavailable, match=r"(?i)spel(t|l names) as the database") as caught:
            [*broken.list()]
        assert "not-to-be-shown" not in str(caught.value)


def test_uuids_are_ids(postgresql: LocalPostgres) -> None:
    name = f"kb_{next(_numbers)}"
    postgresql.create_database(name)
    own = uuid.uuid4()
    run(postgresql.url(name), "CREATE TABLE t (k UUID, b TEXT)", f"INSERT INTO t VALUES ('{own}', 'hello')")
    made = source(postgresql.url(name), table="public.t", fields={"id": "k", "text": "b"}, watermark=None)
    (one,) = made.fetch([replace(item) for item in made.list()])
    assert isinstance(one, Fetched)
    assert one.item.uri == f"public.t#{own}"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"url": "postgresql://me:secret@h/d", "table": "t"}, "name a connection"),
        ({"url": "sqlite:///x", "connection": "kb", "table": "t"}, "url and connection"),
        ({"url": "sqlite:///x", "table": "t", "query": "SELECT 1"}, "table and query"),
        ({"url": "sqlite:///x", "query": "SELECT ';'; DROP TABLE t"}, "one SELECT"),
    ],
)
def test_a_mistake_says_what_to_write_and_shows_no_password(said: dict[str, Any], words: str) -> None:
    from corpus_guard.settings import validate

    whole = {"kind": "sql", "name": "articles", "owner": "o", "trust": "open", "fields": FIELDS, **said}
    with pytest.raises(SettingsError, match=words) as caught:
        validate(whole, SqlConfig, where="sources.yaml")
    assert "secret" not in str(caught.value)


def test_other_databases_need_somebody_who_saw_to_it() -> None:
    config = SqlConfig.model_validate(
        {"kind": "sql", "name": "ab", "owner": "o", "trust": "open", "connection": "kb", "table": "t", "fields": FIELDS}
    )
    made = SqlSource(config, SourceContext(connections=lambda name: Connection(name, "mysql", "h")))
    with pytest.raises(SettingsError, match="unsafe_may_write"):
        [*made.list()]


def test_a_text_that_is_not_utf8_leaves_the_other_rows_alone(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'kb.sqlite'}"
    run(
        url,
        "CREATE TABLE t (id, body)",
        "INSERT INTO t VALUES ('a', 'fine'), ('b', CAST(x'80ff41' AS TEXT)), ('c', x'80ff41'), (CAST(x'80ff' AS TEXT), 'x')",
        "INSERT INTO t VALUES ('d' || char(0), 'x')",
    )
    tables = source(url, table="t", fields={"id": "id", "text": "body"}, watermark=None)
    found = [*tables.fetch([*tables.list()])]
    assert [one.item.uri for one in found] == ["t#a", "t#b", "t#c", "t#row-4", "t#row-5"]
    problems = [[each.code for each in one.problems] if isinstance(one, Fetched) else one.code for one in found]
    assert problems == [[], ["parsing.surrogates"], ["parsing.encoding"], "intake.no_id", "intake.no_id"]


def test_a_date_that_python_cannot_hold_makes_the_table_unavailable(url: str) -> None:
    run(url, """INSERT INTO "Article; x" VALUES (4, 'text 4', 'title 4', '20000-01-01 00:00:00', 'ann', 1)""")
    if url.startswith("sqlite"):
        assert len([*source(url).list()]) == 4  # SQLite has no dates
        return
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        [*source(url).list()]
