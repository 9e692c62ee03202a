"""DOCX: a zip that is measured before it is believed, then mammoth to HTML, then `html`.

Hidden are: runs marked as hidden (``w:vanish``), in white, or smaller than a point; and reviewers' comments. Deleted
text of tracked changes is dropped. Not read: headers, footers, text in pictures, hiding by a named style.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from corpus_guard.errors import HostileInput, LimitExceeded, Unreadable
from corpus_guard.intake.parsing.formats import html
from corpus_guard.intake.parsing.parsed import Parsed, declare

MAX_ENTRIES = 2_000
MAX_INFLATED = 100 * 2**20
"""Bytes of all entries together, counted while inflating: what the directory says is not believed."""
MAX_RATIO = 200
"""Inflated to stored size of one entry above a megabyte."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PROPERTIES = {"title": "title", "creator": "author", "subject": "subject", "created": "date", "modified": "modified"}


def read(content: bytes) -> Parsed:
    """The document's text; runs nobody sees and comments are hidden."""
    import mammoth

    try:
        parts = _measured(content)
        hidden, content = _without_hidden_runs(content, parts)
        page = mammoth.convert_to_html(
            io.BytesIO(content), convert_image=mammoth.images.img_element(lambda _: {"src": ""})
        )
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        # mammoth raises KeyError, AttributeError, RecursionError or an XML error on what Word would call damaged.
        raise Unreadable("parsing.unreadable", f"the DOCX is damaged ({type(error).__name__})") from error
    parsed = html.from_string(page.value)
    hidden += [_text(comment) for comment in _comments(parts)]
    return replace(
        parsed, hidden="\n".join(filter(None, (*hidden, parsed.hidden))), declared=declare(_properties(parts))
    )


def _measured(content: bytes) -> dict[str, bytes]:
    """The XML parts this reader looks at, once every entry has been inflated and counted."""
    wanted = {"word/document.xml", "word/comments.xml", "docProps/core.xml"}
    parts: dict[str, bytes] = {}
    total = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES:
            raise LimitExceeded(
                "parsing.zip_bomb", f"the DOCX has {len(entries):,} entries; the limit is {MAX_ENTRIES:,}"
            )
        for entry in entries:
            if entry.flag_bits & 1:
                raise Unreadable("parsing.encrypted", "the DOCX has encrypted entries")
            keep = entry.filename in wanted
            xml = entry.filename.endswith((".xml", ".rels"))
            pieces: list[bytes] = []
            size = 0
            with archive.open(entry) as stream:
                while piece := stream.read(2**16):
                    size += len(piece)
                    total += len(piece)
                    if total > MAX_INFLATED:
                        limit = f"{MAX_INFLATED // 2**20} MB"
                        raise LimitExceeded("parsing.zip_bomb", f"the DOCX inflates to more than {limit}")
                    if size > 2**20 and size > MAX_RATIO * max(entry.compress_size, 1):
                        raise LimitExceeded(
                            "parsing.zip_bomb", f"an entry of the DOCX inflates more than {MAX_RATIO} times"
                        )
                    if keep or xml:
                        pieces.append(piece)
            part = b"".join(pieces)
            if xml and (b"<!DOCTYPE" in part or b"<!ENTITY" in part or b"\x00" in part):
                raise Unreadable(
                    "parsing.xml_entities", "an XML part of the DOCX declares entities, which Word never writes"
                )
            if keep:
                parts[entry.filename] = part
    return parts


def _xml(part: bytes) -> Any:
    # `_measured` has refused every part with a DOCTYPE or in another encoding than an ASCII-compatible one.
    return ElementTree.fromstring(part)  # noqa: S314


def _without_hidden_runs(content: bytes, parts: dict[str, bytes]) -> tuple[list[str], bytes]:
    """The texts of hidden runs, and the document without them (the same bytes where there are none)."""
    root = _xml(parts["word/document.xml"])
    lines: list[list[Any]] = [[]]
    for element in root.iter():
        if element.tag == f"{_W}p":
            lines.append([])
        elif element.tag == f"{_W}r" and _is_hidden(element.find(f"{_W}rPr")):
            lines[-1].append(element)
    hidden = ["".join(map(_text, runs)) for runs in lines if runs]
    if not hidden:
        return [], content
    for runs in lines:
        for run in runs:
            run.clear()
    rewritten = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(rewritten, "w") as copy:
        for name in dict.fromkeys(archive.namelist()):
            copy.writestr(name, ElementTree.tostring(root) if name == "word/document.xml" else archive.read(name))
    return hidden, rewritten.getvalue()


def _is_hidden(properties: Any) -> bool:
    if properties is None:
        return False
    for mark in ("vanish", "webHidden"):
        found = properties.find(f"{_W}{mark}")
        if found is not None and found.get(f"{_W}val", "true") not in {"0", "false", "off"}:
            return True
    color, size, shade = (properties.find(f"{_W}{name}") for name in ("color", "sz", "shd"))
    if color is not None and color.get(f"{_W}val", "").lower() == "ffffff" and shade is None:
        return True
    half_points = size.get(f"{_W}val", "") if size is not None else ""
    return half_points.isascii() and half_points.isdigit() and int(half_points[:6]) <= 2


def _text(element: Any) -> str:
    return "".join(text.text or "" for text in element.iter(f"{_W}t"))


def _comments(parts: dict[str, bytes]) -> list[Any]:
    part = parts.get("word/comments.xml")
    try:
        return list(_xml(part).iter(f"{_W}comment")) if part else []
    except Exception as error:
        raise Unreadable(
            "parsing.unreadable", f"the comments of the DOCX are damaged ({type(error).__name__})"
        ) from error


def _properties(parts: dict[str, bytes]) -> dict[str, str]:
    part = parts.get("docProps/core.xml")
    try:
        root = _xml(part) if part else ()
    except Exception:
        return {}  # only claims are lost
    pairs = {child.tag.rpartition("}")[2]: child.text or "" for child in root}
    return {name: pairs[key] for key, name in _PROPERTIES.items() if key in pairs}
