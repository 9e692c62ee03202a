"""DOCX: a measured zip (`_container`), converted to HTML by mammoth, then read by `html`.

Visible: the body, headers and footers, foot- and endnotes, and text of tracked insertions. Hidden: runs
marked as hidden (``w:vanish``, also by a named style), in white, or smaller than a point; deleted text of
tracked changes; reviewers' comments; alternative texts; properties. The text read is compared with a second
count of all runs, taken from the XML itself.

Not read: text in pictures; text hidden by the theme's colours or by shapes laid over it.
"""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import _ooxml, _recount, html
from corpus_guard.intake.parsing.formats._container import ZipContainer
from corpus_guard.intake.parsing.formats._hidden import HiddenText, count_non_space
from corpus_guard.intake.parsing.formats._ooxml import W

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MAIN = "word/document.xml"  # where the package does not name another, as online editors do
_NOTES = frozenset({"footnotes", "endnotes"})  # kinds of relationships
_MAX_BASED_ON = 20  # styles, each based on the next; Word follows eleven
_MARGIN_PARTS = r"word/(?:header|footer)\d{0,3}\.xml"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"


def read(content: bytes) -> ParsedDocument:
    """Read the document's text; invisible runs and comments are hidden."""
    import mammoth

    container = ZipContainer(content, "DOCX")
    hidden = HiddenText()
    try:
        main_part = next(_related_parts(container, "", frozenset({"officeDocument"})), _MAIN)
        main = _ooxml.read_main_xml(container, main_part)
        notes = _related_parts(container, main_part, _NOTES)
        roots = {main_part: main, **{name: _ooxml.read_part_xml(container, name) for name in notes}}
        hiding = _hiding_styles(container)
        bodies = [root for root in roots.values() if root is not None]
        runs = sum(map(_recount.count_run_chars, bodies))
        for root in bodies:
            _remove_hidden_runs(root, hiding, hidden)
        page = html.read_page(
            mammoth.convert_to_html(_rewrite(container, roots), convert_image=_drop_image(mammoth)).value
        )
        chars = page.chars + hidden.chars
        top, bottom = _read_margins(container, hiding, hidden)
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        # mammoth raises KeyError, AttributeError, RecursionError or an XML error on what Word would call damaged.
        raise Unreadable("parsing.unreadable", f"the DOCX is damaged ({type(error).__name__})") from error
    hidden.update(page.hidden)
    for _, part in container.matching(r"word/comments\w{0,20}\.xml"):
        for comment in _ooxml.parse_part(part, "DOCX").iter(f"{W}comment"):
            hidden.add("comment", "\n".join(_text(paragraph) for paragraph in comment.iter(f"{W}p")))
    declared = _ooxml.read_properties(container, hidden)
    text = "\n\n".join(filter(None, (top, page.text, bottom)))
    problems = [*_ooxml.find_active_content(container), *page.problems, *_tracked_insertions(main)]
    problems += _recount.compare_counts("DOCX", chars, runs)
    hidden_text, findings = hidden.summarize(text)
    return ParsedDocument(text, hidden_text, clean_declared(declared), (*problems, *findings))


def _related_parts(container: ZipContainer, part: str, kinds: frozenset[str]) -> Iterator[str]:
    """Yield the names of the parts that a part, or the package (""), is related to in such a way."""
    for relationship in _ooxml.read_relationships(container, part).values():
        if relationship.kind in kinds and not relationship.external:
            yield relationship.target


def _drop_image(mammoth: Any) -> Any:
    return mammoth.images.img_element(lambda _: {"src": ""})


def _rewrite(container: ZipContainer, roots: Mapping[str, Element | None]) -> io.BytesIO:
    """Write the document for mammoth: its textual parts without hidden runs, and no entity anywhere."""
    from lxml import etree

    rewritten = io.BytesIO()
    with zipfile.ZipFile(rewritten, "w") as archive:
        for name in container.names:
            root = roots.get(name)
            if root is not None:
                archive.writestr(name, etree.tostring(root))
            elif (part := container.part(name)) is not None and "comments" not in name:
                if name.endswith((".xml", ".rels")):
                    _ooxml.parse_part(part, "DOCX")
                archive.writestr(name, _ooxml.to_transitional(part))
            elif part is None:
                archive.writestr(name, b"")
    return rewritten


