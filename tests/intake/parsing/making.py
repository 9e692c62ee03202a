"""Documents of every format, written by real writers."""

from __future__ import annotations

import io
import json
import string
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import pptx
import xlsxwriter
from docx.shared import Pt, RGBColor
from fpdf import FPDF
from pptx.util import Inches
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject


def written(writer: PdfWriter) -> bytes:
    """The bytes of a PDF that pypdf holds."""
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def pdf(*pages: str, title: str = "A title") -> bytes:
    document = FPDF()
    document.set_title(title)
    document.set_author("An author")
    document.set_font("Helvetica", size=12)
    for page in pages:
        document.add_page()
        if page:
            document.multi_cell(0, 8, page)
    return bytes(document.output())


def overprinted_pdf(lines: list[str], times: int) -> bytes:
    """A page whose letters are drawn several times at the same place."""
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=12)
    for number, line in enumerate(lines):
        x = 10.0
        for letter in line:
            for _ in range(times):
                document.text(x, 20 + 8 * number, letter)
            x += document.get_string_width(letter)
    return bytes(document.output())


def small_capitals_pdf(text: str) -> bytes:
    """A page in a font that names its small letters as those of fonts with small capitals: a.sc, b.sc."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(text))))
    names = [NameObject(f"/{letter}.sc") for letter in string.ascii_lowercase]
    encoding = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Encoding"),
            NameObject("/Differences"): ArrayObject([NumberObject(ord("a")), *names]),
        }
    )
    for each in writer._objects:
        if isinstance(each, dict) and each.get("/Type") == "/Font":
            each[NameObject("/Encoding")] = encoding
    return written(writer)


def structured_pdf() -> bytes:
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=20)
    document.cell(0, 10, "Harbour", new_x="LMARGIN", new_y="NEXT")
    document.set_font("Helvetica", size=11)
    document.write(6, "The quay is swept in autumn, says ")
    document.write(6, "the office", link="https://harbour.example/quay")
    document.write(6, ".")
    return bytes(document.output())


def pdf_of_links(count: int, length: int) -> bytes:
    """Short words, each a link to an address of so many letters and more."""
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=11)
    for number in range(count):
        document.write(6, f"Report {number}", link=f"https://harbour.example/{'x' * length}/{number}")
        document.write(6, ", read at noon. ")
    return bytes(document.output())


def pdf_with_a_numbered_sign(number: str) -> bytes:
    """A sum sign between words, for which its font says that it stands for the character of this number, four figures long."""
    import matplotlib

    document = FPDF()
    document.add_page()
    document.add_font("signs", fname=Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf")
    for font, words in (("Helvetica", "The sum of all "), ("signs", "\u2211"), ("Helvetica", " is read at noon.")):
        document.set_font(font, size=12)
        document.write(8, words)
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(bytes(document.output()))))
    for each in writer._objects:
        if isinstance(each, dict) and "/ToUnicode" in each:
            letters = each["/ToUnicode"].get_object()
            letters.set_data(letters.get_data().replace(b"<2211>", f"<{number}>".encode()))
    return written(writer)


def scan(words: str) -> bytes:
    """A picture that fills the page, and invisible text over it."""
    from PIL import Image

    document = FPDF()
    document.add_page()
    document.image(Image.new("L", (60, 80), 200), x=0, y=0, w=document.w, h=document.h)
    document.set_font("Helvetica", size=12)
    document.text_mode = 3  # type: ignore[assignment]
    document.cell(0, 10, words)
    return bytes(document.output())


def locked_pdf(text: str, password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(text))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    return written(writer)


def word(*paragraphs: str, vanish: str = "", white: str = "", tiny: str = "") -> bytes:
    document = docx.Document()
    document.core_properties.title = "A title"
    document.core_properties.author = "An author"
    for text in paragraphs:
        document.add_paragraph(text)
    paragraph = document.add_paragraph("end ")
    if vanish:
        paragraph.add_run(vanish).font.hidden = True
    if white:
        paragraph.add_run(white).font.color.rgb = RGBColor(255, 255, 255)
    if tiny:
        paragraph.add_run(tiny).font.size = Pt(1)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def slides(notes: str = "", title: str = "Harbour", *, edit: Callable[[Any], None] | None = None) -> bytes:
    """One slide by python-pptx: a title, a list, a table, a link; `edit` gets the presentation before it is saved."""
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = title
    frame = slide.placeholders[1].text_frame
    frame.text = "The quay is swept in autumn."
    run = frame.add_paragraph().add_run()
    run.text = "Office"
    run.hyperlink.address = "https://harbour.example/office"
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(4), Inches(6), Inches(1)).table
    for row, texts in enumerate((("Berth", "Depth"), ("A1", "4 m"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    if edit:
        edit(deck)
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def sheets(edit: Callable[[Any, Any], None] | None = None) -> bytes:
    """One sheet by XlsxWriter; `edit` gets workbook and sheet before they are closed."""
    out = io.BytesIO()
    workbook = xlsxwriter.Workbook(out, {"in_memory": True})
    sheet = workbook.add_worksheet("Berths")
    for row, texts in enumerate((("Berth", "Depth", "Tenant"), ("A1", "4 m", "The pilot boat of the harbour office"))):
        sheet.write_row(row, 0, texts)
    sheet.write_url(2, 0, "https://harbour.example/plan", string="Plan")
    if edit:
        edit(workbook, sheet)
    workbook.close()
    return out.getvalue()


def archive(parts: dict[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as made:
        for name, part in parts.items():
            made.writestr(name, part, compress_type=zipfile.ZIP_STORED if name == "mimetype" else None)
    return out.getvalue()


def book(
    *chapters: str, style: str = "", unlisted: str = "", metadata: str = "", parts: dict[str, bytes] | None = None
) -> bytes:
    """An EPUB 3 after the specification's own example (W3C, EPUB 3.3, 3.1)."""
    made = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": b'<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        b'<rootfiles><rootfile full-path="OEBPS/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/style.css": style.encode(),
    }
    items, spine = "", ""
    for number, chapter in enumerate((*chapters, *([unlisted] if unlisted else []))):
        made[f"OEBPS/c{number}.xhtml"] = (
            '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>Harbour book</title>'
            f'<link rel="stylesheet" href="style.css"/></head><body>{chapter}</body></html>'
        ).encode()
        items += f'<item id="c{number}" href="c{number}.xhtml" media-type="application/xhtml+xml"/>'
        spine += f'<itemref idref="c{number}"/>' if number < len(chapters) else ""
    made["OEBPS/package.opf"] = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">urn:x</dc:identifier>'
        f"<dc:title>Harbour book</dc:title><dc:creator>Harbour office</dc:creator>{metadata}</metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    ).encode()
    return archive({**made, **(parts or {})})


def with_part(content: bytes, name: str, part: bytes) -> bytes:
    """A zip with one more, or another, part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            if entry != name:
                new.writestr(entry, old.read(entry))
        new.writestr(name, part)
    return out.getvalue()


def notebook(*cells: dict[str, Any], **more: Any) -> bytes:
    """A Jupyter notebook, nbformat 4."""
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **more}).encode()
