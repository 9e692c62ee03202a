"""The title of a document that declares none: the heading that names its text."""

from __future__ import annotations

import pytest

from corpus_guard.intake.parsing import media
from corpus_guard.intake.parsing.headings import find_title
from corpus_guard.intake.parsing.worker import read_document


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# OX-12 manual\n\nMeasures oxygen.\n", "OX-12 manual"),
        ("\n\n# The **inner** [harbour](x.md) #\n\nDeep.\n", "The inner harbour"),
        ("![build](b.svg)\n\n# Harbour\n\nDeep.\n", "Harbour"),
        ("Harbour\n=======\n\nDeep.\n", "Harbour"),
        ("=======\nHarbour\n=======\n\nDeep.\n", "Harbour"),
        ("Überprüfung der Pumpe\n---------------------\n\nTief.\n", "Überprüfung der Pumpe"),
        ("## A part\n\n# Another\n", ""),
        ("```\n# a comment in code\n```\nDeep.\n", ""),
        ("Deep.\n\nHarbour\n=======\n", ""),
        ("---\n===\n", ""),
        ("# 42\n\nDeep.\n", ""),
        ("Deep.\n", ""),
        ("", ""),
    ],
)
def test_the_heading_of_a_text_is_its_title(text: str, title: str) -> None:
    assert find_title(text) == title


def test_a_comment_in_a_program_is_no_title() -> None:
    assert find_title("# Reads the depth\nimport harbour\n", is_markdown=False) == ""


@pytest.mark.parametrize(
    ("content", "name", "title"),
    [
        (b"# Harbour\n\nThe harbour is deep.\n", "a.md", "Harbour"),
        (b"---\ntitle: Quays\n---\n# Harbour\n\nThe harbour is deep.\n", "a.md", "Quays"),
        (b"<html><body><h1>Harbour</h1><p>The harbour is deep.</p></body></html>", "a.html", "Harbour"),
        (b"# Harbour\n\nThe harbour is deep.\n", "a.txt", None),
        (b"Harbour\n=======\n\nThe harbour is deep.\n", "a.rst", "Harbour"),
    ],
)
def test_a_document_without_a_title_gets_that_of_its_heading(content: bytes, name: str, title: str | None) -> None:
    parsed = read_document(content, "", name, max_chars=10_000)

    assert parsed.declared.get("title") == title


def test_a_row_keeps_what_its_source_declares() -> None:
    row = b'{"text": "# Reads the depth\\n", "declared": {"author": "Ann"}}'

    assert dict(read_document(row, media.ROW, "a.jsonl#1", max_chars=10_000).declared) == {"author": "Ann"}


@pytest.mark.parametrize(
    "text", ["=" * 300_000, "# " * 100_000, "\n" * 300_000, "x" * 300_000 + "\n===", "# " + "[" * 300_000]
)
def test_a_hostile_text_has_no_title(text: str) -> None:
    assert find_title(text) == ""
