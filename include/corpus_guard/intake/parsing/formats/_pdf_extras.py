"""Content of a PDF beside its pages, by pypdf: annotations, bookmarks, properties, attachments, layers, scripts.

Any of it may be damaged; what cannot be read is left out, because the pages count. Nothing is run or opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.document import make_problem
from corpus_guard.intake.parsing.formats._container import parse_xml
from corpus_guard.intake.parsing.formats._hidden import HIDING_REASONS, HiddenText

if TYPE_CHECKING:
    from pypdf import PdfReader

_MAX_ENTRIES = 20_000  # texts of annotations, bookmarks or names read of one document
_MAX_PAGES = 5_000
_MAX_XMP_BYTES = 2**20
_INFO_KEYS = {
    "/Title": "title",
    "/Author": "author",
    "/Subject": "subject",
    "/Keywords": "keywords",
    "/CreationDate": "date",
    "/ModDate": "modified",
    "/Producer": "generator",
}
_NOT_PROSE = frozenset({"/CreationDate", "/ModDate", "/Producer", "/Creator", "/PTEX.Fullbanner"})
_SCRIPT_ACTIONS = frozenset({"/JavaScript", "/Launch", "/SubmitForm", "/ImportData", "/RichMediaExecute"})


def read_declared(reader: PdfReader | None, hidden: HiddenText) -> tuple[dict[str, str], list[Finding]]:
    """Return the declared properties, and findings on what is not read.

    Adds their prose, annotations, bookmarks and names of attachments to `hidden`.
    """
    declared: dict[str, str] = {}
    problems: list[Finding] = []
    if reader is None:
        return declared, problems
    for read in (_read_annotations, _read_bookmarks, _read_attachments, _read_xmp):
        try:
            for number, (reason, text) in enumerate(read(reader)):
                if number >= _MAX_ENTRIES:
                    message = f"more than {_MAX_ENTRIES:,} {HIDING_REASONS[reason]}: the others were not read"
                    problems.append(make_problem("not_read", Severity.MEDIUM, message))
                    break
                hidden.add(reason, text)
        except MemoryError:
            raise
        except Exception:  # noqa: S112 - a damaged corner of the file; the others are still read
            continue
    try:
        for key, value in (reader.metadata or {}).items():
            text = str(value)
            if key in _INFO_KEYS:
                declared[_INFO_KEYS[key]] = text
            if key not in _NOT_PROSE:
                hidden.add("metadata", text)
    except MemoryError:
        raise
    except Exception:
        return declared, problems
    return declared, problems


def find_layers_off(reader: PdfReader | None) -> frozenset[str]:
    """Return the names of optional content groups that are off when the document is opened."""
    if reader is None:
        return frozenset()
    try:
        properties = _catalog(reader)["/OCProperties"]
        config = properties["/D"]
        groups = list(config.get("/OFF", ()))
        if config.get("/BaseState") == "/OFF":
            shown = {group.idnum for group in config.get("/ON", ())}
            groups += [group for group in properties["/OCGs"] if group.idnum not in shown]
        return frozenset(str(group.get_object().get("/Name", "")) for group in groups[:_MAX_ENTRIES])
    except MemoryError:
        raise
    except Exception:
        return frozenset()


def find_active_content(reader: PdfReader | None) -> list[Finding]:
    """Return findings on scripts and attachments."""
    problems: list[Finding] = []
    if reader is None:
        return problems
    try:
        catalog = _catalog(reader)
        names = catalog.get("/Names", {})
        action = catalog.get("/OpenAction")
        action = action.get_object() if action is not None else None
        opens_script = isinstance(action, dict) and action.get("/S") in _SCRIPT_ACTIONS
        has_scripts = "/JavaScript" in names or "/AA" in catalog
        if opens_script or (has_scripts and "/AcroForm" not in catalog):
            message = "the PDF holds scripts or actions that run when it is opened; they were neither read nor run"
            problems.append(make_problem("macros", Severity.HIGH, message))
        elif has_scripts:  # as nearly all forms of offices and banks do
            message = "the PDF is a form with scripts for its fields; they were neither read nor run"
            problems.append(make_problem("form_scripts", Severity.LOW, message, score=0.3))
        if "/EmbeddedFiles" in names:
            message = "the PDF has attached files; they were not read"
            problems.append(make_problem("embedded", Severity.LOW, message, score=0.2))
    except MemoryError:
        raise
    except Exception:
        return problems
    return problems


def _catalog(reader: PdfReader) -> Any:
    return reader.trailer["/Root"]


def _read_annotations(reader: PdfReader) -> Iterator[tuple[str, str]]:
    for number in range(min(len(reader.pages), _MAX_PAGES)):
        annotations: Any = reader.pages[number].get("/Annots", ())
        for reference in annotations or ():
            annotation = reference.get_object()
            for key in ("/Contents", "/V", "/TU", "/RC", "/Subj"):
                text = annotation.get(key)
                if isinstance(text, str) and text.strip():
                    yield "annotation", text


def _read_bookmarks(reader: PdfReader) -> Iterator[tuple[str, str]]:
    """Yield titles in the order of the tree; pypdf's own walk recurses, and follows loops."""
    outlines = _catalog(reader).get("/Outlines")
    stack = [outlines.get_object().get("/First")] if outlines is not None else []
    visited: set[int] = set()
    while stack:
        reference = stack.pop()
        if reference is None or reference.idnum in visited:
            continue
        visited.add(reference.idnum)
        item = reference.get_object()
        yield "outline", str(item.get("/Title", ""))
        stack += [item.raw_get(key) for key in ("/Next", "/First") if key in item]


def _read_attachments(reader: PdfReader) -> Iterator[tuple[str, str]]:
    tree = _catalog(reader)["/Names"]["/EmbeddedFiles"]
    for entry in tree.get("/Names", ()):
        attachment = entry.get_object()
        if isinstance(attachment, str):
            yield "attachment", attachment
        elif isinstance(attachment, dict):
            for key in ("/F", "/UF", "/Desc"):
                yield "attachment", str(attachment.get(key, ""))


def _read_xmp(reader: PdfReader) -> Iterator[tuple[str, str]]:
    stream = _catalog(reader).get("/Metadata")
    if stream is not None:
        for element in parse_xml(stream.get_object().get_data()[:_MAX_XMP_BYTES], "PDF").iter():
            if isinstance(element.tag, str) and (element.text or "").strip():
                yield "metadata", element.text
