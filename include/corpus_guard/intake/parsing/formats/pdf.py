"""PDF, by PDFium: the text layer, page by page, as a viewer would draw it; pypdf reads the rest and counts the text again.

Hidden is text drawn invisibly (rendering mode 3), transparent, smaller than a point, off the page, in the colour of what lies behind
it, or in a layer that is off; annotations; and, where the text does not say the same, bookmarks, names of attachments, properties.
Invisible text over a picture that fills a page without other text is a scan's search layer: it is text, and reported.
Lines in larger type are headings; the targets of links stand behind their words.

Not seen: text in pictures (there is no OCR; a PDF of pictures alone is reported as without text), text that lies behind a picture,
and the columns of tables, whose rows are lines.
"""

from __future__ import annotations

import io
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.formats import _pdf_beside, _second
from corpus_guard.intake.parsing.formats._hidden import Hidden, ink
from corpus_guard.intake.parsing.formats._pdf_page import Line, PdfText, read_page
from corpus_guard.intake.parsing.parsed import Parsed, declare, problem

MAX_PAGES = 5_000
COMPARED = 40
"""Pages, evenly spread, whose text a second parser counts: it takes a hundred times as long as the first."""
_LARGER = 1.2  # times the size of most text: a heading
_HEADING_CHARS = 200


def read(content: bytes) -> Parsed:
    """The pages' texts, a blank line between them; what a viewer does not show is hidden."""
    import pypdf
    import pypdfium2

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings quote the document
    try:
        document = pypdfium2.PdfDocument(content)
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise Unreadable("parsing.encrypted", "the PDF asks for a password") from error
        raise Unreadable("parsing.unreadable", f"the PDF is damaged ({type(error).__name__})") from error
    try:
        second: Any = pypdf.PdfReader(io.BytesIO(content), strict=False)
        # Many PDFs are encrypted with an empty password, to forbid printing: any viewer opens them.
        if second.is_encrypted and not second.decrypt(""):
            second = None
    except MemoryError:
        raise
    except Exception:
        second = None  # told by `_second`
    hidden = Hidden()
    pages, problems = _pages(document, count, _pdf_beside.layers_off(second), hidden)
    declared = _pdf_beside.declared(second, hidden)
    problems += _pdf_beside.findings(second)
    problems += _compared(second, pages)
    text = _written([page.lines for page in pages])
    concealed, told = hidden.settle(text)
    return Parsed(text, concealed, declare(declared), (*problems, *told))


@dataclass(frozen=True, slots=True)
class _Page:
    number: int  # from 1
    lines: list[Line]
    chars: int  # shown or hidden, white space not counted


def _pages(document: Any, count: int, off: frozenset[str], hidden: Hidden) -> tuple[list[_Page], list[Finding]]:
    pages: list[_Page] = []
    broken: dict[int, str] = {}
    searchable = 0
    for number in range(1, min(count, MAX_PAGES) + 1):
        try:
            found: PdfText = read_page(document, number - 1, off)
        except MemoryError:
            raise
        except Exception as error:
            # PDFium says no more than that it failed; a damaged page tree raises there too.
            broken[number] = type(error).__name__
            continue
        lines = found.lines
        invisible = found.hidden.pop("render_mode", "")
        if invisible.strip():
            if found.is_scan and not lines:
                searchable += 1
                lines = [Line(line, 0.0) for line in invisible.split("\n") if line.strip()]
            else:
                hidden.add("render_mode", invisible)
        for kind, text in found.hidden.items():
            hidden.add(kind, text)
        shown = sum(ink(line.text) for line in lines)
        pages.append(_Page(number, lines, found.chars or shown))
    return pages, _told(count, pages, broken, searchable)


def _told(count: int, pages: list[_Page], broken: dict[int, str], searchable: int) -> list[Finding]:
    problems = []
    if count > MAX_PAGES:
        message = f"{count:,} pages; the first {MAX_PAGES:,} were read"
        problems.append(problem("too_many_pages", Severity.HIGH, message))
    if broken:
        first, name = next(iter(broken.items()))
        message = f"{len(broken)} of {count} pages cannot be read, the first is page {first} ({name})"
        problems.append(problem("broken_page", Severity.MEDIUM, message))
    if searchable:
        message = f"{searchable} of {count} pages are pictures with invisible text over them (a scan's search layer, or hidden text)"
        problems.append(problem("invisible_text", Severity.LOW, message, score=0.5))
    filled = sum(1 for page in pages if page.lines)
    if filled == 0:
        message = f"{count} pages without a text layer; run OCR on it" if count else "no pages"
        problems.append(problem("no_text_layer" if count else "empty", Severity.CRITICAL, message))
    elif count >= 4 and filled * 2 < count:
        message = f"{count - filled} of {count} pages have no text layer"
        problems.append(problem("sparse_text", Severity.MEDIUM, message))
    return problems


def _compared(second: Any, pages: list[_Page]) -> tuple[Finding, ...]:
    """What pypdf counts on some of the pages, against what PDFium read there."""
    if not pages:
        return ()
    step = max(1, len(pages) / COMPARED)
    chosen = [pages[int(place * step)] for place in range(min(len(pages), COMPARED))]
    first = counted = failed = 0
    for page in chosen:
        try:
            text = second.pages[page.number - 1].extract_text()
        except MemoryError:
            raise
        except Exception:
            # pypdf raises whatever its depths raise on a damaged page (KeyError, RecursionError, its own).
            failed += 1
            continue
        first += page.chars
        counted += ink(text)
    if failed == len(chosen):
        return _second.compare("PDF", first, None)
    return _second.compare("PDF", first, counted)


def _written(pages: list[list[Line]]) -> str:
    """The pages as text; lines in larger type than most are headings."""
    sizes = Counter[float]()
    for line in (line for lines in pages for line in lines):
        sizes[line.size] += len(line.text)
    usual = sizes.most_common(1)[0][0] if sizes else 0.0
    larger = sorted((size for size in sizes if usual and size >= usual * _LARGER), reverse=True)
    level = {size: min(place, 3) for place, size in enumerate(larger, start=1)}
    written = []
    for lines in pages:
        texts = []
        for line in lines:
            sign = level.get(line.size)
            heading = sign is not None and len(line.text) <= _HEADING_CHARS and any(map(str.isalpha, line.text))
            texts.append(f"{'#' * sign} {line.text}" if heading and sign else line.text)
        written.append("\n".join(texts))
    return "\n\n".join(filter(str.strip, written))
