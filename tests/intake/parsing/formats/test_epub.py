from __future__ import annotations

import pytest

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing.formats import epub
from intake.parsing import making
from intake.parsing.formats.test_docx_looks import part_changed


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


def test_a_book_without_its_package_is_unreadable() -> None:
    assert code(making.archive({"mimetype": b"application/epub+zip"})) == "parsing.unreadable"


def aside(*chapters: str) -> bytes:
    """A book whose last chapter is out of line."""
    number = len(chapters) - 1
    return part_changed(
        making.book(*chapters),
        "OEBPS/package.opf",
        lambda old: old.replace(f'<itemref idref="c{number}"/>', f'<itemref idref="c{number}" linear="no"/>'),
    )


HIDDEN = {
    "page out of line": aside("<p>text</p>", "<p>evil</p>"),
    "comment that HTML ends sooner": making.book("<p>text</p><!--> <p>evil</p> -->"),
    "script by another prefix": making.book(
        "<p>text</p><h:style xmlns:h='http://www.w3.org/1999/xhtml'>evil</h:style>"
    ),
    "imported style sheet": making.book(
        "<p>text</p><p class='x'>evil</p>", style="@import 'more.css';", parts={"OEBPS/more.css": b".x{display:none}"}
    ),
}
SHOWN = {
    "page out of line with a link to it": aside("<p>text <a href='c1.xhtml'>note</a></p>", "<p>seen</p>"),
    "unparsed text": making.book("<p><![CDATA[text seen]]></p>"),
    "style sheet of other pages": making.book(
        "<p class='x'>text seen</p>", parts={"OEBPS/other.css": b".x{display:none}"}
    ),
    "page that is no XML": making.book("<p>text seen<br>"),
    "entity of HTML": making.book("<p>text&nbsp;seen</p>"),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_no_reader_of_a_book_sees_is_not_its_text(place: str) -> None:
    parsed = epub.read(HIDDEN[place])
    assert parsed.text == "text"
    assert "evil" in parsed.hidden or place == "script by another prefix"


@pytest.mark.parametrize("place", SHOWN)
def test_what_a_reader_of_a_book_sees_is_text(place: str) -> None:
    assert "seen" in epub.read(SHOWN[place]).text
