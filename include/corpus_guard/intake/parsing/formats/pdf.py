"""PDF, by PDFium: the text layer, page by page, as a viewer draws it; pypdf reads the rest and counts the text again.

Hidden: text drawn invisibly (rendering mode 3), transparent, smaller than a point, off the page, in the
colour of its background, in a layer that is off, or without any trace (`_pdf_ink`); text that the document states in the place of
other letters; what annotations and form fields say and do not draw; and, unless the text repeats them, bookmarks, names of
attachments and properties. Invisible text over a picture that fills a page without other
text is a scan's search layer: it counts as text, and is reported. Lines in larger type are headings; the
targets of links stand behind their words. Words that are broken at a line's end are joined (`_pdf_text`).

Not read: text in pictures (there is no OCR; a PDF of pictures alone is reported as one without text), and the columns of
tables, whose rows are lines.
"""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import _pdf_extras, _recount
from corpus_guard.intake.parsing.formats._hidden import HiddenText, count_non_space
from corpus_guard.intake.parsing.formats._pdf_page import PdfPageText, TextLine, read_page
from corpus_guard.intake.parsing.formats._pdf_text import join_words, read_without_ligatures, repair_text

if TYPE_CHECKING:
    from pypdf import PdfReader
    from pypdfium2 import PdfDocument

MAX_PAGES = 5_000
COMPARED_PAGES = 40
"""Pages, evenly spread, whose text a second parser counts: it takes a hundred times as long as the first."""
MAX_REREAD_CHARS = 100_000
"""Characters of a page that are counted again where the counts disagree."""
_OVERPRINTED = re.compile(r"(\S{1,40}?)\1+")
"""Letters drawn twice or more at one place, for bold type: PDFium reads them once, pypdf each time."""
_GLYPH_NAME = re.compile(r"/[A-Za-z]{1,12}\d*(?:\.[a-z]{1,5})?")
"""Text that pypdf writes for a letter whose name it does not know, such as ``/a.sc``, a small capital."""
_HEADING_RATIO = 1.2  # of a line's type to the size of most text
_MAX_HEADING_CHARS = 200  # of lines in a row; more are a paragraph


def read(content: bytes) -> ParsedDocument:
    """Read the pages' texts, a blank line between them; text that a viewer does not show is hidden."""
    import pypdf
    import pypdfium2

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings quote the document
    try:
        document = pypdfium2.PdfDocument(content)
        count = len(document)
        if document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
            document.init_forms()  # draws the fields that their program left to viewers to draw
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise Unreadable("parsing.encrypted", "the PDF asks for a password") from error
        raise Unreadable("parsing.unreadable", f"the PDF is damaged ({type(error).__name__})") from error
    try:
        reader: PdfReader | None = pypdf.PdfReader(io.BytesIO(content), strict=False)
        # Many PDFs are encrypted with an empty password, to forbid printing: any viewer opens them.
        if reader and reader.is_encrypted and not reader.decrypt(""):
            reader = None
    except MemoryError:
        raise
    except Exception:
        reader = None  # `_recount` reports it
    hidden = HiddenText()
    pages, problems = _read_pages(document, count, _pdf_extras.find_layers_off(reader), hidden, _DrawnText(reader))
    declared, unread = _pdf_extras.read_declared(reader, hidden)
    problems += unread
    problems += _pdf_extras.find_active_content(reader)
    problems += _compare_counts(reader, pages)
    raw = _render([page.lines for page in pages])
    text = repair_text(raw)
    if other := read_without_ligatures(raw):
        hidden.add("ligature", other)
    hidden_text, findings = hidden.summarize(text)
    return ParsedDocument(text, hidden_text, clean_declared(declared), (*problems, *findings))


@dataclass(frozen=True, slots=True)
class _Page:
    number: int  # from 1
    lines: list[TextLine]
    chars: int  # visible or hidden, white space not counted


@dataclass(slots=True)
class _DrawnText:
    """Text of pages as pypdf reads it: what is drawn, not what the document states in its place (``/ActualText``)."""

    reader: PdfReader | None
    _pages_left: int = COMPARED_PAGES

    def read(self, index: int) -> str:
        """Return the text of a page; nothing where that fails, or too many pages were asked for."""
        self._pages_left -= 1
        if self.reader is None or self._pages_left < 0:
            return ""
        try:
            return self.reader.pages[index].extract_text()
        except MemoryError:
            raise
        except Exception:
            return ""  # as in `_compare_counts`


