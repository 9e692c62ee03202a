"""Objects of a real S3-compatible server."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.sources import Connection, Fetched, FetchFailed, SourceContext
from corpus_guard.intake.sources.objects import ObjectsConfig, ObjectSource
from corpus_guard.intake.sources.source import skipped_by
from object_store import SECRET, ObjectStore, object_store

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture
def bucket(server: ObjectStore) -> str:
    name = f"bucket-{next(_numbers)}"
    server.bucket(name, versions=True)
    for key in (
        "manuals/a.md",
        "manuals/x/b.md",
        "manuals/.hidden/c.md",
        "manuals/large.md",
        "manuals/y.webp",
        "other/d.md",
    ):
        server.put(f"{name}/{key}", b"x" * 2_000 if "large" in key else f"text of {key}".encode())
    return name


def source(server: ObjectStore, bucket: str, connection: Connection | None = None, **more: Any) -> ObjectSource:
    said = {"url": f"s3://{bucket}/manuals", "connection": "my_s3", **more}
    config = ObjectsConfig(kind="objects", name="manuals", owner="o", trust=TrustLevel.OPEN, **said)
    return ObjectSource(config, SourceContext(1_000, connections=lambda name: connection or server.connection))


def test_objects_below_the_prefix_are_documents_with_their_version(server: ObjectStore, bucket: str) -> None:
    made = source(server, bucket)
    found = {one.item.uri: one for one in made.fetch([*made.list()])}

    assert [*found] == ["a.md", "large.md", "x/b.md"]
    assert skipped_by(made) == {
        "hidden (a name that begins with a dot)": 1,
        "pictures, sounds, videos and fonts, by their names": 1,
    }
    one, large = found["a.md"], found["large.md"]
    assert isinstance(one, Fetched) and isinstance(large, FetchFailed)
    assert (one.content, one.media_type) == (b"text of manuals/a.md", "text/markdown")
    assert one.revision and one.validator == one.item.validator
    assert large.code == "parsing.too_large"
    assert not any("large" in asked for asked in server.asked() if asked.startswith(f"GET /{bucket}/"))


def test_listing_is_one_request_and_its_validators_follow_the_bytes(server: ObjectStore, bucket: str) -> None:
    before = {item.uri: item.validator for item in source(server, bucket).list()}
    asked = len(server.asked())
    assert {item.uri: item.validator for item in source(server, bucket).list()} == before
    assert len(server.asked()) == asked + 1
    server.put(f"{bucket}/manuals/a.md", b"new")
    after = {item.uri: item.validator for item in source(server, bucket).list()}
    assert [uri for uri in after if after[uri] != before[uri]] == ["a.md"]


def test_an_object_that_changes_or_goes_after_listing_is_not_taken_for_what_was_listed(
    server: ObjectStore, bucket: str
) -> None:
    made = source(server, bucket)
    items = [*made.list()]
    server.put(f"{bucket}/manuals/a.md", b"new")
    server.delete(f"{bucket}/manuals/x/b.md")

    codes = {one.item.uri: getattr(one, "code", "ok") for one in made.fetch(items)}

    assert codes == {"a.md": "intake.changed", "large.md": "parsing.too_large", "x/b.md": "intake.gone"}


def test_no_message_holds_a_secret(server: ObjectStore, bucket: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    nowhere = Connection("my_s3", "aws", login="guard", password=SECRET, extra={"endpoint_url": "http://127.0.0.1:9"})
    for made in (source(server, "no-such-bucket"), source(server, bucket, nowhere)):
        with pytest.raises(SourceUnavailable) as caught:
            [*made.list()]
        assert SECRET not in f"{caught.value!r} {caught.value.__context__!r} {caplog.text} {made.__dict__}"
    assert SECRET not in repr(nowhere)


def test_a_name_that_cannot_be_listed_stops_the_listing_and_is_told(server: ObjectStore, bucket: str) -> None:
    server.put(f"{bucket}/manuals/x%2F%2Fy.md", b"odd")
    with pytest.raises(SourceUnavailable, match="an empty part"):
        [*source(server, bucket).list()]


@pytest.mark.parametrize(
    "url", ["http://host/bucket", "s3:///x", "s3://key:secret@bucket/x", "s3://bucket/x?endpoint=y"]
)
def test_urls_of_other_kinds_or_with_secrets_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="belong to the connection"):
        ObjectsConfig(kind="objects", name="manuals", owner="o", trust=TrustLevel.OPEN, url=url)


def test_a_prefix_without_objects_is_no_list(server: ObjectStore, bucket: str) -> None:
    with pytest.raises(SourceUnavailable, match="holds no object"):
        [*source(server, bucket, url=f"s3://{bucket}/manual").list()]
