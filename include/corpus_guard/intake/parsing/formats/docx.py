"""DOCX: a zip that is measured before it is believed, then mammoth to HTML, then `html`.

Visible are the body, headers and footers, foot- and endnotes, and text of tracked insertions. Hidden are: runs marked as hidden
(``w:vanish``, also by a named style), in white, or smaller than a point; deleted text of tracked changes; reviewers' comments;
alternative texts; properties. A second count of all runs, taken from the XML as it stands, is compared with what was read.

Not read: text in pictures; hiding by the theme's colours or by shapes laid over text.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing.formats import _ooxml, _second, html
from corpus_guard.intake.parsing.formats._container import Container
from corpus_guard.intake.parsing.formats._hidden import Hidden, ink
from corpus_guard.intake.parsing.formats._ooxml import W
from corpus_guard.intake.parsing.parsed import Parsed, declare, problem

_MAIN = "word/document.xml"
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")
_MARGINS = r"word/(?:header|footer)\d{0,3}\.xml"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"


def read(content: bytes) -> Parsed:
    """The document's text; runs nobody sees and comments are hidden."""
    import mammoth

    container = Container(content, "DOCX")
    hidden = Hidden()
    try:
        roots = {name: _ooxml.office_xml(container, name, needed=name == _MAIN) for name in (_MAIN, *_NOTES)}
        ghosts = _ghost_styles(container)
        bodies = [root for root in roots.values() if root is not None]
        runs = sum(map(_second.run_chars, bodies))
        for root in bodies:
            _take_out(root, ghosts, hidden)
        page = html.page(mammoth.convert_to_html(_rewritten(container, roots), convert_image=_image(mammoth)).value)
        read_of_runs = page.chars + hidden.chars
        top, bottom = _margins(container, ghosts, hidden)
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        # mammoth raises KeyError, AttributeError, RecursionError or an XML error on what Word would call damaged.
        raise Unreadable("parsing.unreadable", f"the DOCX is damaged ({type(error).__name__})") from error
    hidden.update(page.hidden)
    for _, part in container.matching(r"word/comments\w{0,20}\.xml"):
        for comment in _ooxml.part_xml(part, "DOCX").iter(f"{W}comment"):
            hidden.add("comment", "\n".join(_text(paragraph) for paragraph in comment.iter(f"{W}p")))
    declared = _ooxml.properties(container, hidden)
    text = "\n\n".join(filter(None, (top, page.text, bottom)))
    problems = [*_ooxml.cargo(container), *page.problems, *_tracked(roots[_MAIN])]
    problems += _second.compare("DOCX", read_of_runs, runs)
    concealed, told = hidden.settle(text)
    return Parsed(text, concealed, declare(declared), (*problems, *told))


def _image(mammoth: Any) -> Any:
    return mammoth.images.img_element(lambda _: {"src": ""})


def _rewritten(container: Container, roots: Mapping[str, Any]) -> io.BytesIO:
    """The document as mammoth is to see it: its textual parts without hidden runs, and no entity anywhere."""
    from lxml import etree

    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as archive:
        for name in container.names:
            root = roots.get(name)
            if root is not None:
                archive.writestr(name, etree.tostring(root))
            elif (part := container.part(name)) is not None and "comments" not in name:
                if name.endswith((".xml", ".rels")):
                    _ooxml.part_xml(part, "DOCX")
                archive.writestr(name, _ooxml.transitional(part))
            elif part is None:
                archive.writestr(name, b"")
    return copy


def _ghost_styles(container: Container) -> frozenset[str]:
    """The named styles that hide what they are given to."""
    root = _ooxml.office_xml(container, "word/styles.xml")
    styles = root.iter(f"{W}style") if root is not None else ()
    return frozenset(style.get(f"{W}styleId", "") for style in styles if _hides(style.find(f"{W}rPr")))


def _take_out(root: Any, ghosts: frozenset[str], hidden: Hidden) -> None:
    """Empty every run a reader does not see, and keep its text."""
    for paragraph in root.iter(f"{W}p"):
        style = paragraph.find(f"{W}pPr/{W}pStyle")
        by_paragraph = "vanish" if style is not None and style.get(f"{W}val", "") in ghosts else ""
        kinds = set()
        for run in paragraph.iter(f"{W}r"):
            kind = by_paragraph or _kind(run, ghosts)
            if kind and (text := _text(run)):
                hidden.run(kind, text)
                kinds.add(kind)
                for child in list(run):
                    run.remove(child)
        for kind in kinds:
            hidden.run(kind, "\n")
    for drawing in root.iter(f"{_WP}docPr"):
        hidden.add("attribute", drawing.get("descr", ""))
        hidden.add("attribute", drawing.get("title", ""))


def _kind(run: Any, ghosts: frozenset[str]) -> str:
    if run.find(f"{W}delText") is not None:
        return "deleted"
    properties = run.find(f"{W}rPr")
    if properties is None:
        return ""
    style = properties.find(f"{W}rStyle")
    if style is not None and style.get(f"{W}val", "") in ghosts:
        return "vanish"
    return _hides(properties)


def _hides(properties: Any) -> str:
    """How run properties hide; empty where they do not."""
    if properties is None:
        return ""
    for mark in ("vanish", "webHidden", "specVanish"):
        found = properties.find(f"{W}{mark}")
        if found is not None and found.get(f"{W}val", "true") not in {"0", "false", "off"}:
            return "vanish"
    color, size, shade = (properties.find(f"{W}{name}") for name in ("color", "sz", "shd"))
    bright = color is not None and _near_white(color.get(f"{W}val", ""))
    if bright and (shade is None or _near_white(shade.get(f"{W}fill", "")) or shade.get(f"{W}fill", "") == "auto"):
        return "colour"
    half_points = size.get(f"{W}val", "") if size is not None else ""
    return "tiny" if half_points.isascii() and half_points.isdigit() and int(half_points[:6]) <= 2 else ""


def _near_white(color: str) -> bool:
    try:
        return len(color) == 6 and min(bytes.fromhex(color)) >= 243
    except ValueError:
        return False


def _margins(container: Container, ghosts: frozenset[str], hidden: Hidden) -> tuple[str, str]:
    """Texts of the headers and of the footers, each distinct line once."""
    lines: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    for name, part in container.matching(_MARGINS):
        root = _ooxml.part_xml(part, "DOCX")
        before = Hidden()
        _take_out(root, ghosts, before)
        hidden.update(before)
        kind = "header" if "header" in name else "footer"
        lines[kind].update(dict.fromkeys(filter(str.strip, map(_text, root.iter(f"{W}p")))))
    return "\n".join(lines["header"]), "\n".join(lines["footer"])


def _tracked(root: Any) -> tuple[Finding, ...]:
    insertions = sum(1 for insertion in root.iter(f"{W}ins") if ink(_text(insertion)))
    if not insertions:
        return ()
    message = f"{insertions} insertions are tracked changes that nobody has accepted yet; they count as text"
    return (problem("tracked_changes", Severity.INFO, message, score=0.1),)


def _text(element: Any) -> str:
    return "".join(text.text or "" for text in element.iter(f"{W}t", f"{W}delText"))
