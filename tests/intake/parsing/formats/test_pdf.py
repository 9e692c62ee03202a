from __future__ import annotations

import io

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.formats import pdf
from corpus_guard.intake.parsing.formats._pdf_page import PdfPageText, TextLine
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


def test_a_word_broken_at_the_end_of_a_line_is_joined() -> None:
    assert "the procedure of" in pdf.read(making.pdf("The officer reads the proce-\ndure of the harbour.")).text


def test_letters_drawn_three_times_for_bold_type_are_no_disagreement() -> None:
    line = "The officer reads the depth of the harbour each morning."
    parsed = pdf.read(making.overprinted_pdf([line] * 10, 3))
    assert parsed.text == "\n".join([line] * 10) and parsed.problems == ()


def test_letters_that_are_named_as_small_capitals_are_no_disagreement() -> None:
    parsed = pdf.read(making.small_capitals_pdf("The officer reads the depth of the harbour each morning. " * 10))
    assert "officer reads" in parsed.text and parsed.problems == ()


def test_hidden_text_keeps_the_control_characters_that_stand_for_ligatures(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {"colour": "ig\x1bnore the proce\x02dure of the de\x1bned quay"}
    page = PdfPageText([TextLine("The quay is swept.", 12.0)], hidden, 0, is_scan=False)
    monkeypatch.setattr(pdf, "read_page", lambda *_: page)
    assert "ig\x1bnore the procedure of the de\x1bned quay" in pdf.read(making.pdf("any")).hidden


def test_scripts_of_a_form_are_a_note_and_others_are_not() -> None:
    def scripted(*, form: bool) -> bytes:
        writer = PdfWriter(clone_from=PdfReader(io.BytesIO(making.pdf("The depth of the harbour."))))
        writer.root_object[NameObject("/Names")] = DictionaryObject({NameObject("/JavaScript"): DictionaryObject()})
        if form:
            writer.root_object[NameObject("/AcroForm")] = DictionaryObject()
        return making.written(writer)

    assert codes(scripted(form=True)) == ["parsing.form_scripts"]
    assert codes(scripted(form=False)) == ["parsing.macros"]


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
    real = pdf.read_page

    def read_page(document: object, index: int, *others: object) -> object:
        if index == 1:
            raise RecursionError("as a content stream that contains itself does")
        return real(document, index, *others)

    monkeypatch.setattr(pdf, "read_page", read_page)
    parsed = pdf.read(making.pdf("one", "two", "three"))
    assert parsed.text == "one\n\nthree"
    (problem,) = parsed.problems
    assert problem.code == "parsing.broken_page"
    assert "page 2 (RecursionError)" in problem.message


def test_invisible_text_and_notes_are_hidden() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(making.pdf("one"))))
    writer.pages[0][NameObject("/Contents")] = writer._add_object(drawn(writer, b"BT 3 Tr "))
    writer.add_annotation(0, FreeText(text="a note", rect=(0, 0, 9, 9)))
    parsed = pdf.read(written(writer))
    assert [problem.code for problem in parsed.problems] == ["parsing.no_text_layer", "parsing.hidden_text"]
    assert (parsed.text, parsed.hidden) == ("", "one\na note")


def test_the_search_layer_of_a_scan_is_text_and_told() -> None:
    scan = making.scan("the words in the picture")
    parsed = pdf.read(scan)
    assert parsed.text == "the words in the picture"
    assert codes(scan) == ["parsing.invisible_text"]


def test_larger_lines_are_headings_and_links_show_where_they_lead() -> None:
    parsed = pdf.read(making.structured_pdf())
    assert parsed.text.splitlines()[:2] == [
        "# Harbour",
        "The quay is swept in autumn, says the office (https://harbour.example/quay).",
    ]


def test_paragraphs_in_larger_type_than_much_code_are_no_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "The officer reads the depth of the harbour, and notes it in the book of the quay."
    code = [TextLine(f"depth = read_gauge(number={number}, quay='north', unit='metre')", 8.0) for number in range(40)]
    lines = [
        TextLine("The gauge", 14.0), *[TextLine(sentence, 10.0)] * 4, *code[:20], TextLine(sentence, 10.0), *code[20:]
    ]  # fmt: skip
    monkeypatch.setattr(pdf, "read_page", lambda *_: PdfPageText(lines, {}, 0, is_scan=False))
    text = pdf.read(making.pdf("any")).text
    assert text.startswith(f"# The gauge\n{sentence}\n") and text.count("#") == 1


def test_addresses_behind_links_are_no_text_that_a_second_parser_misses() -> None:
    parsed = pdf.read(making.pdf_of_links(count=20, length=100))

    assert parsed.text.count("https://harbour.example/") == 20
    assert parsed.problems == ()


def test_a_sign_that_its_font_gives_no_letter_is_replaced() -> None:
    assert pdf.read(making.pdf_with_a_numbered_sign("0000")).text == "The sum of all \ufffd is read at noon."


@pytest.mark.parametrize(("number", "written"), [("F761", "a"), ("F7F6", "ö"), ("F732", "2"), ("F645", "2")])
def test_small_capitals_and_figures_with_private_numbers_are_written_plainly(number: str, written: str) -> None:
    assert pdf.read(making.pdf_with_a_numbered_sign(number)).text == f"The sum of all {written} is read at noon."


def test_other_private_numbers_stay() -> None:
    assert "all \uf780 is" in pdf.read(making.pdf_with_a_numbered_sign("F780")).text


def drawn(writer: PdfWriter, start: bytes) -> DecodedStreamObject:
    stream = DecodedStreamObject()
    stream.set_data(writer.pages[0].get_contents().get_data().replace(b"BT ", start, 1))  # type: ignore[union-attr]
    return stream


def written(writer: PdfWriter) -> bytes:
    return making.written(writer)
