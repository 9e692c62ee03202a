from __future__ import annotations

import io

import pytest
from pypdf import PageObject, PdfReader, PdfWriter
from pypdf.annotations import FreeText
from pypdf.generic import DecodedStreamObject, NameObject

from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.formats import pdf
from intake.parsing import making


def code(content: bytes) -> str:
    with pytest.raises(Unreadable) as caught:
        pdf.read(content)
    return caught.value.code


def codes(content: bytes) -> list[str]:
    return [problem.code for problem in pdf.read(content).problems]


def test_pages_are_joined_and_docinfo_is_declared() -> None:
    parsed = pdf.read(making.pdf("page one", "page two"))
    assert parsed.text == "page one\n\npage two"
    assert (parsed.declared["title"], parsed.declared["author"]) == ("A title", "An author")
    assert parsed.problems == ()


def test_a_password_is_asked_for_unless_it_is_empty() -> None:
    assert code(making.locked_pdf("secret", "password")) == "parsing.encrypted"
    assert pdf.read(making.locked_pdf("open to all", "")).text == "open to all"


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6])
def test_a_truncated_pdf_is_never_silently_shorter(kept: float) -> None:
    content = making.pdf(*(f"page {number}" for number in range(20)))
    try:
        parsed = pdf.read(content[: int(len(content) * kept)])
    except Unreadable as error:
        assert error.code == "parsing.unreadable"
    else:
        assert parsed.problems


def test_pages_without_text_are_told() -> None:
    assert codes(making.pdf("", "")) == ["parsing.no_text_layer"]
    assert codes(making.pdf("text", "", "", "")) == ["parsing.sparse_text"]


def test_one_broken_page_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = PageObject.extract_text, []

    def extract(page: PageObject, **options: object) -> str:
        calls.append(page)
        if len(calls) == 2:
            raise RecursionError("as a content stream that contains itself does")
        return real(page, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(PageObject, "extract_text", extract)
    parsed = pdf.read(making.pdf("one", "two", "three"))
    assert parsed.text == "one\n\nthree"
    (problem,) = parsed.problems
    assert problem.code == "parsing.broken_page"
    assert "page 2 (RecursionError)" in problem.message


def test_invisible_text_and_notes_are_told() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(making.pdf("one"))))
    stream = DecodedStreamObject()
    stream.set_data(writer.pages[0].get_contents().get_data().replace(b"BT ", b"BT 3 Tr ", 1))  # type: ignore[union-attr]
    writer.pages[0][NameObject("/Contents")] = writer._add_object(stream)
    writer.add_annotation(0, FreeText(text="a note", rect=(0, 0, 9, 9)))
    out = io.BytesIO()
    writer.write(out)
    parsed = pdf.read(out.getvalue())
    assert [problem.code for problem in parsed.problems] == ["parsing.invisible_text"]
    assert parsed.hidden == "a note"