def _hiding_styles(container: ZipContainer) -> frozenset[str]:
    """Return the ids of the named styles that hide text, themselves or by a style they are based on.

    The default of paragraphs has the empty id, too.
    """
    root = _ooxml.read_part_xml(container, "word/styles.xml")
    if root is None:
        return frozenset()
    styles = {style.get(f"{W}styleId", ""): style for style in root.iter(f"{W}style")}
    defaults = root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr")
    hiding = {name for name in styles if _hiding_reason(_merge_properties(styles, name, defaults))}
    for name, style in styles.items():
        if style.get(f"{W}type") == "paragraph" and style.get(f"{W}default") in {"1", "true", "on"} and name in hiding:
            hiding.add("")
    return frozenset(hiding)


def _merge_properties(styles: Mapping[str, Element], name: str, defaults: Element | None) -> Element | None:
    """Return the run properties of a style with those of the styles it is based on; the nearest counts."""
    merged: dict[str, Element] = {}
    sources: list[Element | None] = []
    visited: set[str] = set()
    while name in styles and name not in visited and len(visited) < _MAX_BASED_ON:
        visited.add(name)
        sources.append(styles[name].find(f"{W}rPr"))
        base = styles[name].find(f"{W}basedOn")
        name = base.get(f"{W}val", "") if base is not None else ""
    for source in (*sources, defaults):
        for each in source if source is not None else ():
            merged.setdefault(each.tag, each)
    if not merged:
        return None
    properties = copy.deepcopy(next(iter(merged.values())).getparent())
    properties[:] = [copy.deepcopy(each) for each in merged.values()]
    return properties


def _remove_hidden_runs(root: Element, hiding: frozenset[str], hidden: HiddenText) -> None:
    """Empty every run a reader does not see, and add its text to `hidden`."""
    for paragraph in root.iter(f"{W}p"):
        style = paragraph.find(f"{W}pPr/{W}pStyle")
        paragraph_reason = "vanish" if (style.get(f"{W}val", "") if style is not None else "") in hiding else ""
        reasons = set()
        for run in paragraph.iter(f"{W}r"):
            reason = paragraph_reason or _run_reason(run, hiding)
            if reason and (text := _text(run)):
                hidden.extend(reason, text)
                reasons.add(reason)
                for child in list(run):
                    run.remove(child)
        for reason in reasons:
            hidden.extend(reason, "\n")
    for drawing in root.iter(f"{_WP}docPr"):
        hidden.add("attribute", drawing.get("descr", ""))
        hidden.add("attribute", drawing.get("title", ""))


def _run_reason(run: Element, hiding: frozenset[str]) -> str:
    """Return the reason a run is hidden; empty where it is not."""
    if run.find(f"{W}delText") is not None:
        return "deleted"
    properties = run.find(f"{W}rPr")
    if properties is None:
        return ""
    style = properties.find(f"{W}rStyle")
    if style is not None and style.get(f"{W}val", "") in hiding:
        return "vanish"
    return _hiding_reason(properties)


def _hiding_reason(properties: Element | None) -> str:
    """Return why these run properties hide text; empty where they do not."""
    if properties is None:
        return ""
    for name in ("vanish", "webHidden", "specVanish"):
        switch = properties.find(f"{W}{name}")
        if switch is not None and switch.get(f"{W}val", "true") not in {"0", "false", "off"}:
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


def _read_margins(container: ZipContainer, hiding: frozenset[str], hidden: HiddenText) -> tuple[str, str]:
    """Return the texts of the headers and of the footers, each distinct line once."""
    lines: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    for name, part in container.matching(_MARGIN_PARTS):
        root = _ooxml.parse_part(part, "DOCX")
        margin = HiddenText()
        _remove_hidden_runs(root, hiding, margin)
        hidden.update(margin)
        kind = "header" if "header" in name else "footer"
        lines[kind].update(dict.fromkeys(filter(str.strip, map(_text, root.iter(f"{W}p")))))
    return "\n".join(lines["header"]), "\n".join(lines["footer"])


def _tracked_insertions(root: Element) -> tuple[Finding, ...]:
    insertions = sum(1 for insertion in root.iter(f"{W}ins") if count_non_space(_text(insertion)))
    if not insertions:
        return ()
    message = f"{insertions} tracked insertions have not been accepted yet; they count as text"
    return (make_problem("tracked_changes", Severity.INFO, message, score=0.1),)


def _text(element: Element) -> str:
    return "".join(text.text or "" for text in element.iter(f"{W}t", f"{W}delText"))
