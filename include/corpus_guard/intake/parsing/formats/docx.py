"""DOCX: a measured zip (`_container`), converted to HTML by mammoth, then read by `html`.

Visible: the body, text boxes, formulas, the headers and footers that some page shows, foot- and endnotes, and text of tracked
insertions. Hidden: what `_docx_looks` lists; contents for older programs that say something else; reviewers' comments;
alternative texts; properties. The text read is compared with a second count of all runs, taken from the XML itself.

Not read: text in pictures, charts and diagrams; text hidden by shapes laid over it; other documents that are shown within this
one, which is a finding.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import _ooxml, _recount, html
from corpus_guard.intake.parsing.formats._container import ZipContainer, refusing_damage
from corpus_guard.intake.parsing.formats._docx_looks import Looks
from corpus_guard.intake.parsing.formats._hidden import HiddenText, count_non_space
from corpus_guard.intake.parsing.formats._ooxml import R, W

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MAIN = "word/document.xml"  # where the package does not name another, as online editors do
_MARGIN_PARTS = r"word/(?:header|footer)\d{0,3}\.xml"
_V = "{urn:schemas-microsoft-com:vml}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SPACES = {f"{W}cr": f"{W}br", f"{W}ptab": f"{W}tab"}  # mammoth drops the former, which would join words
# Mammoth skips their content.
_AROUND_TEXT = tuple(f"{W}{name}" for name in ("bdo", "dir", "fldSimple", "ruby", "rubyBase"))


def read(content: bytes) -> ParsedDocument:
    """Read the document's text; invisible runs and comments are hidden."""
    import mammoth

    container = ZipContainer(content, "DOCX")
    hidden = HiddenText()
    with refusing_damage("DOCX"):  # mammoth raises KeyError, AttributeError, RecursionError or an XML error
        main_part = _ooxml.find_main_part(container, _MAIN)
        main = _ooxml.read_main_xml(container, main_part)
        notes = _ooxml.find_related(container, main_part, "footnotes", "endnotes")
        roots = {main_part: main, **{name: _ooxml.read_part_xml(container, name) for name in notes}}
        looks = Looks(container, main_part)
        bodies = [root for root in roots.values() if root is not None]
        runs = sum(_prepare(root, hidden) for root in bodies)
        for root in bodies:
            looks.remove_hidden(root, hidden)
        hidden_chars = hidden.chars
        top, bottom = _read_margins(container, main_part, main, looks, hidden)
        for root in bodies:
            _simplify(root)
        page = html.read_page(
            mammoth.convert_to_html(_rewrite(container, roots), convert_image=_drop_image(mammoth)).value
        )
        chars = page.chars + hidden_chars
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


def _prepare(root: Element, hidden: HiddenText) -> int:
    """Leave of alternative contents what is shown; return the number of characters of all runs."""
    others = _ooxml.choose_alternatives(root)
    written = _join_words(root)
    for other in others:
        if (words := _join_words(other)) not in written:
            hidden.add("unused", words)
    return _recount.count_run_chars(root)


def _join_words(root: Element) -> str:
    return " ".join("".join(text.text or "" for text in root.iter(f"{W}t")).split())


def _simplify(root: Element) -> None:
    """Write what mammoth does not know in words that it knows: breaks, text boxes, formulas, fields, readings of characters."""
    from lxml import etree

    for space in root.iter(*_SPACES):
        space.tag = _SPACES[space.tag]
    etree.strip_elements(root, f"{W}rt", f"{W}rubyPr", with_tail=False)
    etree.strip_tags(root, *_AROUND_TEXT)
    for formula in list(root.iter(f"{_M}oMath")):
        parent = formula.getparent()
        if parent is not None:
            run = parent.makeelement(f"{W}r")
            etree.SubElement(run, f"{W}t").text = "".join(text.text or "" for text in formula.iter(f"{_M}t", f"{W}t"))
            parent.replace(formula, run)
    etree.strip_tags(root, f"{_M}oMathPara")
    for drawing in list(root.iter(f"{W}drawing")):
        boxes = [
            box
            for box in drawing.iter(f"{W}txbxContent")
            if next(box.iterancestors(f"{W}txbxContent", f"{W}drawing")) is drawing
        ]
        parent = drawing.getparent()
        if not boxes or parent is None:
            continue
        picture = parent.makeelement(f"{W}pict")
        for box in boxes:
            shape = etree.SubElement(picture, f"{_V}shape")
            etree.SubElement(shape, f"{_V}textbox").append(box)
        parent.replace(drawing, picture)


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


def _read_margins(
    container: ZipContainer, main_part: str, main: Element, looks: Looks, hidden: HiddenText
) -> tuple[str, str]:
    """Return the texts of the headers and of the footers that some page shows, each distinct line once."""
    lines: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
    links = _ooxml.read_relationships(container, main_part)
    has_first = any(_ooxml.is_on(switch) for switch in main.iter(f"{W}titlePg"))
    shown = {"default": True, "first": has_first, "even": looks.has_even_margins}
    targets = {
        links[each.get(f"{R}id", "")].target
        for each in main.iter(f"{W}headerReference", f"{W}footerReference")
        if each.get(f"{R}id", "") in links and shown.get(each.get(f"{W}type", "default"), False)
    }
    related = _ooxml.find_related(container, main_part, "header", "footer")
    for name in dict.fromkeys([*(name for name, _ in container.matching(_MARGIN_PARTS)), *related]):
        root = _ooxml.read_part_xml(container, name)
        if root is None:
            continue
        _prepare(root, hidden)
        margin = HiddenText()
        looks.remove_hidden(root, margin)
        hidden.update(margin)
        texts = filter(str.strip, _read_lines(root))
        if name in targets:
            lines["footer" if root.tag == f"{W}ftr" else "header"].update(dict.fromkeys(texts))
        else:
            for line in texts:
                hidden.add("unused", line)
    return "\n".join(lines["header"]), "\n".join(lines["footer"])


def _read_lines(root: Element) -> list[str]:
    """Return the text of each paragraph, without that of boxes within it: these have paragraphs of their own."""
    lines: dict[Element, list[str]] = {paragraph: [] for paragraph in root.iter(f"{W}p")}
    for text in root.iter(f"{W}t", f"{W}br", f"{W}tab", *_SPACES):
        paragraph = next(text.iterancestors(f"{W}p"), None)
        if paragraph is not None and text.getparent().tag == f"{W}r":  # tabs of a style are places, not spaces
            lines[paragraph].append((text.text or "") if text.tag == f"{W}t" else " ")
    return ["".join(pieces) for pieces in lines.values()]


def _tracked_insertions(root: Element) -> tuple[Finding, ...]:
    insertions = sum(1 for insertion in root.iter(f"{W}ins") if count_non_space(_text(insertion)))
    if not insertions:
        return ()
    message = f"{insertions} tracked insertions have not been accepted yet; they count as text"
    return (make_problem("tracked_changes", Severity.INFO, message, score=0.1),)


def _text(element: Element) -> str:
    return "".join(text.text or "" for text in element.iter(f"{W}t", f"{W}delText"))
