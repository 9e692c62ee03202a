from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

from corpus_guard import __version__, domain
from corpus_guard.domain import Severity, TrustLevel
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing.document import ParsedDocument, make_problem
from corpus_guard.intake.sources import SourceItem
from corpus_guard.intake.stamps import make_version

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SOURCE = SimpleNamespace(name="wiki", owner="o", trust=TrustLevel.OPEN)
SHA = domain.sha256_bytes(b"bytes")
FIRST, SECOND = make_problem("one", Severity.LOW, "x"), make_problem("two", Severity.LOW, "x")
PARSED = ParsedDocument("some text", "hid", {"title": "own", "author": "me"}, (SECOND,), "text/html")


def version(chunker: Chunker, uri: str = "a.txt", sha: str = SHA, parsed: ParsedDocument = PARSED) -> domain.Version:
    return make_version(
        source=SOURCE,  # type: ignore[arg-type]
        item=SourceItem(uri, 5, NOW, '"a"'),
        content_sha256=sha,
        size=5,
        parsed=parsed,
        problems=[FIRST],
        declared={"title": "row's"},
        run_id="run",
        fetched_at=NOW,
        parent_version="parent",
        chunker=chunker,
    )


def test_a_version_holds_where_what_when_and_who(chunker: Chunker) -> None:
    made = version(chunker)
    assert made.doc_id == domain.doc_id("wiki", "a.txt")
    assert made.version_id == domain.version_id(made.doc_id, SHA)
    assert made.stamp.fetched_by == f"corpus-guard/{__version__}"
    assert (made.stamp.size, made.stamp.media_type, made.stamp.parent_version) == (5, "text/html", "parent")
    assert (made.stamp.fetched_at, made.stamp.modified_at, made.stamp.run_id) == (NOW, NOW, "run")
    assert dict(made.stamp.declared) == {"title": "row's", "author": "me"}
    assert [each.code for each in made.problems] == ["parsing.one", "parsing.two"]
    assert [chunk.text for chunk in made.chunks] == ["some text"]
    assert made == version(chunker)


def test_ids_come_from_place_and_bytes_not_from_what_a_document_says(chunker: Chunker) -> None:
    first = version(chunker)
    claims = version(chunker, parsed=ParsedDocument("some text", declared={"id": "x", "doc_id": "y"}))
    assert claims.doc_id == first.doc_id
    assert claims.version_id == first.version_id
    assert version(chunker, uri="b.txt").doc_id != first.doc_id
    assert version(chunker, sha=domain.sha256_bytes(b"other")).version_id != first.version_id


def test_an_unreadable_document_is_a_version_without_chunks(chunker: Chunker) -> None:
    assert version(chunker, parsed=ParsedDocument("")).chunks == ()