def _read_pages(
    document: PdfDocument, count: int, layers_off: frozenset[str], hidden: HiddenText, drawn: _DrawnText
) -> tuple[list[_Page], list[Finding]]:
    pages: list[_Page] = []
    broken: dict[int, str] = {}
    incomplete: list[int] = []  # numbers of pages
    searchable = 0
    for number in range(1, min(count, MAX_PAGES) + 1):
        try:
            page: PdfPageText = read_page(document, number - 1, layers_off, partial(drawn.read, number - 1))
        except MemoryError:
            raise
        except Exception as error:
            # PDFium reports only that it failed; a damaged page tree raises there too.
            broken[number] = type(error).__name__
            continue
        if not page.is_complete:
            incomplete.append(number)
        lines = page.lines
        below = [reason for reason in ("render_mode", "covered") if page.hidden.get(reason, "").strip()]
        if below and page.is_scan and not lines:
            searchable += 1
            invisible = "\n".join(page.hidden.pop(reason) for reason in below)
            lines = [TextLine(line, 0.0) for line in invisible.split("\n") if line.strip()]
        for reason, text in page.hidden.items():
            hidden.add(reason, join_words(text))
        visible = sum(count_non_space(line.text) for line in lines)
        pages.append(_Page(number, lines, page.chars or visible))
    return pages, _report_pages(count, pages, broken, incomplete, searchable)


def _report_pages(
    count: int, pages: list[_Page], broken: dict[int, str], incomplete: list[int], searchable: int
) -> list[Finding]:
    problems = []
    if count > MAX_PAGES:
        message = f"{count:,} pages; only the first {MAX_PAGES:,} were read"
        problems.append(make_problem("too_many_pages", Severity.HIGH, message))
    if broken:
        first, name = next(iter(broken.items()))
        message = f"{len(broken)} of {count} pages cannot be read, the first is page {first} ({name})"
        problems.append(make_problem("broken_page", Severity.MEDIUM, message))
    if incomplete:
        message = f"{len(incomplete)} of {count} pages hold more than is looked at, the first is page {incomplete[0]}"
        problems.append(make_problem("not_read", Severity.MEDIUM, message))
    if searchable:
        message = (
            f"{searchable} of {count} pages are pictures with invisible text over them "
            "(a scan's search layer, or hidden text)"
        )
        problems.append(make_problem("invisible_text", Severity.LOW, message, score=0.5))
    filled = sum(1 for page in pages if page.lines)
    if filled == 0:
        message = f"{count} pages without a text layer; run OCR on the file" if count else "no pages"
        problems.append(make_problem("no_text_layer" if count else "empty", Severity.CRITICAL, message))
    elif count >= 4 and filled * 2 < count:
        message = f"{count - filled} of {count} pages have no text layer"
        problems.append(make_problem("sparse_text", Severity.MEDIUM, message))
    return problems


def _compare_counts(reader: PdfReader | None, pages: list[_Page]) -> tuple[Finding, ...]:
    """Compare pypdf's count on some of the pages with the text that PDFium read there."""
    if not pages:
        return ()
    step = max(1, len(pages) / COMPARED_PAGES)
    sample = [pages[int(index * step)] for index in range(min(len(pages), COMPARED_PAGES))]
    first, texts = 0, list[str]()
    for page in sample:
        try:
            text = reader.pages[page.number - 1].extract_text() if reader else None
        except MemoryError:
            raise
        except Exception:
            text = None  # on a damaged page pypdf raises anything: KeyError, RecursionError, its own errors
        if text is not None:
            first += page.chars
            texts.append(text)
    if not texts:
        return _recount.compare_counts("PDF", first, None)
    problems = _recount.compare_counts("PDF", first, sum(map(count_non_space, texts)))
    if not problems:
        return ()
    letters = (_GLYPH_NAME.sub("x", _OVERPRINTED.sub(r"\1", text[:MAX_REREAD_CHARS])) for text in texts)
    return _recount.compare_counts("PDF", first, sum(map(count_non_space, letters))) and problems


def _render(pages: list[list[TextLine]]) -> str:
    """Return the pages as text; lines in larger type than most are headings."""
    runs = [[_Run(size, list(lines)) for size, lines in groupby(page, key=lambda line: line.size)] for page in pages]
    levels = _find_levels([run for page in runs for run in page])
    rendered = []
    for page in runs:
        texts = []
        for run in page:
            marks = "#" * levels.get(run.size, 0) if run.chars <= _MAX_HEADING_CHARS else ""
            texts += [
                f"{marks} {line.text}" if marks and any(map(str.isalpha, line.text)) else line.text
                for line in run.lines
            ]
        rendered.append("\n".join(texts))
    return "\n\n".join(filter(str.strip, rendered))


class _Run(NamedTuple):
    """Lines of a page in a row, all in type of one size."""

    size: float
    lines: list[TextLine]

    @property
    def chars(self) -> int:
        """Length of their text."""
        return sum(len(line.text) for line in self.lines)


def _find_levels(runs: list[_Run]) -> dict[float, int]:
    """Return the level, 1 to 3, of each size of type that headings are set in.

    A manual may hold more code in small type than prose: a size in which paragraphs are set is none of headings.
    """
    sizes, paragraphs = Counter[float](), Counter[float]()
    for run in runs:
        sizes[run.size] += run.chars
        paragraphs[run.size] += run.chars if run.chars > _MAX_HEADING_CHARS else 0
    usual = sizes.most_common(1)[0][0] if sizes else 0.0
    larger = (
        size for size in sizes if usual and size >= usual * _HEADING_RATIO and 2 * paragraphs[size] <= sizes[size]
    )
    return {size: min(rank, 3) for rank, size in enumerate(sorted(larger, reverse=True), start=1)}
