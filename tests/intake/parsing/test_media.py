from __future__ import annotations

import os

import pytest

from corpus_guard.intake.parsing import media
from intake.parsing import making

PAGE = b"<!DOCTYPE html><html><body>x</body></html>"


def decide(content: bytes, name: str, media_type: str = "") -> tuple[str, list[str]]:
    kind = media.detect_media_type(content, media_type, name)
    return kind.media_type, [problem.code for problem in kind.problems]


MISMATCH = ["parsing.type_mismatch"]


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (b"hello", "a.txt", (media.TEXT, [])),
        (b"# hello", "a.MD", (media.MARKDOWN, [])),
        (b"hello", "no-extension", (media.TEXT, [])),
        (b'{"a": 1}', "a.json", (media.TEXT, [])),
        (b"", "a.txt", (media.TEXT, [])),
        (PAGE, "a.html", (media.HTML, [])),
        (b"<p>fragment</p>", "a.html", (media.HTML, [])),
        (b'<?xml version="1.0"?>\n<!-- c -->\n<html xmlns="x">', "a", (media.HTML, [])),
        (PAGE.decode().encode("utf-16"), "a.html", (media.HTML, [])),
        (b"%PDF-1.7\n", "a.pdf", (media.PDF, [])),
        (PAGE, "a.pdf", (media.HTML, MISMATCH)),
        (b"\n " + PAGE, "a.txt", (media.HTML, MISMATCH)),
        (b"%PDF-1.7\n", "a.txt", (media.PDF, MISMATCH)),
        (b"%PDF-1.7\n", "a.html", (media.PDF, MISMATCH)),
        (b"<html>%PDF-1.7\n1 0 obj\n%%EOF\n", "a.html", (media.PDF, [*MISMATCH, "parsing.polyglot"])),
        (b"Subject: x\n\ntext", "a.eml", (media.EMAIL, [])),
        (PAGE, "a.eml", (media.HTML, MISMATCH)),
        (b'{"cells": []}', "a.IPYNB", (media.NOTEBOOK, [])),
        (b'{"cells": []}', "a.json", (media.TEXT, [])),
        (PAGE, "a.ipynb", (media.HTML, MISMATCH)),
        (b"just text", "a.docx", (media.TEXT, MISMATCH)),
        (b"\x89PNG\r\n\x1a\n", "a.png", (media.BINARY, ["parsing.binary"])),
        (b"\x89PNG\r\n\x1a\n", "a.txt", (media.BINARY, [*MISMATCH, "parsing.binary"])),
        (b"MZ\x90\x00", "a", (media.BINARY, ["parsing.binary"])),
        (b"a\x00\x00" * 100, "a", (media.BINARY, ["parsing.binary"])),
        ("text without a mark".encode("utf-16-le"), "a.txt", (media.TEXT, [])),
        ("text without a mark".encode("utf-16-be"), "a.txt", (media.TEXT, [])),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a.doc", (media.BINARY, ["parsing.unsupported"])),
        (b"{\\rtf1 text}", "a.rtf", (media.BINARY, ["parsing.unsupported"])),
        (b"{\\rtf1 text}", "a.docx", (media.BINARY, [*MISMATCH, "parsing.unsupported"])),
        (b"plain text", "a.doc", (media.TEXT, MISMATCH)),
        ("a text".encode("utf-16"), "a.txt", (media.TEXT, [])),
        (b"one NUL \x00 in a text that is long enough", "a.txt", (media.TEXT, [])),
        ("naïve café".encode("latin-1"), "a.txt", (media.TEXT, [])),
    ],
)
def test_content_decides_and_the_name_helps(content: bytes, name: str, expected: tuple[str, list[str]]) -> None:
    assert decide(content, name) == expected


def test_random_bytes_are_binary() -> None:
    assert decide(os.urandom(5_000), "a")[1][-1] == "parsing.binary"


def test_word_files_are_told_from_other_zips() -> None:
    assert decide(making.word("x"), "a.docx") == (media.DOCX, [])
    assert decide(making.word("x"), "a.pdf") == (media.DOCX, MISMATCH)
    assert decide(b"PK\x03\x04" + b"other.xml" * 9, "a.docx")[0] == media.BINARY


def test_office_and_books_are_told_by_their_directory() -> None:
    for content, kind in (
        (making.slides(), media.PPTX),
        (making.sheets(), media.XLSX),
        (making.book("<p>x</p>"), media.EPUB),
        (making.word("x"), media.DOCX),
    ):
        assert decide(content, "no-extension") == (kind, [])
        assert decide(content, "a.txt") == (kind, MISMATCH)
    assert decide(making.archive({"mimetype": b"application/vnd.oasis.opendocument.text"}), "a.odt") == (
        media.BINARY,
        ["parsing.unsupported"],
    )


def test_two_documents_in_one_are_told() -> None:
    both = making.pdf("x") + making.archive({"a.txt": b"x"})
    assert decide(both, "a.pdf") == (media.PDF, ["parsing.polyglot"])


def test_only_our_own_rows_are_taken_at_their_word() -> None:
    assert decide(b"%PDF-", "t.jsonl#1", media.ROW) == (media.ROW, [])
    assert decide(b"%PDF-", "x", "application/x-broken-row; line=3") == (media.BROKEN_ROW, [])
    assert decide(PAGE, "x", "text/plain") == (media.HTML, MISMATCH)


def test_deciding_is_quick_on_hostile_openings() -> None:
    for content in (b"<!--" * 2**20, b"<!-- -->" * 2**19, b"<?xml " * 2**19, b" " * 2**22, b"%PDF-" * 2**19):
        decide(content, "a.txt")
