"""PDF, by pypdf: the text layer, page by page.

Not seen here: text in images (there is no OCR), and text drawn in the colour of the page or behind a picture; it
stays in the text, where every check sees it. Invisible rendering (mode 3) is reported: scans carry it for search,
attacks too.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.parsed import Parsed, declare, problem

_MAX_NOTES = 1_000  # annotations read of one document
_DOCINFO = {
    "/Title": "title",
    "/Author": "author",
    "/Subject": "subject",
    "/Keywords": "keywords",
    "/CreationDate": "date",
    "/ModDate": "modified",
    "/Producer": "generator",
}


def read(content: bytes) -> Parsed:
    """The pages' texts, a blank line between them; annotations are hidden text."""
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings quote the document
    try:
        reader = pypdf.PdfReader(io.BytesIO(content), strict=False)
        # Many PDFs are encrypted with an empty password, to forbid printing: any viewer opens them.
        locked = reader.is_encrypted and not reader.decrypt("")
        count = 0 if locked else len(reader.pages)
    except MemoryError:
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the PDF is damaged ({type(error).__name__})") from error
    if locked:
        raise Unreadable("parsing.encrypted", "the PDF asks for a password")
    texts, notes, problems = _pages(reader, count)
    filled = sum(1 for text in texts if text.strip())
    if filled == 0:
        code, message = (
            ("no_text_layer", f"{count} pages without a text layer; run OCR on it") if count else ("empty", "no pages")
        )
        problems.append(problem(code, Severity.CRITICAL, message))
    elif count >= 4 and filled * 2 < count:
        problems.append(
            problem("sparse_text", Severity.MEDIUM, f"{count - filled} of {count} pages have no text layer")
        )
    text = "\n\n".join(text for text in texts if text.strip())
    return Parsed(text, "\n".join(notes), declare(_docinfo(reader)), tuple(problems))


def _pages(reader: Any, count: int) -> tuple[list[str], list[str], list[Finding]]:
    texts: list[str] = []
    notes: list[str] = []
    invisible: set[int] = set()
    broken: dict[int, str] = {}
    for number in range(1, count + 1):

        def before(operator: bytes, operands: list[Any], *_: Any, page: int = number) -> None:
            if operator == b"Tr" and operands and operands[0] == 3:
                invisible.add(page)

        try:
            page = reader.pages[number - 1]
            texts.append(page.extract_text(visitor_operand_before=before))
            if len(notes) < _MAX_NOTES:
                notes.extend(_notes(page))
        except MemoryError:
            raise
        except Exception as error:
            # pypdf raises whatever its depths raise on a damaged page (KeyError, RecursionError, its own).
            broken[number] = type(error).__name__
    problems = []
    if broken:
        first, name = next(iter(broken.items()))
        message = f"{len(broken)} of {count} pages cannot be read, the first is page {first} ({name})"
        problems.append(problem("broken_page", Severity.MEDIUM, message))
    if invisible:
        message = f"text drawn invisibly on {len(invisible)} of {count} pages (a scan's search layer, or hidden text)"
        problems.append(problem("invisible_text", Severity.LOW, message, score=0.5))
    return texts, notes, problems


def _notes(page: Any) -> Iterator[str]:
    for reference in list(page.get("/Annots", ()))[:_MAX_NOTES]:
        note = reference.get_object().get("/Contents")
        if isinstance(note, str) and note.strip():
            yield note


def _docinfo(reader: Any) -> dict[str, Any]:
    try:
        info = reader.metadata or {}
        return {name: str(info[key]) for key, name in _DOCINFO.items() if key in info}
    except Exception:
        return {}  # a damaged docinfo: only claims are lost
