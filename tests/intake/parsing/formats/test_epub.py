from __future__ import annotations

import pytest

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing.formats import epub
from intake.parsing import making


def code(content: bytes) -> str:
    with pytest.raises(HostileInput) as caught:
        epub.read(content)
    return caught.value.code


def test_chapters_come_in_the_order_of_the_spine_with_their_structure() -> None:
    parsed = epub.read(making.book("<h1>One</h1><ul><li>a</li></ul>", '<p>Two <a href="c0.xhtml">back</a></p>'))
    assert parsed.text == "# One\n\n- a\n\nTwo back"
    assert (parsed.declared["title"], parsed.declared["author"]) == ("Harbour book", "Harbour office")
    assert parsed.problems == ()


def test_the_books_own_style_sheet_hides() -> None:
    parsed = epub.read(making.book('<p>Shown.</p><p class="x">not shown</p>', style=".x { display: none }"))
    assert (parsed.text, parsed.hidden) == ("Shown.", "not shown")


def test_a_page_that_the_spine_does_not_name_is_hidden() -> None:
    parsed = epub.read(
        making.book("<p>Shown words here.</p>", unlisted="<p>nobody turns to this page</p><p>Shown words here.</p>")
    )
    assert parsed.hidden == "nobody turns to this page"


def test_a_book_under_rights_management_is_refused() -> None:
    sealed = b'<encryption><EncryptedData><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes256-cbc"/></EncryptedData></encryption>'
    assert code(making.book("<p>x</p>", parts={"META-INF/encryption.xml": sealed})) == "parsing.encrypted"
    fonts = b'<encryption><EncryptedData><EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/></EncryptedData></encryption>'
    assert epub.read(making.book("<p>text</p>", parts={"META-INF/encryption.xml": fonts})).text == "text"


def test_entities_are_refused() -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a "aaaa">]><html><body>&a;</body></html>'
    assert code(making.book("<p>x</p>", parts={"OEBPS/c0.xhtml": bomb})) in {
        "parsing.xml_entities",
        "parsing.ambiguous",
    }


def test_a_book_without_its_package_is_unreadable() -> None:
    assert code(making.archive({"mimetype": b"application/epub+zip"})) == "parsing.unreadable"
