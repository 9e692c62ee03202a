"""What a PDF holds beside its pages, by pypdf: annotations, bookmarks, properties, attachments, layers, scripts.

The document may be damaged in any of it; what cannot be read is left out, because pages are what counts. Nothing is run or opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.formats._hidden import Hidden
from corpus_guard.intake.parsing.parsed import problem

_MAX_NOTES = 1_000  # annotations, bookmarks or names read of one document
_MAX_PAGES = 5_000
_DOCINFO = {
    "/Title": "title",
    "/Author": "author",
    "/Subject": "subject",
    "/Keywords": "keywords",
    "/CreationDate": "date",
    "/ModDate": "modified",
    "/Producer": "generator",
}
_SCRIPTS = frozenset({"/JavaScript", "/Launch", "/SubmitForm", "/ImportData", "/RichMediaExecute"})


def declared(reader: Any, hidden: Hidden) -> dict[str, Any]:
    """What the document says of itself; its prose, its annotations, bookmarks and attachments' names go to `hidden`."""
    pairs: dict[str, Any] = {}
    for collect in (_notes, _bookmarks, _attachments, _xmp):
        try:
            for kind, text in collect(reader):
                hidden.add(kind, text)
        except MemoryError:
            raise
        except Exception:  # noqa: S112 - a damaged corner of the file; the others are still read
            continue
    try:
        for key, value in (reader.metadata or {}).items():
            text = str(value)
            if key in _DOCINFO:
                pairs[_DOCINFO[key]] = text
            if key not in {"/CreationDate", "/ModDate", "/Producer", "/Creator", "/PTEX.Fullbanner"}:
                hidden.add("metadata", text)
    except MemoryError:
        raise
    except Exception:
        return pairs
    return pairs


def layers_off(reader: Any) -> frozenset[str]:
    """The names of optional content groups that are off when the document is opened."""
    try:
        config = reader.trailer["/Root"]["/OCProperties"]["/D"]
        groups = list(config.get("/OFF", ()))
        if config.get("/BaseState") == "/OFF":
            shown = {group.idnum for group in config.get("/ON", ())}
            every = reader.trailer["/Root"]["/OCProperties"]["/OCGs"]
            groups += [group for group in every if group.idnum not in shown]
        return frozenset(str(group.get_object().get("/Name", "")) for group in groups[:_MAX_NOTES])
    except MemoryError:
        raise
    except Exception:
        return frozenset()


def findings(reader: Any) -> list[Finding]:
    """On scripts and attachments."""
    problems = []
    try:
        root = reader.trailer["/Root"]
        names = root.get("/Names", {})
        action = root.get("/OpenAction")
        action = action.get_object() if action is not None else None
        if "/JavaScript" in names or "/AA" in root or (isinstance(action, dict) and action.get("/S") in _SCRIPTS):
            message = (
                "the PDF holds scripts or actions that run when it is opened; they were not read and nothing was run"
            )
            problems.append(problem("macros", Severity.HIGH, message))
        if "/EmbeddedFiles" in names:
            problems.append(problem("embedded", Severity.MEDIUM, "the PDF has files attached; they were not read"))
    except MemoryError:
        raise
    except Exception:
        return problems
    return problems


def _notes(reader: Any) -> Iterator[tuple[str, str]]:
    left = _MAX_NOTES
    for number in range(min(len(reader.pages), _MAX_PAGES)):
        page = reader.pages[number]
        for reference in list(page.get("/Annots", ()) or ())[:left]:
            left -= 1
            note = reference.get_object()
            for key in ("/Contents", "/V", "/TU", "/RC", "/Subj"):
                text = note.get(key)
                if isinstance(text, str) and text.strip():
                    yield "annotation", text


def _bookmarks(reader: Any) -> Iterator[tuple[str, str]]:
    """Titles in the order of the tree; pypdf's own walk recurses, and follows loops."""
    outlines = reader.trailer["/Root"].get("/Outlines")
    stack = [outlines.get_object().get("/First")] if outlines is not None else []
    seen: set[int] = set()
    while stack and len(seen) < _MAX_NOTES:
        reference = stack.pop()
        if reference is None or reference.idnum in seen:
            continue
        seen.add(reference.idnum)
        item = reference.get_object()
        yield "outline", str(item.get("/Title", ""))
        stack += [item.raw_get(key) for key in ("/Next", "/First") if key in item]


def _attachments(reader: Any) -> Iterator[tuple[str, str]]:
    tree = reader.trailer["/Root"]["/Names"]["/EmbeddedFiles"]
    for entry in list(tree.get("/Names", ()))[:_MAX_NOTES]:
        found = entry.get_object()
        if isinstance(found, str):
            yield "attachment", found
        elif isinstance(found, dict):
            for key in ("/F", "/UF", "/Desc"):
                yield "attachment", str(found.get(key, ""))


def _xmp(reader: Any) -> Iterator[tuple[str, str]]:
    from corpus_guard.intake.parsing.formats._container import parse_xml

    stream = reader.trailer["/Root"].get("/Metadata")
    if stream is not None:
        for element in parse_xml(stream.get_object().get_data()[: 2**20], "PDF").iter():
            if isinstance(element.tag, str) and (element.text or "").strip():
                yield "metadata", element.text
