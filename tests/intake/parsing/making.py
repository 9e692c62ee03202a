"""Documents of every format, written by real writers."""

from __future__ import annotations

import io
import zipfile

import docx
from docx.shared import Pt, RGBColor
from fpdf import FPDF
from pypdf import PdfReader, PdfWriter


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


def locked_pdf(text: str, password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(text))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


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


def with_part(content: bytes, name: str, part: bytes) -> bytes:
    """A zip with one more, or another, part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            if entry != name:
                new.writestr(entry, old.read(entry))
        new.writestr(name, part)
    return out.getvalue()
