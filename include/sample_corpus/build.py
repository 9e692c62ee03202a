"""
Write the binary documents of the sample corpus (PDF, DOCX) from their texts in `_text/`.

    python include/sample_corpus/build.py

Rules:

- `_text/product/<name>.md` becomes `product/<name>.pdf`; `_text/handbook/<name>.md` becomes `handbook/<name>.docx`.
- The same texts give the same bytes: dates come from the texts, identifiers from their digests, and nothing is
  compressed, because the output of zlib differs between its builds.
- Only a small part of Markdown is understood: headings (`#` to `###`), paragraphs, `-` and `1.` lists, tables; in PDF
  also *emphasis*.
- A paragraph that begins with `~white~` is set in white one-point type (PDF only). That is how a planted attack hides
  from a person who reads the page and stays in the text layer for a parser.

The texts are data. Some of them carry planted instructions; see README.md.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from docx import Document
from docx.document import Document as DocxDocument
from docx.enum.style import WD_STYLE_TYPE
from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace

ROOT = Path(__file__).resolve().parent
TEXTS = ROOT / "_text"

ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip entry can carry
PAGE_MARGIN = 22  # mm
LINE = 5.4  # mm, body text
WHITE_MARK = "~white~"
TABLE_STYLE = "Table Grid"


@dataclass(frozen=True)
class Text:
    """One text from `_text/`, with the metadata of its front matter."""

    title: str
    author: str
    date: datetime
    """Midnight UTC of the day in the front matter; the only date the built file carries."""
    body: str

    @property
    def digest(self) -> str:
        """Hex SHA-256 over title, author, date and body."""
        whole = "\n".join((self.title, self.author, self.date.isoformat(), self.body))
        return hashlib.sha256(whole.encode()).hexdigest()


@dataclass(frozen=True)
class Block:
    """One piece of a text: a heading, a paragraph, a list item or a table."""

    kind: str
    """`heading`, `paragraph`, `bullet`, `number`, `table` or `white`."""
    text: str = ""
    level: int = 0
    """Depth of a heading, 1 to 3; the number of a numbered item; otherwise 0."""
    rows: tuple[tuple[str, ...], ...] = ()
    """Cells of a table, its heading first."""


def read_text(path: Path) -> Text:
    """Read one text and its front matter.

    Raises:
        ValueError: the front matter is missing, or lacks a title, an author or a date.
    """
    raw = path.read_text(encoding="utf-8")
    match = re.fullmatch(r"---\n(.*?)\n---\n(.*)", raw, flags=re.DOTALL)
    if match is None:
        raise ValueError(f"{path.name}: expected front matter between two lines of '---'")
    fields = dict(line.split(": ", 1) for line in match[1].splitlines())
    if missing := {"title", "author", "date"} - fields.keys():
        raise ValueError(f"{path.name}: front matter lacks {', '.join(sorted(missing))}")
    date = datetime.fromisoformat(fields["date"]).replace(tzinfo=UTC)
    return Text(fields["title"], fields["author"], date, match[2].strip() + "\n")


def blocks(body: str) -> Iterator[Block]:
    """Split a body into blocks, in order."""
    for piece in re.split(r"\n\s*\n", body.strip()):
        lines = piece.splitlines()
        if heading := re.fullmatch(r"(#{1,3}) (.+)", piece):
            yield Block("heading", heading[2], level=len(heading[1]))
        elif lines[0].startswith("|"):
            cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
            yield Block("table", rows=(cells[0], *cells[2:]))
        elif lines[0].startswith("- "):
            yield from (Block("bullet", line[2:]) for line in lines)
        elif lines[0].startswith("1. "):
            for number, line in enumerate(lines, start=1):
                yield Block("number", line.split(". ", 1)[1], level=number)
        elif lines[0].startswith(WHITE_MARK):
            yield Block("white", piece.removeprefix(WHITE_MARK).strip())
        else:
            yield Block("paragraph", " ".join(lines))


class Sheet(FPDF):
    """An A4 page with a running foot."""

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("Helvetica", size=8)
        self.set_text_color(110)
        self.cell(0, 5, f"{self.title}   {self.page_no()}", align="R")
        self.set_text_color(0)


def write_pdf(text: Text) -> bytes:
    """Set a text as a PDF with a real text layer."""
    pdf = Sheet(format="A4")
    pdf.set_compression(False)
    pdf.set_title(text.title)
    pdf.set_author(text.author)
    pdf.set_creator("build.py")
    pdf.set_producer("Tideway Instruments")
    pdf.set_creation_date(text.date)
    pdf.file_id = lambda: f"<{text.digest[:32]}><{text.digest[:32]}>"  # type: ignore[method-assign]
    pdf.set_margin(PAGE_MARGIN)
    pdf.set_auto_page_break(True, margin=PAGE_MARGIN)
    pdf.add_page()

    def paragraph(words: str, *, indent: float = 0, mark: str = "") -> None:
        pdf.set_font("Helvetica", size=10.5)
        if mark:
            pdf.set_x(pdf.l_margin + 2)
            pdf.cell(indent - 2, LINE, mark)
        pdf.set_x(pdf.l_margin + indent)
        pdf.multi_cell(
            0,
            LINE,
            re.sub(r"\*([^*]+)\*", r"__\1__", words),
            markdown=True,
            align="L",
            new_x=XPos.LMARGIN,
            new_y=YPos.NEXT,
        )

    for block in blocks(text.body):
        match block.kind:
            case "heading":
                pdf.ln(2 if block.level > 1 else 0)
                pdf.set_font("Helvetica", style="B", size=(18, 13, 11)[block.level - 1])
                pdf.multi_cell(
                    0, 8 if block.level < 3 else 6.5, block.text, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT
                )
                pdf.ln(1)
            case "bullet":
                paragraph(block.text, indent=7, mark="\u00b7")
            case "number":
                paragraph(block.text, indent=9, mark=f"{block.level}.")
            case "white":
                pdf.set_font("Helvetica", size=1)
                pdf.set_text_color(255)
                pdf.multi_cell(0, 0.5, block.text, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
                pdf.set_text_color(0)
            case "table":
                pdf.ln(1)
                pdf.set_font("Helvetica", size=9.5)
                with pdf.table(
                    text_align="LEFT",
                    line_height=LINE,
                    borders_layout="HORIZONTAL_LINES",
                    headings_style=FontFace(emphasis="BOLD"),
                ) as table:
                    for cells in block.rows:
                        table.row(cells)
                pdf.ln(2)
            case _:
                paragraph(block.text)
                pdf.ln(2)
    return bytes(pdf.output())


def write_docx(text: Text) -> bytes:
    """Set a text as a Word document.

    Raises:
        ValueError: the text uses white type, which only the PDF writer knows.
    """
    document = Document()
    core = document.core_properties
    core.title, core.author, core.last_modified_by = text.title, text.author, text.author
    core.comments = ""
    core.created = core.modified = text.date.replace(tzinfo=None)
    core.identifier, core.revision = text.digest[:32], 1
    for block in blocks(text.body):
        match block.kind:
            case "heading":
                document.add_heading(block.text, level=block.level)
            case "bullet":
                document.add_paragraph(block.text, style="List Bullet")
            case "number":
                document.add_paragraph(block.text, style="List Number")
            case "table":
                table = document.add_table(rows=0, cols=len(block.rows[0]), style=TABLE_STYLE)
                for cells in block.rows:
                    for cell, value in zip(table.add_row().cells, cells, strict=True):
                        cell.text = value
            case "white":
                raise ValueError(f"{text.title}: white type is only available in PDF")
            case _:
                document.add_paragraph(block.text)
    _drop_ballast(document)
    written = io.BytesIO()
    document.save(written)
    return _fixed_zip(written.getvalue())


def _drop_ballast(document: DocxDocument) -> None:
    """Remove the parts of python-docx's template that weigh most and that no text here uses."""
    for rels in (document.part.rels, document.part.package.rels):
        for key in [key for key, rel in rels.items() if rel.reltype.endswith(("/stylesWithEffects", "/thumbnail"))]:
            del rels[key]
    for style in [style for style in document.styles if style.type is WD_STYLE_TYPE.TABLE]:
        if style.name not in {TABLE_STYLE, "Normal Table"}:
            style.delete()


def _fixed_zip(archive: bytes) -> bytes:
    """Repack a zip archive so that its bytes depend on its content alone."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(packed, "w") as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, date_time=ZIP_EPOCH)
            entry.create_system = 3  # the same byte on Windows, which writes 0 by itself
            entry.external_attr = 0o644 << 16
            target.writestr(entry, source.read(name), compress_type=zipfile.ZIP_STORED)
    return packed.getvalue()


def main() -> None:
    """Write every binary document, and say what was written."""
    for folder, suffix, write in (("product", ".pdf", write_pdf), ("handbook", ".docx", write_docx)):
        for path in sorted((TEXTS / folder).glob("*.md")):
            content = write(read_text(path))
            target = ROOT / folder / f"{path.stem}{suffix}"
            target.write_bytes(content)
            print(f"sha256:{hashlib.sha256(content).hexdigest()[:12]}  {len(content):>7} bytes  {folder}/{target.name}")


if __name__ == "__main__":
    main()
